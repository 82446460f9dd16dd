#include "request_parser.hpp"

#include "number.hpp"
#include "words.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>

namespace kv {
namespace {

constexpr std::size_t argument_bytes = sizeof(std::string_view);  // memory beside its bytes
constexpr std::size_t short_line = 32;                            // searched byte by byte

// Returns the '\r' of the line that begins at `at`, or null if it, or the byte behind it, has not
// arrived yet.
const char* line_end(const char* at, const char* end) noexcept {
  const char* const near =
      end - at > static_cast<std::ptrdiff_t>(short_line) ? at + short_line : end;
  for (const char* p = at; p != near; ++p) {
    if (*p == '\r') return p + 1 < end ? p : nullptr;
  }
  if (near == end) return nullptr;
  const void* const found = std::memchr(near, '\r', static_cast<std::size_t>(end - near));
  const char* const p = static_cast<const char*>(found);
  return p != nullptr && p + 1 < end ? p : nullptr;
}

// Fast path for numbers of up to nine digits.
std::optional<std::int64_t> length_of(const char* at, const char* end) noexcept {
  const std::size_t digits = static_cast<std::size_t>(end - at);
  if (digits == 0 || digits > 9 || *at == '0') {
    return parse_integer({at, digits});
  }
  std::int64_t number = 0;
  for (; at != end; ++at) {
    const unsigned digit = static_cast<unsigned char>(*at) - unsigned{'0'};
    if (digit > 9) return parse_integer({end - digits, digits});
    number = number * 10 + digit;
  }
  return number;
}

}  // namespace

request_parser::outcome request_parser::fail(std::string_view why) {
  why_ = "ERR Protocol error: ";
  why_ += why;
  return outcome::failed;
}

void request_parser::moved(const char* to) noexcept {
  for (std::size_t i = first_; i < args_.size(); ++i) {
    args_[i] = {to + (args_[i].data() - start_), args_[i].size()};
  }
}

void request_parser::forget() noexcept {
  args_.erase(args_.begin(), args_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

void request_parser::restart() noexcept {
  args_.clear();
  first_ = 0;
  to_come_ = -1;
  bulk_ = -1;
  progress_ = 0;
  missing_bytes_ = 0;
}

request_parser::outcome request_parser::next(std::string_view input, std::size_t at,
                                             const parse_limits& limits, request& found) {
  const char* start = input.data() + at;
  const char* const end = input.data() + input.size();
  if (to_come_ >= 0 && start != start_) moved(start);
  const char* p = start + progress_;
  missing_bytes_ = 0;
  outcome result = outcome::complete;
  found.is_inline = false;
  while (to_come_ < 0) {  // empty lines and arrays are ignored
    start = p;
    if (p == end) {
      result = outcome::incomplete;
      break;
    }
    found.is_inline = *p != '*';
    result = found.is_inline ? inline_command(p, end) : begin(p, end, limits);
    if (result != outcome::complete || args_.size() > first_) break;
  }
  if (result == outcome::complete && to_come_ > 0) result = bulks(p, end, limits);
  if (result == outcome::incomplete &&
      static_cast<std::size_t>(end - start) + (args_.size() - first_) * argument_bytes >
          limits.request_bytes) {
    return fail("request above client-query-buffer-limit");
  }
  start_ = start;
  found.end = static_cast<std::size_t>((result == outcome::complete ? p : start) - input.data());
  progress_ = static_cast<std::size_t>(p - start);
  if (result != outcome::complete) return result;
  found.first = first_;
  found.count = args_.size() - first_;
  first_ = args_.size();
  to_come_ = -1;
  progress_ = 0;
  return result;
}

// "*3\r\n". An empty array leaves to_come_ unchanged.
request_parser::outcome request_parser::begin(const char*& at, const char* end,
                                              const parse_limits& limits) {
  const char* const stop = line_end(at, end);
  if (stop == nullptr) {
    if (static_cast<std::size_t>(end - at) > most_line_bytes) {
      return fail("too big mbulk count string");
    }
    return outcome::incomplete;
  }
  const std::optional<std::int64_t> count = length_of(at + 1, stop);
  if (!count || *count > INT_MAX) return fail("invalid multibulk length");
  if (!limits.authenticated && *count > most_arguments_before_auth) {
    return fail("unauthenticated multibulk length");
  }
  at = stop + 2;
  if (*count > 0) to_come_ = *count;
  return outcome::complete;
}

request_parser::outcome request_parser::bulks(const char*& at, const char* end,
                                              const parse_limits& limits) {
  const auto longest = static_cast<std::int64_t>(limits.bulk_bytes);
  for (; to_come_ > 0; --to_come_) {
    if (bulk_ < 0) {
      const char* const stop = line_end(at, end);
      if (stop == nullptr) {
        if (static_cast<std::size_t>(end - at) > most_line_bytes) {
          return fail("too big bulk count string");
        }
        return outcome::incomplete;
      }
      if (*at != '$') return fail(std::string("expected '$', got '") + *at + "'");
      const std::optional<std::int64_t> length = length_of(at + 1, stop);
      if (!length || *length < 0 || *length > longest) return fail("invalid bulk length");
      if (!limits.authenticated && *length > most_bulk_before_auth) {
        return fail("unauthenticated bulk length");
      }
      bulk_ = *length;
      at = stop + 2;
    }
    const std::size_t whole = static_cast<std::size_t>(bulk_) + 2;
    const std::size_t here = static_cast<std::size_t>(end - at);
    if (here < whole) {
      if (static_cast<std::size_t>(bulk_) >= big_bulk_bytes) missing_bytes_ = whole - here;
      return outcome::incomplete;
    }
    args_.emplace_back(at, static_cast<std::size_t>(bulk_));
    at += whole;
    bulk_ = -1;
  }
  return outcome::complete;
}

request_parser::outcome request_parser::inline_command(const char*& at, const char* end) {
  const std::size_t bytes = static_cast<std::size_t>(end - at);
  const char* const stop = static_cast<const char*>(std::memchr(at, '\n', bytes));
  if (stop == nullptr) {
    return bytes > most_line_bytes ? fail("too big inline request") : outcome::incomplete;
  }
  std::string_view line(at, static_cast<std::size_t>(stop - at));
  if (line.ends_with('\r')) line.remove_suffix(1);
  line = line.substr(0, line.find('\0'));  // the rest is ignored, as in Redis
  if (!split(line)) return fail("unbalanced quotes in request");
  at = stop + 1;
  return outcome::complete;
}

bool request_parser::split(std::string_view line) {
  inline_text_.clear();
  inline_text_.reserve(line.size());  // keeps views valid: the text never exceeds the line
  for (std::size_t at = 0;;) {
    const std::size_t begins = inline_text_.size();
    const word_found found = take_word(line, at, inline_text_);
    if (found == word_found::none) return true;
    if (found == word_found::broken) break;
    args_.emplace_back(inline_text_.data() + begins, inline_text_.size() - begins);
  }
  args_.resize(first_);
  return false;
}

}  // namespace kv

#include "value_parser.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

namespace kv {
namespace {

using kind = resp_value::kind;

constexpr std::size_t room_bytes = std::size_t{64} << 10;
constexpr std::string_view line_end = "\r\n";

std::int64_t integer_of(std::string_view digits) {
  std::int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const char* const begin = digits.data() + (digits.starts_with('+') ? 1 : 0);
  const auto parsed = std::from_chars(begin, end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    throw resp_error("a number of the reply is none");
  }
  return value;
}

double number_of(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') throw resp_error("a number of the reply is none");
  return value;
}

// Keeps the allocated memory of the text.
void reset(resp_value& v, kind what) noexcept {
  v.what = what;
  v.integer = 0;
  v.number = 0;
  v.text.clear();
  v.items.clear();
}

}  // namespace

std::span<char> value_parser::room() {
  buffer_.drop_front(std::exchange(begin_, 0));
  char* const at = buffer_.room(room_bytes);
  return {at, buffer_.capacity() - buffer_.size()};
}

void value_parser::open(resp_value& into, kind what, std::string_view digits, std::size_t each) {
  const std::int64_t count = integer_of(digits);
  if (count < 0) return;  // nil in RESP2
  if (static_cast<std::uint64_t>(count) > most_items_of_reply / each) {
    throw resp_error("a reply of more than " + std::to_string(most_items_of_reply) + " items");
  }
  if (open_.size() == deepest_reply) throw resp_error("a reply that is nested too deeply");
  into.what = what;
  open_.push_back({&into, static_cast<std::size_t>(count) * each});
}

bool value_parser::take_text(resp_value& into, kind what, std::string_view digits) {
  const std::int64_t length = integer_of(digits);
  const std::size_t before = 1 + digits.size() + line_end.size();
  if (length < 0) {  // nil in RESP2
    begin_ += before;
    return true;
  }
  const auto bytes = static_cast<std::size_t>(length);
  if (bytes > longest_text_of_reply) {
    throw resp_error("a reply of more than " + std::to_string(longest_text_of_reply) + " bytes");
  }
  const std::string_view all = unread();
  if (all.size() < before + bytes + line_end.size()) return false;
  if (all.substr(before + bytes, line_end.size()) != line_end) {
    throw resp_error("the bytes of a reply are more than it said");
  }
  into.what = what;
  into.text.assign(all.substr(before, bytes));
  begin_ += before + bytes + line_end.size();
  return true;
}

bool value_parser::take_value(resp_value& into) {
  const std::string_view all = unread();
  const std::string_view line = all.substr(0, all.find(line_end));
  if (line.size() == all.size()) {
    if (all.size() > longest_line_of_reply) throw resp_error("a line without an end");
    return false;
  }
  if (line.empty()) throw resp_error("an empty line in place of a reply");
  const std::string_view rest = line.substr(1);
  reset(into, kind::nil);
  switch (line.front()) {
    case '$': return take_text(into, kind::bulk, rest);
    case '!': return take_text(into, kind::error, rest);
    case '=': {  // "txt:" or "mkd:" before the text
      if (!take_text(into, kind::text, rest)) return false;
      constexpr std::size_t format_bytes = 4;
      into.text.erase(0, format_bytes);
      return true;
    }
    case '+': into.what = kind::status, into.text.assign(rest); break;
    case '-': into.what = kind::error, into.text.assign(rest); break;
    case ':': into.what = kind::integer, into.integer = integer_of(rest); break;
    case '(': into.what = kind::bulk, into.text.assign(rest); break;
    case ',': into.number = number_of(std::string(rest)), into.what = kind::number; break;
    case '#': into.what = kind::boolean, into.integer = rest == "t" ? 1 : 0; break;
    case '_': break;
    case '*': open(into, kind::array, rest); break;
    case '~': open(into, kind::set, rest); break;
    case '>': open(into, kind::push, rest); break;
    case '%': open(into, kind::map, rest, 2); break;
    default: throw resp_error("a reply that begins with '" + std::string(line.substr(0, 1)) + "'");
  }
  begin_ += line.size() + line_end.size();
  return true;
}

bool value_parser::next(resp_value& into) {
  for (bool begun = !open_.empty();; begun = true) {
    if (begun && open_.empty()) break;
    if (begun && open_.back().left == 0) {
      open_.pop_back();
      continue;
    }
    // An item is added only when the previous one is complete, so no pointer refers to a moved
    // item.
    const bool inside = begun;
    resp_value* const at = inside ? &open_.back().of->items.emplace_back() : &root_;
    const std::size_t depth = open_.size();
    if (!take_value(*at)) {
      if (inside) open_.back().of->items.pop_back();
      return false;
    }
    if (inside) --open_[depth - 1].left;
  }
  std::swap(into, root_);
  return true;
}

}  // namespace kv

#include "reply.hpp"

#include "number.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace kv {

// Appends a type byte, a text without line ends, and a line end.
void reply_writer::line(char type, std::string_view text) {
  if (!fits(text.size() + 3)) return;
  char* const start = out_.room(text.size() + 3);
  start[0] = type;
  std::replace_copy_if(
      text.begin(), text.end(), start + 1, [](char c) { return c == '\r' || c == '\n'; }, ' ');
  start[text.size() + 1] = '\r';
  start[text.size() + 2] = '\n';
  out_.added(text.size() + 3);
}

void reply_writer::simple(std::string_view text) { line('+', text); }

void reply_writer::error(std::string_view text) { line('-', text); }

void reply_writer::bulk_integer(std::int64_t number) {
  std::array<char, most_head_bytes> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  bulk({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void reply_writer::real(double number) {
  const std::string text = format_double(number);
  if (!is_resp3()) return bulk(text);
  line(',', text);
}

void reply_writer::verbatim(std::string_view text) {
  if (!is_resp3()) return bulk(text);
  constexpr std::string_view format = "txt:";
  const std::size_t most = text.size() + format.size() + most_head_bytes + 2;
  if (!fits(most)) return;
  char* const start = out_.room(most);
  char* at = write_head(start, '=', static_cast<std::int64_t>(text.size() + format.size()));
  at = std::copy(format.begin(), format.end(), at);
  at = std::copy(text.begin(), text.end(), at);
  *at++ = '\r';
  *at++ = '\n';
  out_.added(static_cast<std::size_t>(at - start));
}

}  // namespace kv

// Text of others, for people.
#pragma once

#include <string>
#include <string_view>

namespace support {

// What a terminal, or a log, can take of it: control bytes as "\x1b". UTF-8 stays.
inline void append_printable(std::string& to, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 127) {
      to += c;
    } else {
      to.append("\\x") += digits[byte >> 4];
      to += digits[byte & 15];
    }
  }
}

}  // namespace support

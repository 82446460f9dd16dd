// Makes untrusted text printable.
#pragma once

#include <string>
#include <string_view>

namespace support {

// "\x1b"
inline void append_escape(std::string& to, unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  to.append("\\x") += digits[byte >> 4];
  to += digits[byte & 15];
}

// Appends `text` for a terminal or a log: control bytes as "\x1b", UTF-8 unchanged.
inline void append_printable(std::string& to, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 127) {
      to += c;
    } else {
      append_escape(to, byte);
    }
  }
}

[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string shown;
  append_printable(shown, text);
  return shown;
}

}  // namespace support

// Conversion of arbitrary bytes to UTF-8 for programs.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace copy {

// Returns the length of the UTF-8 character at the beginning of `text`, in bytes; 0 if there is
// none.
[[nodiscard]] inline std::size_t character_bytes(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_none ? 0 : bytes;
}

// Returns valid UTF-8 for programs that accept nothing else. Invalid bytes become "\#377", in
// octal, as with rsync. A "\#" before three digits becomes "\#134#", so no two texts have the same
// result.
[[nodiscard]] inline std::string as_text(std::string_view bytes) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string text;
  while (!bytes.empty()) {
    std::size_t whole = character_bytes(bytes);
    const bool looks_so = bytes.size() >= 5 && bytes.starts_with("\\#") && is_digit(bytes[2]) &&
                          is_digit(bytes[3]) && is_digit(bytes[4]);
    if (whole == 0 || looks_so) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\#%03o", static_cast<unsigned char>(bytes.front()));
      text += octal;
      whole = 1;
    } else {
      text += bytes.substr(0, whole);
    }
    bytes.remove_prefix(whole);
  }
  return text;
}

}  // namespace copy

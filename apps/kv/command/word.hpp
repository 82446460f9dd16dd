// Words of commands, settings and rules, whose letters may be of either case.
#pragma once

#include <strings.h>
#include <algorithm>
#include <string>
#include <string_view>

namespace kv {

// Equal but for the case of letters.
[[nodiscard]] inline bool is_word(std::string_view text, std::string_view word) noexcept {
  return text.size() == word.size() && strncasecmp(text.data(), word.data(), word.size()) == 0;
}

// Of ASCII letters, whatever the locale.
[[nodiscard]] inline std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  });
  return lower;
}

// As Redis shows what clients sent in texts of its own: up to a NUL.
[[nodiscard]] inline std::string_view until_nul(std::string_view text) noexcept {
  return text.substr(0, text.find('\0'));
}

}  // namespace kv

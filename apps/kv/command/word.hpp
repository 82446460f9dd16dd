// Comparison of words of commands, settings and rules, in any case.
#pragma once

#include <strings.h>
#include <algorithm>
#include <string>
#include <string_view>

namespace kv {

// True if they are equal apart from the case of letters.
[[nodiscard]] inline bool is_word(std::string_view text, std::string_view word) noexcept {
  return text.size() == word.size() && strncasecmp(text.data(), word.data(), word.size()) == 0;
}

// Converts ASCII letters, independent of the locale.
[[nodiscard]] inline std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  });
  return lower;
}

// Returns the text up to a NUL, as Redis shows text of clients in its own messages.
[[nodiscard]] inline std::string_view until_nul(std::string_view text) noexcept {
  return text.substr(0, text.find('\0'));
}

}  // namespace kv

// Words of commands, settings and rules, whose letters may be of either case.
#pragma once

#include <strings.h>
#include <string_view>

namespace kv {

// Equal but for the case of letters.
[[nodiscard]] inline bool is_word(std::string_view text, std::string_view word) noexcept {
  return text.size() == word.size() && strncasecmp(text.data(), word.data(), word.size()) == 0;
}

}  // namespace kv

// Splits a line into words, as redis-cli and inline commands do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

[[nodiscard]] constexpr bool is_blank(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Words are separated by blanks. In "double quotes" \n \r \t \b \a \xHH, \" and \\ have their
// meaning from C; in 'single quotes' only \' is an escape.
enum class word_found : std::uint8_t {
  none,  // only blanks
  whole,
  broken,  // a quote is not closed, or is directly followed by another character
};
// Appends the next word of `line` from `at` on to `into` and moves `at` behind it. Throws std::bad_alloc.
[[nodiscard]] word_found take_word(std::string_view line, std::size_t& at, std::string& into);

// Splits a line up to its first 0 byte. Returns nullopt if a word is broken.
[[nodiscard]] std::optional<std::vector<std::string>> split_words(std::string_view line);

// Appends `text` in double quotes; bytes other than printable ASCII are escaped.
void append_quoted(std::string& to, std::string_view text);

}  // namespace kv

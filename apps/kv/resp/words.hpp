// Words of a line, as redis-cli and inline commands have them.
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

// Words stand between blanks. In "double quotes" \n \r \t \b \a \xHH, \" and \\ mean what they do in C; in 'single
// quotes' only \' does.
enum class word_found : std::uint8_t {
  none,  // blanks at most
  whole,
  broken,  // a quote has no end, or something follows right behind it
};
// Appends the next word of `line` from `at` on to `into` and moves `at` behind it. Throws std::bad_alloc.
[[nodiscard]] word_found take_word(std::string_view line, std::size_t& at, std::string& into);

// The words of a line up to its first 0 byte. nullopt: a word is broken.
[[nodiscard]] std::optional<std::vector<std::string>> split_words(std::string_view line);

// Appends `text` in double quotes; bytes other than printable ASCII are escaped.
void append_quoted(std::string& to, std::string_view text);

}  // namespace kv

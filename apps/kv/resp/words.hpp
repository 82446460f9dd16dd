// Words of a line, as redis-cli and inline commands have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// Words stand between blanks. In "double quotes" \n \r \t \b \a \xHH, \" and \\ mean what they do in C; in 'single
// quotes' only \' does.
enum class word_found : std::uint8_t {
  none,  // blanks at most
  whole,
  broken,  // a quote has no end, or something follows right behind it
};
// The next word of `line` from `at` on is appended to `into`; `at` is behind it then. Throws std::bad_alloc.
[[nodiscard]] word_found take_word(std::string_view line, std::size_t& at, std::string& into);

// All of a line, up to a 0 in it. Nothing: one is broken.
[[nodiscard]] std::optional<std::vector<std::string>> split_words(std::string_view line);

// `text` in double quotes, as one word: what is no printable ASCII is escaped.
void append_quoted(std::string& to, std::string_view text);

}  // namespace kv

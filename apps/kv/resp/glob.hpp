// Patterns of KEYS, SCAN, CONFIG GET and users' keys: * ? [a-z] [^x] and \ before a literal
// character.
#pragma once

#include <string_view>

namespace kv {

enum class letter_case : bool { matters, ignored };

// Matches as Redis does; takes time of at most the product of both lengths.
[[nodiscard]] bool matches_glob(std::string_view pattern, std::string_view text,
                                letter_case how = letter_case::matters) noexcept;

}  // namespace kv

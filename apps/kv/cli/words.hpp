// A line of commands, taken apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv::cli {

// Words between spaces. In "double quotes" \n \r \t \b \a \xHH, \" and \\ mean what they do in C; in 'single quotes'
// only \' does. Nothing: a quote has no end, or something follows right behind it.
[[nodiscard]] std::optional<std::vector<std::string>> words_of(std::string_view line);

}  // namespace kv::cli

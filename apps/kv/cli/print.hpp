// Formats replies for people and for programs.
#pragma once

#include "../resp/value.hpp"

#include <string>
#include <string_view>

namespace kv::cli {

// For a terminal: one line for each value, with its type; non-text bytes are shown as \xHH.
[[nodiscard]] std::string to_pretty(const resp_value& v);
// For programs: the raw bytes, one line for each value.
[[nodiscard]] std::string to_raw(const resp_value& v);
// One line. Text that is not UTF-8 becomes {"base64": "..."}, an error becomes {"error": "..."}.
[[nodiscard]] std::string to_json_line(const resp_value& v);

}  // namespace kv::cli

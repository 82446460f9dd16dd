// Replies, as people and programs read them.
#pragma once

#include "../resp/value.hpp"

#include <string>
#include <string_view>

namespace kv::cli {

// For a terminal: one line for each value, bytes that are no text as \xHH, what kind it is.
[[nodiscard]] std::string to_pretty(const resp_value& v);
// For programs: the bytes as they are, a line for each value.
[[nodiscard]] std::string to_raw(const resp_value& v);
// One line. Bytes that are no UTF-8 are {"base64": "..."}, an error is {"error": "..."}.
[[nodiscard]] std::string to_json_line(const resp_value& v);

}  // namespace kv::cli

// Digests of texts, in hexadecimal digits.
#pragma once

#include <string>
#include <string_view>

namespace kv {

// Both throw std::bad_alloc.
[[nodiscard]] std::string sha1(std::string_view text);  // 40 digits; Redis uses it to name scripts
[[nodiscard]] std::string sha256(std::string_view text);  // 64 digits

}  // namespace kv

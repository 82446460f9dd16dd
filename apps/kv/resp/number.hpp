// Numbers in commands: parsed as strictly as Redis does, and formatted in the same way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kv {

// Rejects blanks, a plus sign, leading zeros and trailing characters.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text) noexcept;
// Parses the cursor of a scan as Redis does with strtoul(): the empty text is 0, and -1 is the
// largest number.
[[nodiscard]] std::optional<std::uint64_t> parse_cursor(std::string_view text) noexcept;
// Parses the complete text as strtold() does. Rejects leading blanks, NaN, and numbers that are too
// large or too small.
[[nodiscard]] std::optional<long double> parse_float(std::string_view text);
// "1073741824", "1gb", "512mb", "1g" (powers of 1000 without the b), in upper or lower case.
[[nodiscard]] std::optional<std::uint64_t> parse_memory(std::string_view text) noexcept;

// Without an exponent and trailing zeros, as INCRBYFLOAT stores it.
[[nodiscard]] std::string format_float(long double number);
// The shortest form that %.17g yields: doubles of RESP3.
[[nodiscard]] std::string format_double(double number);

}  // namespace kv

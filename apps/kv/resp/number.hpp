// Numbers as clients write them: read as strictly as Redis reads them, printed as it prints them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kv {

// No blanks, no plus sign, no leading zeros, nothing behind it.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text) noexcept;
// Where a scan goes on, as Redis reads it by strtoul(): nothing at all is 0, and -1 the largest.
[[nodiscard]] std::optional<std::uint64_t> parse_cursor(std::string_view text) noexcept;
// As strtold() reads it, all of it; no blanks before it, no NaN, nothing too large or too small.
[[nodiscard]] std::optional<long double> parse_float(std::string_view text);
// "1073741824", "1gb", "512mb", "1g" (powers of 1000 without the b), in either case.
[[nodiscard]] std::optional<std::uint64_t> parse_memory(std::string_view text) noexcept;

// Without an exponent and without zeros at the end: what INCRBYFLOAT stores.
[[nodiscard]] std::string format_float(long double number);
// The shortest that %.17g gives: doubles of RESP3.
[[nodiscard]] std::string format_double(double number);

}  // namespace kv

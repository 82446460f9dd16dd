// Sizes and times as people write them: "64k", "1M", "10us", "5s".
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace cordma {

// Returns a number of bytes. The text is a number, optionally followed by k, M, G or T (powers of
// 1024, in either case) and then by "B" or "iB". Anything else is invalid_value, naming the text
// and the allowed forms.
[[nodiscard]] result<std::uint64_t> parse_size(std::string_view text);
// Accepts a number with ns, us, ms, s, min or h; 0 needs no unit. Anything else is invalid_value.
[[nodiscard]] result<duration> parse_duration(std::string_view text);

// Returns the shortest text that the functions above parse to the same value: "64k", "1500us".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
[[nodiscard]] std::string format_duration(duration time);

}  // namespace cordma

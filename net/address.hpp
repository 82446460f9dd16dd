// Parses the addresses that programs write.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <string_view>

namespace cordma {

// Parses "host:port", "[::1]:port" or ":port" (every local address). Errors: invalid_value, with
// the reason.
[[nodiscard]] result<transport::address> parse_address(std::string_view text);

}  // namespace cordma

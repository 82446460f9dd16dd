// Addresses as programs write them.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <string_view>

namespace cordma {

// "host:port", "[::1]:port", ":port" (every local address). invalid_value says what is wrong.
[[nodiscard]] result<transport::address> parse_address(std::string_view text);

}  // namespace cordma

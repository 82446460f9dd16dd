// For tests of a transport that look at adapter::arrived() themselves.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <cstddef>
#include <cstdlib>

namespace cordma::test {

// A queue pair's in_place: nobody calls it.
inline transport::message_taker* by_hand() noexcept {
  struct nobody final : transport::message_taker {
    void on_arrived(transport::arrived_message&) noexcept override { std::abort(); }
  };
  static nobody one;
  return &one;
}

// Room for a poll that gives nothing to it.
inline constexpr std::size_t most_by_hand = transport::adapter::most_arrived - 1;

}  // namespace cordma::test

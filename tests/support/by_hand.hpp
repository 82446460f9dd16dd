// For tests of a transport that read adapter::arrived() directly.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <cstddef>
#include <cstdlib>

namespace cordma::test {

// An in_place object for a queue pair; it is never called.
inline transport::message_taker* by_hand() noexcept {
  struct nobody final : transport::message_taker {
    void on_arrived(transport::arrived_message&) noexcept override { std::abort(); }
  };
  static nobody one;
  return &one;
}

// Size of a poll that never calls in_place directly: less than most_arrived.
inline constexpr std::size_t most_by_hand = transport::adapter::most_arrived - 1;

}  // namespace cordma::test

// For tests of a transport that look at adapter::arrived() themselves.
#pragma once

#include <cordma/net/transport/transport.hpp>

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

}  // namespace cordma::test

// Bytes of rendezvous messages that are read over one connection.
#pragma once

#include <cordma/runtime/check.hpp>

#include <cstdint>

namespace cordma::detail {

class read_load {
 public:
  // Bytes that have arrived.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  // Bytes of posted reads.
  [[nodiscard]] std::uint64_t under_way() const noexcept { return under_way_; }
  void post(std::uint64_t n) noexcept { under_way_ += n; }
  // arrive(): the bytes have arrived; lose(): they will not arrive.
  void arrive(std::uint64_t n) noexcept {
    lose(n);
    bytes_ += n;
  }
  void lose(std::uint64_t n) noexcept {
    CORDMA_ASSERT_OP(under_way_, >=, n);
    under_way_ -= n;
  }

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t under_way_ = 0;
};

}  // namespace cordma::detail

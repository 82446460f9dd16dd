// Copies of the bytes that a stream writes, until they have been written to the peer.
#pragma once

#include <cordma/net/memory.hpp>
#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace cordma::detail {

// Requests end in the order in which they are posted: the oldest bytes are freed first. Bound to
// one thread.
class staging_ring {
 public:
  explicit staging_ring(MemoryRegion memory) noexcept : memory_(std::move(memory)) {}
  // Number of bytes that can be copied in one piece.
  [[nodiscard]] std::uint64_t room() const noexcept {
    return std::min(memory_.size() - used_, memory_.size() - at_);
  }
  // REQUIRES room().
  [[nodiscard]] Slice copy(std::span<const std::byte> bytes) noexcept {
    CORDMA_ASSERT_OP(bytes.size(), <=, room());
    const Slice to = memory_.all().part(at_, bytes.size());
    std::memcpy(to.data(), bytes.data(), bytes.size());
    used_ += bytes.size();
    at_ = (at_ + bytes.size()) % memory_.size();
    return to;
  }
  // Frees the oldest `bytes`, which were written.
  void release(std::uint64_t bytes) noexcept {
    CORDMA_ASSERT_OP(bytes, <=, used_);
    used_ -= bytes;
  }

 private:
  MemoryRegion memory_;
  std::uint64_t at_ = 0;  // position of the next bytes
  std::uint64_t used_ = 0;
};

}  // namespace cordma::detail

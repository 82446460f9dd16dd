// Both ends of a connection in one program, and transfers over it: for samples that show ways of
// waiting for operations, not the operations themselves.
#pragma once

#include <cordma/cordma.hpp>

#include <cstddef>

namespace sample {

// Two connected endpoints. Bound to the thread of their Worker.
struct loopback {
  cordma::Endpoint near;
  cordma::Endpoint far;
};
// Begins to connect two endpoints of Worker::prepare(); their states report the progress. Throws
// cordma::error.
void connect(cordma::Endpoint& one, cordma::Endpoint& other);
// Polls until both ends are connected, so it must not be called in a coroutine. Throws
// cordma::error.
[[nodiscard]] loopback connect_to_itself(cordma::Worker& worker);

// `count` blocks of memory with different contents, and a destination block for each. Usage: write
// source(i) to target(i), flush, and call check_first(count()).
class blocks {
 public:
  static constexpr std::size_t block_bytes = 256;

  blocks(cordma::Context& context, std::size_t count);
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] cordma::Slice source(std::size_t i) const { return part(sources_, i); }
  [[nodiscard]] cordma::Slice room(std::size_t i) const { return part(room_, i); }
  // The destination block, for remote access by the other end.
  [[nodiscard]] cordma::RemoteSlice target(std::size_t i) const;
  // Throws if one of the first `n` destination blocks differs from its source.
  void check_first(std::size_t n) const;

 private:
  [[nodiscard]] static cordma::Slice part(const cordma::MemoryRegion& whole, std::size_t i) {
    return whole.all().part(i * block_bytes, block_bytes);
  }

  std::size_t count_;
  cordma::MemoryRegion sources_;
  cordma::MemoryRegion room_;
  cordma::RemoteMemory target_;
};

}  // namespace sample

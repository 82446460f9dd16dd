// Both ends of a connection in one program, and work for it: for the samples that are about how work is
// waited for, and not about what it is.
#pragma once

#include <cordma/cordma.hpp>

#include <cstddef>

namespace sample {

// What one end does, the other sees. Bound to the thread of their Worker.
struct loopback {
  cordma::Endpoint near;
  cordma::Endpoint far;
};
// Begins to connect two endpoints of Worker::prepare(); their states tell the rest. Throws cordma::error.
void connect(cordma::Endpoint& one, cordma::Endpoint& other);
// Polls until both ends are connected, so it is not for coroutines. Throws cordma::error.
[[nodiscard]] loopback connect_to_itself(cordma::Worker& worker);

// As many blocks of memory, each with contents of its own, and room for them: write source(i) to
// target(i), flush, and check_first(count()).
class blocks {
 public:
  static constexpr std::size_t block_bytes = 256;

  blocks(cordma::Context& context, std::size_t count);
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] cordma::Slice source(std::size_t i) const { return part(sources_, i); }
  [[nodiscard]] cordma::Slice room(std::size_t i) const { return part(room_, i); }
  // The room, as the other end of the connection may use it.
  [[nodiscard]] cordma::RemoteSlice target(std::size_t i) const;
  // Throws where one of the first `n` is not in the room as it is in the source.
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

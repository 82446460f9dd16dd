// Registered memory for sizes above a buffer. Registration takes longer than most transfers, so
// memory is kept.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/net/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv::native {

// Bound to one thread. The context outlives it.
class long_memory {
 public:
  // Keeps at most `most_kept` bytes of unused memory.
  long_memory(cordma::Context& context, cordma::access rights, std::size_t most_kept) noexcept
      : context_(context), rights_(rights), most_kept_(most_kept) {}
  long_memory(const long_memory&) = delete;
  long_memory& operator=(const long_memory&) = delete;

  // Returns a region of at least this size, with arbitrary content. Only regions passed to
  // put_back() are reused. Throws cordma::error: no_memory.
  [[nodiscard]] cordma::MemoryRegion get(std::size_t bytes);
  // REQUIRES that no operation uses it any more.
  void put_back(cordma::MemoryRegion region) noexcept;
  // Number of registrations.
  [[nodiscard]] std::uint64_t registrations() const noexcept { return registrations_; }

 private:
  cordma::Context& context_;
  cordma::access rights_;
  std::size_t most_kept_;
  std::vector<cordma::MemoryRegion> kept_;  // last used at the end
  std::size_t kept_bytes_ = 0;
  std::uint64_t registrations_ = 0;
};

}  // namespace kv::native

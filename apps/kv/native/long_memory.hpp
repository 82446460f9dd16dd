// Registered memory for what is longer than a buffer. Registering takes longer than most transfers, so it is kept.
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
  // Of what nobody uses at most so many bytes are kept.
  long_memory(cordma::Context& context, cordma::access rights, std::size_t most_kept) noexcept
      : context_(context), rights_(rights), most_kept_(most_kept) {}
  long_memory(const long_memory&) = delete;
  long_memory& operator=(const long_memory&) = delete;

  // At least as many bytes, with whatever is in them. What is not put back is not used again. Throws cordma::error:
  // no_memory.
  [[nodiscard]] cordma::MemoryRegion get(std::size_t bytes);
  // REQUIRES that no operation uses it any more.
  void put_back(cordma::MemoryRegion region) noexcept;
  // How often memory was registered.
  [[nodiscard]] std::uint64_t registrations() const noexcept { return registrations_; }

 private:
  cordma::Context& context_;
  cordma::access rights_;
  std::size_t most_kept_;
  std::vector<cordma::MemoryRegion> kept_;  // what was used last is at the end
  std::size_t kept_bytes_ = 0;
  std::uint64_t registrations_ = 0;
};

}  // namespace kv::native

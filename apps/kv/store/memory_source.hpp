// Sources of a store's memory: regions that peers can read, or plain memory.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/net/memory.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <span>

namespace kv {

// Allocates zeroed memory, aligned to 4096, valid until the source is destroyed. Bound to the
// thread of its store.
class memory_source {
 public:
  virtual ~memory_source() = default;
  // Null data: there is no memory left.
  [[nodiscard]] virtual std::span<std::byte> more(std::size_t bytes) noexcept = 0;
  // Declares the content unneeded; the system may take the memory. Returns true if the memory is
  // zeroed again.
  [[nodiscard]] virtual bool discard(std::span<std::byte>) noexcept { return false; }
};

// Allocated by mmap; not readable by peers.
class plain_memory final : public memory_source {
 public:
  ~plain_memory() override;
  [[nodiscard]] std::span<std::byte> more(std::size_t bytes) noexcept override;
  [[nodiscard]] bool discard(std::span<std::byte> piece) noexcept override;

 private:
  std::vector<std::span<std::byte>> given_;
};

// Registered with a Context, for remote reads only.
class shared_memory final : public memory_source {
 public:
  explicit shared_memory(cordma::Context& context) noexcept : context_(context) {}
  [[nodiscard]] std::span<std::byte> more(std::size_t bytes) noexcept override;
  // In the order of allocation.
  [[nodiscard]] const std::vector<cordma::MemoryRegion>& regions() const noexcept {
    return regions_;
  }

 private:
  cordma::Context& context_;
  std::vector<cordma::MemoryRegion> regions_;
};

}  // namespace kv

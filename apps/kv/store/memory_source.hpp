// Where a store's memory comes from: regions that peers can read, or plain memory.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/net/memory.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <span>

namespace kv {

// Hands out zeroed memory, aligned to 4096, which stays until the source ends. Bound to the thread of its store.
class memory_source {
 public:
  virtual ~memory_source() = default;
  // Null data: there is no more.
  [[nodiscard]] virtual std::span<std::byte> more(std::size_t bytes) noexcept = 0;
  // What is in it is not needed any more, and the system may have its memory. True: it is zeroed memory again.
  [[nodiscard]] virtual bool discard(std::span<std::byte>) noexcept { return false; }
};

// By mmap: nobody else can read it.
class plain_memory final : public memory_source {
 public:
  ~plain_memory() override;
  [[nodiscard]] std::span<std::byte> more(std::size_t bytes) noexcept override;
  [[nodiscard]] bool discard(std::span<std::byte> piece) noexcept override;

 private:
  std::vector<std::span<std::byte>> given_;
};

// Registered with a Context, for peers to read and nothing else.
class shared_memory final : public memory_source {
 public:
  explicit shared_memory(cordma::Context& context) noexcept : context_(context) {}
  [[nodiscard]] std::span<std::byte> more(std::size_t bytes) noexcept override;
  // In the order in which they were given.
  [[nodiscard]] const std::vector<cordma::MemoryRegion>& regions() const noexcept {
    return regions_;
  }

 private:
  cordma::Context& context_;
  std::vector<cordma::MemoryRegion> regions_;
};

}  // namespace kv

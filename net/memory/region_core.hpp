// Implementation of MemoryRegion: one range, registered with every domain of a Context.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

namespace cordma::detail {

struct context_core;
inline constexpr std::size_t most_rail_domains = 7;

// Reference-counted by MemoryRegion handles, pools, and operations destroyed in flight.
struct region_core {
  std::atomic<std::uint32_t> references{1};
  std::shared_ptr<context_core> context;
  // `context` if the CPU may access the memory; null for device memory. One comparison thus checks
  // both for operations on host memory of one Context; the other cases are distinguished later.
  const context_core* touched_in = nullptr;
  transport::memory_range range;
  bool owns_memory = false;  // a memfd mapping of cordma, rather than the user's memory
  std::size_t mapped_bytes = 0;
  // By transport, followed by the index in context_core::rail_domains. lkey 0: not registered
  // there.
  std::array<transport::memory_keys, transport::kind_count + most_rail_domains> keys{};

  region_core(const std::shared_ptr<context_core>& of, const transport::memory_range& what)
      : context(of),
        touched_in(what.memory == transport::memory_kind::host ? of.get() : nullptr),
        range(what) {}
  region_core(const region_core&) = delete;
  region_core& operator=(const region_core&) = delete;
  ~region_core();

  [[nodiscard]] bool of_device() const noexcept { return touched_in == nullptr; }
};
static_assert(transport::kind_count + most_rail_domains <= UINT8_MAX);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace cordma::detail

// What stands behind MemoryRegion: one range, registered with every domain of a Context.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

namespace cordma::detail {

struct context_core;

// Reference-counted by MemoryRegion handles, pools, and operations destroyed in flight.
struct region_core {
  std::atomic<std::uint32_t> references{1};
  std::shared_ptr<context_core> context;
  transport::memory_range range;
  bool owns_memory = false;  // a memfd mapping of ours, rather than the user's memory
  std::size_t mapped_bytes = 0;
  std::array<transport::memory_keys, transport::kind_count> keys{};  // lkey 0: not registered there

  ~region_core();
};

}  // namespace cordma::detail

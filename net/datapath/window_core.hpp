// What stands behind MemoryWindow: a window of one queue pair, and the region it is in.
#pragma once

#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/list.hpp>

#include <cstddef>
#include <cstdint>

namespace cordma::detail {

struct endpoint_core;

// In its endpoint's list from the moment that the transport knows it. Bound to that Worker's thread.
struct window_core : list_node {
  endpoint_core* endpoint = nullptr;  // null: the transport does not know it, or not any more
  region_core* region = nullptr;      // held while it is not null
  std::byte* addr = nullptr;
  std::size_t length = 0;
  transport::access rights = transport::access::local_read;
  std::uint32_t name = 0;  // the queue pair's, for it
  std::uint64_t key = 0;
  bool is_bound = false;

  ~window_core() { end(); }
  // The transport forgets it, and the region goes. Idempotent.
  void end() noexcept;
};

}  // namespace cordma::detail

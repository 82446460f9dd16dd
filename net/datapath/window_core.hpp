// What stands behind MemoryWindow: a window of one queue pair, and the region it is in.
#pragma once

#include <cordma/net/memory.hpp>
#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/list.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cordma::detail {

class endpoint_core;

// In its endpoint's list from the moment that the transport knows it. Bound to that Worker's thread.
class window_core : public list_node {
 public:
  // Holds the region, until it ends.
  window_core(region_core& region, std::span<std::byte> bytes, transport::access rights) noexcept
      : region_(&region), bytes_(bytes), rights_(rights) {
    retain(region);
  }
  ~window_core() { end(); }

  // Null: the transport does not know it, or not any more.
  [[nodiscard]] endpoint_core* endpoint() const noexcept { return endpoint_; }
  // Null: it has ended.
  [[nodiscard]] region_core* region() const noexcept { return region_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] transport::access rights() const noexcept { return rights_; }
  // The queue pair's, for it.
  [[nodiscard]] std::uint32_t name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] bool is_bound() const noexcept { return is_bound_; }

  // The queue pair of that endpoint has made it.
  void enter(endpoint_core& e, std::uint32_t name) noexcept;
  void bind(std::uint64_t key) noexcept {
    key_ = key;
    is_bound_ = true;
  }
  // Its endpoint is gone.
  void forget() noexcept { endpoint_ = nullptr; }
  // The transport forgets it, and the region goes. Idempotent.
  void end() noexcept;

 private:
  endpoint_core* endpoint_ = nullptr;
  region_core* region_;
  std::span<std::byte> bytes_;
  transport::access rights_;
  std::uint32_t name_ = 0;
  std::uint64_t key_ = 0;
  bool is_bound_ = false;
};

}  // namespace cordma::detail

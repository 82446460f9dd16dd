// Implementation of MemoryWindow: a window of one queue pair, and the region that contains it.
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

// In its endpoint's list from the time the transport knows it. Bound to the thread of that Worker.
class window_core : public list_node {
 public:
  // Retains the region until the window ends.
  window_core(region_core& region, std::span<std::byte> bytes, transport::access rights) noexcept
      : region_(&region), bytes_(bytes), rights_(rights) {
    retain(region);
  }
  ~window_core() { end(); }

  // Null while the transport does not know it.
  [[nodiscard]] endpoint_core* endpoint() const noexcept { return endpoint_; }
  // Null once it has ended.
  [[nodiscard]] region_core* region() const noexcept { return region_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] transport::access rights() const noexcept { return rights_; }
  // The queue pair's name for it.
  [[nodiscard]] std::uint32_t name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] bool is_bound() const noexcept { return is_bound_; }

  // Called when the queue pair of that endpoint has created it.
  void enter(endpoint_core& e, std::uint32_t name) noexcept;
  void bind(std::uint64_t key) noexcept {
    key_ = key;
    is_bound_ = true;
  }
  // Its endpoint is destroyed.
  void forget() noexcept { endpoint_ = nullptr; }
  // Removes it from the transport and releases the region. Idempotent.
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

// The memory windows of one queue pair: of type 2, bound by its own requests.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>

#include <cstdint>
#include <vector>

namespace cordma::transport::verbs {

class verbs_domain;

// Bound to the adapter's thread. REQUIRES that its owner calls clear() before it destroys the queue
// pair: Soft-RoCE waits up to about a minute for the windows of a queue pair.
class window_table {
 public:
  // Returns the name of a new window. not_supported, no_memory.
  [[nodiscard]] result<std::uint32_t> make(verbs_domain& domain, const window_range& range);
  // Frees the window at once, or, while its bind is on the device, when the bind ends.
  void free(std::uint32_t window) noexcept;
  void clear() noexcept;
  // Fills the request that binds the window. False: there is no such window, or it was bound
  // before.
  [[nodiscard]] bool bind(std::uint32_t window, ibv_send_wr& wr) noexcept;
  // Handles the end of that request. Returns the key; 0 if the window has none.
  std::uint32_t bound(std::uint32_t window, wc_status status) noexcept;

 private:
  struct entry {
    enum class state : std::uint8_t { unused, fresh, binding, abandoned, done };
    state is = state::unused;
    std::uint32_t key = 0;
    window_range range;
    ibv_mr* region = nullptr;
    // Soft-RoCE checks accesses against the bounds of the window's region, not of the window: there
    // each window has a separate region of its size. The region is destroyed after the window.
    owned<ibv_mr> own_region;
    owned<ibv_mw> window;
  };
  [[nodiscard]] entry* find(std::uint32_t window, entry::state is) noexcept;
  void drop(std::uint32_t window) noexcept;

  std::uint8_t tag_ = 0;  // the low byte of the last key: the next one differs, on every device
  std::vector<entry> entries_;  // by name
  std::vector<std::uint32_t> free_;
};

// True if requests can bind windows: of type 2, A or B.
[[nodiscard]] bool has_windows(const ibv_device_attr& a) noexcept;
// Returns the key that a message invalidated, from its successful completion; 0: none.
[[nodiscard]] std::uint32_t invalidated_by(const ibv_wc& wc, const device& hardware) noexcept;

}  // namespace cordma::transport::verbs

// The memory windows of one queue pair: of type 2, bound by its own requests.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>

#include <cstdint>
#include <vector>

namespace cordma::transport::verbs {

class verbs_domain;

// Bound to the adapter's thread. Whoever has it takes care that clear() comes before the queue pair goes:
// Soft-RoCE waits for the windows of a queue pair, for the better part of a minute.
class window_table {
 public:
  // Its name. not_supported, no_memory.
  [[nodiscard]] result<std::uint32_t> make(verbs_domain& domain, const window_range& range);
  // At once; while its bind is on the device, with the end of that.
  void free(std::uint32_t window) noexcept;
  void clear() noexcept;
  // The request that binds it. False: there is no such window, or it was bound before.
  [[nodiscard]] bool bind(std::uint32_t window, ibv_send_wr& wr) noexcept;
  // That request has ended. Its key; 0 where it has none.
  std::uint32_t bound(std::uint32_t window, wc_status status) noexcept;

 private:
  struct entry {
    enum class state : std::uint8_t { unused, fresh, binding, abandoned, done };
    state is = state::unused;
    std::uint32_t key = 0;
    window_range range;
    ibv_mr* region = nullptr;
    // Soft-RoCE holds accesses to the bounds of the window's region, not to those of the window: there
    // each has a region of its own, that is no larger. It goes after the window.
    owned<ibv_mr> own_region;
    owned<ibv_mw> window;
  };
  [[nodiscard]] entry* find(std::uint32_t window, entry::state is) noexcept;
  void drop(std::uint32_t window) noexcept;

  std::uint8_t tag_ = 0;  // the low byte of the last key: the next one differs, on every device
  std::vector<entry> entries_;  // by name
  std::vector<std::uint32_t> free_;
};

// Whether requests can bind windows: of type 2, A or B.
[[nodiscard]] bool has_windows(const ibv_device_attr& a) noexcept;
// The key that a message invalidated, of its successful completion; 0: none.
[[nodiscard]] std::uint32_t invalidated_by(const ibv_wc& wc, const device& hardware) noexcept;

}  // namespace cordma::transport::verbs

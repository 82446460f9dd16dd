// The memory windows of one queue pair of a software transport: regions within regions, for one
// peer.
#pragma once

#include <cordma/net/transport/region_table.hpp>

#include <vector>

namespace cordma::transport {

// Bound to its adapter's thread. Requests of the peer must be resolved with owner() as their
// origin.
class window_set {
 public:
  explicit window_set(region_table& regions) noexcept : regions_(regions) {}
  window_set(const window_set&) = delete;
  window_set& operator=(const window_set&) = delete;
  ~window_set() { clear(); }

  [[nodiscard]] const void* owner() const noexcept { return this; }
  // Returns the name of a new window. not_permitted: the range is outside its region, or the region
  // lacks a right of the window; no_memory.
  [[nodiscard]] result<std::uint32_t> make(const window_range& range);
  // Returns 0 if `window` is the name of no window.
  [[nodiscard]] std::uint64_t key(std::uint32_t window) const noexcept {
    return window < keys_.size() ? keys_[window] : 0;
  }
  void free(std::uint32_t window) noexcept;
  // Returns false if the key belongs to none of these windows, or was invalidated before.
  [[nodiscard]] bool invalidate(std::uint64_t key) noexcept { return regions_.revoke(key, this); }
  void clear() noexcept;

 private:
  region_table& regions_;
  std::vector<std::uint64_t> keys_;  // by name; 0: free
  std::vector<std::uint32_t> free_;
};

}  // namespace cordma::transport

// The memory windows of one queue pair of a software transport: regions within regions, for one peer.
#pragma once

#include <cordma/net/transport/region_table.hpp>

#include <vector>

namespace cordma::transport {

// Bound to its adapter's thread. What the peer asks for is to be resolved in the name of owner().
class window_set {
 public:
  explicit window_set(region_table& regions) noexcept : regions_(regions) {}
  window_set(const window_set&) = delete;
  window_set& operator=(const window_set&) = delete;
  ~window_set() { clear(); }

  [[nodiscard]] const void* owner() const noexcept { return this; }
  // Its name. not_permitted: outside its region, or with rights that the region has not got; no_memory.
  [[nodiscard]] result<std::uint32_t> make(const window_range& range);
  // 0 for a name that is no window's.
  [[nodiscard]] std::uint64_t key(std::uint32_t window) const noexcept {
    return window < keys_.size() ? keys_[window] : 0;
  }
  void free(std::uint32_t window) noexcept;
  // False where the key is none of these windows', or not any more.
  [[nodiscard]] bool invalidate(std::uint64_t key) noexcept { return regions_.revoke(key, this); }
  void clear() noexcept;

 private:
  region_table& regions_;
  std::vector<std::uint64_t> keys_;  // by name; 0: free
  std::vector<std::uint32_t> free_;
};

}  // namespace cordma::transport

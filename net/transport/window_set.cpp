#include <cordma/net/transport/window_set.hpp>

#include <new>

namespace cordma::transport {

result<std::uint32_t> window_set::make(const window_range& w) {
  const memory_range* const region = regions_.local(w.lkey);
  if (region == nullptr) return failure{errc::not_permitted, "the region is not registered here"};
  const auto at = reinterpret_cast<std::uintptr_t>(w.addr);
  const auto start = reinterpret_cast<std::uintptr_t>(region->addr);
  const bool inside =
      at >= start && w.length <= region->length && at - start <= region->length - w.length;
  if (!inside || !has(region->rights, w.rights | access::mw_bind)) {
    return failure{errc::not_permitted, "the region does not grant what the window would"};
  }
  try {
    if (free_.empty()) {
      free_.reserve(keys_.size() + 1);  // so that free() never allocates
      keys_.push_back(0);
      free_.push_back(static_cast<std::uint32_t>(keys_.size() - 1));
    }
    const result<memory_keys> made =
        regions_.add({.addr = w.addr, .length = w.length, .rights = w.rights}, this);
    if (!made) return made.why();
    const std::uint32_t window = free_.back();
    free_.pop_back();
    CORDMA_ASSERT_OP(window, <, keys_.size());
    CORDMA_ASSERT_OP(keys_[window], ==, 0U);
    CORDMA_ASSERT_OP(made->rkey, !=, 0U);
    keys_[window] = made->rkey;
    return window;
  } catch (const std::bad_alloc&) {
    return errc::no_memory;
  }
}

void window_set::free(std::uint32_t window) noexcept {
  if (key(window) == 0) return;
  static_cast<void>(regions_.revoke(std::exchange(keys_[window], 0), this));
  CORDMA_ASSERT_OP(free_.size(), <, keys_.size());
  free_.push_back(window);
}

void window_set::clear() noexcept {
  for (std::uint32_t w = 0; w < keys_.size(); ++w) free(w);
  CORDMA_ASSERT_OP(free_.size(), ==, keys_.size());
}

}  // namespace cordma::transport

#include "long_memory.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace kv::native {

cordma::MemoryRegion long_memory::get(std::size_t bytes) {
  auto best = kept_.end();
  for (auto i = kept_.begin(); i != kept_.end(); ++i) {
    if (i->size() >= bytes && (best == kept_.end() || i->size() < best->size())) best = i;
  }
  if (best != kept_.end()) {
    cordma::MemoryRegion found = std::move(*best);
    kept_.erase(best);
    kept_bytes_ -= found.size();
    return found;
  }
  // Powers of two, so that a slightly longer request can reuse the region.
  const std::size_t size = bytes < most_kept_ ? std::min(std::bit_ceil(bytes), most_kept_) : bytes;
  cordma::MemoryRegion made = context_.allocate(size, rights_).value();
  ++registrations_;
  return made;
}

void long_memory::put_back(cordma::MemoryRegion region) noexcept {
  const std::size_t size = region.size();
  if (size > most_kept_) return;
  try {
    kept_.push_back(std::move(region));
  } catch (const std::bad_alloc&) {
    return;
  }
  kept_bytes_ += size;
  while (kept_bytes_ > most_kept_) {
    kept_bytes_ -= kept_.front().size();
    kept_.erase(kept_.begin());
  }
}

}  // namespace kv::native

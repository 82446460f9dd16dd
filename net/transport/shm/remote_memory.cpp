#include <cordma/net/transport/shm/remote_memory.hpp>
#include <cordma/runtime/check.hpp>

namespace cordma::transport::shm {

remote_region* remote_memory::find_slowly(std::uint64_t key) noexcept {
  const auto at = all_.find(key);
  if (at == all_.end()) return nullptr;
  recent_[slot(key)] = at->second.get();
  return at->second.get();
}

remote_region& remote_memory::add(remote_region r) {
  CORDMA_REQUIRE(r.epoch_now != nullptr);
  CORDMA_REQUIRE_OP(r.length, !=, 0U);
  recent_.fill(nullptr);
  std::erase_if(all_, [](const auto& entry) { return !entry.second->valid(); });
  const std::uint64_t key = r.key;
  auto made = std::make_unique<remote_region>(std::move(r));
  auto& place = all_[key];
  place = std::move(made);
  return *place;
}

}  // namespace cordma::transport::shm

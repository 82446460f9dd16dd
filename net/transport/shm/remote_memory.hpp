// The registered memory of the peer, as known to one connection.
#pragma once

#include <array>
#include <atomic>
#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/types.hpp>
#include <memory>
#include <unordered_map>

namespace cordma::transport::shm {

struct remote_region {
  std::uint64_t key = 0;   // the rkey; for offers, offer_key()
  std::uint64_t addr = 0;  // in the owner's address space
  std::uint64_t length = 0;
  access rights = access::local_read;
  const std::atomic<std::uint32_t>* epoch_now = nullptr;
  std::uint32_t epoch = 0;
  std::byte* bytes_at = nullptr;  // null: cannot be mapped, only accessed by request
  // For an offer that could not be mapped for lack of descriptors: the address in the peer's
  // process.
  std::uint64_t unmapped_at = 0;
  std::shared_ptr<const mapped_view> mapping = {};

  [[nodiscard]] bool valid() const noexcept {
    return epoch_now->load(std::memory_order_acquire) == epoch;
  }
  [[nodiscard]] bool covers(std::uint64_t at, std::uint64_t bytes) const noexcept {
    return at >= addr && bytes <= length && at - addr <= length - bytes;
  }
};

[[nodiscard]] constexpr std::uint64_t offer_key(std::uint32_t lkey, std::uint32_t epoch) noexcept {
  return std::uint64_t{lkey} << 32 | epoch;
}

// Bound to one thread. Look-ups do not allocate.
class remote_memory {
 public:
  [[nodiscard]] remote_region* find(std::uint64_t key) noexcept {
    remote_region* const r = recent_[slot(key)];
    return r != nullptr && r->key == key ? r : find_slowly(key);
  }
  // Also drops regions that their owner has deregistered, so that the memory can be freed.
  remote_region& add(remote_region r);

 private:
  static constexpr std::size_t recent_count = 64;
  [[nodiscard]] static std::size_t slot(std::uint64_t key) noexcept {
    return key * 0x9e3779b97f4a7c15U >> 58;
  }
  [[nodiscard]] remote_region* find_slowly(std::uint64_t key) noexcept;

  std::array<remote_region*, recent_count> recent_{};
  std::unordered_map<std::uint64_t, std::unique_ptr<remote_region>> all_;
};

}  // namespace cordma::transport::shm

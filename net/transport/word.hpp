// A word shared with peers: eight bytes, aligned to eight. A concurrent reader sees either the old
// or the new value, never a mixture. RDMA hardware behaves like this, though no specification
// requires it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cordma::transport {

inline constexpr std::size_t word_bytes = sizeof(std::uint64_t);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic_ref<std::uint64_t>::required_alignment == word_bytes);

[[nodiscard]] inline bool is_word(const std::byte* at, std::uint64_t length) noexcept {
  return length == word_bytes && reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0;
}
// REQUIRES is_word() for both.
inline void store_word(std::byte* at, std::uint64_t value) noexcept {
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).store(value, std::memory_order_release);
}
[[nodiscard]] inline std::uint64_t load_word(std::byte* at) noexcept {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).load(std::memory_order_acquire);
}

}  // namespace cordma::transport

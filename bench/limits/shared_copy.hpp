// memcpy between a private buffer and pages shared with another process: the limit of a remote
// write or read over shared memory.
//
// Works like `ucx_perftest -t ucp_put_bw`: every copy goes from the same source to the same target,
// so both stay as warm in the caches as they can, and meanwhile the other process polls the last
// eight bytes of the shared region, as UCX's responder does.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "batches.hpp"
#include "sides.hpp"

namespace limits {

enum class copy_direction : std::uint8_t { write_to_shared, read_from_shared };

/// A memfd of `size` bytes and a page of control words in front, mapped shared.
class shared_region {
 public:
  static constexpr std::size_t control_bytes = 4096;

  explicit shared_region(std::size_t size)
      : size_(size), fd_(checked(::memfd_create("bench-limits", MFD_CLOEXEC), "memfd_create")) {
    checked(::ftruncate(fd_.get(), static_cast<off_t>(control_bytes + size)), "ftruncate");
    base_ = map();
  }
  shared_region(const shared_region&) = delete;
  shared_region& operator=(const shared_region&) = delete;
  ~shared_region() { ::munmap(base_, control_bytes + size_); }

  /// For the other process: replaces the inherited mapping by a separate one, as in a process that
  /// received the memfd over a socket.
  void remap() {
    ::munmap(base_, control_bytes + size_);
    base_ = map();
  }

  [[nodiscard]] std::byte* data() const noexcept { return base_ + control_bytes; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Set to 1 by the watching process once its pages are mapped and touched.
  [[nodiscard]] std::atomic_ref<std::uint64_t> ready() const noexcept { return word_at(base_); }
  /// The last eight bytes of the region.
  [[nodiscard]] std::atomic_ref<std::uint64_t> tail() const noexcept {
    return word_at(data() + size_ - sizeof(std::uint64_t));
  }

 private:
  [[nodiscard]] std::byte* map() const {
    void* place =
        ::mmap(nullptr, control_bytes + size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (place == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "mmap");
    }
    return static_cast<std::byte*>(place);
  }
  static std::atomic_ref<std::uint64_t> word_at(std::byte* place) noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place));
  }

  std::size_t size_;
  descriptor fd_;
  std::byte* base_ = nullptr;
};

/// The value that ends the watching process: no copy of a buffer filled with 0x55 writes it to the
/// tail.
inline constexpr std::uint64_t last_tail = 0xfeed'face'cafe'beefU;

/// The other process: maps the pages, and polls their end until the last value is there.
inline void watch(shared_region& region) {
  region.remap();
  std::memset(region.data(), 0x55, region.size());
  region.ready().store(1, std::memory_order_release);
  while (region.tail().load(std::memory_order_acquire) != last_tail) {}
}

/// Keeps the compiler from merging or dropping copies that it could prove to be identical.
inline void compiler_barrier() noexcept { asm volatile("" : : : "memory"); }

/// GB/s of copies of `how.size` bytes by one process to or from pages that it shares with another.
/// Throws std::invalid_argument unless the size is a positive multiple of 8.
[[nodiscard]] inline measurement measure_shared_copy(const settings& how,
                                                     copy_direction direction) {
  if (how.size == 0 || how.size % sizeof(std::uint64_t) != 0) {
    throw std::invalid_argument("--size must be a positive multiple of 8 bytes");
  }
  shared_region region(how.size);
  std::vector<std::byte> own(how.size, std::byte{0x55});
  peer_process peer(how.peer_cpu, [&region] { watch(region); });
  pin_to(how.own_cpu);
  while (region.ready().load(std::memory_order_acquire) == 0) {}
  const bool writes = direction == copy_direction::write_to_shared;
  std::byte* const target = writes ? region.data() : own.data();
  const std::byte* const source = writes ? own.data() : region.data();
  const auto copy = [=, &how](std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::memcpy(target, source, how.size);
      compiler_barrier();
    }
  };
  copy(how.steps_per_batch());
  const auto start = clock::now();
  auto seconds = time_batches(how, copy);
  const double total = seconds_since(start);
  region.tail().store(last_tail, std::memory_order_release);
  peer.join();
  return bandwidth(writes ? "copy-write" : "copy-read", how, std::move(seconds), total);
}

}  // namespace limits

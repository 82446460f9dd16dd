// block_heap: memory for many small blocks that returns memory to the system even while some blocks
// remain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kv {

// Blocks of one size are allocated from slabs. If more than an eighth of a slab is free, its blocks
// may be sparse: their owner moves them one by one, and the empty slab is released. Longer blocks
// use malloc(). Not thread-safe.
class block_heap {
 public:
  static constexpr std::size_t step = 16;
  static constexpr std::size_t long_step = 64;  // above longest_of_step
  static constexpr std::size_t longest_of_step = 1024;
  static constexpr std::size_t longest = 4096;  // allocated from slabs
  static constexpr std::size_t slab_bytes = std::size_t{64} << 10;

  block_heap() = default;
  block_heap(const block_heap&) = delete;
  block_heap& operator=(const block_heap&) = delete;
  // Frees all blocks except the long ones.
  ~block_heap();

  // room_of(): usable bytes of a block for `bytes` bytes. cost_of(): the memory that it takes.
  [[nodiscard]] static constexpr std::size_t room_of(std::size_t bytes) noexcept {
    const std::size_t by = bytes > longest_of_step && bytes <= longest ? long_step : step;
    return bytes == 0 ? step : (bytes + by - 1) / by * by;
  }
  [[nodiscard]] static constexpr std::size_t cost_of(std::size_t room) noexcept {
    return room <= longest ? room : room + step;
  }

  // Returns null if the machine has no memory left. REQUIRES a size returned by room_of().
  [[nodiscard]] void* take(std::size_t room) noexcept;
  // REQUIRES the same `room` as in take().
  void give(void* block, std::size_t room) noexcept;
  // True if take() would now return a better position for it.
  [[nodiscard]] bool is_sparse(const void* block, std::size_t room) const noexcept;
  // True if a pass over all blocks is worthwhile because of the free space in the slabs. After
  // begin_pass() it is false until enough further blocks were returned.
  [[nodiscard]] bool is_loose() const noexcept;
  void begin_pass() noexcept { given_ = 0; }
  // Size of all slabs.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return slabs_ * slab_bytes; }

 private:
  enum class list : std::uint8_t { none, dense, sparse };
  struct slab;
  struct size_class {
    slab* dense = nullptr;   // some of it is free
    slab* sparse = nullptr;  // more than an eighth is free
  };
  static constexpr std::size_t slabs_at_a_time = 64;
  static constexpr std::size_t most_warm = 8;

  [[nodiscard]] static slab* slab_of(const void* block) noexcept;
  [[nodiscard]] static constexpr std::size_t number_of(std::size_t room) noexcept {
    constexpr std::size_t fine = longest_of_step / step;
    return room <= longest_of_step ? room / step - 1
                                   : fine + (room - longest_of_step) / long_step - 1;
  }
  [[nodiscard]] size_class& class_of(std::size_t room) noexcept {
    return classes_[number_of(room)];
  }
  void link(size_class& in, slab& s, list where) noexcept;
  void unlink(size_class& in, slab& s) noexcept;
  void sort(size_class& in, slab& s) noexcept;
  [[nodiscard]] slab* new_slab(std::size_t room) noexcept;
  [[nodiscard]] bool map_more() noexcept;
  void release(slab& s) noexcept;

  std::array<size_class, longest_of_step / step + (longest - longest_of_step) / long_step>
      classes_{};
  std::vector<std::pair<void*, std::size_t>> mapped_;
  std::vector<void*> warm_;  // empty slabs that still have physical memory
  std::vector<void*> cold_;  // empty slabs without physical memory
  std::size_t slabs_ = 0;    // in use
  std::size_t live_ = 0;     // size of the blocks allocated from them
  std::size_t given_ = 0;    // bytes returned since the last pass began
};

}  // namespace kv

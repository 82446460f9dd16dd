// The segments of a shard: those in use, their purpose, and those available for reuse.
#pragma once

#include "item.hpp"
#include "layout.hpp"
#include "memory_source.hpp"

#include <cordma/runtime/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kv {

class segment_set {
 public:
  enum class use : std::uint8_t { spare, items, index };
  struct segment {
    std::byte* base = nullptr;
    std::uint32_t used = 0;  // bytes of items from the start, including dead ones
    std::uint32_t live = 0;  // bytes of items that can be found
    use is = use::spare;
    bool open = false;  // items are still added
    // lower bound of its items' expiries; never_expires: none expires
    unix_ms earliest = never_expires;
  };

  // `time` measures how long segments rest; it must outlive the set.
  segment_set(memory_source& memory, cordma::clock& time) noexcept : memory_(memory), time_(time) {}

  [[nodiscard]] std::byte* at(place p) const noexcept {
    return segments_[p / granules_per_segment].base + p % granules_per_segment * granule;
  }
  [[nodiscard]] item& item_at(place p) const noexcept { return *reinterpret_cast<item*>(at(p)); }
  [[nodiscard]] segment& of(place p) noexcept { return segments_[p / granules_per_segment]; }
  [[nodiscard]] segment& operator[](std::uint32_t number) noexcept { return segments_[number]; }
  [[nodiscard]] const segment& operator[](std::uint32_t number) const noexcept {
    return segments_[number];
  }
  // Number of segments ever allocated.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(segments_.size());
  }
  // Number in use or resting.
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  [[nodiscard]] std::size_t resting() const noexcept { return resting_.size(); }

  // Returns nothing if the machine has no memory left. A segment for items keeps its old content;
  // one for the index is zeroed.
  [[nodiscard]] std::optional<std::uint32_t> take(use what);
  // The segment is not reused before it has rested for `how_long`.
  void give_up(std::uint32_t number, cordma::duration how_long);
  // Makes segments that have rested long enough spare. Returns the memory of some that have been
  // spare for long to the system: their content is no longer read.
  void tick() noexcept;
  // Spare segments without memory.
  [[nodiscard]] std::size_t discarded() const noexcept { return discarded_; }

 private:
  struct rest {
    std::uint32_t number;
    cordma::time_point until;
  };
  void discard_some() noexcept;

  memory_source& memory_;
  cordma::clock& time_;
  std::vector<segment> segments_;
  std::vector<std::uint32_t> spare_;  // used from the back
  std::size_t discarded_ = 0;         // number of those at the front of spare_
  std::deque<rest> resting_;
  std::size_t taken_ = 0;
};

}  // namespace kv

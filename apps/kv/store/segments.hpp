// The segments of a shard: which are in use, for what, and which may be used again.
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
    std::uint32_t used = 0;  // bytes of items, dead ones too, from the start
    std::uint32_t live = 0;  // of them, bytes that can be found
    use is = use::spare;
    bool open = false;                 // items are still added
    unix_ms earliest = never_expires;  // none of its items expires before; never: none does
  };

  // `time` measures how long segments rest; it outlives the set.
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
  // All there ever were.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(segments_.size());
  }
  // In use, or resting.
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  [[nodiscard]] std::size_t resting() const noexcept { return resting_.size(); }

  // Empty: the machine has no more. What it held before is still there; of the index it is zeroed.
  [[nodiscard]] std::optional<std::uint32_t> take(use what);
  // Its memory is not used again before it has rested for so long.
  void give_up(std::uint32_t number, cordma::duration how_long);
  // What has rested long enough is spare. Of what has been spare for long some goes back to the system: nobody looks at
  // what it held any more.
  void tick() noexcept;
  // Spare ones that have no memory now.
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
  std::size_t discarded_ = 0;         // of them, so many at the front
  std::deque<rest> resting_;
  std::size_t taken_ = 0;
};

}  // namespace kv

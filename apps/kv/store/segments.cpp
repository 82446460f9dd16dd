#include "segments.hpp"

#include <algorithm>
#include <cstring>

namespace kv {

std::optional<std::uint32_t> segment_set::take(use what) {
  if (spare_.empty()) {
    const std::span<std::byte> region = memory_.more(region_bytes);
    if (region.empty()) return std::nullopt;
    const std::uint32_t first = count();
    segments_.resize(first + segments_per_region);
    for (std::uint32_t i = segments_per_region; i-- > 0;) {
      segments_[first + i].base = region.data() + i * segment_bytes;
      spare_.push_back(first + i);
    }
  }
  const std::uint32_t number = spare_.back();
  spare_.pop_back();
  discarded_ = std::min(discarded_, spare_.size());
  ++taken_;
  segment& s = segments_[number];
  const bool untouched = s.used == 0;
  s = {.base = s.base, .is = what};
  if (what == use::index && !untouched) std::memset(s.base, 0, segment_bytes);
  return number;
}

void segment_set::give_up(std::uint32_t number, cordma::duration how_long) {
  segments_[number].is = use::spare;
  segments_[number].open = false;
  segments_[number].live = 0;
  segments_[number].used = segment_bytes;  // it may have been written to
  if (how_long == cordma::duration::zero()) {
    --taken_;
    spare_.push_back(number);
    return;
  }
  resting_.push_back({number, time_.now() + how_long});
}

void segment_set::discard_some() noexcept {
  constexpr std::size_t at_a_time = 4;
  constexpr std::size_t least_kept = 8;
  const std::size_t kept = least_kept + taken_ / 8;  // for later requests
  for (std::size_t i = 0; i < at_a_time && spare_.size() > discarded_ + kept; ++i, ++discarded_) {
    segment& s = segments_[spare_[discarded_]];
    if (s.used != 0 && memory_.discard({s.base, segment_bytes})) s.used = 0;
  }
}

void segment_set::tick() noexcept {
  if (spare_.size() > discarded_) discard_some();
  if (resting_.empty()) return;
  const cordma::time_point now = time_.now();
  while (!resting_.empty() && resting_.front().until <= now) {
    spare_.push_back(resting_.front().number);
    resting_.pop_front();
    --taken_;
  }
}

}  // namespace kv

// How a store frees space: it empties segments that hold mostly dead items. If memory is limited,
// it also evicts the least valuable keys in this way.
#include "access.hpp"
#include "checksum.hpp"
#include "store.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace kv {
namespace {

constexpr std::size_t cleaned_per_put = 16;  // items
// Minimum waste of a segment: with less, copying costs more than the gained space is worth. It
// exceeds the largest unused tail, where the next item did not fit: a sixteenth of a segment.
constexpr std::size_t least_waste = segment_bytes / 8;
// A segment with this many dead bytes is emptied before any live key is evicted.
constexpr std::size_t mostly_dead = segment_bytes / 4;
// Share of the items to evict from a segment that is emptied for lack of memory.
constexpr double given_up_share = 0.3;
// Without a limit: tolerated dead bytes, as a fraction of the live bytes, plus a fixed amount.
constexpr std::size_t dead_share = 3;
constexpr std::size_t dead_allowance = 4 * segment_bytes;
constexpr unsigned chance_bits = 16;

}  // namespace

bool store::may_give_up() const noexcept {
  if (options_.max_bytes == 0 || options_.policy == eviction::none) return false;
  return !volatile_only(options_.policy) || volatile_items_ != 0;
}

// If nothing may be evicted, live bytes are limited so that an eighth of all segments, and one
// segment to copy to, remain unused. Then there is always a segment worth emptying, and erased keys
// make space for as many bytes wherever they were.
bool store::crowded(std::size_t more_item_bytes, std::size_t more_object_bytes) const noexcept {
  if (options_.max_bytes == 0) return false;
  const std::size_t others = 2 * segment_bytes + index_.bytes_for(items_ + 1) + objects_.bytes();
  if (more_object_bytes > options_.max_bytes || others + more_object_bytes > options_.max_bytes) {
    return true;
  }
  const std::size_t most = options_.max_bytes - others - more_object_bytes;
  return live_bytes_ + more_item_bytes > most - most / 8;
}

// True if the bytes do not fit even with everything else evicted: the head, the index and a segment
// for items remain.
bool store::never_fits(std::size_t bytes) const noexcept {
  const std::size_t least = 2 * segment_bytes + index_.bytes();
  return options_.max_bytes != 0 &&
         (options_.max_bytes < least || bytes > options_.max_bytes - least);
}

bool store::has_room_for_blob(std::size_t item_bytes, std::size_t bytes) const noexcept {
  return may_give_up() ? !never_fits(bytes) : !crowded(item_bytes, bytes);
}

put_outcome store::make_room(std::size_t more_bytes) {
  const bool has = may_give_up() ? !never_fits(more_bytes) && room_for(more_bytes)
                                 : !crowded(more_bytes, 0) && room_for(0);
  if (has || beyond_limit_) return put_outcome::done;
  ++counters_.refused;
  return put_outcome::out_of_memory;
}

// Returns true if the item fits the current segment.
bool store::room_for_item(std::size_t bytes, at_limit then) {
  const bool within = then == at_limit::refused && !beyond_limit_;
  if ((within && !may_give_up() && crowded(bytes, 0)) || !room_within_limit(bytes)) {
    if (within || !(fits(fresh_, bytes) || go_on_in_kept(bytes) || open_next(fresh_))) {
      ++counters_.refused;
      return false;
    }
  }
  return true;
}

bool store::room_within_limit(std::size_t bytes) {
  if (over_limit() && !room_for(0)) return false;
  if (fits(fresh_, bytes)) return true;
  if (may_give_up()) {
    if (!room_for(segment_bytes) || !open_next(fresh_)) return false;
  } else {
    std::size_t rounds = most_rounds();
    bool has = false;
    while (!has && held_bytes() + segment_bytes > limit()) {
      if (rounds-- == 0) return false;
      has = go_on_in_kept(bytes);
      if (!has && !clean_one()) return false;
    }
    if (!has && !open_next(fresh_)) return false;
  }
  if (cleaning_.segment == none && room_is_short()) static_cast<void>(begin_cleaning());
  return true;
}

// Continues in the segment of moved items if it has free space.
bool store::go_on_in_kept(std::size_t bytes) noexcept {
  if (!fits(kept_, bytes)) return false;
  const std::uint32_t full = std::exchange(fresh_, std::exchange(kept_, none));
  if (full != none) close(full);
  return true;
}

bool store::is_wasteful() const noexcept {
  return used_bytes_ - live_bytes_ > live_bytes_ / dead_share + dead_allowance;
}

// True also if space will soon be short.
bool store::room_is_short() const noexcept {
  return is_wasteful() ||
         (options_.max_bytes != 0 && held_bytes() + 2 * segment_bytes > options_.max_bytes);
}

// Makes the memory used at least `more_bytes` less than the limit. Returns false if no more can be
// freed.
bool store::room_for(std::size_t more_bytes) {
  std::size_t rounds = most_rounds();
  for (std::size_t least = held_bytes(); held_bytes() + more_bytes > limit();) {
    if (rounds-- == 0 || !clean_one()) return false;
    if (held_bytes() >= least) continue;
    least = held_bytes();
    rounds = most_rounds();
  }
  return true;
}

// Empties a segment, or closes segments so that they can be emptied. Returns false if none is worth
// it.
bool store::clean_one() {
  if (cleaning_.segment == none && !begin_cleaning()) return close_segments();
  return clean(SIZE_MAX);
}

bool store::open_next(std::uint32_t& segment) {
  const std::optional<std::uint32_t> taken = segments_.take(segment_set::use::items);
  if (!taken) return false;
  const std::uint32_t full = std::exchange(segment, *taken);
  segments_[segment].open = true;
  if (full != none) close(full);
  return true;
}

void store::close(std::uint32_t segment) noexcept {
  segments_[segment].open = false;
  if (segments_[segment].live == 0) retire(segment);
}

void store::clean_ahead() {
  if (!clean(cleaned_per_put) || cleaning_.segment != none) return;
  if (room_is_short()) static_cast<void>(begin_cleaning());
}

bool store::tidy(std::size_t most_items) {
  if (cleaning_.segment == none) {
    const std::uint32_t candidate = is_wasteful() ? emptiest() : none;
    if (candidate == none || waste(segments_[candidate]) < mostly_dead) return false;
    cleaning_ = {.segment = candidate};
  }
  return cleaning_.threshold == 0 && clean(most_items);
}

// Closes the segments being written so that they can be emptied, if there are no others: long
// strings have short items. Returns false if none is open, or if it would gain nothing.
bool store::close_segments() noexcept {
  if (!may_give_up() && crowded(0, 0)) return false;
  bool any = false;
  for (std::uint32_t* const open : {&fresh_, &kept_}) {
    if (*open == none) continue;
    any = true;
    close(std::exchange(*open, none));
  }
  return any;
}

bool store::begin_cleaning() {
  const std::uint32_t candidate = emptiest();
  const std::size_t wasted = candidate == none ? 0 : waste(segments_[candidate]);
  const bool gives_up = may_give_up();
  if (wasted >= mostly_dead || (!gives_up && wasted >= least_waste)) {
    cleaning_ = {.segment = candidate};
    return true;
  }
  if (!gives_up) return false;
  const std::uint64_t threshold = least_worth_kept();
  const std::uint32_t next = next_in_turn();
  if (next == none || (threshold == 0 && wasted < least_waste)) return false;
  cleaning_ = {.segment = threshold == 0 ? candidate : next, .threshold = threshold};
  return true;
}

// Bytes gained by emptying the segment. Its unused tail counts only if nothing may be evicted and
// items must be packed; otherwise a segment that was closed early is not copied for its tail.
std::size_t store::waste(const segment_set::segment& s) const noexcept {
  return (may_give_up() ? s.used : segment_bytes) - s.live;
}

std::uint32_t store::emptiest() const noexcept {
  std::uint32_t best = none;
  std::size_t most = 0;
  for (std::uint32_t n = 0; n < segments_.count(); ++n) {
    const segment_set::segment& s = segments_[n];
    if (s.is != segment_set::use::items || s.open || waste(s) <= most) continue;
    best = n;
    most = waste(s);
  }
  return best;
}

std::uint32_t store::next_in_turn() noexcept {
  for (std::uint32_t tried = 0; tried < segments_.count(); ++tried) {
    turn_ = turn_ + 1 < segments_.count() ? turn_ + 1 : 0;
    const segment_set::segment& s = segments_[turn_];
    if (s.is == segment_set::use::items && !s.open) return turn_;
  }
  return none;
}

// Lower: evicted earlier. The last bits are random, so that only some of many equal keys are
// evicted.
std::uint64_t store::worth(const item& i) noexcept {
  constexpr std::uint64_t chance_mask = (std::uint64_t{1} << chance_bits) - 1;
  constexpr unix_ms latest = (UINT64_MAX >> chance_bits) - 1;
  if (volatile_only(options_.policy) && !i.expires()) return UINT64_MAX;
  const std::uint64_t chance = dice() & chance_mask;
  switch (options_.policy) {
    case eviction::allkeys_lru:
    case eviction::volatile_lru: return std::uint64_t{i.access} << chance_bits | chance;
    case eviction::allkeys_lfu:
    case eviction::volatile_lfu:
      return std::uint64_t{access_clock::count(i.access, now_)} << chance_bits | chance;
    case eviction::volatile_ttl: return std::min(i.expiry(), latest) << chance_bits | chance;
    case eviction::none:
    case eviction::allkeys_random:
    case eviction::volatile_random: break;
  }
  return chance;
}

// Estimates from a sample the value below which the share to evict lies. 0: nothing may be evicted.
std::uint64_t store::least_worth_kept() noexcept {
  std::vector<std::uint64_t> worths;
  worths.reserve(options_.samples);
  for (unsigned i = 0; i < options_.samples; ++i) {
    const item* const sample = random();
    if (sample == nullptr) break;
    if (const std::uint64_t w = worth(*sample); w != UINT64_MAX) worths.push_back(w);
  }
  if (worths.empty()) return 0;
  const auto share =
      static_cast<std::ptrdiff_t>(given_up_share * static_cast<double>(worths.size()));
  std::nth_element(worths.begin(), worths.begin() + share, worths.end());
  return worths[static_cast<std::size_t>(share)] + 1;
}

place store::next_of(walk& w) const noexcept {
  const segment_set::segment& s = segments_[w.segment];
  while (w.offset < s.used) {
    const place where = w.segment * granules_per_segment + w.offset / granule;
    const item& i = segments_.item_at(where);
    w.offset += static_cast<std::uint32_t>(i.bytes());
    if (!i.dead()) return where;
  }
  return 0;
}

// Returns false if there is no space for its live items.
bool store::clean(std::size_t most_items) {
  for (std::size_t done = 0; done < most_items; ++done) {
    const walk before = cleaning_;
    const place where = next_of(cleaning_);
    if (where == 0) {
      const std::uint32_t empty = std::exchange(cleaning_, {}).segment;
      retire(empty);
      return true;
    }
    const item& i = segments_.item_at(where);
    std::uint64_t* const s = index_.find(index_.hash(i.key()), where);
    CORDMA_ASSERT(s != nullptr);
    if (expired(i)) {
      ++counters_.expired;
      erase_at(*s);
    } else if (worth(i) < cleaning_.threshold) {
      ++counters_.evicted;
      erase_at(*s);
    } else if (!move(*s)) {
      cleaning_ = before;
      return false;
    }
  }
  return true;
}

bool store::move(std::uint64_t& s) {
  const item& from = at(s);
  const std::size_t bytes = from.bytes();
  if (!fits(kept_, bytes) && !open_next(kept_)) return false;
  const std::optional<place> where = allocate(kept_, bytes);
  CORDMA_ASSERT(where);
  item& to = segments_.item_at(*where);
  std::memcpy(static_cast<void*>(&to), &from, bytes);
  to.crc = item_checksum(to, *where);
  appeared(*where);
  mark_dead(slot::where(s));
  item_index::publish(s, slot::make(slot::tag(s), *where, bytes));
  ++counters_.moved;
  return true;
}

std::uint32_t store::next_with_expired() const noexcept {
  for (std::uint32_t n = 0; n < segments_.count(); ++n) {
    const segment_set::segment& s = segments_[n];
    if (s.is == segment_set::use::items && s.earliest != never_expires && s.earliest <= now_) {
      return n;
    }
  }
  return none;
}

bool store::sweep(std::size_t most_items) noexcept {
  for (std::size_t done = 0; done < most_items; ++done) {
    if (sweeping_.segment == none) sweeping_ = {.segment = next_with_expired()};
    if (sweeping_.segment == none) return false;
    const place where = next_of(sweeping_);
    if (where == 0) {
      segments_[sweeping_.segment].earliest = sweeping_.earliest;
      sweeping_ = {};
      continue;
    }
    const item& i = segments_.item_at(where);
    if (!i.expires()) continue;
    if (!expired(i)) {
      const unix_ms when = i.expiry();
      sweeping_.earliest =
          sweeping_.earliest == never_expires ? when : std::min(sweeping_.earliest, when);
      continue;
    }
    ++counters_.expired;
    erase_at(*index_.find(index_.hash(i.key()), where));
  }
  return true;
}

}  // namespace kv

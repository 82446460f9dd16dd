// How a store makes room: segments that hold mostly dead items are emptied, and where memory is limited, what is worth
// least is given up on the way.
#include "access.hpp"
#include "checksum.hpp"
#include "store.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace kv {
namespace {

constexpr std::size_t cleaned_per_put = 16;  // items
// Of a segment: with less of it dead, emptying it costs more copying than the room is worth.
constexpr std::size_t least_dead = segment_bytes / 16;
// ... and with so much of it dead, it is emptied before anything that lives is given up.
constexpr std::size_t mostly_dead = segment_bytes / 4;
// Of the items in a segment that is emptied for want of memory.
constexpr double given_up_share = 0.3;
// Without a limit: of the live bytes so much may be dead besides, and so much on top.
constexpr std::size_t dead_share = 3;
constexpr std::size_t dead_allowance = 4 * segment_bytes;
constexpr unsigned chance_bits = 16;

}  // namespace

bool store::room_for_item(std::size_t bytes) {
  if (over_limit() && !room_for(0)) {
    ++counters_.refused;
    return false;
  }
  if (fits(fresh_, bytes)) return true;
  // The rest of a segment may do for what comes next, but nobody looks there again.
  if (!room_for(segment_bytes) || !open_next(fresh_)) {
    ++counters_.refused;
    return false;
  }
  if (cleaning_.segment == none && room_is_short()) static_cast<void>(begin_cleaning());
  return true;
}

// Or will be, soon.
bool store::room_is_short() const noexcept {
  const std::size_t dead = used_bytes_ - live_bytes_;
  const bool wasteful = dead > live_bytes_ / dead_share + dead_allowance;
  return wasteful ||
         (options_.max_bytes != 0 && held_bytes() + 2 * segment_bytes > options_.max_bytes);
}

// Ends with so much below the limit, or false: nothing more can be had.
bool store::room_for(std::size_t more_bytes) {
  if (options_.max_bytes == 0) return true;
  // Every segment once, and what moved while they were emptied: no more can come of it.
  std::size_t rounds = 2 * std::size_t{segments_.count()} + 2;
  while (held_bytes() + more_bytes > options_.max_bytes) {
    if (rounds-- == 0) return false;
    if (cleaning_.segment == none && !begin_cleaning()) {
      if (!close_segments()) return false;
      continue;
    }
    if (!clean(SIZE_MAX)) return false;
  }
  return true;
}

bool store::open_next(std::uint32_t& segment) {
  const std::optional<std::uint32_t> taken = segments_.take(segment_set::use::items);
  if (!taken) return false;
  const std::uint32_t full = std::exchange(segment, *taken);
  segments_[segment].open = true;
  if (full == none) return true;
  segments_[full].open = false;
  if (segments_[full].live == 0 && full != cleaning_.segment) retire(full);
  return true;
}

void store::clean_ahead() {
  if (!clean(cleaned_per_put) || cleaning_.segment != none) return;
  if (room_is_short()) static_cast<void>(begin_cleaning());
}

// What is written to now is emptied as well, where there is nothing else: long strings have short items. False: nothing
// is written to.
bool store::close_segments() noexcept {
  bool any = false;
  for (std::uint32_t* const open : {&fresh_, &kept_}) {
    if (*open == none) continue;
    any = true;
    const std::uint32_t closed = std::exchange(*open, none);
    segments_[closed].open = false;
    if (segments_[closed].live == 0) retire(closed);
  }
  return any;
}

bool store::begin_cleaning() {
  const std::uint32_t candidate = emptiest();
  const std::size_t dead =
      candidate == none ? 0 : segments_[candidate].used - segments_[candidate].live;
  const bool may_give_up = options_.max_bytes != 0 && options_.policy != eviction::none;
  if (dead >= mostly_dead || (!may_give_up && dead >= least_dead)) {
    cleaning_ = {.segment = candidate};
    return true;
  }
  if (!may_give_up) return false;
  const std::uint64_t threshold = least_worth_kept();
  const std::uint32_t next = next_in_turn();
  if (next == none || (threshold == 0 && dead < least_dead)) return false;
  cleaning_ = {.segment = threshold == 0 ? candidate : next, .threshold = threshold};
  return true;
}

std::uint32_t store::emptiest() const noexcept {
  std::uint32_t best = none;
  std::size_t most = 0;
  for (std::uint32_t n = 0; n < segments_.count(); ++n) {
    const segment_set::segment& s = segments_[n];
    if (s.is != segment_set::use::items || s.open || s.used - s.live <= most) continue;
    best = n;
    most = s.used - s.live;
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

// Less: given up earlier. The last bits are chance, so that of many that are worth the same some go.
std::uint64_t store::worth(const item& i) noexcept {
  constexpr std::uint64_t chance_mask = (std::uint64_t{1} << chance_bits) - 1;
  if (volatile_only(options_.policy) && !i.expires()) return UINT64_MAX;
  const std::uint64_t chance = dice() & chance_mask;
  switch (options_.policy) {
    case eviction::allkeys_lru:
    case eviction::volatile_lru: return std::uint64_t{i.access} << chance_bits | chance;
    case eviction::allkeys_lfu:
    case eviction::volatile_lfu:
      return std::uint64_t{access_clock::count(i.access, now_)} << chance_bits | chance;
    case eviction::volatile_ttl: return i.expiry() << chance_bits | chance;
    case eviction::none:
    case eviction::allkeys_random:
    case eviction::volatile_random: break;
  }
  return chance;
}

// What the share that is to go is worth less than, by a sample of all. 0: nothing may go.
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

// False: what lives there has nowhere to go.
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

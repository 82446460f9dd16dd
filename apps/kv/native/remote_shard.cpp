#include "remote_shard.hpp"

#include "../store/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kv::native {
namespace {

using cordma::task;

constexpr unsigned tries = 3;
constexpr unsigned most_buckets_in_line = 4;
constexpr auto longest_trusted = std::chrono::milliseconds(100);
// Of the server's clock, as it is known here: it tells the time when it does something, and ours may run faster.
constexpr unix_ms clock_margin_ms = 1000;
constexpr auto head_lasts = std::chrono::seconds(5);
constexpr auto clock_looked_at_every = std::chrono::milliseconds(50);

// What is at `at`, if it is the key's, and whole.
sighting validate(std::string_view key, const std::byte* at, std::size_t bytes, place where) {
  const item& i = *reinterpret_cast<const item*>(at);
  const bool plausible = bytes >= sizeof(item) && i.used_bytes() <= bytes;
  if (!plausible || i.dead() || item_checksum(i, where) != i.crc) return {.what = sight::torn};
  if (i.key() != key) return {.what = sight::absent};
  if (i.kind() != value_kind::string) return {.what = sight::longer};
  return {.what = sight::seen, .value = i.stored(), .version = i.version, .expiry = i.expiry()};
}

}  // namespace

bool remote_shard::find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes,
                        cordma::RemoteSlice& where) const noexcept {
  const std::uint64_t region = segment / segments_per_region;
  if (region >= regions_.size()) return false;
  const std::uint64_t at = segment % segments_per_region * segment_bytes + offset;
  // The last item of a region ends before the units that it is said to have.
  const std::uint64_t rest = region_bytes - at;
  const cordma::result<cordma::RemoteSlice> found =
      regions_[region].slice(at, std::min(bytes, rest));
  if (!found) return false;
  where = found.value();
  return true;
}

bool remote_shard::find_bucket(std::uint64_t number, cordma::RemoteSlice& where) const noexcept {
  const std::uint64_t chunk = number / buckets_per_segment;
  return chunk < index_.size() &&
         find(index_[chunk], number % buckets_per_segment * sizeof(bucket), sizeof(bucket), where);
}

task<void> remote_shard::refresh(cordma::Slice landing) {
  cordma::RemoteSlice where;
  if (!find(0, 0, head_bytes, where)) {
    throw cordma::error(cordma::failure(cordma::errc::bad_state, "the shard has no memory yet"));
  }
  const cordma::Slice into = landing.first(head_bytes);
  co_await via_->read(where, into);
  ++counters_.reads;
  ++counters_.refreshed;
  read_at_ = loop_->now();
  const auto& head = *reinterpret_cast<const shard_head*>(into.data());
  if (head.magic != shard_head::expected_magic) {
    throw cordma::error(cordma::failure(cordma::errc::unsupported_version,
                                        "the server's memory is laid out in another way"));
  }
  clock_ = head.clock;
  buckets_ = head.buckets;
  const std::uint64_t chunks = (buckets_ + buckets_per_segment - 1) / buckets_per_segment;
  index_.assign(head.index.begin(),
                head.index.begin() + static_cast<std::ptrdiff_t>(
                                         std::min<std::uint64_t>(chunks, head.index.size())));
}

unix_ms remote_shard::server_time() const noexcept {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - read_at_);
  return clock_ + static_cast<unix_ms>(since.count());
}

task<sighting> remote_shard::look(hashed_key key, cordma::Slice landing) {
  const bool alive = co_await is_alive(landing);
  if (!alive) co_return sighting{.what = sight::silent};
  if (loop_->now() - read_at_ > head_lasts) co_await refresh(landing);
  sighting last;
  for (unsigned i = 0; i < tries; ++i) {
    const cordma::time_point began = loop_->now();
    last = co_await search(key, landing);
    if (loop_->now() - began > longest_trusted) co_return sighting{.what = sight::late};
    if (last.what == sight::unmapped && i == 0) {  // it has grown since the head was read
      co_await refresh(landing);
      continue;
    }
    if (last.what != sight::torn) break;
    ++counters_.torn;
  }
  co_return last;
}

task<sighting> remote_shard::search(hashed_key key, cordma::Slice landing) {
  const cordma::Slice line = landing.first(sizeof(bucket));
  std::uint64_t number = bucket_of(key.hash, buckets_);
  cordma::RemoteSlice where;
  if (!find_bucket(number, where)) co_return sighting{.what = sight::unmapped};
  bool primary = true;
  for (unsigned i = 0; i < most_buckets_in_line; ++i) {
    co_await via_->read(where, line);
    ++counters_.reads;
    const bucket seen = *reinterpret_cast<const bucket*>(line.data());
    const unsigned depth = bucket::depth(seen.head);
    if (primary && was_split(number, depth)) {
      number = bucket_of(key.hash, buckets_);
      if (!find_bucket(number, where)) co_return sighting{.what = sight::unmapped};
      continue;
    }
    for (const std::uint64_t s : seen.slots) {
      if (s == 0 || slot::tag(s) != key.tag()) continue;
      const sighting at = co_await examine(key, s, landing);
      if (at.what != sight::absent) co_return at;
    }
    const std::uint32_t next = bucket::next(seen.head);
    if (next == 0) co_return sighting{.what = sight::absent};
    primary = false;
    if (!find(next / buckets_per_segment, next % buckets_per_segment * sizeof(bucket),
              sizeof(bucket), where)) {
      co_return sighting{.what = sight::unmapped};
    }
  }
  co_return sighting{.what = sight::absent};
}

// Whether the bucket says that there are more buckets than was known here: those up to the one that was split off it
// last. (So do clients of LH*: Litwin, Neimat, Schneider, 1996.)
bool remote_shard::was_split(std::uint64_t number, unsigned depth) noexcept {
  if (depth == 0 || depth > 32) return false;  // no bucket's head
  const std::uint64_t at_least = (std::uint64_t{1} << (depth - 1)) + 1 + number;
  if (number >> (depth - 1) != 0 || at_least <= buckets_) return false;
  buckets_ = at_least;
  return true;
}

task<sighting> remote_shard::examine(hashed_key key, std::uint64_t slot_value,
                                     cordma::Slice landing) {
  if (slot::units(slot_value) == slot::longer) co_return sighting{.what = sight::longer};
  const place at = slot::where(slot_value);
  cordma::RemoteSlice where;
  if (!find(at / granules_per_segment, at % granules_per_segment * granule,
            slot::units(slot_value) * slot::unit, where)) {
    co_return sighting{.what = sight::unmapped};
  }
  const cordma::Slice into = landing.part(sizeof(bucket), where.size());
  co_await via_->read(where, into);
  ++counters_.reads;
  sighting seen = validate(key.text, into.data(), into.size(), at);
  if (seen.what != sight::seen) co_return seen;
  const bool safe = co_await is_safe(seen.version, landing);
  if (!safe) co_return sighting{.what = sight::unsafe};
  if (seen.expiry == never_expires) co_return seen;
  const bool lives = co_await still_lives(seen.expiry, landing);
  if (!lives) seen = {.what = sight::expiring};
  co_return seen;
}

// Of the head; 0 where there is none.
task<std::uint64_t> remote_shard::read_word(std::size_t offset, cordma::Slice landing) {
  cordma::RemoteSlice where;
  std::uint64_t told = 0;
  if (!find(0, offset, sizeof told, where)) co_return told;
  const cordma::Slice word = landing.first(sizeof told);
  co_await via_->read(where, word);
  ++counters_.reads;
  std::memcpy(&told, word.data(), sizeof told);
  co_return told;
}

// What one client has seen no crash may take back. The word only grows, but where the journal is turned on.
task<bool> remote_shard::is_safe(std::uint64_t version, cordma::Slice landing) {
  if (version > safe_version_ || safe_version_ == UINT64_MAX) {
    safe_version_ = co_await read_word(offsetof(shard_head, safe_version), landing);
  }
  co_return version <= safe_version_;
}

// A clock that has moved since it was looked at last shows that the server has lived since then.
task<bool> remote_shard::is_alive(cordma::Slice landing) {
  const cordma::time_point now = loop_->now();
  if (now - clock_seen_at_ > clock_looked_at_every) {
    const unix_ms told = co_await read_word(offsetof(shard_head, clock), landing);
    if (told != clock_seen_) lived_at(clock_seen_at_);
    clock_seen_ = told;
    clock_seen_at_ = now;
  }
  co_return now - lived_at_ < lease;
}

// The server decides by the clock that stands in its memory, which may jump; and that stands still while it sleeps, so
// that what has gone by here since it was last looked at counts as well. About the time itself it is to say more.
task<bool> remote_shard::still_lives(unix_ms expiry, cordma::Slice landing) {
  const unix_ms told = co_await read_word(offsetof(shard_head, clock), landing);
  co_return std::max(told, server_time()) + clock_margin_ms < expiry;
}

}  // namespace kv::native

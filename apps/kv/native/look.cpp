#include "look.hpp"

#include "../store/checksum.hpp"
#include "remote_shard.hpp"

#include <algorithm>
#include <cstring>

namespace kv::native {
namespace {

constexpr unsigned most_tries = 3;
constexpr unsigned most_buckets_in_line = 4;
constexpr auto longest_trusted = std::chrono::milliseconds(100);
// Margin for the server's clock: its memory has the time of its last activity, and our clock may
// run faster.
constexpr unix_ms clock_margin_ms = 1000;

std::uint64_t word_at(const std::byte* at) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Checks that the item at `at` has this key and is complete.
sighting validate(std::string_view key, const std::byte* at, std::size_t bytes, place where) {
  const item& i = *reinterpret_cast<const item*>(at);
  const bool plausible = bytes >= sizeof(item) && i.used_bytes() <= bytes;
  if (!plausible || i.dead() || item_checksum(i, where) != i.crc) return {.what = sight::torn};
  if (i.key() != key) return {.what = sight::absent};
  if (i.kind() != value_kind::string) return {.what = sight::longer};
  return {.what = sight::seen, .value = i.stored(), .version = i.version, .expiry = i.expiry()};
}

}  // namespace

look::look(remote_shard& in, const hashed_key& key, cordma::time_point now)
    : in_(&in), key_(&key), began_(now) {
  if (in.wants_pulse(now)) {
    want_word(step::pulse, offsetof(shard_head, clock));
  } else {
    start();
  }
}

void look::start() {
  if (!in_->is_alive(began_)) return end(sight::silent);
  if (in_->head_is_old(began_)) return want(step::head, 0, 0, head_bytes);
  search();
}

void look::search() {
  first_line_ = true;
  lines_ = 0;
  number_ = bucket_of(key_->hash, in_->buckets());
  want_bucket(number_);
}

void look::take(const std::byte* landing) {
  switch (step_) {
    case step::pulse: in_->felt_pulse(word_at(landing), began_); return start();
    case step::head: in_->take_head(landing); return search();
    case step::bucket: return take_bucket(*reinterpret_cast<const bucket*>(landing));
    case step::item: return take_item(landing);
    case step::clock: {
      // The server decides by the clock in its memory, which may jump. It stops while the server
      // sleeps, so the time elapsed here since the last read counts as well.
      const unix_ms at_least = std::max(word_at(landing), in_->server_time());
      return end(at_least + clock_margin_ms < found_.expiry ? sight::seen : sight::expiring);
    }
    case step::over: return;
  }
}

void look::take_bucket(const bucket& seen) {
  line_ = seen;
  ++lines_;
  if (first_line_ && in_->was_split(number_, bucket::depth(seen.head))) {
    if (lines_ == most_buckets_in_line) return end(sight::absent);
    number_ = bucket_of(key_->hash, in_->buckets());
    return want_bucket(number_);
  }
  slot_ = 0;
  look_at_slots();
}

void look::look_at_slots() {
  for (; slot_ < bucket::slots_per_bucket; ++slot_) {
    const std::uint64_t s = line_.slots[slot_];
    if (s == 0 || slot::tag(s) != key_->tag()) continue;
    if (slot::units(s) == slot::longer) return end(sight::longer);
    ++slot_;
    item_at_ = slot::where(s);
    want(step::item, item_at_ / granules_per_segment, item_at_ % granules_per_segment * granule,
         slot::units(s) * slot::unit);
    // Also reads the version up to which all is on disk. It lands where the bucket was, which is no
    // longer needed.
    if (step_ != step::item ||
        !in_->find(0, offsetof(shard_head, safe_version), sizeof(std::uint64_t), wanted_[1])) {
      return;
    }
    wanted_[0].lands_at = sizeof(bucket);
    pieces_ = 2;
    return;
  }
  const std::uint32_t next = bucket::next(line_.head);
  if (next == 0 || lines_ == most_buckets_in_line) return end(sight::absent);
  first_line_ = false;
  want(step::bucket, next / buckets_per_segment, next % buckets_per_segment * sizeof(bucket),
       sizeof(bucket));
}

void look::take_item(const std::byte* landing) {
  in_->knows_safe(word_at(landing));
  found_ = validate(key_->text, landing + sizeof(bucket), wanted_[0].bytes, item_at_);
  if (found_.what == sight::absent) return look_at_slots();
  if (found_.what != sight::seen) return end(found_.what);
  // A crash must not undo a value that a client has seen.
  if (!in_->is_safe(found_.version)) return end(sight::unsafe);
  if (found_.expiry == never_expires) return end(sight::seen);
  want_word(step::clock, offsetof(shard_head, clock));
}

void look::want_bucket(std::uint64_t number) {
  std::uint64_t segment = 0;
  if (!in_->find_bucket(number, segment)) return end(sight::unmapped);
  want(step::bucket, segment, number % buckets_per_segment * sizeof(bucket), sizeof(bucket));
}

void look::want(step next, std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes) {
  if (!in_->find(segment, offset, bytes, wanted_[0])) return end(sight::unmapped);
  pieces_ = 1;
  step_ = next;
}

void look::end(sight what) {
  const cordma::time_point now = in_->now();
  const bool late = now - began_ > longest_trusted;
  if (late && what != sight::silent) what = sight::late;
  if (what == sight::torn) {
    in_->saw_torn();
    if (++tries_ < most_tries) {
      began_ = now;
      return search();
    }
  }
  if (what == sight::unmapped && !refreshed_) {  // it has grown since the head was read
    refreshed_ = true;
    began_ = now;
    if (in_->find(0, 0, head_bytes, wanted_[0])) {
      pieces_ = 1;
      step_ = step::head;
      return;
    }
  }
  if (what != sight::seen) found_ = {};
  found_.what = what;
  step_ = step::over;
}

}  // namespace kv::native

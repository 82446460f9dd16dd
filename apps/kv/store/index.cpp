#include "index.hpp"

#include <cordma/runtime/result.hpp>

#include <bit>
#include <cstring>

namespace kv {

item_index::item_index(segment_set& segments, std::uint64_t hash_seed)
    : segments_(segments), seed_(hash_seed) {
  clear(read_by::nobody);
}

void item_index::clear(read_by whom) {
  // Peers that have not noticed the new index yet find nothing in the old one. Without peers the
  // memory is zeroed only when a segment is used again, because zeroing all at once would take
  // long.
  if (whom == read_by::peers) {
    for (const std::uint32_t s : directory_) std::memset(segments_[s].base, 0, segment_bytes);
    for (const std::uint32_t s : overflow_) std::memset(segments_[s].base, 0, segment_bytes);
  }
  for (const std::uint32_t s : directory_) segments_.give_up(s, {});
  for (const std::uint32_t s : overflow_) segments_.give_up(s, {});
  directory_.clear();
  bases_.clear();
  overflow_.clear();
  next_overflow_ = buckets_per_segment;
  free_overflow_ = 0;
  if (!add_segment(directory_)) {
    throw cordma::error(cordma::failure(cordma::errc::no_memory, "no memory for an index"));
  }
  bases_.push_back(reinterpret_cast<bucket*>(segments_[directory_[0]].base));  // NOLINT
  buckets_ = first_buckets;
  mask_ = 2 * first_buckets - 1;
  for (std::uint64_t i = 0; i < buckets_; ++i) {
    primary(i).head = bucket::make_head(0, std::countr_zero(first_buckets));
  }
}

bool item_index::add_segment(std::vector<std::uint32_t>& to) {
  const std::optional<std::uint32_t> taken = segments_.take(segment_set::use::index);
  if (!taken) return false;
  segments_[*taken].used = segment_bytes;
  to.push_back(*taken);
  return true;
}

std::uint64_t* item_index::find(const hashed_key& k) const noexcept {
  const std::uint16_t tag = k.tag();
  for (bucket* b = &first_of(k.hash); b != nullptr; b = after(*b)) {
    for (std::uint64_t& s : b->slots) {
      if (slot::tag(s) != tag || s == 0) continue;
      if (segments_.item_at(slot::where(s)).key() == k.text) return &s;
    }
  }
  return nullptr;
}

std::uint64_t* item_index::find(std::uint64_t hash, place where) const noexcept {
  for (bucket* b = &first_of(hash); b != nullptr; b = after(*b)) {
    for (std::uint64_t& s : b->slots) {
      if (s != 0 && slot::where(s) == where) return &s;
    }
  }
  return nullptr;
}

void item_index::prefetch_items(const hashed_key& k) const noexcept {
  const std::uint16_t tag = k.tag();
  for (const std::uint64_t s : first_of(k.hash).slots) {
    if (slot::tag(s) == tag && s != 0) {
      const std::byte* const at = segments_.at(slot::where(s));
      __builtin_prefetch(at);
      __builtin_prefetch(at + 64);
    }
  }
}

std::uint64_t* item_index::make_slot(const hashed_key& k) { return empty_in(first_of(k.hash)); }

std::uint64_t* item_index::empty_in(bucket& first) {
  bucket* last = &first;
  for (bucket* b = &first; b != nullptr; b = after(*b)) {
    for (std::uint64_t& s : b->slots) {
      if (s == 0) return &s;
    }
    last = b;
  }
  const std::uint32_t more = take_overflow();
  if (more == 0) return nullptr;
  bucket& added = *by_reference(more);
  added = {.head = bucket::make_head(0, bucket::depth(first.head)), .slots = {}};
  publish(last->head, bucket::make_head(more, bucket::depth(last->head)));
  return added.slots.data();
}

std::uint32_t item_index::take_overflow() {
  if (free_overflow_ != 0) {
    const std::uint32_t taken = free_overflow_;
    free_overflow_ = bucket::next(by_reference(taken)->head);
    return taken;
  }
  if (next_overflow_ == buckets_per_segment) {
    if (!add_segment(overflow_)) return 0;
    next_overflow_ = 0;
  }
  return overflow_.back() * buckets_per_segment + next_overflow_++;
}

void item_index::give_back_overflow(std::uint32_t reference) noexcept {
  by_reference(reference)->head = bucket::make_head(free_overflow_, 0);
  free_overflow_ = reference;
}

unsigned item_index::grow(std::size_t items) {
  unsigned done = 0;
  // Two at a time: this catches up after memory was refused.
  while (done < 2 && items > buckets_ * keys_per_bucket && split_next()) ++done;
  if (done != 0) prefetch_next_split();
  return done;
}

// The keys of the bucket to split next must be read, and are probably no longer in the cache.
void item_index::prefetch_next_split() const noexcept {
  const std::uint64_t next = buckets_ - std::bit_floor(buckets_);
  for (const std::uint64_t s : primary(next).slots) {
    if (s != 0) __builtin_prefetch(segments_.at(slot::where(s)) + sizeof(item));
  }
  __builtin_prefetch(&primary(next + 1));
}

std::uint64_t item_index::hash_of(std::uint64_t s) const noexcept {
  return hash_key(segments_.item_at(slot::where(s)).key(), seed_).hash;
}

// Slots are published in the new bucket before the old one's depth is raised, and removed from the
// old one last. So peers find every key in one of the two at any time.
bool item_index::split_next() {
  const std::uint64_t whole = std::bit_floor(buckets_);
  const std::uint64_t from = buckets_ - whole;
  if (buckets_ / buckets_per_segment == directory_.size()) {
    if (directory_.size() == UINT32_MAX / buckets_per_segment || !add_segment(directory_)) {
      return false;
    }
    bases_.push_back(reinterpret_cast<bucket*>(segments_[directory_.back()].base));  // NOLINT
  }
  const unsigned depth = static_cast<unsigned>(std::countr_zero(whole)) + 1;
  bucket& fresh = primary(buckets_);
  fresh = {.head = bucket::make_head(0, depth), .slots = {}};
  bucket& old = primary(from);
  bool complete = true;
  each_of(from, [&](std::uint64_t s) {
    if ((hash_of(s) & whole) == 0) return;
    std::uint64_t* const to = complete ? empty_in(fresh) : nullptr;
    if (to != nullptr) publish(*to, s);
    complete = to != nullptr;
  });
  if (!complete) {  // no memory: the new bucket is not visible yet
    for (std::uint32_t r = bucket::next(fresh.head); r != 0;) {
      const std::uint32_t next = bucket::next(by_reference(r)->head);
      give_back_overflow(r);
      r = next;
    }
    fresh = {};
    return false;
  }
  for (bucket* b = &old; b != nullptr; b = after(*b)) {
    publish(b->head, bucket::make_head(bucket::next(b->head), depth));
  }
  ++buckets_;
  if (std::has_single_bit(buckets_)) mask_ = 2 * buckets_ - 1;
  each_of(from, [&](std::uint64_t& s) {
    if ((hash_of(s) & whole) != 0) publish(s, 0);
  });
  settle(old);
  return true;
}

// Moves the slots of overflow buckets forward and releases the overflow buckets that become empty.
void item_index::settle(bucket& first) noexcept {
  bucket* before = &first;
  while (bucket* b = after(*before)) {
    bool empty = true;
    for (std::uint64_t& s : b->slots) {
      if (s == 0) continue;
      std::uint64_t* to = nullptr;
      for (bucket* e = &first; e != b && to == nullptr; e = after(*e)) {
        for (std::uint64_t& candidate : e->slots) {
          if (candidate == 0) {
            to = &candidate;
            break;
          }
        }
      }
      if (to == nullptr) {
        empty = false;
        continue;
      }
      publish(*to, s);
      publish(s, 0);
    }
    if (!empty) {
      before = b;
      continue;
    }
    const std::uint32_t gone = bucket::next(before->head);
    publish(before->head, bucket::make_head(bucket::next(b->head), bucket::depth(before->head)));
    give_back_overflow(gone);
  }
}

}  // namespace kv

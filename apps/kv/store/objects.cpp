#include "objects.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace kv {
namespace {

// A hash with at most this many fields is freed at once, because freeing it later would cost more.
constexpr std::size_t worth_waiting = 64;
// Likewise a string of fewer bytes.
constexpr std::size_t worth_waiting_bytes = std::size_t{1} << 20;
// Bytes of an abandoned string that count as much as one field.
constexpr std::size_t bytes_for_one = 4096;
// Shorter strings stay with the allocator, for reuse by the next string.
constexpr std::size_t least_discarded = std::size_t{256} << 10;

// Returns the complete pages of this range to the system. The range remains writable.
void discard(char* begin, std::size_t bytes) noexcept {
  if (bytes < least_discarded) return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t from = (at + page - 1) / page * page;
  const std::uintptr_t to = (at + bytes) / page * page;
  ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);  // NOLINT
}

constexpr std::size_t hash_room = block_heap::room_of(sizeof(hash_value));

}  // namespace

object_pool::number object_pool::take_place() {
  while (open_ < chunks_.size() && chunks_[open_].used == chunk_objects) ++open_;
  if (open_ == chunks_.size()) chunks_.emplace_back();
  chunk& c = chunks_[open_];
  if (c.places == nullptr) {
    c.places = std::make_unique<object[]>(chunk_objects);
    ++held_chunks_;
  }
  number n = open_ * chunk_objects + c.touched;
  if (c.first_free == none) {
    ++c.touched;
  } else {
    n = c.first_free;
    c.first_free = at(n).next_free;
  }
  ++c.used;
  ++live_;
  return n;
}

void object_pool::give_place(number n) noexcept {
  const std::size_t index = n / chunk_objects;
  chunk& c = chunks_[index];
  at(n) = {};
  at(n).next_free = std::exchange(c.first_free, n);
  --c.used;
  --live_;
  open_ = std::min(open_, index);
  if (c.used == 0) mind_empty(index);
}

// Keeps the first empty chunk while other chunks have objects: it is filled next. Drops the others.
void object_pool::mind_empty(std::size_t index) noexcept {
  const bool has_other = empty_ != none && empty_ != index && chunks_[empty_].used == 0;
  if (live_ == 0) {
    if (has_other) drop_chunk(empty_);
    drop_chunk(index);
    empty_ = none;
    return;
  }
  if (has_other) drop_chunk(std::max<std::size_t>(empty_, index));
  empty_ = has_other ? std::min<std::size_t>(empty_, index) : index;
}

void object_pool::drop_chunk(std::size_t index) noexcept {
  if (chunks_[index].places != nullptr) --held_chunks_;
  chunks_[index] = {};
}

object_pool::number object_pool::make_hash(std::uint64_t seed) {
  const number n = take_place();
  void* const place = heap_.take(hash_room);
  if (place == nullptr) {
    give_place(n);
    throw std::bad_alloc();
  }
  at(n).fields = new (place) hash_value(seed, &heap_);
  bytes_ += bytes_of(at(n));
  return n;
}

void object_pool::free_fields(hash_value* fields) noexcept {
  if (fields == nullptr) return;
  fields->~hash_value();
  heap_.give(fields, hash_room);
}

std::pair<object_pool::number, char*> object_pool::make_blob(std::size_t bytes) {
  auto made = std::make_unique_for_overwrite<char[]>(bytes);
  const number n = take_place();
  at(n).blob = std::move(made);
  at(n).blob_bytes = bytes;
  bytes_ += bytes_of(at(n));
  return {n, at(n).blob.get()};
}

void object_pool::release(number n, freeing when) noexcept {
  object& o = at(n);
  if (when == freeing::at_once || !keep_for_later(o)) {
    bytes_ -= bytes_of(o);
    free_fields(o.fields);
  }
  give_place(n);
}

// Returns false if deferring is not worthwhile, or if there is no memory for it.
bool object_pool::keep_for_later(object& o) noexcept try {
  if (o.fields != nullptr) {
    if (o.fields->size() <= worth_waiting) return false;
    old_hashes_.push_back(o.fields);
    o.fields = nullptr;
    return true;
  }
  if (o.blob_bytes < worth_waiting_bytes) return false;
  old_blobs_.emplace_back();
  old_blobs_.back() = {std::move(o.blob), o.blob_bytes};
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Returns false if there is no memory for it.
bool object_pool::keep_for_later() noexcept {
  try {
    // The last of the old chunks may be partly freed.
    old_chunks_.insert(old_chunks_.begin(), std::make_move_iterator(chunks_.begin()),
                       std::make_move_iterator(chunks_.end()));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void object_pool::clear(freeing when) noexcept {
  if (when == freeing::at_once || !keep_for_later()) {
    std::size_t all = SIZE_MAX;
    static_cast<void>(free_old(all));
    for (const chunk& c : chunks_) {
      for (std::size_t i = 0; i < c.touched; ++i) free_fields(c.places[i].fields);
    }
    bytes_ = held_chunks_ = 0;
  }
  chunks_.clear();
  open_ = live_ = 0;
  empty_ = none;
  settling_ = false;
}

bool object_pool::free_some_of(hash_value& fields, std::size_t& budget) noexcept {
  const std::size_t before = fields.bytes();
  const bool done = fields.clear_some(budget);
  bytes_ = bytes_ - before + fields.bytes();
  return done;
}

// Freeing a long string takes time for each of its pages, so the pages are released first, from the
// end.
bool object_pool::free_some_of(std::unique_ptr<char[]>& blob, std::size_t& left,
                               std::size_t& budget) noexcept {
  while (left >= bytes_for_one) {
    if (budget == 0) return false;
    const std::size_t pages = std::min(budget, left / bytes_for_one);
    budget -= pages;
    left -= pages * bytes_for_one;
    bytes_ -= pages * bytes_for_one;
    discard(blob.get() + left, pages * bytes_for_one);
  }
  bytes_ -= std::exchange(left, 0);
  blob.reset();
  return true;
}

bool object_pool::free_old(std::size_t& budget) noexcept {
  while (!old_hashes_.empty()) {
    hash_value& last = *old_hashes_.back();
    if (!free_some_of(last, budget)) return true;
    bytes_ -= last.bytes();
    free_fields(&last);
    old_hashes_.pop_back();
  }
  while (!old_blobs_.empty()) {
    old_blob& last = old_blobs_.back();
    if (!free_some_of(last.bytes, last.left, budget)) return true;
    old_blobs_.pop_back();
  }
  while (!old_chunks_.empty()) {
    const chunk& last = old_chunks_.back();
    for (; old_place_ < last.touched; ++old_place_) {
      object& o = last.places[old_place_];
      if (o.fields == nullptr && o.blob == nullptr) continue;
      if (budget == 0) return true;
      --budget;
      if (o.fields != nullptr && !free_some_of(*o.fields, budget)) return true;
      if (o.blob != nullptr && !free_some_of(o.blob, o.blob_bytes, budget)) return true;
      bytes_ -= bytes_of(o);
      free_fields(o.fields);
      o = {};
    }
    if (last.places != nullptr) --held_chunks_;
    old_chunks_.pop_back();
    old_place_ = 0;
  }
  return false;
}

// Moves objects out of sparse slabs, in one pass over all objects.
bool object_pool::settle_some(std::size_t& budget) noexcept {
  if (!settling_) {
    if (!heap_.is_loose()) return false;
    heap_.begin_pass();
    settling_ = true;
    next_to_settle_ = 0;
    settled_ = 0;
  }
  for (; next_to_settle_ < chunks_.size() * chunk_objects; ++next_to_settle_) {
    if (budget == 0) return true;
    --budget;
    if (chunks_[next_to_settle_ / chunk_objects].places == nullptr) {
      settled_ = 0;
      next_to_settle_ += chunk_objects - 1 - next_to_settle_ % chunk_objects;
      continue;
    }
    object& o = at(next_to_settle_);
    if (o.fields == nullptr) {
      settled_ = 0;
      continue;
    }
    if (!o.fields->settle(settled_, budget)) return true;
    if (!heap_.is_sparse(o.fields, hash_room)) continue;
    void* const place = heap_.take(hash_room);
    if (place == nullptr) continue;
    hash_value* const old = std::exchange(o.fields, new (place) hash_value(std::move(*o.fields)));
    free_fields(old);
  }
  settling_ = false;
  return false;
}

bool object_pool::free_some(std::size_t& budget) noexcept {
  return free_old(budget) || settle_some(budget);
}

}  // namespace kv

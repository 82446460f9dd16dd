#include "objects.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace kv {
namespace {

// A hash with fewer fields is freed at once: asking later would cost more.
constexpr std::size_t worth_waiting = 64;
constexpr std::size_t hash_room = block_heap::room_of(sizeof(hash_value));

}  // namespace

object_pool::number object_pool::take_place() {
  while (open_ < chunks_.size() && chunks_[open_].used == chunk_objects) ++open_;
  if (open_ == chunks_.size()) chunks_.emplace_back();
  chunk& c = chunks_[open_];
  if (c.places == nullptr) c.places = std::make_unique<object[]>(chunk_objects);
  number n = open_ * chunk_objects + c.touched;
  if (c.first_free == none) {
    ++c.touched;
  } else {
    n = c.first_free;
    c.first_free = at(n).next_free;
  }
  ++c.used;
  return n;
}

// A chunk without objects goes, unless it is the one that is filled next.
void object_pool::give_place(number n) noexcept {
  const std::size_t index = n / chunk_objects;
  chunk& c = chunks_[index];
  at(n) = {};
  at(n).next_free = std::exchange(c.first_free, n);
  --c.used;
  open_ = std::min(open_, index);
  if (c.used == 0 && index != open_) c = {};
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
  const bool waits =
      when == freeing::later && o.fields != nullptr && o.fields->size() > worth_waiting;
  std::size_t gone = bytes_of(o);
  if (waits) {
    try {
      const std::size_t stays = o.fields->bytes();
      old_hashes_.push_back(o.fields);
      o.fields = nullptr;
      gone -= stays;
    } catch (const std::bad_alloc&) {
      // It is freed at once.
    }
  }
  bytes_ -= gone;
  free_fields(o.fields);
  give_place(n);
}

// False: there is no memory to remember them by.
bool object_pool::keep_for_later() noexcept {
  try {
    // The last of them may be half done.
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
    bytes_ = 0;
  }
  chunks_.clear();
  open_ = 0;
  settling_ = false;
}

bool object_pool::free_some_of(hash_value& fields, std::size_t& budget) noexcept {
  const std::size_t before = fields.bytes();
  const bool done = fields.clear_some(budget);
  bytes_ = bytes_ - before + fields.bytes();
  return done;
}

bool object_pool::free_old(std::size_t& budget) noexcept {
  while (!old_hashes_.empty()) {
    hash_value& last = *old_hashes_.back();
    if (!free_some_of(last, budget)) return true;
    bytes_ -= last.bytes();
    free_fields(&last);
    old_hashes_.pop_back();
  }
  while (!old_chunks_.empty()) {
    const chunk& last = old_chunks_.back();
    for (; old_place_ < last.touched; ++old_place_) {
      object& o = last.places[old_place_];
      if (o.fields == nullptr && o.blob == nullptr) continue;
      if (budget == 0) return true;
      --budget;
      if (o.fields != nullptr && !free_some_of(*o.fields, budget)) return true;
      bytes_ -= bytes_of(o);
      free_fields(o.fields);
      o = {};
    }
    old_chunks_.pop_back();
    old_place_ = 0;
  }
  return false;
}

// In one pass over all objects those in slabs that are almost empty move to others.
bool object_pool::settle_some(std::size_t& budget) noexcept {
  if (!settling_) {
    if (!heap_.is_loose()) return false;
    heap_.begin_pass();
    settling_ = true;
    next_to_settle_ = 0;
  }
  for (; next_to_settle_ < chunks_.size() * chunk_objects; ++next_to_settle_) {
    if (budget == 0) return true;
    --budget;
    if (chunks_[next_to_settle_ / chunk_objects].places == nullptr) {
      next_to_settle_ += chunk_objects - 1 - next_to_settle_ % chunk_objects;
      continue;
    }
    object& o = at(next_to_settle_);
    if (o.fields == nullptr) continue;
    o.fields->settle();
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

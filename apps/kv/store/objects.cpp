#include "objects.hpp"

#include <iterator>
#include <new>

namespace kv {
namespace {

// A hash with fewer fields is freed at once: asking later would cost more.
constexpr std::size_t worth_waiting = 64;

}  // namespace

object_pool::number object_pool::take_place() {
  if (first_free_ != none) {
    const number n = first_free_;
    first_free_ = at(n).next_free;
    return n;
  }
  if (used_ == chunks_.size() * chunk_objects) {
    chunks_.push_back(std::make_unique<object[]>(chunk_objects));
  }
  return used_++;
}

object_pool::number object_pool::make_hash(std::uint64_t seed) {
  auto made = std::make_unique<hash_value>(seed);
  const number n = take_place();
  at(n).fields = std::move(made);
  bytes_ += bytes_of(at(n));
  return n;
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
      old_hashes_.push_back(std::move(o.fields));
      gone -= stays;
    } catch (const std::bad_alloc&) {
      // It is freed at once.
    }
  }
  bytes_ -= gone;
  o = {};
  o.next_free = std::exchange(first_free_, n);
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
    static_cast<void>(free_some(all));
    bytes_ = 0;
  }
  chunks_.clear();
  used_ = 0;
  first_free_ = none;
}

bool object_pool::free_some_of(hash_value& fields, std::size_t& budget) noexcept {
  const std::size_t before = fields.bytes();
  const bool done = fields.clear_some(budget);
  bytes_ = bytes_ - before + fields.bytes();
  return done;
}

bool object_pool::free_some(std::size_t& budget) noexcept {
  while (!old_hashes_.empty()) {
    hash_value& last = *old_hashes_.back();
    if (!free_some_of(last, budget)) return true;
    bytes_ -= last.bytes();
    old_hashes_.pop_back();
  }
  while (!old_chunks_.empty()) {
    const chunk& last = old_chunks_.back();
    for (; old_place_ != chunk_objects; ++old_place_) {
      object& o = last[old_place_];
      if (o.fields == nullptr && o.blob == nullptr) continue;
      if (budget == 0) return true;
      --budget;
      if (o.fields != nullptr && !free_some_of(*o.fields, budget)) return true;
      bytes_ -= bytes_of(o);
      o = {};
    }
    old_chunks_.pop_back();
    old_place_ = 0;
  }
  return false;
}

}  // namespace kv

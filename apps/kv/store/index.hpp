// The index of a shard: maps a hash to positions of items. Linear hashing: it grows by one bucket
// at a time.
#pragma once

#include "key.hpp"
#include "layout.hpp"
#include "segments.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv {

// Readers that may still read an abandoned index.
enum class read_by : std::uint8_t { nobody, peers };

class item_index {
 public:
  // Throws cordma::error: no_memory.
  item_index(segment_set& segments, std::uint64_t hash_seed);

  [[nodiscard]] std::uint64_t hash(std::string_view key) const noexcept {
    return hash_key(key, seed_).hash;
  }
  // Returns the key's slot, or null if there is none.
  [[nodiscard]] std::uint64_t* find(const hashed_key& k) const noexcept;
  // Returns the slot of the item at `where`; `hash` is that of its key. Null if there is none: the
  // item is dead.
  [[nodiscard]] std::uint64_t* find(std::uint64_t hash, place where) const noexcept;
  // Returns an empty slot for a new key. Null: there is no memory for another bucket.
  [[nodiscard]] std::uint64_t* make_slot(const hashed_key& k);
  static void publish(std::uint64_t& slot, std::uint64_t value) noexcept {
    __atomic_store_n(&slot, value, __ATOMIC_RELEASE);
  }
  // Splits buckets if there are too few for `items` items. Returns the number of buckets split.
  unsigned grow(std::size_t items);

  void prefetch(std::uint64_t hash) const noexcept { __builtin_prefetch(&first_of(hash)); }
  // Prefetches the items that may belong to the key.
  void prefetch_items(const hashed_key& k) const noexcept;

  [[nodiscard]] std::uint64_t buckets() const noexcept { return buckets_; }
  // Number of low bits of the hash that all keys of that bucket have in common.
  [[nodiscard]] unsigned depth(std::uint64_t number) const noexcept {
    return bucket::depth(primary(number).head);
  }
  // Calls `each` for every non-empty slot of a bucket.
  template <class Each>
  void each_of(std::uint64_t number, Each each) const noexcept {
    for (bucket* b = &primary(number); b != nullptr; b = after(*b)) {
      for (std::uint64_t& s : b->slots) {
        if (s != 0) each(s);
      }
    }
  }
  // Empties the index. If `peers` may read the old one, they find nothing in it afterwards.
  void clear(read_by whom);
  // Size of its segments.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return (directory_.size() + overflow_.size()) * segment_bytes;
  }
  // Upper bound for the memory of `items` items, at least the current use: it grows evenly, not by
  // complete segments.
  [[nodiscard]] std::size_t bytes_for(std::size_t items) const noexcept {
    constexpr std::size_t bytes_per_key = 20;  // a fifth of a bucket, plus overflow buckets
    const std::size_t overflowing =
        overflow_.empty() ? 0 : (overflow_.size() - 1) * buckets_per_segment + next_overflow_;
    const std::size_t used = (buckets_ + overflowing) * sizeof(bucket);
    return std::max(used, items * bytes_per_key) + 2 * segment_bytes;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& directory() const noexcept { return directory_; }

 private:
  // Number of buckets at first, and the maximum average of keys per bucket before the next one is
  // split.
  static constexpr std::uint64_t first_buckets = 64;
  static constexpr std::uint64_t keys_per_bucket = 5;

  [[nodiscard]] bucket& primary(std::uint64_t number) const noexcept {
    return bases_[number / buckets_per_segment][number % buckets_per_segment];
  }
  [[nodiscard]] bucket& first_of(std::uint64_t hash) const noexcept {
    const std::uint64_t b = hash & mask_;
    return primary(b < buckets_ ? b : b & mask_ >> 1);
  }
  [[nodiscard]] bucket* by_reference(std::uint32_t r) const noexcept {
    bucket* const base =
        reinterpret_cast<bucket*>(segments_[r / buckets_per_segment].base);  // NOLINT
    return base + r % buckets_per_segment;
  }
  [[nodiscard]] bucket* after(const bucket& b) const noexcept {
    const std::uint32_t next = bucket::next(b.head);
    return next == 0 ? nullptr : by_reference(next);
  }
  [[nodiscard]] bool add_segment(std::vector<std::uint32_t>& to);
  [[nodiscard]] std::uint32_t take_overflow();
  void give_back_overflow(std::uint32_t reference) noexcept;
  [[nodiscard]] std::uint64_t* empty_in(bucket& first);
  [[nodiscard]] bool split_next();
  void prefetch_next_split() const noexcept;
  void settle(bucket& first) noexcept;
  [[nodiscard]] std::uint64_t hash_of(std::uint64_t slot) const noexcept;

  segment_set& segments_;
  std::uint64_t seed_;
  std::uint64_t buckets_ = 0;
  std::uint64_t mask_ = 0;                // twice the buckets of the current level, less one
  std::vector<std::uint32_t> directory_;  // segments of buckets 0 to 16383, and so on
  std::vector<bucket*> bases_;            // the base addresses of these segments
  std::vector<std::uint32_t> overflow_;   // segments of overflow buckets
  std::uint32_t next_overflow_ = 0;       // next unused one in the last segment
  std::uint32_t free_overflow_ = 0;       // list linked by the heads; 0: empty
};

}  // namespace kv

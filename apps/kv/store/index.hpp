// The index of a shard: from a hash to the places of items. Linear hashing: it grows by one bucket at a time.
#pragma once

#include "key.hpp"
#include "layout.hpp"
#include "segments.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv {

// Who may still look at an index that is given up.
enum class read_by : std::uint8_t { nobody, peers };

class item_index {
 public:
  // Throws cordma::error: no_memory.
  item_index(segment_set& segments, std::uint64_t hash_seed);

  [[nodiscard]] std::uint64_t hash(std::string_view key) const noexcept {
    return hash_key(key, seed_).hash;
  }
  // Where the key's slot is; null: nowhere.
  [[nodiscard]] std::uint64_t* find(const hashed_key& k) const noexcept;
  // The slot that holds `where`, for a key with that hash. Null: none does, so the item is dead.
  [[nodiscard]] std::uint64_t* find(std::uint64_t hash, place where) const noexcept;
  // An empty slot for a new key. Null: there is no memory for another bucket.
  [[nodiscard]] std::uint64_t* make_slot(const hashed_key& k);
  static void publish(std::uint64_t& slot, std::uint64_t value) noexcept {
    __atomic_store_n(&slot, value, __ATOMIC_RELEASE);
  }
  // Splits a bucket where `items` are many for the buckets there are. Returns how many it split.
  unsigned grow(std::size_t items);

  void prefetch(std::uint64_t hash) const noexcept { __builtin_prefetch(&first_of(hash)); }
  // The items that the key may be.
  void prefetch_items(const hashed_key& k) const noexcept;

  [[nodiscard]] std::uint64_t buckets() const noexcept { return buckets_; }
  // Of the hash's bits, how many say that a key belongs to that bucket.
  [[nodiscard]] unsigned depth(std::uint64_t number) const noexcept {
    return bucket::depth(primary(number).head);
  }
  // Every slot of a bucket that is not empty.
  template <class Each>
  void each_of(std::uint64_t number, Each each) const noexcept {
    for (bucket* b = &primary(number); b != nullptr; b = after(*b)) {
      for (std::uint64_t& s : b->slots) {
        if (s != 0) each(s);
      }
    }
  }
  // Empty again. In what it gives up `peers` find nothing any more.
  void clear(read_by whom);
  // Of segments.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return (directory_.size() + overflow_.size()) * segment_bytes;
  }
  // At least that for so many items, though there were as many before: it grows evenly, not by whole segments.
  [[nodiscard]] std::size_t bytes_for(std::size_t items) const noexcept {
    constexpr std::size_t bytes_per_key = 20;  // a fifth of a bucket, and of those it goes on with
    const std::size_t overflowing =
        overflow_.empty() ? 0 : (overflow_.size() - 1) * buckets_per_segment + next_overflow_;
    const std::size_t used = (buckets_ + overflowing) * sizeof(bucket);
    return std::max(used, items * bytes_per_key) + 2 * segment_bytes;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& directory() const noexcept { return directory_; }

 private:
  // At first, and the most keys per bucket on average before the next one is split.
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
  std::uint64_t mask_ = 0;                // twice the buckets of the level, less one
  std::vector<std::uint32_t> directory_;  // segments of buckets 0 to 16383, and so on
  std::vector<bucket*> bases_;            // likewise
  std::vector<std::uint32_t> overflow_;   // segments of buckets that go on with others
  std::uint32_t next_overflow_ = 0;       // in the last of them
  std::uint32_t free_overflow_ = 0;       // a list by their heads; 0: none
};

}  // namespace kv

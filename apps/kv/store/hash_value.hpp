// The value of a hash: fields and their values.
#pragma once

#include "block_heap.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace kv {

// A small hash is one block of memory with the fields in insertion order. A larger one is a table
// of chains that grows and shrinks by a few buckets with each change. Not thread-safe.
class hash_value {
 public:
  // As Redis's hash-max-listpack-entries and -value (the latter for field and value each): up to
  // these limits a hash is one block.
  static constexpr std::size_t most_small_fields = 128;
  static constexpr std::size_t most_small_bytes = 64;

  struct entry {
    std::string_view field;
    std::string_view value;
  };

  // With the same seed, a field is always in the same position. A client that does not know the
  // seed cannot make chains long. Its block, and fields of up to block_heap::longest bytes, are
  // allocated from the heap, which must outlive it. Without a heap (null) they are allocated by
  // malloc().
  explicit hash_value(std::uint64_t seed, block_heap* heap = nullptr) noexcept
      : seed_(seed), heap_(heap) {}
  // Throws std::bad_alloc, as does the assignment.
  hash_value(const hash_value& other);
  hash_value(hash_value&& other) noexcept : seed_(other.seed_), heap_(other.heap_) { swap(other); }
  hash_value& operator=(hash_value other) noexcept {
    swap(other);
    return *this;
  }
  ~hash_value();
  void swap(hash_value& other) noexcept;

  // Returns true if the field is new. Neither view may point into this hash. Throws std::bad_alloc,
  // with nothing changed.
  bool put(std::string_view field, std::string_view value);
  bool erase(std::string_view field) noexcept;
  // The view is valid until the next change.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view field) const noexcept;
  [[nodiscard]] bool contains(std::string_view field) const noexcept {
    return find(field).has_value();
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // True if it is one block of memory. A hash that was large once remains a table.
  [[nodiscard]] bool is_small() const noexcept { return is_block(); }
  // bytes(): the memory that it takes, including the allocator's overhead. bytes_of(): estimate for
  // a field to be added.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return bytes_ + block_heap::room_of(sizeof(hash_value));
  }
  [[nodiscard]] static std::size_t bytes_of(std::string_view field,
                                            std::string_view value) noexcept;

  // Calls `each(entry)` once for every field. `each` must not change the hash.
  template <class Each>
  void for_each(Each each) const {
    for (cursor at = first(); at; at = next(at)) each(at.now);
  }
  // Visits fields from `from` (0: the beginning) on until `each(entry)` was called at least
  // `wanted` times or for all. Returns the next position, or 0 at the end. Fields that exist from
  // the first call to the last are visited even if others are added or erased meanwhile; some may
  // be visited twice. A small hash is visited completely.
  template <class Each>
  std::uint64_t scan(std::uint64_t from, std::size_t wanted, Each each) const {
    std::size_t given = 0;
    std::size_t looks = wanted > SIZE_MAX / looks_for_one ? SIZE_MAX : wanted * looks_for_one;
    do {
      bucket_pair at = buckets_at(from);
      for (cursor c = first_of(at); c; c = next_of(at, c)) {
        each(c.now);
        ++given;
      }
      from = at.next;
    } while (from != 0 && given < wanted && --looks != 0);
    return from;
  }
  // Returns a random field, or nothing; `random` is any number. All fields are equally likely. At
  // least half of the calls return a field. REQUIRES that it is not empty.
  [[nodiscard]] std::optional<entry> at_random(std::uint64_t random) const noexcept;
  // Frees up to `budget` fields. Returns true when none is left: destroying or using it takes long
  // before that.
  bool clear_some(std::size_t& budget) noexcept;
  // Moves its block, or fields from bucket `place` on, if the heap has a better position; each
  // bucket reduces `budget`. Returns true, with `place` 0, when all were examined.
  bool settle(std::size_t& place, std::size_t& budget) noexcept;

 private:
  struct node;
  struct table {
    node** buckets = nullptr;
    std::size_t mask = 0;  // the number of buckets is a power of two
    [[nodiscard]] std::size_t count() const noexcept { return buckets == nullptr ? 0 : mask + 1; }
  };
  struct cursor {
    // position of the next entry in the block, or index of the bucket across both tables
    std::size_t place = 0;
    node* at = nullptr;
    entry now;
    bool good = false;
    explicit operator bool() const noexcept { return good; }
  };
  // Buckets of one step of a scan: one of the smaller table, and the corresponding ones of the
  // larger table.
  struct bucket_pair {
    std::uint64_t from = 0;
    std::uint64_t next = 0;
    std::uint64_t in_larger = 0;
    const table* smaller = nullptr;  // null: a block
    const table* larger = nullptr;   // null: there is one table
  };
  static constexpr std::size_t looks_for_one = 10;  // buckets examined per wanted field
  static constexpr std::size_t least_buckets = 4;
  static constexpr std::size_t fields_to_shrink = 8;  // a table with more buckets per field shrinks
  static constexpr std::size_t moved_at_a_time = 4;   // buckets
  static constexpr std::size_t deepest = 8;           // longer chains practically never occur

  [[nodiscard]] static bool fits_block(std::string_view field, std::string_view value) noexcept {
    return field.size() <= most_small_bytes && value.size() <= most_small_bytes;
  }
  [[nodiscard]] std::uint64_t hash_of(std::string_view field) const noexcept;
  [[nodiscard]] bool is_block() const noexcept { return tables_[0].buckets == nullptr; }
  // The block.
  [[nodiscard]] std::optional<std::size_t> find_in_block(std::string_view field) const noexcept;
  [[nodiscard]] entry entry_at(std::size_t place) const noexcept;
  void resize_block(std::size_t used);
  [[nodiscard]] bool move_block(std::size_t room) noexcept;
  void free_block() noexcept;
  void put_in_block(std::string_view field, std::string_view value,
                    std::optional<std::size_t> known);
  void erase_in_block(std::size_t place) noexcept;
  void to_table();
  // The tables. A node is allocated for its texts and its header.
  [[nodiscard]] bool is_in_heap(std::size_t bytes) const noexcept {
    return heap_ != nullptr && block_heap::room_of(bytes) <= block_heap::longest;
  }
  [[nodiscard]] node* take_node(std::size_t bytes) noexcept;
  void free_node(node* n) noexcept;
  [[nodiscard]] std::size_t cost_of(node* n) const noexcept;
  void change_value(node*& link, std::string_view value);
  [[nodiscard]] node** link_of(std::string_view field, std::uint64_t hash) const noexcept;
  [[nodiscard]] bool moving() const noexcept { return tables_[1].buckets != nullptr; }
  void move_some(std::size_t buckets) noexcept;
  void begin_move(std::size_t buckets) noexcept;
  void fit() noexcept;
  void end_move() noexcept;
  // Walking.
  [[nodiscard]] cursor first() const noexcept;
  [[nodiscard]] cursor next(cursor at) const noexcept;
  [[nodiscard]] cursor first_from(std::size_t place) const noexcept;
  [[nodiscard]] bucket_pair buckets_at(std::uint64_t from) const noexcept;
  [[nodiscard]] cursor first_of(bucket_pair& at) const noexcept;
  [[nodiscard]] cursor next_of(bucket_pair& at, cursor c) const noexcept;
  [[nodiscard]] cursor first_in_larger(bucket_pair& at) const noexcept;

  std::uint64_t seed_;
  block_heap* heap_;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
  // A block: for each field {length u8, length of the value u8, field, value}.
  char* block_ = nullptr;
  std::uint32_t block_used_ = 0;
  std::uint32_t block_room_ = 0;
  std::array<table, 2> tables_{};  // the second one exists while fields move to it
  std::size_t moved_ = 0;          // buckets of the first one that were moved
};

}  // namespace kv

// Values outside the segments: hashes, and strings too long for a segment. Each has a number that
// its item stores.
#pragma once

#include "block_heap.hpp"
#include "hash_value.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

// When the memory of released objects is freed.
enum class freeing : std::uint8_t {
  at_once,
  later,  // in steps, by free_some(); until then it counts as used
};

class object_pool {
 public:
  using number = std::uint64_t;

  object_pool() = default;
  ~object_pool() { clear(freeing::at_once); }
  object_pool(const object_pool&) = delete;
  object_pool& operator=(const object_pool&) = delete;

  // Throws std::bad_alloc, as does make_blob().
  [[nodiscard]] number make_hash(std::uint64_t seed);
  // Allocates a string of this size; the caller fills it.
  [[nodiscard]] std::pair<number, char*> make_blob(std::size_t bytes);
  [[nodiscard]] hash_value& hash(number n) noexcept { return *at(n).fields; }
  [[nodiscard]] std::string_view blob(number n) const noexcept {
    return {at(n).blob.get(), at(n).blob_bytes};
  }
  // Reports that the size of a hash has changed.
  void resized(std::size_t before, std::size_t after) noexcept { bytes_ = bytes_ - before + after; }
  void release(number n, freeing when) noexcept;
  void clear(freeing when) noexcept;
  // Frees up to `budget` fields, objects and pages of released objects and reduces `budget`; then
  // moves objects out of sparse slabs. Returns true if there is more to do.
  bool free_some(std::size_t& budget) noexcept;
  // Size of the slabs.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return heap_.held_bytes(); }
  // Objects count by their chunks, except two chunks: otherwise a single object would cost a
  // complete chunk.
  [[nodiscard]] std::size_t bytes() const noexcept {
    constexpr std::size_t free_of_charge = 2;
    const std::size_t held = held_chunks_ - std::min(held_chunks_, free_of_charge);
    return bytes_ + std::max(live_ * sizeof(object), held * chunk_bytes);
  }

 private:
  static constexpr number none = UINT64_MAX;
  static constexpr std::size_t chunk_objects = 4096;
  struct object {
    hash_value* fields = nullptr;  // owned by the pool, allocated from heap_
    std::unique_ptr<char[]> blob;
    std::size_t blob_bytes = 0;
    number next_free = none;
  };
  struct chunk {
    std::unique_ptr<object[]> places;  // null: the chunk has no objects
    number first_free = none;
    std::size_t used = 0;
    std::size_t touched = 0;  // entries ever used: those behind them are free too
  };

  [[nodiscard]] object& at(number n) const noexcept {
    return chunks_[n / chunk_objects].places[n % chunk_objects];
  }
  // Without its entry, which counts with its chunk.
  [[nodiscard]] static std::size_t bytes_of(const object& o) noexcept {
    return o.fields != nullptr ? o.fields->bytes() : o.blob_bytes;
  }
  static constexpr std::size_t chunk_bytes = chunk_objects * sizeof(object);
  [[nodiscard]] number take_place();
  void give_place(number n) noexcept;
  void mind_empty(std::size_t index) noexcept;
  void drop_chunk(std::size_t index) noexcept;
  [[nodiscard]] bool keep_for_later() noexcept;
  [[nodiscard]] bool keep_for_later(object& o) noexcept;
  void free_fields(hash_value* fields) noexcept;
  bool free_old(std::size_t& budget) noexcept;
  bool settle_some(std::size_t& budget) noexcept;
  bool free_some_of(hash_value& fields, std::size_t& budget) noexcept;
  bool free_some_of(std::unique_ptr<char[]>& blob, std::size_t& left, std::size_t& budget) noexcept;

  block_heap heap_;
  bool settling_ = false;  // a pass over all objects is in progress
  number next_to_settle_ = 0;
  std::size_t settled_ = 0;  // buckets of that object
  std::vector<chunk> chunks_;
  std::size_t open_ = 0;  // the first chunk that may have a free entry
  std::size_t live_ = 0;  // objects in all chunks
  number empty_ = none;   // a chunk without objects when last examined; kept for the next ones
  std::size_t held_chunks_ = 0;  // including released ones
  std::size_t bytes_ = 0;        // without the entries
  // Released, and not freed yet.
  struct old_blob {
    std::unique_ptr<char[]> bytes;
    std::size_t left = 0;  // bytes that still have memory
  };
  std::vector<hash_value*> old_hashes_;
  std::vector<old_blob> old_blobs_;
  std::vector<chunk> old_chunks_;
  std::size_t old_place_ = 0;  // in the last of them: all entries before it are free
};

}  // namespace kv

// What does not lie in segments: hashes, and strings too long for one. Numbered; an item holds the number.
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

// When the memory of what is given up goes back.
enum class freeing : std::uint8_t {
  at_once,
  later,  // bit by bit, by free_some(); until then it counts
};

class object_pool {
 public:
  using number = std::uint64_t;

  object_pool() = default;
  ~object_pool() { clear(freeing::at_once); }
  object_pool(const object_pool&) = delete;
  object_pool& operator=(const object_pool&) = delete;

  // Throws std::bad_alloc, as the next one does.
  [[nodiscard]] number make_hash(std::uint64_t seed);
  // Room for a string of so many bytes, to be filled.
  [[nodiscard]] std::pair<number, char*> make_blob(std::size_t bytes);
  [[nodiscard]] hash_value& hash(number n) noexcept { return *at(n).fields; }
  [[nodiscard]] std::string_view blob(number n) const noexcept {
    return {at(n).blob.get(), at(n).blob_bytes};
  }
  // A hash is now larger or smaller than it was.
  void resized(std::size_t before, std::size_t after) noexcept { bytes_ = bytes_ - before + after; }
  void release(number n, freeing when) noexcept;
  void clear(freeing when) noexcept;
  // Frees so many fields, objects and pages of what was given up, and takes that off `budget`; then moves what lies in
  // slabs that are almost empty. True: there is more.
  bool free_some(std::size_t& budget) noexcept;
  // Of slabs.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return heap_.held_bytes(); }
  // Places of objects count by the chunks that are held, but for two: so that one object costs no whole chunk.
  [[nodiscard]] std::size_t bytes() const noexcept {
    constexpr std::size_t free_of_charge = 2;
    const std::size_t held = held_chunks_ - std::min(held_chunks_, free_of_charge);
    return bytes_ + std::max(live_ * sizeof(object), held * chunk_bytes);
  }

 private:
  static constexpr number none = UINT64_MAX;
  static constexpr std::size_t chunk_objects = 4096;
  struct object {
    hash_value* fields = nullptr;  // the pool's, in heap_
    std::unique_ptr<char[]> blob;
    std::size_t blob_bytes = 0;
    number next_free = none;
  };
  struct chunk {
    std::unique_ptr<object[]> places;  // null: no object is there
    number first_free = none;
    std::size_t used = 0;
    std::size_t touched = 0;  // places that were taken once: those behind are free too
  };

  [[nodiscard]] object& at(number n) const noexcept {
    return chunks_[n / chunk_objects].places[n % chunk_objects];
  }
  // Beside its place, which counts with its chunk.
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
  bool settling_ = false;  // a pass over all objects is under way
  number next_to_settle_ = 0;
  std::size_t settled_ = 0;  // buckets of that one
  std::vector<chunk> chunks_;
  std::size_t open_ = 0;  // the first that may have a free place
  std::size_t live_ = 0;  // objects in all of them
  number empty_ =
      none;  // one that had no object when that was looked at last, and is kept for the next
  std::size_t held_chunks_ = 0;  // with those that were given up
  std::size_t bytes_ = 0;        // without places
  // Given up, and not freed yet.
  struct old_blob {
    std::unique_ptr<char[]> bytes;
    std::size_t left = 0;  // of them, those that still have memory
  };
  std::vector<hash_value*> old_hashes_;
  std::vector<old_blob> old_blobs_;
  std::vector<chunk> old_chunks_;
  std::size_t old_place_ = 0;  // in the last of them: all before is free
};

}  // namespace kv

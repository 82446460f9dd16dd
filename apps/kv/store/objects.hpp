// What does not lie in segments: hashes, and strings too long for one. Numbered; an item holds the number.
#pragma once

#include "hash_value.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

class object_pool {
 public:
  using number = std::uint64_t;

  // Throws std::bad_alloc, as the next one does.
  [[nodiscard]] number make_hash() {
    auto made = std::make_unique<hash_value>();
    const number n = free_place();
    objects_[n].fields = std::move(made);
    bytes_ += objects_[n].fields->bytes();
    return n;
  }
  // Room for a string of so many bytes, to be filled.
  [[nodiscard]] std::pair<number, char*> make_blob(std::size_t bytes) {
    auto made = std::make_unique_for_overwrite<char[]>(bytes);
    const number n = free_place();
    objects_[n].blob = std::move(made);
    objects_[n].blob_bytes = bytes;
    bytes_ += bytes;
    return {n, objects_[n].blob.get()};
  }
  [[nodiscard]] hash_value& hash(number n) noexcept { return *objects_[n].fields; }
  [[nodiscard]] std::string_view blob(number n) const noexcept {
    return {objects_[n].blob.get(), objects_[n].blob_bytes};
  }
  // A hash is now larger or smaller than it was.
  void resized(std::size_t before, std::size_t after) noexcept { bytes_ = bytes_ - before + after; }
  void release(number n) noexcept {
    object& o = objects_[n];
    bytes_ -= o.fields != nullptr ? o.fields->bytes() : o.blob_bytes;
    o = {};
    o.next_free = first_free_;
    first_free_ = n;
  }
  void clear() noexcept {
    objects_.clear();
    first_free_ = none;
    bytes_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr number none = UINT64_MAX;
  struct object {
    std::unique_ptr<hash_value> fields;
    std::unique_ptr<char[]> blob;
    std::size_t blob_bytes = 0;
    number next_free = none;
  };
  number free_place() {
    if (first_free_ == none) {
      objects_.emplace_back();
      return objects_.size() - 1;
    }
    const number n = first_free_;
    first_free_ = objects_[n].next_free;
    return n;
  }
  std::vector<object> objects_;
  number first_free_ = none;
  std::size_t bytes_ = 0;
};

}  // namespace kv

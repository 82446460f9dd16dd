// The value of a hash: fields and their values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kv {

class hash_value {
 public:
  struct hasher {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  using map = std::unordered_map<std::string, std::string, hasher, std::equal_to<>>;

  // Whether the field is new. Throws std::bad_alloc.
  bool put(std::string_view field, std::string_view value) {
    const auto at = fields_.find(field);
    if (at != fields_.end()) {
      bytes_ = bytes_ - at->second.size() + value.size();
      at->second.assign(value);
      return false;
    }
    fields_.emplace(field, value);
    bytes_ += bytes_of(field, value);
    return true;
  }
  bool erase(std::string_view field) noexcept {
    const auto at = fields_.find(field);
    if (at == fields_.end()) return false;
    bytes_ -= bytes_of(at->first, at->second);
    fields_.erase(at);
    shrink();
    return true;
  }
  // Null: there is none.
  [[nodiscard]] const std::string* find(std::string_view field) const noexcept {
    const auto at = fields_.find(field);
    return at == fields_.end() ? nullptr : &at->second;
  }
  // Never has more than most_buckets_per_field buckets for each, but for a few: any of them is soon found by chance.
  [[nodiscard]] const map& fields() const noexcept { return fields_; }
  // About what it takes; and what a field does.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] static std::size_t bytes_of(std::string_view field,
                                            std::string_view value) noexcept {
    return field.size() + value.size() + overhead;
  }

  static constexpr std::size_t most_buckets_per_field = 8;
  static constexpr std::size_t few_buckets = 64;

 private:
  void shrink() noexcept {
    const std::size_t most = std::max(few_buckets, fields_.size() * most_buckets_per_field);
    if (fields_.bucket_count() <= most) return;
    try {
      fields_.rehash(2 * fields_.size());
    } catch (const std::bad_alloc&) {  // it stays as large as it is
    }
  }
  static constexpr std::size_t overhead = sizeof(map::value_type) + 4 * sizeof(void*);
  map fields_;
  std::size_t bytes_ = sizeof(map);
};

}  // namespace kv

// The value of a hash: fields and their values.
#pragma once

#include <cstddef>
#include <functional>
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
    bytes_ += field.size() + value.size() + overhead;
    return true;
  }
  bool erase(std::string_view field) noexcept {
    const auto at = fields_.find(field);
    if (at == fields_.end()) return false;
    bytes_ -= at->first.size() + at->second.size() + overhead;
    fields_.erase(at);
    return true;
  }
  // Null: there is none.
  [[nodiscard]] const std::string* find(std::string_view field) const noexcept {
    const auto at = fields_.find(field);
    return at == fields_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] const map& fields() const noexcept { return fields_; }
  // About what it takes.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t overhead = sizeof(map::value_type) + 4 * sizeof(void*);
  map fields_;
  std::size_t bytes_ = sizeof(map);
};

}  // namespace kv

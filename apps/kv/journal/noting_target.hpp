// Passes the changes of a file on, and stores what its last record states about the file.
#pragma once

#include "record.hpp"

#include <optional>

namespace kv {

class noting_target final : public change_target {
 public:
  explicit noting_target(change_target& into) noexcept : into_(into) {}
  void put(std::string_view key, std::string_view value, unix_ms expiry,
           std::uint64_t version) noexcept override {
    into_.put(key, value, expiry, version);
  }
  void erased(std::string_view key) noexcept override { into_.erased(key); }
  void expiry_set(std::string_view key, unix_ms expiry) noexcept override {
    into_.expiry_set(key, expiry);
  }
  void field_put(std::string_view key, std::string_view field,
                 std::string_view value) noexcept override {
    into_.field_put(key, field, value);
  }
  void field_erased(std::string_view key, std::string_view field) noexcept override {
    into_.field_erased(key, field);
  }
  void cleared_part(const hash_part& part) noexcept override { into_.cleared_part(part); }
  void ended(std::uint64_t records) noexcept override { end_ = records; }
  [[nodiscard]] std::string_view obstacle() const noexcept override { return into_.obstacle(); }
  // The number of records before the last one, as the last record of a base or a snapshot states
  // it.
  [[nodiscard]] std::optional<std::uint64_t> end() const noexcept { return end_; }

 private:
  change_target& into_;
  std::optional<std::uint64_t> end_;
};

}  // namespace kv

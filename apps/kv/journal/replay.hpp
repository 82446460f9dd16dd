// Applies the changes of a file to a keyspace with any number of shards.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "record.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv {

// For the start of a server: the keyspace has no other user, and its changes are not reported. The
// keyspace's time stands still during the replay, so that an expired key still exists for later
// changes in the file, such as a PERSIST.
class replay final : public change_target {
 public:
  explicit replay(keyspace& into) noexcept : into_(into) {}

  void put(std::string_view key, std::string_view value, unix_ms expiry,
           std::uint64_t version) noexcept override;
  void erased(std::string_view key) noexcept override;
  void expiry_set(std::string_view key, unix_ms expiry) noexcept override;
  void field_put(std::string_view key, std::string_view field,
                 std::string_view value) noexcept override;
  void field_erased(std::string_view key, std::string_view field) noexcept override;
  void cleared_part(const hash_part& part) noexcept override;
  void ended(std::uint64_t) noexcept override {}
  [[nodiscard]] std::string_view obstacle() const noexcept override { return obstacle_; }

  // Ends the replay: sets the time to `now` and erases the expired keys. Returns their number.
  std::uint64_t finish(unix_ms now) noexcept;
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }

 private:
  // Applies pending clears, then returns the key.
  [[nodiscard]] hashed_key next(std::string_view key) noexcept;
  void clear_parts() noexcept;
  void erase_part(const hash_part& part) noexcept;
  void check(put_outcome outcome) noexcept;

  keyspace& into_;
  std::uint64_t changes_ = 0;
  // Parts cleared directly one after the other: together they may cover all keys.
  hash_part parts_;
  std::uint64_t cleared_ = 0;  // bit i: shard i
  std::string_view obstacle_;
};

}  // namespace kv

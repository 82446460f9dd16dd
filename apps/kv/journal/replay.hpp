// What a file says, carried out on a keyspace, whatever its shards.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "record.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv {

// For the start of a server: nobody else uses the keyspace, and nobody is told of its changes. While it goes on no
// time passes there, so that what has expired since is still there for what comes later in the file, a PERSIST say.
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

  // That is all: it is `now`, and what has expired goes. Returns how many keys that were.
  std::uint64_t finish(unix_ms now) noexcept;
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }

 private:
  // The key, after what was cleared before is.
  [[nodiscard]] hashed_key next(std::string_view key) noexcept;
  void clear_parts() noexcept;
  void erase_part(const hash_part& part) noexcept;
  void check(put_outcome outcome) noexcept;

  keyspace& into_;
  std::uint64_t changes_ = 0;
  // Parts that were cleared directly one after the other: all of them are all there is.
  hash_part parts_;
  std::uint64_t cleared_ = 0;  // bit i: shard i
  std::string_view obstacle_;
};

}  // namespace kv

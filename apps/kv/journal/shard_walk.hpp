// Walks through all keys of a keyspace in short steps, and encodes each as changes that recreate
// it.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "record.hpp"

#include <cordma/runtime/clock.hpp>

#include <functional>

namespace kv {

// A key that changes during the walk is encoded in its state at the time the walk reads it. A key
// that exists throughout is encoded at least once.
class shard_walk {
 public:
  // Locks that the caller of step() holds: none, or all.
  enum class caller : std::uint8_t { holds_nothing, holds_all };
  // `emit` is called while the shard is held; the changes must be recorded in the shard's order.
  shard_walk(keyspace& keys, caller who, std::function<void(change_encoder&)> emit);
  shard_walk(const shard_walk&) = delete;
  shard_walk& operator=(const shard_walk&) = delete;

  // Walks for about step_time or step_bytes; exceeds them only for a longer value. REQUIRES
  // !done().
  void step();
  [[nodiscard]] bool done() const noexcept { return shard_ == keys_.shards(); }

 private:
  static constexpr std::chrono::microseconds step_time{200};
  static constexpr std::size_t step_bytes = std::size_t{256} << 10;
  void give(const found& f);
  void give_hash(const found& f);
  void emit();

  keyspace& keys_;
  const caller who_;
  std::function<void(change_encoder&)> emit_;
  const std::function<void(const found&)> each_;
  change_encoder text_;
  std::uint32_t shard_ = 0;
  std::uint32_t cursor_ = 0;
};

}  // namespace kv

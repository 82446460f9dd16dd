// Through all keys of a keyspace in short steps, each as changes that lead to what it holds.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "record.hpp"

#include <cordma/runtime/clock.hpp>

#include <functional>

namespace kv {

// A key that is changed meanwhile is given as it is when the walk comes by; one that is
// there all the time is given at least once.
class shard_walk {
 public:
  // Whether the caller of step() holds everything, or nothing.
  enum class caller : std::uint8_t { holds_nothing, holds_all };
  // `emit`: called while the shard is held, with changes to be noted in the order of its own.
  shard_walk(keyspace& keys, caller who, std::function<void(change_encoder&)> emit);
  shard_walk(const shard_walk&) = delete;
  shard_walk& operator=(const shard_walk&) = delete;

  // For about step_time, or step_bytes; longer only where one value is. REQUIRES !done().
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

// keyspace: the shards of a server, one per worker, and their locks.
#pragma once

#include "../store/store.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace kv {

// Receives the beginning and the end of each hold: all changes of the shards in between belong
// together.
class group_listener {
 public:
  virtual ~group_listener() = default;
  // Called by the thread that holds these shards (bit i: shard i), directly after locking and
  // directly before unlocking.
  virtual void begin_group(std::uint64_t shards) noexcept = 0;
  virtual void end_group(std::uint64_t shards) noexcept = 0;
};

// Each shard belongs to one worker thread, but any thread may use any shard. A `hold` gives
// exclusive use for one command or transaction; a thread must not wait for anything while it has
// one. With one shard nothing is locked, and only one thread may hold it. Clients that choose their
// worker by shard_of() cause no contention.
class keyspace {
 public:
  static constexpr std::uint32_t most_shards = 64;

  // Creates `memory.size()` shards. Throws cordma::error: no_memory, invalid_value (no shard, or
  // above most_shards).
  keyspace(std::vector<std::unique_ptr<memory_source>> memory, const store_options& options);
  keyspace(const keyspace&) = delete;
  keyspace& operator=(const keyspace&) = delete;

  [[nodiscard]] std::uint32_t shards() const noexcept {
    return static_cast<std::uint32_t>(shards_.size());
  }
  [[nodiscard]] std::uint64_t hash_seed() const noexcept { return seed_; }
  [[nodiscard]] hashed_key key(std::string_view text) const noexcept {
    return hash_key(text, seed_);
  }
  [[nodiscard]] std::uint32_t index_of(const hashed_key& k) const noexcept {
    return shard_of(k.hash, shards());
  }
  // REQUIRES that the caller holds the shard.
  [[nodiscard]] store& of(const hashed_key& k) noexcept { return shards_[index_of(k)]->keys; }
  [[nodiscard]] store& at(std::uint32_t index) noexcept { return shards_[index]->keys; }
  [[nodiscard]] memory_source& memory(std::uint32_t index) noexcept {
    return *shards_[index]->memory;
  }

  // Sum over all shards. REQUIRES that the caller holds all.
  [[nodiscard]] store_usage usage() const noexcept;
  // Number of keys of one database in all shards. REQUIRES that the caller holds all.
  [[nodiscard]] std::size_t size_of(unsigned database) const noexcept;
  // Like store::scan(), for all shards one after the other. REQUIRES that the caller holds all.
  std::uint64_t scan(std::uint64_t cursor, const std::function<void(const found&)>& each);

  // Count of clients that read the shards' memory one-sidedly. While it is not 0, released memory
  // is reused only after a delay. Any thread that holds nothing.
  void reader_came() noexcept;
  void reader_left() noexcept;

  // With one shard, where nothing is locked: makes the calling thread the only one that may hold
  // it. Call it while no shard is held.
  void held_here_alone() noexcept { holder_ = std::this_thread::get_id(); }

  // Call it while no shard is held. Null: no listener.
  void report_to(group_listener* listener) noexcept { listener_ = listener; }

  // Locks shards until it is destroyed. The shards are locked in a fixed order, so that two holds
  // never deadlock.
  class hold {
   public:
    // Bit i: shard i. REQUIRES the thread of held_here_alone(), if that was called.
    hold(keyspace& of, std::uint64_t shards) noexcept;
    ~hold();
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    keyspace& of_;
    std::uint64_t shards_;
  };
  [[nodiscard]] std::uint64_t mask_of(const hashed_key& k) const noexcept {
    return std::uint64_t{1} << index_of(k);
  }
  [[nodiscard]] std::uint64_t all() const noexcept {
    return shards() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << shards()) - 1;
  }

 private:
  struct shard {
    shard(std::unique_ptr<memory_source> m, const store_options& o)
        : memory(std::move(m)), keys(*memory, o) {}
    std::mutex guard;
    std::unique_ptr<memory_source> memory;
    store keys;
  };
  std::vector<std::unique_ptr<shard>> shards_;
  std::uint64_t seed_;
  group_listener* listener_ = nullptr;
  std::thread::id holder_;  // none: any thread
  std::mutex reading_guard_;
  std::size_t reading_ = 0;
};

}  // namespace kv

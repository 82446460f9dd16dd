// keyspace: the shards of a server, one per worker, and the right to use them.
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

// Who learns which changes of the shards belong together: all between the beginning and the end of a hold.
class group_listener {
 public:
  virtual ~group_listener() = default;
  // Called by whoever holds these shards (bit i: shard i), just when it has got them, and just before it lets go.
  virtual void begin_group(std::uint64_t shards) noexcept = 0;
  virtual void end_group(std::uint64_t shards) noexcept = 0;
};

// Shards are made for the threads that serve them, and yet any thread may use any: whoever holds() a shard has it
// alone, for the time of one command (or one transaction), and never while it waits for something. Where there is one
// shard nothing is locked, and one thread alone holds it. Clients that choose their worker by shard_of() meet nobody there.
class keyspace {
 public:
  static constexpr std::uint32_t most_shards = 64;

  // Makes `memory.size()` shards. Throws cordma::error: no_memory, invalid_value (none, or above most_shards).
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
  // REQUIRES that the caller holds it.
  [[nodiscard]] store& of(const hashed_key& k) noexcept { return shards_[index_of(k)]->keys; }
  [[nodiscard]] store& at(std::uint32_t index) noexcept { return shards_[index]->keys; }
  [[nodiscard]] memory_source& memory(std::uint32_t index) noexcept {
    return *shards_[index]->memory;
  }

  // Of all shards. REQUIRES that the caller holds all.
  [[nodiscard]] store_usage usage() const noexcept;
  // Keys of one database, in all shards. REQUIRES that the caller holds all.
  [[nodiscard]] std::size_t size_of(unsigned database) const noexcept;
  // As store::scan(), of all shards one after the other. REQUIRES that the caller holds all.
  std::uint64_t scan(std::uint64_t cursor, const std::function<void(const found&)>& each);

  // Clients that read the shards' memory by themselves: while there are some, it is used again only after a while.
  // Any thread, which holds nothing.
  void reader_came() noexcept;
  void reader_left() noexcept;

  // The calling thread is the only one that holds anything from now on, where there is one shard and so nothing is
  // locked. While nobody holds anything.
  void held_here_alone() noexcept { holder_ = std::this_thread::get_id(); }

  // While nobody holds anything. Null: nobody learns of it.
  void report_to(group_listener* listener) noexcept { listener_ = listener; }

  // Shards that are held until it is destroyed; taken in one order, so that two never wait for each other.
  class hold {
   public:
    // Bit i: shard i. REQUIRES the thread of held_here_alone(), where there is one.
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
  std::thread::id holder_;  // none: any
  std::mutex reading_guard_;
  std::size_t reading_ = 0;
};

}  // namespace kv

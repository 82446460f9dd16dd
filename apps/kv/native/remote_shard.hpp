// A shard as a client sees it: read from afar, without asking anybody.
#pragma once

#include "../store/item.hpp"
#include "../store/key.hpp"
#include "../store/layout.hpp"
#include "protocol.hpp"

#include <cordma/cordma.hpp>
#include <cordma/runtime/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kv::native {

// Why the server has to be asked after all; or that it need not.
enum class sight : std::uint8_t {
  seen,      // here it is
  absent,    // not where it should be; only the server knows for sure
  torn,      // every time it was looked at, it changed
  expiring,  // it expires about now, by a clock that is not ours
  longer,    // than is read one-sidedly, or no string
  unmapped,  // in memory that the map does not have yet
  late,      // it took so long that the memory may hold something else by now
  unsafe,    // it is not on the server's disk yet, and is to be
  silent,  // nothing has shown for a while that the server lives: its memory outlives it where it is shared
};

struct sighting {
  sight what = sight::absent;
  std::string_view value = {};  // in the landing memory
  std::uint64_t version = 0;
  std::uint64_t expiry = 0;
};

struct remote_shard_counters {
  std::uint64_t reads = 0;      // one-sided, of buckets, items and heads
  std::uint64_t torn = 0;       // items that were not whole, or dead: looked for again
  std::uint64_t refreshed = 0;  // heads
};

// Bytes that look() needs to land in: a bucket and the longest item that is read.
inline constexpr std::size_t landing_bytes = sizeof(bucket) + slot::longer * slot::unit;

// Bound to the thread of the endpoint. The longest time that look() trusts what it saw must be shorter than the
// server lets memory rest (store_options::quarantine_ms).
class remote_shard {
 public:
  remote_shard(cordma::Endpoint& via, cordma::reactor& loop) noexcept : via_(&via), loop_(&loop) {}

  // Further regions, in order.
  void add(const cordma::RemoteMemory& region) { regions_.push_back(region); }
  [[nodiscard]] std::size_t regions() const noexcept { return regions_.size(); }

  // The server has answered what was asked at that time.
  void lived_at(cordma::time_point when) noexcept { lived_at_ = std::max(lived_at_, when); }
  // Reads the head, which says where the index is. REQUIRES at least head_bytes of `landing`. Throws cordma::error:
  // what a read says, and unsupported_version where it is no shard's head.
  [[nodiscard]] cordma::task<void> refresh(cordma::Slice landing);
  // REQUIRES refresh() before, and landing_bytes of `landing`. Throws cordma::error: what a read says; the connection
  // is over then.
  [[nodiscard]] cordma::task<sighting> look(hashed_key key, cordma::Slice landing);
  [[nodiscard]] const remote_shard_counters& counters() const noexcept { return counters_; }

 private:
  // What looking at one bucket, and at those that go on with it, has led to.
  [[nodiscard]] cordma::task<sighting> search(hashed_key key, cordma::Slice landing);
  [[nodiscard]] cordma::task<sighting> examine(hashed_key key, std::uint64_t slot_value,
                                               cordma::Slice landing);
  [[nodiscard]] cordma::task<bool> still_lives(unix_ms expiry, cordma::Slice landing);
  // Whether something shows that the server lives, its clock perhaps, which is looked at.
  [[nodiscard]] cordma::task<bool> is_alive(cordma::Slice landing);
  [[nodiscard]] cordma::task<bool> is_safe(std::uint64_t version, cordma::Slice landing);
  [[nodiscard]] cordma::task<std::uint64_t> read_word(std::size_t offset, cordma::Slice landing);
  [[nodiscard]] bool was_split(std::uint64_t number, unsigned depth) noexcept;
  [[nodiscard]] bool find_bucket(std::uint64_t number, cordma::RemoteSlice& where) const noexcept;
  [[nodiscard]] bool find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes,
                          cordma::RemoteSlice& where) const noexcept;
  [[nodiscard]] unix_ms server_time() const noexcept;

  cordma::Endpoint* via_;
  cordma::reactor* loop_;
  std::vector<cordma::RemoteMemory> regions_;
  std::vector<std::uint32_t> index_;  // segments of the index, those the head tells
  std::uint64_t buckets_ = 0;
  std::uint64_t clock_ = 0;  // the server's, when the head was read
  cordma::time_point read_at_{};
  cordma::time_point lived_at_{};
  std::uint64_t safe_version_ = 0;
  unix_ms clock_seen_ = 0;
  cordma::time_point clock_seen_at_{};
  remote_shard_counters counters_;
};

}  // namespace kv::native

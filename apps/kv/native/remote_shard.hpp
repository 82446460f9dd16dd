// A shard as a client reads it, one-sidedly.
#pragma once

#include "look.hpp"

#include <cordma/cordma.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kv::native {

struct remote_shard_counters {
  std::uint64_t reads = 0;      // one-sided, of buckets, items and heads
  std::uint64_t torn = 0;       // incomplete or dead items: searched again
  std::uint64_t refreshed = 0;  // reads of the head
};

// Bound to the thread of the endpoint. The longest time that look trusts its data must be shorter
// than the time for which the server lets memory rest (store_options::quarantine_ms).
class remote_shard {
 public:
  remote_shard(cordma::Endpoint& via, cordma::reactor& loop) noexcept : via_(&via), loop_(&loop) {}

  // Adds the next region; regions are added in order.
  void add(const cordma::RemoteMemory& region);
  [[nodiscard]] std::size_t regions() const noexcept { return regions_.size(); }

  // Records that the server has responded to a request of that time.
  void lived_at(cordma::time_point when) noexcept { lived_at_ = std::max(lived_at_, when); }
  // Reads the head, which locates the index, into `landing`, which has at least head_bytes.
  // REQUIRES a region. Throws cordma::error: errors of a read, and unsupported_version if it is not
  // a shard's head.
  [[nodiscard]] cordma::task<void> refresh(cordma::Slice landing);
  // Looks for a key; the value is in `landing`, of landing_bytes. REQUIRES an earlier refresh().
  // Throws cordma::error: errors of a read; the connection is then unusable.
  [[nodiscard]] cordma::task<sighting> find_key(hashed_key key, cordma::Slice landing);
  [[nodiscard]] const remote_shard_counters& counters() const noexcept { return counters_; }

  // For look: known state of the shard, and updates by its reads.
  [[nodiscard]] cordma::time_point now() const noexcept { return loop_->now(); }
  [[nodiscard]] std::uint64_t buckets() const noexcept { return buckets_; }
  // Return false if the map does not have it yet.
  [[nodiscard]] bool find_bucket(std::uint64_t number, std::uint64_t& segment) const noexcept;
  [[nodiscard]] bool find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes,
                          piece& where) const noexcept;
  // True if a bucket of this depth shows that more buckets exist than were known here.
  [[nodiscard]] bool was_split(std::uint64_t number, unsigned depth) noexcept;
  [[nodiscard]] bool head_is_old(cordma::time_point now) const noexcept;
  void take_head(const std::byte* at);
  // The shard's clock, read now and then, shows that the server is alive.
  [[nodiscard]] bool wants_pulse(cordma::time_point now) const noexcept;
  void felt_pulse(unix_ms clock, cordma::time_point now) noexcept;
  [[nodiscard]] bool is_alive(cordma::time_point now) const noexcept;
  // Returns an upper bound of the server's clock, unless that clock was set.
  [[nodiscard]] unix_ms server_time() const noexcept;
  // Version up to which items are on the disk, if that is required; otherwise all. It only grows,
  // so reading it too early does no harm, except while the journal is being turned on.
  void knows_safe(std::uint64_t version) noexcept { safe_version_ = version; }
  [[nodiscard]] bool is_safe(std::uint64_t version) const noexcept {
    return version <= safe_version_;
  }
  void saw_torn() noexcept { ++counters_.torn; }
  // The bytes in the server's memory, which may change at any time; empty: not mapped here.
  [[nodiscard]] std::span<const std::byte> mapped(const piece& where) const noexcept {
    const std::span<const std::byte> all = views_[where.region].bytes();
    return all.empty() ? all : all.subspan(where.offset, where.bytes);
  }
  void has_read(std::size_t pieces) noexcept { counters_.reads += pieces; }

 private:
  [[nodiscard]] cordma::send_operation read(const piece& p, const cordma::Slice& landing);
  void map_region(std::uint64_t number);

  cordma::Endpoint* via_;
  cordma::reactor* loop_;
  std::vector<cordma::RemoteMemory> regions_;
  std::vector<cordma::RemoteView> views_;  // per region; empty: not mapped
  bool mappable_ = true;                   // as far as known, for all regions
  std::vector<std::uint32_t> index_;       // segments of the index, from the head
  std::uint64_t buckets_ = 0;
  std::uint64_t clock_ = 0;  // the server's, when the head was read
  cordma::time_point read_at_{};
  cordma::time_point lived_at_{};
  std::uint64_t safe_version_ = 0;
  unix_ms clock_seen_ = 0;
  cordma::time_point clock_seen_at_{};
  remote_shard_counters counters_;
};

// Drives all searches by loads from the server's memory, prefetching the next piece of each while
// the others are processed. Each uses landing_stride bytes of `landings`. Returns false if some of
// that memory is not mapped here; the results are then invalid. Throws as find_key() does.
[[nodiscard]] bool find_now(std::span<look> looks, std::byte* landings);

}  // namespace kv::native

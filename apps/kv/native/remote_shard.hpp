// A shard as a client sees it: read from afar, without asking anybody.
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
  std::uint64_t torn = 0;       // items that were not whole, or dead: looked for again
  std::uint64_t refreshed = 0;  // heads
};

// Bound to the thread of the endpoint. The longest time that look trusts what it saw must be shorter than the
// server lets memory rest (store_options::quarantine_ms).
class remote_shard {
 public:
  remote_shard(cordma::Endpoint& via, cordma::reactor& loop) noexcept : via_(&via), loop_(&loop) {}

  // Further regions, in order.
  void add(const cordma::RemoteMemory& region);
  [[nodiscard]] std::size_t regions() const noexcept { return regions_.size(); }

  // The server has answered what was asked at that time.
  void lived_at(cordma::time_point when) noexcept { lived_at_ = std::max(lived_at_, when); }
  // Reads the head, which says where the index is, into head_bytes of `landing` at least. REQUIRES a region. Throws
  // cordma::error: what a read says, and unsupported_version where it is no shard's head.
  [[nodiscard]] cordma::task<void> refresh(cordma::Slice landing);
  // Looks for a key; the value is in `landing`, of landing_bytes. REQUIRES refresh() before. Throws cordma::error: what a
  // read says; the connection is over then.
  [[nodiscard]] cordma::task<sighting> find_key(hashed_key key, cordma::Slice landing);
  [[nodiscard]] const remote_shard_counters& counters() const noexcept { return counters_; }

  // For look: what is known of the shard, and what it has read of it.
  [[nodiscard]] cordma::time_point now() const noexcept { return loop_->now(); }
  [[nodiscard]] std::uint64_t buckets() const noexcept { return buckets_; }
  // False: the map does not have it yet.
  [[nodiscard]] bool find_bucket(std::uint64_t number, std::uint64_t& segment) const noexcept;
  [[nodiscard]] bool find(std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes,
                          piece& where) const noexcept;
  // Whether a bucket of this depth says that there are more buckets than was known here.
  [[nodiscard]] bool was_split(std::uint64_t number, unsigned depth) noexcept;
  [[nodiscard]] bool head_is_old(cordma::time_point now) const noexcept;
  void take_head(const std::byte* at);
  // Its clock shows that the server lives, and is looked at now and then.
  [[nodiscard]] bool wants_pulse(cordma::time_point now) const noexcept;
  void felt_pulse(unix_ms clock, cordma::time_point now) noexcept;
  [[nodiscard]] bool is_alive(cordma::time_point now) const noexcept;
  // No later than this is the time by the server's clock, if nobody sets that.
  [[nodiscard]] unix_ms server_time() const noexcept;
  // Up to which version items are on the disk where they have to be: all, where none has to. It only grows, so that to
  // have read it too early does no harm, but where the journal is turned on.
  void knows_safe(std::uint64_t version) noexcept { safe_version_ = version; }
  [[nodiscard]] bool is_safe(std::uint64_t version) const noexcept {
    return version <= safe_version_;
  }
  void saw_torn() noexcept { ++counters_.torn; }
  // The bytes that lie there, as they are while they change; empty: they are not mapped here.
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
  std::vector<cordma::RemoteView> views_;  // of each; an empty one: not mapped
  bool mappable_ = true;                   // for all that is known
  std::vector<std::uint32_t> index_;       // segments of the index, those the head tells
  std::uint64_t buckets_ = 0;
  std::uint64_t clock_ = 0;  // the server's, when the head was read
  cordma::time_point read_at_{};
  cordma::time_point lived_at_{};
  std::uint64_t safe_version_ = 0;
  unix_ms clock_seen_ = 0;
  cordma::time_point clock_seen_at_{};
  remote_shard_counters counters_;
};

// Drives all these by loads from the server's memory, fetching the next piece of each into the cache while the others
// are looked at; each has landing_stride bytes of `landings`. False: some of that memory is not mapped here, and what
// was found is nothing. Throws as find_key() does.
[[nodiscard]] bool find_now(std::span<look> looks, std::byte* landings);

}  // namespace kv::native

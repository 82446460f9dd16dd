// One-sided search for a key in a shard's memory: the bytes to read next, and their interpretation.
#pragma once

#include "../store/item.hpp"
#include "../store/key.hpp"
#include "../store/layout.hpp"

#include <cordma/runtime/clock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kv::native {

// Outcome of a search: found, or the reason that a request is needed.
enum class sight : std::uint8_t {
  seen,      // found
  absent,    // not at its place; only the server can be sure
  torn,      // changed during every try
  expiring,  // expires about now, by the server's clock
  longer,    // too long for one-sided reads, or no string
  unmapped,  // in memory that the map does not have yet
  late,      // took so long that the memory may have been reused
  unsafe,    // not on the server's disk yet, although required
  silent,    // no recent sign of life of the server; shared memory outlives it
};

struct sighting {
  sight what = sight::absent;
  std::string_view value = {};  // in the landing memory
  std::uint64_t version = 0;
  std::uint64_t expiry = 0;
};

// Bytes of a shard's memory, within one of its regions, and their offset in the landing memory.
struct piece {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::size_t lands_at = 0;
};

// Landing memory for pieces: a bucket and the longest item that is read, or a head.
inline constexpr std::size_t landing_bytes = sizeof(bucket) + slot::longer * slot::unit;
static_assert(landing_bytes >= head_bytes);
// Distance of landings: no multiple of the period of cache sets.
inline constexpr std::size_t landing_stride = landing_bytes + 3 * sizeof(bucket);
static_assert(landing_stride % sizeof(bucket) == 0);

class remote_shard;

// A search for one key. It reads nothing itself: its driver awaits the reads, loads from mapped
// memory, or keeps the reads of many keys in flight.
class look {
 public:
  // Both outlive it; `now` is the current time.
  look(remote_shard& in, const hashed_key& key, cordma::time_point now);

  [[nodiscard]] bool over() const noexcept { return step_ == step::over; }
  // Pieces to read next, completely: one or two. REQUIRES !over().
  [[nodiscard]] std::span<const piece> wanted() const noexcept { return {wanted_.data(), pieces_}; }
  // Takes the pieces, a stable copy in memory aligned like a bucket. They must be read after all
  // earlier pieces and before all later ones. Throws cordma::error, unsupported_version, if it is
  // not a shard's head.
  void take(const std::byte* landing);
  [[nodiscard]] remote_shard& in() const noexcept { return *in_; }
  // REQUIRES over().
  [[nodiscard]] const sighting& found() const noexcept { return found_; }

 private:
  enum class step : std::uint8_t { pulse, head, bucket, item, clock, over };

  void start();
  void search();
  void take_bucket(const bucket& seen);
  void look_at_slots();
  void take_item(const std::byte* landing);
  void want(step next, std::uint64_t segment, std::uint64_t offset, std::uint64_t bytes);
  void want_word(step next, std::size_t offset) { want(next, 0, offset, sizeof(std::uint64_t)); }
  void want_bucket(std::uint64_t number);
  void end(sight what);

  remote_shard* in_;
  const hashed_key* key_;
  cordma::time_point began_;  // start of this try
  std::array<piece, 2> wanted_;
  std::size_t pieces_ = 0;
  sighting found_;
  bucket line_{};
  std::uint64_t number_ = 0;  // of the first bucket
  place item_at_ = 0;
  unsigned slot_ = 0;  // next slot of the line
  unsigned lines_ = 0;
  unsigned tries_ = 0;
  bool first_line_ = true;
  bool refreshed_ = false;
  step step_ = step::over;
};

}  // namespace kv::native

// How a key is looked for in a shard's memory, from afar: which bytes are read next, and what they say.
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

// Bytes of a shard's memory, all in one of its regions, and where they are to land.
struct piece {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::size_t lands_at = 0;
};

// Memory that pieces land in: a bucket and the longest item that is read, or a head.
inline constexpr std::size_t landing_bytes = sizeof(bucket) + slot::longer * slot::unit;
static_assert(landing_bytes >= head_bytes);
// From one landing to the next, where there are many: not a multiple of what the sets of a cache repeat after.
inline constexpr std::size_t landing_stride = landing_bytes + 3 * sizeof(bucket);
static_assert(landing_stride % sizeof(bucket) == 0);

class remote_shard;

// One key that is looked for. Reads nothing itself: who drives it has its reads awaited, or loads from memory that is
// mapped, or has those of many keys under way at once.
class look {
 public:
  // Both outlive it; `now` is the time.
  look(remote_shard& in, const hashed_key& key, cordma::time_point now);

  [[nodiscard]] bool over() const noexcept { return step_ == step::over; }
  // What to read next, whole: one piece, or two. REQUIRES !over().
  [[nodiscard]] std::span<const piece> wanted() const noexcept { return {wanted_.data(), pieces_}; }
  // They were read, copies that nobody changes, in memory aligned as a bucket is: after all that had been read before,
  // and before all that will be. Throws cordma::error, unsupported_version, where it is no shard's head.
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
  cordma::time_point began_;  // this try
  std::array<piece, 2> wanted_;
  std::size_t pieces_ = 0;
  sighting found_;
  bucket line_{};
  std::uint64_t number_ = 0;  // of the first bucket
  place item_at_ = 0;
  unsigned slot_ = 0;  // of the line, the next to be looked at
  unsigned lines_ = 0;
  unsigned tries_ = 0;
  bool first_line_ = true;
  bool refreshed_ = false;
  step step_ = step::over;
};

}  // namespace kv::native

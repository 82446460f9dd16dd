// How one message is split over several connections to the same peer, its rails. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cordma::protocol {

inline constexpr std::size_t most_rails = 8;
inline constexpr std::uint64_t rail_alignment = 128;                       // bytes
inline constexpr std::uint64_t least_rail_part = std::uint64_t{64} << 10;  // bytes

struct rail_state {
  std::uint64_t rate =
      0;  // of any unit, the same for all; 0: unknown, it counts like the others on the average
  bool healthy = false;
  std::uint64_t under_way = 0;  // bytes of earlier messages that are not here yet
};

struct rail_part {
  std::size_t rail = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct rail_split {
  std::array<rail_part, most_rails> part;
  std::size_t parts = 0;
};

// Contiguous parts in the order of the rails, in proportion to their rates: none is empty, and none but a
// message that is shorter itself is below least_rail_part, so that short messages go over fewer rails, the
// fastest ones; and what goes over a single one, over that which would be done with it first, given what is under way.
// Every part begins at a multiple of rail_alignment. The same for the same input. REQUIRES size != 0, 1 to most_rails
// rails; where none is healthy, all of it is the first one's.
[[nodiscard]] rail_split split(std::uint64_t size, std::span<const rail_state> rails) noexcept;

}  // namespace cordma::protocol

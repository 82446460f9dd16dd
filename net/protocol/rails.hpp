// Splits one message over several connections to the same peer, its rails. Pure.
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
      0;  // in any unit, the same for all; 0: unknown, counts as the average of the others
  bool healthy = false;
  std::uint64_t under_way = 0;  // bytes of earlier messages in flight
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

// Returns contiguous parts in the order of the rails, in proportion to their rates. No part is
// empty. No part is below least_rail_part unless the complete message is, so that short messages
// use fewer rails, the fastest ones. A message for a single rail uses the one that would finish it
// first, given the bytes in flight. Every part begins at a multiple of rail_alignment.
// Deterministic. REQUIRES size != 0, 1 to most_rails rails; if none is healthy, the first one gets
// the complete message.
[[nodiscard]] rail_split split(std::uint64_t size, std::span<const rail_state> rails) noexcept;

}  // namespace cordma::protocol

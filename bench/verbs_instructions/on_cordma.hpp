// One kind of operation of cordma's, over and over, on the device that exists in this process alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../stepping/stepping.hpp"

namespace stand_in {

inline constexpr std::size_t bytes = 64;  // of each
inline constexpr int side_by_side = 64;

enum class what : std::uint8_t { write, send, recv };
inline constexpr std::array names = {"write", "send", "recv"};

struct plan {
  what op = what::write;
  int operations = 0;  // a multiple of at_a_time
  int at_a_time = 1;   // started before the first is awaited
  bool keeps = false;  // the same objects again, rather than new ones
};

// All of the plan's operations are one round; nothing of the device is counted. Throws
// std::runtime_error.
[[nodiscard]] stepping::counted count_cordma(const plan& p);

}  // namespace stand_in

// Repeats one kind of operation of cordma on the device that exists only in this process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../stepping/stepping.hpp"

namespace stand_in {

inline constexpr std::size_t bytes = 64;  // per operation
inline constexpr int side_by_side = 64;

enum class what : std::uint8_t { write, send, recv };
inline constexpr std::array names = {"write", "send", "recv"};

struct plan {
  what op = what::write;
  int operations = 0;  // a multiple of at_a_time
  int at_a_time = 1;   // started before the first is awaited
  bool keeps = false;  // reuses the same operations instead of new ones
};

// All of the plan's operations are one round; the device is not counted. Throws std::runtime_error.
[[nodiscard]] stepping::counted count_cordma(const plan& p);

}  // namespace stand_in

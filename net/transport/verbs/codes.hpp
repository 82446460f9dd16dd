// Encodings of durations and sizes in verbs: five-bit timer codes, exponents, MTU codes. Pure.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace cordma::transport::verbs {

// IBTA, table 45 "RNR NAK timer": code to microseconds. Code 0 is the longest.
inline constexpr std::array<std::uint32_t, 32> rnr_microseconds{
    655'360, 10,     20,     30,     40,     60,      80,      120,     160,     240,    320,
    480,     640,    960,    1'280,  1'920,  2'560,   3'840,   5'120,   7'680,   10'240, 15'360,
    20'480,  30'720, 40'960, 61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520};

// Returns the code of the shortest timer that is at least this long, or of the longest timer.
[[nodiscard]] constexpr std::uint8_t rnr_code(duration at_least) noexcept {
  for (std::uint8_t code = 1; code < rnr_microseconds.size(); ++code) {
    if (std::chrono::microseconds(rnr_microseconds[code]) >= at_least) return code;
  }
  return 0;
}

// Local ACK timeout: 4.096 us * 2^code, tried 1 + retries times before the peer is considered dead.
inline constexpr std::uint8_t longest_timeout = 31;
[[nodiscard]] constexpr duration ack_timeout(std::uint8_t code) noexcept {
  return std::chrono::nanoseconds(4096) * (std::int64_t{1} << code);
}
// Returns the total duration of all tries, if each timer fires an eighth late: the timers of Linux,
// which Soft-RoCE uses, are this coarse.
[[nodiscard]] constexpr duration tries_last(std::uint8_t code, std::uint8_t retries) noexcept {
  const duration punctual = ack_timeout(code) * (1 + retries);
  return punctual + punctual / 8;
}

// A peer_timeout has two parts: at most `silence_of` until an idle peer is probed, and the rest
// until the probe, or any other request in flight, has been repeated in vain.
inline constexpr int least_silence = 8;  // the silence is at least a peer_timeout divided by this
// Returns the largest code that leaves this silence; at least 1.
[[nodiscard]] constexpr std::uint8_t timeout_code(duration whole, std::uint8_t retries) noexcept {
  const duration repeating = whole - whole / least_silence;
  std::uint8_t code = 1;
  while (code < longest_timeout && tries_last(code + 1, retries) <= repeating) ++code;
  return code;
}
[[nodiscard]] constexpr duration silence_of(duration whole, std::uint8_t code,
                                            std::uint8_t retries) noexcept {
  return std::max(whole - tries_last(code, retries), whole / least_silence);
}

// ibv_mtu: 1 = 256 bytes ... 5 = 4096 bytes.
inline constexpr std::uint8_t smallest_mtu_code = 1;
inline constexpr std::uint8_t largest_mtu_code = 5;
[[nodiscard]] constexpr std::uint32_t mtu_bytes(std::uint8_t code) noexcept { return 128U << code; }
// Returns 0 if `bytes` is no MTU.
[[nodiscard]] constexpr std::uint8_t mtu_code(std::uint32_t bytes) noexcept {
  for (std::uint8_t code = smallest_mtu_code; code <= largest_mtu_code; ++code) {
    if (mtu_bytes(code) == bytes) return code;
  }
  return 0;
}

// Rate of a port, in megabits per second, from the codes of its active width and speed; 0: unknown.
[[nodiscard]] constexpr std::uint64_t rate_of(std::uint8_t width, std::uint8_t speed) noexcept {
  struct code {
    std::uint8_t number;
    std::uint64_t means;
  };
  constexpr std::array<code, 5> lanes{{{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  constexpr std::array<code, 8> of_a_lane{{{1, 2'500},
                                           {2, 5'000},
                                           {4, 10'000},
                                           {8, 10'000},
                                           {16, 14'000},
                                           {32, 25'000},
                                           {64, 50'000},
                                           {128, 100'000}}};
  const auto meaning = [](const auto& table, std::uint8_t number) noexcept {
    const auto at = std::ranges::find(table, number, &code::number);
    return at != table.end() ? at->means : 0;
  };
  return meaning(lanes, width) * meaning(of_a_lane, speed);
}

static_assert(rate_of(2, 64) == 200'000 && rate_of(1, 1) == 2'500 && rate_of(0, 1) == 0);
static_assert(mtu_bytes(1) == 256 && mtu_bytes(5) == 4096);
static_assert(rnr_code(std::chrono::milliseconds(1)) == 14);
static_assert(rnr_code(duration::zero()) == 1 && rnr_code(duration::max()) == 0);
static_assert(std::ranges::is_sorted(rnr_microseconds.begin() + 1, rnr_microseconds.end()));
static_assert(mtu_code(mtu_bytes(smallest_mtu_code)) == smallest_mtu_code);
static_assert(mtu_code(mtu_bytes(largest_mtu_code)) == largest_mtu_code && mtu_code(0) == 0);
static_assert(timeout_code(duration::zero(), 7) == 1);
static_assert(timeout_code(std::chrono::hours(24 * 365), 7) == longest_timeout);

}  // namespace cordma::transport::verbs

// What one run measures: decided on the client's command line, carried to the server as text.
#pragma once

#include <cordma/cordma.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

enum class test : std::uint8_t {
  send_lat,
  send_bw,
  send_rate,
  write_lat,
  write_bw,
  read_lat,
  read_bw,
  fetch_add_lat,
  fetch_add_rate,
  tag_lat,
  tag_bw,
  am_lat,
  stream_bw,
};

// What a test's data goes over: the connection that the two sides talk by, or one beside it.
enum class carrier : std::uint8_t { plain, messages, stream };

// How the two sides work together.
enum class shape : std::uint8_t {
  ping_pong,    // both act in turn; the time of one way is half of the round trip
  one_by_one,   // the client acts, one operation at a time; the server only makes progress
  in_flight,    // the client keeps `outstanding` operations started; the server only makes progress
  to_receiver,  // the same, and the server receives
};

struct test_facts {
  test id;
  std::string_view name;
  shape form;
  std::uint64_t usual_size;  // bytes
  std::string_view what;     // one line for --help
  carrier over = carrier::plain;
  [[nodiscard]] bool latency() const noexcept {
    return form == shape::ping_pong || form == shape::one_by_one;
  }
  [[nodiscard]] bool atomic() const noexcept {
    return id == test::fetch_add_lat || id == test::fetch_add_rate;
  }
};
[[nodiscard]] std::span<const test_facts> all_tests() noexcept;
[[nodiscard]] const test_facts& facts(test t) noexcept;
[[nodiscard]] std::optional<test> parse_test(std::string_view name) noexcept;

inline constexpr std::uint64_t largest_size = std::uint64_t{1} << 30;  // bytes
inline constexpr std::uint32_t most_outstanding = 4096;                // operations

struct plan {
  test what = test::send_lat;
  std::uint64_t size = 8;               // bytes per message
  std::uint64_t iterations = 0;         // 0: as many as `duration_s` takes
  std::optional<std::uint64_t> warmup;  // none: a tenth of the iterations
  double duration_s = 1.0;              // seconds
  std::uint32_t outstanding = 32;       // operations in flight
  std::uint64_t think_us = 0;           // pause between round trips, microseconds
  cordma::wait_mode wait = cordma::wait_mode::polling;
  std::optional<cordma::transport::kind> transport;
  bool check = false;
};

// Buffers on each side, for either direction: where the memory of one message must not serve another
// at the same time. Of messages in ping-pong so many receives stand ahead, of writes so many may still
// have to complete when the answer to them has come.
[[nodiscard]] std::uint32_t slots(const plan& p) noexcept;

}  // namespace perf

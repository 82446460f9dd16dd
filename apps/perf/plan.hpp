// What one run measures: decided on the client's command line, carried to the server as text.
#pragma once

#include <cordma/cordma.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace perf {

enum class verb : std::uint8_t {
  send,
  tag,
  am,
  stream,
  write,
  write_imm,
  read,
  fetch_add,
  compare_swap,
  nothing,
};

// How the two sides work together.
enum class pattern : std::uint8_t {
  latency,    // one request after the other; or as many at once, or as often, as the plan says
  bandwidth,  // the client keeps requests in flight
  both_ways,  // so do both sides at the same time
  idle,       // nobody does anything
};

struct test_facts {
  std::string name;
  verb what;
  pattern form;
  std::uint64_t usual_size;  // bytes

  [[nodiscard]] bool latency() const noexcept { return form == pattern::latency; }
  [[nodiscard]] bool atomic() const noexcept {
    return what == verb::fetch_add || what == verb::compare_swap;
  }
  // The initiator acts on memory of a target that only makes progress.
  [[nodiscard]] bool one_sided() const noexcept {
    return what == verb::write || what == verb::read || atomic();
  }
  // A request is answered by the server's program, which has the same loop the other way round.
  [[nodiscard]] bool ping_pong() const noexcept {
    return latency() && (what == verb::write || !one_sided());
  }
  // The server does more than to make progress.
  [[nodiscard]] bool server_acts() const noexcept {
    return ping_pong() || form == pattern::both_ways ||
           (form == pattern::bandwidth && !one_sided());
  }
  // The server cannot tell by what it does that the client is done.
  [[nodiscard]] bool server_is_told() const noexcept {
    return form == pattern::idle || (one_sided() && !ping_pong());
  }
  // The server is done only later than the client.
  [[nodiscard]] bool ends_at_server() const noexcept {
    return form == pattern::both_ways || (form == pattern::bandwidth && !one_sided());
  }
  // Over a connection of messages, or one of a stream; else a plain one.
  [[nodiscard]] bool by_messages() const noexcept { return what == verb::tag || what == verb::am; }
  [[nodiscard]] bool by_stream() const noexcept { return what == verb::stream; }
  // Requests can be made ahead of their answers: several at once, or at a pace of their own.
  [[nodiscard]] bool windowed() const noexcept {
    return latency() && what != verb::write && what != verb::am && what != verb::stream;
  }
};

struct verb_facts {
  verb what;
  std::string_view name;
  std::string_view text;  // for --help
};
struct pattern_facts {
  pattern form;
  std::string_view name;
  std::uint64_t usual_size;  // bytes
  std::string_view text;     // for --help
};
[[nodiscard]] std::span<const verb_facts> all_verbs() noexcept;
[[nodiscard]] std::span<const pattern_facts> all_patterns() noexcept;
// Every verb with every pattern that it has, and "idle". They live as long as the program.
[[nodiscard]] std::span<const test_facts> all_tests();
// Null where there is no such test.
[[nodiscard]] const test_facts* find_test(std::string_view name);

// A waiting mode, and in the adaptive one how long to spin at most.
struct waiting {
  cordma::wait_mode mode = cordma::wait_mode::polling;
  std::optional<std::uint64_t> spin_us;
  [[nodiscard]] std::string text() const;  // "polling", "adaptive:50"
  [[nodiscard]] cordma::reactor_options reactor() const noexcept;
};

// When requests are made: after the one before has come back, or at times of their own.
enum class arrival : std::uint8_t { closed, poisson, constant };
[[nodiscard]] std::string_view name(arrival a) noexcept;

inline constexpr std::uint64_t largest_size = std::uint64_t{1} << 30;  // bytes
inline constexpr std::uint32_t most_outstanding = 4096;                // requests of one flow
inline constexpr std::uint32_t most_flows = 256;
inline constexpr std::uint64_t longest_stall_ms = 60'000;
inline constexpr std::uint32_t as_usual = 0xFFFFFFFF;

struct plan {
  const test_facts* test = find_test("send-lat");
  std::uint64_t size = 8;                 // bytes per message
  std::uint64_t iterations = 0;           // requests of all flows; 0: as many as `duration_s` takes
  std::optional<std::uint64_t> warmup;    // none: a tenth of the iterations
  double duration_s = 1.0;                // seconds
  std::uint32_t flows = 1;                // connections
  std::uint32_t outstanding = 1;          // requests in flight of each flow
  std::uint32_t messages = 1;             // of one request, posted together
  std::uint32_t inline_bytes = as_usual;  // endpoint_options::inline_bytes
  std::uint32_t depth = as_usual;         // of both queues of each connection
  std::uint64_t think_us = 0;             // pause between round trips, microseconds
  bool random_think = false;              // ... on the average, exponentially distributed
  arrival arrives = arrival::closed;
  double load_hz = 0;          // requests per second of all flows; 0: as `load_share` says
  double load_share = 0;       // of what is measured at first with `outstanding` in flight
  std::uint64_t seed = 1;      // of random times
  std::uint64_t stall_ms = 0;  // so long the server does nothing in the middle of the run
  double watchdog_s = 0;       // without any progress for so long it is over; 0: never
  waiting wait;
  std::optional<cordma::transport::kind> transport;
  bool check = false;
  bool flip = false;  // one bit of one message is wrong: --check has to notice

  [[nodiscard]] const test_facts& facts() const noexcept { return *test; }
  [[nodiscard]] bool open_loop() const noexcept { return arrives != arrival::closed; }
  // More than one request at a time, or at times of their own.
  [[nodiscard]] bool windowed() const noexcept {
    return facts().latency() && (outstanding > 1 || open_loop());
  }
  // A generator that slept would be late: in the open loop the client polls.
  [[nodiscard]] waiting client_wait() const noexcept { return open_loop() ? waiting{} : wait; }
  // Messages in flight of one flow, in one direction.
  [[nodiscard]] std::uint32_t window() const noexcept { return outstanding * messages; }
};

// Requests in flight of each flow, where nobody says otherwise.
[[nodiscard]] std::uint32_t usual_outstanding(const plan& p) noexcept;

// Buffers of each flow on each side, for either direction: where the memory of one message must not
// serve another at the same time. Of messages in ping-pong so many receives stand ahead, of writes so
// many may still have to complete when the answer to them has come.
[[nodiscard]] std::uint32_t slots(const plan& p) noexcept;

}  // namespace perf

// The plan of a run: set by the client's command line, and sent to the server as text.
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

// How the two sides cooperate.
enum class pattern : std::uint8_t {
  latency,    // sequential requests; or several in flight, or at the rate of the plan
  bandwidth,  // the client keeps requests in flight
  both_ways,  // both sides keep requests in flight at the same time
  idle,       // no requests
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
  // The initiator accesses memory of a target that only makes progress.
  [[nodiscard]] bool one_sided() const noexcept {
    return what == verb::write || what == verb::read || atomic();
  }
  // The server's program responds to each request, in the mirrored loop.
  [[nodiscard]] bool ping_pong() const noexcept {
    return latency() && (what == verb::write || !one_sided());
  }
  // The server does more than make progress.
  [[nodiscard]] bool server_acts() const noexcept {
    return ping_pong() || form == pattern::both_ways ||
           (form == pattern::bandwidth && !one_sided());
  }
  // The server cannot detect the end of the client by its own operations.
  [[nodiscard]] bool server_is_told() const noexcept {
    return form == pattern::idle || (one_sided() && !ping_pong());
  }
  // The server finishes later than the client.
  [[nodiscard]] bool ends_at_server() const noexcept {
    return form == pattern::both_ways || (form == pattern::bandwidth && !one_sided());
  }
  // Uses a message connection, or a stream; else a plain connection.
  [[nodiscard]] bool by_messages() const noexcept { return what == verb::tag || what == verb::am; }
  [[nodiscard]] bool by_stream() const noexcept { return what == verb::stream; }
  // Requests can be made before earlier responses: several at once, or at a set rate.
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
// Every combination of a verb and its patterns, and "idle". Valid until the program ends.
[[nodiscard]] std::span<const test_facts> all_tests();
// Null if there is no such test.
[[nodiscard]] const test_facts* find_test(std::string_view name);

// A waiting mode, and the spin limit of the adaptive mode.
struct waiting {
  cordma::wait_mode mode = cordma::wait_mode::polling;
  std::optional<std::uint64_t> spin_us;
  [[nodiscard]] std::string text() const;  // "polling", "adaptive:50"
  [[nodiscard]] cordma::reactor_options reactor() const noexcept;
};

// When requests are made: after the previous response, or at scheduled times.
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
  std::uint64_t iterations = 0;           // requests of all flows; 0: limited by `duration_s`
  std::optional<std::uint64_t> warmup;    // none: a tenth of the iterations
  double duration_s = 1.0;                // seconds
  std::uint32_t flows = 1;                // connections
  std::uint32_t outstanding = 1;          // requests in flight of each flow
  std::uint32_t messages = 1;             // per request, posted together
  std::uint32_t inline_bytes = as_usual;  // endpoint_options::inline_bytes
  std::uint32_t depth = as_usual;         // of both queues of each connection
  std::uint64_t think_us = 0;             // pause between round trips, microseconds
  bool random_think = false;              // ... on average, exponentially distributed
  arrival arrives = arrival::closed;
  double load_hz = 0;  // requests per second of all flows; 0: set by `load_share`
  // share of the rate that is first measured with `outstanding` in flight
  double load_share = 0;
  std::uint64_t seed = 1;      // of random times
  std::uint64_t stall_ms = 0;  // pause of the server in the middle of the run
  double watchdog_s = 0;       // the run ends after this time without progress; 0: never
  waiting wait;
  std::optional<cordma::transport::kind> transport;
  bool check = false;
  bool flip = false;  // one bit of one message is wrong, to test --check

  [[nodiscard]] const test_facts& facts() const noexcept { return *test; }
  [[nodiscard]] bool open_loop() const noexcept { return arrives != arrival::closed; }
  // More than one request at a time, or requests at scheduled times.
  [[nodiscard]] bool windowed() const noexcept {
    return facts().latency() && (outstanding > 1 || open_loop());
  }
  // A generator that sleeps would be late, so the client polls in the open loop.
  [[nodiscard]] waiting client_wait() const noexcept { return open_loop() ? waiting{} : wait; }
  // Messages in flight of one flow, in one direction.
  [[nodiscard]] std::uint32_t window() const noexcept { return outstanding * messages; }
};

// Default number of requests in flight of each flow.
[[nodiscard]] std::uint32_t usual_outstanding(const plan& p) noexcept;

// Buffers of each flow on each side, per direction, for messages that must not share memory at the
// same time. In ping-pong by messages, this many receives are posted in advance; in ping-pong by
// writes, this many writes may still be incomplete when the response has arrived.
[[nodiscard]] std::uint32_t slots(const plan& p) noexcept;

}  // namespace perf

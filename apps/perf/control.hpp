// Control messages between client and server, beside the measured messages: JSON texts over the
// same connection. The client sends requests, the server responds.
#pragma once

#include "plan.hpp"
#include "usage.hpp"

#include <cordma/runtime/task.hpp>

#include <array>
#include <string>
#include <vector>

namespace perf {

inline constexpr int control_version = 5;

// Private data of a connection request. It states the depth of the queues before any other message,
// or the flow of the plan that the connection is for.
struct greeting {
  std::uint32_t depth = 0;
  std::uint32_t inline_bytes = as_usual;
  std::uint32_t flow = 0;
};
inline constexpr std::size_t greeting_bytes = 16;
[[nodiscard]] std::array<std::byte, greeting_bytes> encode(const greeting& g) noexcept;
// Returns the defaults if `private_data` is no greeting.
[[nodiscard]] greeting decode_greeting(std::span<const std::byte> private_data) noexcept;

// client -> server, first message: the plan, and the client's memory.
struct opening {
  plan what;
  std::vector<std::byte> blob;
};
// server -> client.
struct welcome {
  std::vector<std::byte> blob;
  std::string wait;
  std::uint16_t port = 0;  // port for further connections; 0: none
  bool counts_syscalls = false;
  std::string complaint;  // reason for a refusal; empty: accepted
};
// client -> server: begin a phase (`run`), end it (`stop`), end the session (`bye`).
struct order {
  enum class kind : std::uint8_t { run, stop, bye };
  kind what = kind::bye;
  std::uint64_t count = 0;      // of each flow
  bool count_syscalls = false;  // during this phase
  bool stalls = false;          // in the middle of the phase
  double expected_s = 0;        // duration of the phase, as the client estimates it
};
// Report of one side at the end of a phase.
struct closing {
  usage spent;
  std::int64_t wake_cost_ns = 0;  // as measured by the adaptive mode; else 0
  std::int64_t syscalls = -1;     // -1: not counted
  std::uint64_t wrong = 0;        // so far
};

[[nodiscard]] std::string encode(const opening& m);
[[nodiscard]] std::string encode(const welcome& m);
[[nodiscard]] std::string encode(const order& m);
[[nodiscard]] std::string encode(const closing& m);
// Throw cordma::error (invalid_value, unsupported_version) if the text is not as expected.
[[nodiscard]] opening decode_opening(std::string_view text);
[[nodiscard]] welcome decode_welcome(std::string_view text);
[[nodiscard]] order decode_order(std::string_view text);
[[nodiscard]] closing decode_closing(std::string_view text);

inline constexpr std::size_t control_bytes = 8192;  // limit of a text

// Buffers of the control messages. Bound to its endpoint's thread.
class channel {
 public:
  // Throws cordma::error (no_memory).
  channel(cordma::Context& context, cordma::Endpoint& endpoint);

  // To be started early, so that the receive is posted before the peer can respond.
  [[nodiscard]] cordma::recv_operation expect() noexcept;
  // Text of a completed receive of expect(); valid until the next one.
  [[nodiscard]] std::string_view text(const cordma::Received& got) const noexcept;
  // REQUIRES that the previous one has completed.
  [[nodiscard]] cordma::send_operation tell(std::string_view text) noexcept;
  [[nodiscard]] cordma::task<std::string> ask(std::string text);

 private:
  cordma::Endpoint& endpoint_;
  cordma::MemoryRegion region_;
};

}  // namespace perf

// What client and server tell each other besides the messages that are measured: JSON texts over the
// same connection. The client asks, the server answers.
#pragma once

#include "plan.hpp"
#include "usage.hpp"

#include <cordma/runtime/task.hpp>

#include <array>
#include <string>
#include <vector>

namespace perf {

inline constexpr int control_version = 5;

// Private data of a connection request: tells the server how deep the queues have to be, before it
// knows anything else; or which flow of the plan it is.
struct greeting {
  std::uint32_t depth = 0;
  std::uint32_t inline_bytes = as_usual;
  std::uint32_t flow = 0;
};
inline constexpr std::size_t greeting_bytes = 16;
[[nodiscard]] std::array<std::byte, greeting_bytes> encode(const greeting& g) noexcept;
// As it is by default where this is no greeting.
[[nodiscard]] greeting decode_greeting(std::span<const std::byte> private_data) noexcept;

// client -> server, first: what is to be measured, and the client's memory.
struct opening {
  plan what;
  std::vector<std::byte> blob;
};
// server -> client.
struct welcome {
  std::vector<std::byte> blob;
  std::string wait;
  std::uint16_t port = 0;  // where more connections are expected; 0: none are
  bool counts_syscalls = false;
  std::string complaint;  // why not; empty where all is well
};
// client -> server: begin a phase (`run`), it is over (`stop`), no more (`bye`).
struct order {
  enum class kind : std::uint8_t { run, stop, bye };
  kind what = kind::bye;
  std::uint64_t count = 0;      // of each flow
  bool count_syscalls = false;  // in this phase
  bool stalls = false;          // in the middle of it
  double expected_s = 0;        // how long the phase takes, as far as the client can say
};
// What a side says of itself at the end of a phase.
struct closing {
  usage spent;
  std::int64_t wake_cost_ns = 0;  // as the adaptive mode has measured it; else 0
  std::int64_t syscalls = -1;     // -1: not counted
  std::uint64_t wrong = 0;        // so far
};

[[nodiscard]] std::string encode(const opening& m);
[[nodiscard]] std::string encode(const welcome& m);
[[nodiscard]] std::string encode(const order& m);
[[nodiscard]] std::string encode(const closing& m);
// Throw cordma::error (invalid_value, unsupported_version) for anything unexpected.
[[nodiscard]] opening decode_opening(std::string_view text);
[[nodiscard]] welcome decode_welcome(std::string_view text);
[[nodiscard]] order decode_order(std::string_view text);
[[nodiscard]] closing decode_closing(std::string_view text);

inline constexpr std::size_t control_bytes = 8192;  // the longest text

// The buffers for these texts. Bound to its endpoint's thread.
class channel {
 public:
  // Throws cordma::error (no_memory).
  channel(cordma::Context& context, cordma::Endpoint& endpoint);

  // Started ahead, so that it stands before the peer may answer.
  [[nodiscard]] cordma::recv_operation expect() noexcept;
  // What a receive of expect() got; until the next one.
  [[nodiscard]] std::string_view text(const cordma::Received& got) const noexcept;
  // REQUIRES that the last one is done.
  [[nodiscard]] cordma::send_operation tell(std::string_view text) noexcept;
  [[nodiscard]] cordma::task<std::string> ask(std::string text);

 private:
  cordma::Endpoint& endpoint_;
  cordma::MemoryRegion region_;
};

}  // namespace perf

// What client and server tell each other besides the messages that are measured: JSON texts over the
// same connection. The client asks, the server answers.
#pragma once

#include "lane.hpp"
#include "plan.hpp"
#include "usage.hpp"

#include <cordma/runtime/task.hpp>

#include <string>
#include <vector>

namespace perf {

inline constexpr int control_version = 3;

// Private data of the connection request: tells the server how deep the queues have to be.
inline constexpr std::size_t greeting_bytes = 8;
[[nodiscard]] std::array<std::byte, greeting_bytes> greeting(std::uint32_t outstanding) noexcept;
// 0 where this is no greeting.
[[nodiscard]] std::uint32_t outstanding_of(std::span<const std::byte> private_data) noexcept;

// client -> server, first: what is to be measured, and the client's memory.
struct opening {
  plan what;
  std::vector<std::byte> blob;
};
// server -> client.
struct welcome {
  std::vector<std::byte> blob;
  std::string wait;
  std::uint16_t port = 0;  // where a second connection is expected; 0: none is
  std::string complaint;   // why not; empty where all is well
};
// client -> server: begin a phase (`run`), it is over (`stop`), no more (`bye`).
struct order {
  enum class kind : std::uint8_t { run, stop, bye };
  kind what = kind::bye;
  std::uint64_t count = 0;
};
// server -> client at the end of a phase.
struct closing {
  usage spent;
  std::uint64_t wrong = 0;
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

// One flow of a run at one side: the connection, the memory of this side, and the peer's memory.
#pragma once

#include "../support/histogram.hpp"
#include "../support/op_ring.hpp"
#include "plan.hpp"
#include "ticks.hpp"

#include <cordma/cordma.hpp>

#include <cordma/runtime/event.hpp>
#include <cordma/runtime/task.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace perf {

inline constexpr std::uint64_t the_tag = 1;
inline constexpr std::uint16_t the_handler = 1;
// Size of a message that is eager on every transport (message_options::eager_bytes).
inline constexpr std::uint64_t short_everywhere = 512 - 16;

// State of active messages; the handler of a side responds to them or counts them.
struct handling {
  std::uint64_t handled = 0;  // in all phases
  std::int64_t left = 0;      // in this phase
  // ticks; when this side sent its last message, if it waits for a response
  std::uint64_t sent_at = 0;
  bool answers = false;         // true: the handler responds; false: it only counts
  cordma::auto_event finished;  // set when the phase is over, or when a response failed
  std::optional<cordma::failure> failed;
};

// Both sides have the same memory layout, so each can compute addresses in the peer's memory.
class lane {
 public:
  lane(const plan& p, std::uint32_t flow);
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Bytes of memory per flow.
  [[nodiscard]] static std::size_t bytes(const plan& p) noexcept;
  // `memory` and `there` have that size.
  void use(const cordma::Slice& memory);
  void attach(const cordma::RemoteSlice& there);
  // The connection for the data: shared with other flows, or separate.
  void use(cordma::Endpoint& shared);
  void use(cordma::Endpoint&& own);
  void use(cordma::Stream&& own) { stream = std::move(own); }

  [[nodiscard]] cordma::Endpoint& endpoint() noexcept { return *endpoint_; }
  [[nodiscard]] cordma::Endpoint& connection() noexcept {
    return what.facts().by_stream() ? stream.endpoint() : *endpoint_;
  }
  [[nodiscard]] const cordma::Slice& in(std::uint64_t i) const noexcept { return in_[i]; }
  [[nodiscard]] const cordma::Slice& out(std::uint64_t i) const noexcept { return out_[i]; }
  // The peer's buffers, numbered as the peer does.
  [[nodiscard]] const cordma::RemoteSlice& peer_in(std::uint64_t i) const noexcept {
    return peer_in_[i];
  }
  [[nodiscard]] const cordma::RemoteSlice& peer_out(std::uint64_t i) const noexcept {
    return peer_out_[i];
  }
  // --check: fills the buffer with message number `i`.
  void fill_out(std::uint64_t slot, std::uint64_t i) noexcept;
  [[nodiscard]] bool thinks() const noexcept { return what.think_us != 0; }
  // Pauses between two requests.
  [[nodiscard]] cordma::task<void> think();
  // Sequential requests: begin_request() adds the time since the end of the previous request to
  // `between`; end_request() records a sample.
  [[nodiscard]] std::uint64_t begin_request() noexcept {
    const std::uint64_t now = ticks();
    if (ended_at != 0) between += static_cast<double>(now - ended_at);
    return now;
  }
  void end_request(std::uint64_t began) noexcept {
    ended_at = ticks();
    samples.record(ended_at - began);
  }

  const plan what;
  const std::uint32_t index;  // of the flow
  const std::uint32_t slots;
  std::unique_ptr<cordma::Messages> messages;  // of this lane, if it has any
  cordma::Stream stream;
  handling handler;
  // Checks of the memory per pass of the reactor while it waits for a remote write: many if the
  // peer writes without this side's help, one if this side's transport must make progress for the
  // write to arrive.
  int looks_per_turn = 1;
  // number of the last message in ping-pong by remote writes, in all phases
  std::uint64_t number = 0;

  support::histogram samples;  // ticks of each request
  // open loop: ticks from the intended start of each request to its end
  support::histogram intended;
  // open loop: ticks from the intended start to the actual one, if there was free space
  support::histogram lag;
  double in_flight_area = 0;   // open loop: requests in flight times ticks
  double due_for = 0;          // open loop: ticks from the start until the last request was due
  double hz = 0;               // open loop: requests per second of this flow
  double ns_per_tick = 0;      // open loop: the best known value
  std::uint64_t ended_at = 0;  // ticks; end of the last request in this phase; 0: there was none
  double between = 0;          // ticks outside of requests: pauses, and overhead of the loop
  std::uint64_t stall_at = ~std::uint64_t{0};  // the server stalls before this message
  std::uint64_t flip_at = ~std::uint64_t{0};   // --check: one bit of this outgoing message is wrong
  std::uint64_t wrong = 0;                     // --check: messages with unexpected content
  std::mt19937_64 random;
  std::atomic<std::uint64_t> progress{0};   // requests done in this phase, for other threads
  const std::atomic<bool>* stop = nullptr;  // set: intermediate results were requested

  // Sends of a plain handler. Used without pauses only.
  [[nodiscard]] auto& answers() noexcept { return answers_; }

 private:
  cordma::Endpoint own_;
  cordma::Endpoint* endpoint_ = nullptr;
  std::vector<cordma::Slice> in_;
  std::vector<cordma::Slice> out_;
  std::vector<cordma::RemoteSlice> peer_in_;
  std::vector<cordma::RemoteSlice> peer_out_;
  support::op_ring<cordma::message_send_operation> answers_{16};
};

// Throws the reason of the disconnection. Needed on a side that polls its memory or waits for its
// handler, because no other call reports the disconnection there.
void require_connected(const cordma::Endpoint& endpoint);

// --check: the content of message number `i`, which differs for every message and position.
void fill(std::span<std::byte> message, std::uint64_t i) noexcept;
// Fills the message with bytes that all differ from the content of message `i`.
void spoil(std::span<std::byte> message, std::uint64_t i) noexcept;
[[nodiscard]] bool matches(std::span<const std::byte> message, std::uint64_t i) noexcept;

// Exponentially distributed with this mean.
[[nodiscard]] double random_gap(std::mt19937_64& random, double mean) noexcept;

}  // namespace perf

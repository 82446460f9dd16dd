// One flow of a run at one of its sides: the connection, this side's memory, and the peer's.
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
// Bytes of a message that is sent at once over any transport (message_options::eager_bytes).
inline constexpr std::uint64_t short_everywhere = 512 - 16;

// Active messages, which each side's handler answers, or counts.
struct handling {
  std::uint64_t handled = 0;    // over all phases
  std::int64_t left = 0;        // in this one
  std::uint64_t sent_at = 0;    // ticks; of this side's last one, where it waits for answers
  bool answers = false;         // else it counts
  cordma::auto_event finished;  // the phase is over, or an answer failed
  std::optional<cordma::failure> failed;
};

// Both sides have the same layout of memory, so that each knows where things are at the other.
class lane {
 public:
  lane(const plan& p, std::uint32_t flow);
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Bytes of memory that a flow takes.
  [[nodiscard]] static std::size_t bytes(const plan& p) noexcept;
  // `memory` is as long as that; so is `there`.
  void use(const cordma::Slice& memory);
  void attach(const cordma::RemoteSlice& there);
  // The data goes over that connection: one that others use as well, or one of its own.
  void use(cordma::Endpoint& shared);
  void use(cordma::Endpoint&& own);
  void use(cordma::Stream&& own) { stream = std::move(own); }

  [[nodiscard]] cordma::Endpoint& endpoint() noexcept { return *endpoint_; }
  [[nodiscard]] cordma::Endpoint& connection() noexcept {
    return what.facts().by_stream() ? stream.endpoint() : *endpoint_;
  }
  [[nodiscard]] const cordma::Slice& in(std::uint64_t i) const noexcept { return in_[i]; }
  [[nodiscard]] const cordma::Slice& out(std::uint64_t i) const noexcept { return out_[i]; }
  // The peer's, as it sees them.
  [[nodiscard]] const cordma::RemoteSlice& peer_in(std::uint64_t i) const noexcept {
    return peer_in_[i];
  }
  [[nodiscard]] const cordma::RemoteSlice& peer_out(std::uint64_t i) const noexcept {
    return peer_out_[i];
  }
  // --check: message number `i`, as it goes out.
  void fill_out(std::uint64_t slot, std::uint64_t i) noexcept;
  [[nodiscard]] bool thinks() const noexcept { return what.think_us != 0; }
  // A pause between two requests.
  [[nodiscard]] cordma::task<void> think();
  // One request after the other: one begins, and what has passed since the end of the one before
  // belongs to none; it ends, and is a sample.
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
  std::unique_ptr<cordma::Messages> messages;  // of its own, where it has any
  cordma::Stream stream;
  handling handler;
  // Looks at memory between two turns of the reactor, while waiting for a remote write: many where
  // the peer writes without this side's help, one where this side's transport has to carry it in.
  int looks_per_turn = 1;
  std::uint64_t number = 0;  // of the last message in ping-pong by remote writes, over all phases

  support::histogram samples;   // ticks of each request
  support::histogram intended;  // open loop: ticks since each was to be made,
  support::histogram lag;       // ... and until it was, though there was room for it
  double in_flight_area = 0;    // open loop: requests in flight times ticks
  double due_for = 0;           // open loop: ticks from the start until the last request was due
  double hz = 0;                // open loop: requests per second of this flow
  double ns_per_tick = 0;       // open loop: as far as is known
  std::uint64_t ended_at = 0;   // ticks; of the last request in this phase; 0: there was none
  double between = 0;           // ticks that belong to no request: pauses, and the loop's own
  std::uint64_t stall_at = ~std::uint64_t{0};  // before this message the server stalls
  std::uint64_t flip_at = ~std::uint64_t{0};   // --check: of this one that goes out a bit is wrong
  std::uint64_t wrong = 0;  // --check: messages that were not what they should be
  std::mt19937_64 random;
  std::atomic<std::uint64_t> progress{0};   // requests done in this phase, for whoever watches
  const std::atomic<bool>* stop = nullptr;  // set: somebody wants to see what was measured so far

  // What a plain handler has sent. Where nobody thinks.
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

// Throws what it ended for: nobody tells a side that looks at its own memory, or waits for its handler.
void require_connected(const cordma::Endpoint& endpoint);

// --check: the contents of message number `i`, different for every message and place.
void fill(std::span<std::byte> message, std::uint64_t i) noexcept;
// In none of its bytes what that would be.
void spoil(std::span<std::byte> message, std::uint64_t i) noexcept;
[[nodiscard]] bool matches(std::span<const std::byte> message, std::uint64_t i) noexcept;

// Exponentially distributed with that mean.
[[nodiscard]] double random_gap(std::mt19937_64& random, double mean) noexcept;

}  // namespace perf

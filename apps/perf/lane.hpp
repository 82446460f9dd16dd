// One side of a run: the connection, this side's memory, and the peer's.
#pragma once

#include "histogram.hpp"
#include "plan.hpp"

#include <cordma/cordma.hpp>

#include <cordma/runtime/event.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perf {

inline constexpr std::uint64_t the_tag = 1;
inline constexpr std::uint16_t the_handler = 1;

// The second connection of a test whose data goes over another carrier.
struct beside {
  cordma::Messages messages;
  cordma::Listener listener;  // the server's
  cordma::Endpoint endpoint;  // of messages
  cordma::Stream stream;
  // Active messages, which each side's handler answers.
  std::uint64_t handled = 0;    // over all phases
  std::int64_t to_handle = 0;   // in this one
  std::uint64_t sent_at = 0;    // ticks; the client's last one
  cordma::auto_event finished;  // set by the handler: the phase is over, or an answer failed
  std::optional<cordma::failure> failed;
  explicit beside(cordma::Worker& worker) : messages(worker) {}
};

// Memory of a side: `slots` buffers for what comes in, and as many for what goes out. The same layout
// on both sides, so that each knows where things are at the other.
class lane {
 public:
  // Throws cordma::error (no_memory).
  lane(cordma::Context& context, cordma::Endpoint& endpoint, const plan& what);
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Takes the peer's memory from its blob. Throws cordma::error.
  void attach(std::span<const std::byte> blob);
  [[nodiscard]] std::vector<std::byte> blob() const { return region_.export_blob().value(); }

  [[nodiscard]] const cordma::Slice& in(std::uint64_t i) const noexcept { return in_[i]; }
  [[nodiscard]] const cordma::Slice& out(std::uint64_t i) const noexcept { return out_[i]; }
  [[nodiscard]] const cordma::RemoteSlice& peer(std::uint64_t i) const noexcept { return peer_[i]; }

  // That messages of the test go over.
  [[nodiscard]] cordma::Endpoint& carrier() noexcept { return other ? other->endpoint : endpoint; }

  cordma::Endpoint& endpoint;
  std::unique_ptr<beside> other;
  const plan what;
  const std::uint32_t slots;
  // Looks at memory between two turns of the reactor, while waiting for a remote write: many where
  // the peer writes without this side's help, one where this side's transport has to carry it in.
  const int looks_per_turn;
  std::uint64_t number = 0;  // of the last message in ping-pong by remote writes, over all phases
  histogram samples;         // ticks per round trip, or per operation where the shape is one_by_one
  std::uint64_t wrong = 0;   // --check: messages that were not what they should have been
  std::atomic<std::uint64_t> progress{0};  // operations done, for whoever watches

 private:
  cordma::MemoryRegion region_;
  std::vector<cordma::Slice> in_;
  std::vector<cordma::Slice> out_;
  std::vector<cordma::RemoteSlice> peer_;
};

// Throws what it ended for: nobody tells a side that looks at its own memory, or waits for its handler.
void require_connected(const cordma::Endpoint& endpoint);

// --check: the contents of message number `i`, different for every message and place.
void fill(std::span<std::byte> message, std::uint64_t i) noexcept;
[[nodiscard]] bool matches(std::span<const std::byte> message, std::uint64_t i) noexcept;

}  // namespace perf

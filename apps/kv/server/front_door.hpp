// front_door: the sockets of one worker; io_uring or Asio moves their bytes.
#pragma once

#include "../keyspace/counters.hpp"
#include "conversation.hpp"

#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kv {

// Settings of all front doors of a server. They may change while the doors are open. Any thread.
struct door_settings {
  // A client that neither sends nor receives for this many seconds is closed; 0: never.
  std::atomic<std::uint32_t> idle_seconds = 0;
};

// Approximate limit of received bytes per client that its conversation does not accept yet.
inline constexpr std::size_t most_kept_bytes = std::size_t{8} << 20;

// Counters of one front door: written by its thread, read by any.
struct door_counters {
  relaxed_counter accepted;
  relaxed_counter closed;
  relaxed_counter timed_out;  // ... because they were idle
  relaxed_counter received_bytes;
  relaxed_counter sent_bytes;
  relaxed_counter kernel_calls;  // system calls that moved bytes
  relaxed_counter pauses;        // times a socket was not read because its client did not read
};

// Bound to the thread of its reactor, on which it is made, used and destroyed.
class front_door {
 public:
  // A connection was accepted. The function takes the socket and calls no method of the door except
  // adopt().
  using arrival = void (*)(void* context, cordma::unique_fd socket) noexcept;
  // The reason that nothing can be accepted now (too many open files, for example). The door
  // retries later.
  using complaint = void (*)(void* context, int error) noexcept;

  virtual ~front_door() = default;  // closes all sockets
  // Accepts there until stop_listening(). `socket` belongs to the caller and outlives that. Throws
  // cordma::error.
  virtual void listen(int socket, arrival here, complaint cannot, void* context) = 0;
  virtual void stop_listening() noexcept = 0;
  // Serves the socket until either side ends it. Closes it if there is no memory for it.
  virtual void adopt(cordma::unique_fd socket, session_origin origin,
                     const conversation_maker& maker) noexcept = 0;
  // Reads nothing any more. After dismiss(), which also stops reading, each client is closed once
  // its pending bytes are sent.
  virtual void stop_reading() noexcept = 0;
  virtual void dismiss() noexcept = 0;
  // Does the work of each second. The door calls it itself; tests call it to avoid the wait.
  virtual void pass_second() noexcept = 0;

  [[nodiscard]] virtual std::size_t clients() const noexcept = 0;
  [[nodiscard]] virtual const door_counters& counters() const noexcept = 0;
  [[nodiscard]] virtual const char* engine() const noexcept = 0;
};

// On io_uring. Errors: not_supported, with the reason of the kernel (too old, forbidden, no memory
// to lock).
[[nodiscard]] cordma::result<std::unique_ptr<front_door>> make_ring_door(
    cordma::reactor& loop, const door_settings& settings);
// On Asio. Throws cordma::error.
[[nodiscard]] std::unique_ptr<front_door> make_asio_door(cordma::reactor& loop,
                                                         const door_settings& settings);

}  // namespace kv

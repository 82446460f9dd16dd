// front_door: the sockets of one worker, whatever moves their bytes: io_uring or Asio.
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

// What all front doors of a server have in common, and may be changed while they are open. Any thread.
struct door_settings {
  // A client that neither says nor takes anything for so long is sent away; 0: none is.
  std::atomic<std::uint32_t> idle_seconds = 0;
};

// Bytes that came and that nobody wants yet are kept, up to about so many for one client.
inline constexpr std::size_t most_kept_bytes = std::size_t{8} << 20;

// What one front door did: written by its thread, read by any.
struct door_counters {
  relaxed_counter accepted;
  relaxed_counter closed;
  relaxed_counter timed_out;  // ... because they were idle
  relaxed_counter received_bytes;
  relaxed_counter sent_bytes;
  relaxed_counter kernel_calls;  // how often the kernel was asked to move them
  relaxed_counter
      pauses;  // sockets that were not read for a while: their clients do not read either
};

// Bound to the thread of its reactor, on which it is made, used and destroyed.
class front_door {
 public:
  // A socket has come. The function takes it, and calls no method of the door but adopt().
  using arrival = void (*)(void* context, cordma::unique_fd socket) noexcept;
  // Why nothing can be accepted just now (too many open files, say). It is tried again in a while.
  using complaint = void (*)(void* context, int error) noexcept;

  virtual ~front_door() = default;  // closes all that is open
  // Accepts there until stop_listening(); `socket` is the caller's, and outlives that. Throws cordma::error.
  virtual void listen(int socket, arrival here, complaint cannot, void* context) = 0;
  virtual void stop_listening() noexcept = 0;
  // Serves it until one of the two ends it. Where that cannot be done for want of memory it is closed.
  virtual void adopt(cordma::unique_fd socket, session_origin origin,
                     const conversation_maker& maker) noexcept = 0;
  // Nothing is read any more; whoever has had all that is pending for him is sent away when dismiss() is called, at the
  // latest after that.
  virtual void stop_reading() noexcept = 0;
  virtual void dismiss() noexcept = 0;
  // Does what is done each second, which it does by itself; a test does not wait for that.
  virtual void pass_second() noexcept = 0;

  [[nodiscard]] virtual std::size_t clients() const noexcept = 0;
  [[nodiscard]] virtual const door_counters& counters() const noexcept = 0;
  [[nodiscard]] virtual const char* engine() const noexcept = 0;
};

// By io_uring. Errors: not_supported, saying why the kernel does not permit it (too old, forbidden, no memory to lock).
[[nodiscard]] cordma::result<std::unique_ptr<front_door>> make_ring_door(
    cordma::reactor& loop, const door_settings& settings);
// By Asio. Throws cordma::error.
[[nodiscard]] std::unique_ptr<front_door> make_asio_door(cordma::reactor& loop,
                                                         const door_settings& settings);

}  // namespace kv

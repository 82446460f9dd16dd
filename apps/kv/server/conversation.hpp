// conversation: the protocol of one socket without the socket: takes received bytes, and has bytes
// to send.
#pragma once

#include "../command/session.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace kv {

// A RESP client, one behind TLS, or a request for metrics. As with session, it is bound to its
// worker's thread. The memory of pending() stays valid until sent(), received(), arrived() or
// resume(). An exception closes its socket.
class conversation {
 public:
  virtual ~conversation() = default;
  virtual void received(std::span<const char> bytes) = 0;
  [[nodiscard]] virtual std::span<char> room() noexcept { return {}; }
  virtual void arrived(std::size_t bytes) { static_cast<void>(bytes); }
  // The peer will send no more. The conversation ends once it has sent all that it owes; see
  // ended().
  virtual void no_more_input() = 0;
  // Called after `wake`, while no part of pending() is being sent.
  virtual void resume() {}
  [[nodiscard]] virtual std::span<const char> pending() const noexcept = 0;
  virtual void sent(std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual bool wants_input() const noexcept = 0;
  [[nodiscard]] virtual session::ending ended() const noexcept = 0;
};

// Makes the conversation of a newly accepted socket. `wake(context)` is as in session.
using conversation_maker = std::function<std::unique_ptr<conversation>(
    session_origin, session::wake_function wake, void* context)>;

}  // namespace kv

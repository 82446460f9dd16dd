// conversation: what is said on one socket, without the socket: bytes come in, bytes are to go out.
#pragma once

#include "../command/session.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace kv {

// A RESP client, one behind TLS, somebody who asks for metrics. As session has it: bound to its worker's thread;
// pending() stays where it is until sent(), received(), arrived() or resume(). What it throws closes its socket.
class conversation {
 public:
  virtual ~conversation() = default;
  virtual void received(std::span<const char> bytes) = 0;
  [[nodiscard]] virtual std::span<char> room() noexcept { return {}; }
  virtual void arrived(std::size_t bytes) { static_cast<void>(bytes); }
  // The other side will say no more. Its conversation ends when it has had all that it is owed: as ended() says.
  virtual void no_more_input() = 0;
  // After `wake`, when nothing of pending() is being sent.
  virtual void resume() {}
  [[nodiscard]] virtual std::span<const char> pending() const noexcept = 0;
  virtual void sent(std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual bool wants_input() const noexcept = 0;
  [[nodiscard]] virtual session::ending ended() const noexcept = 0;
};

// Makes the conversation of a socket that has just come. `wake(context)` as session has it.
using conversation_maker = std::function<std::unique_ptr<conversation>(
    session_origin, session::wake_function wake, void* context)>;

}  // namespace kv

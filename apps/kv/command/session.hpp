// session: one RESP client, from received bytes to bytes to send. The owner of the socket moves
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kv {

class service;

enum class door : std::uint8_t { tcp, tls, unix_socket };

struct session_origin {
  std::string peer;   // "127.0.0.1:51234", "/run/cordma-kv.sock:0"
  std::string local;  // likewise
  door came_by = door::tcp;
  int descriptor = -1;    // for CLIENT LIST
  unsigned worker = 0;    // index of the service's worker that serves it
  bool loopback = false;  // on this host: admitted even in protected mode
};

// Bound to its worker's thread, like all of a service's state of one worker. Commands run in order
// as their bytes arrive, and pending() has the replies in the same order. If the journal must be on
// disk first (appendfsync always), a reply becomes pending only then: the service notifies its
// sessions and calls `wake`.
class session {
 public:
  // `wake(context)`: pending(), wants_input() or ended() have changed for another reason than
  // received() or sent(): for example the journal advanced, or another client killed this one.
  // Called on its worker's thread.
  using wake_function = void (*)(void* context) noexcept;
  session(service& of, session_origin origin, wake_function wake, void* context);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  // Takes received bytes, which belong to the caller again on return. Runs the complete commands.
  void received(std::span<const char> bytes);
  // For large values: memory to read the next bytes into, reported by arrived(). Empty: use
  // received().
  [[nodiscard]] std::span<char> room() noexcept;
  void arrived(std::size_t bytes);

  // No more bytes will arrive: the session ends once all commands are answered and the replies are
  // sent.
  void no_more_input() noexcept;

  // Called after `wake` and before pending(), while no part of that is being sent: runs commands
  // that had to wait.
  void resume();

  // Bytes that may be sent now. Valid until sent(), received(), arrived() or resume().
  [[nodiscard]] std::span<const char> pending() const noexcept;
  void sent(std::size_t bytes) noexcept;

  // False while replies pile up (output limits) or a command has to wait (service::pausing()). The
  // socket is not to be read then, so that a client that does not read its replies causes no more
  // of them.
  [[nodiscard]] bool wants_input() const noexcept;
  // Close when pending() is empty (QUIT, a protocol error, no more input), or at once (killed, or
  // above its output limit, which the mere passing of time may cause).
  enum class ending : std::uint8_t { no, when_sent, now };
  [[nodiscard]] ending ended() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace kv

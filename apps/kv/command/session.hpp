// session: one RESP client. It takes bytes and gives bytes; whoever owns the socket moves them.
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
  unsigned worker = 0;    // which of the service's workers serves it
  bool loopback = false;  // of this host: let in where protected mode is on
};

// Bound to its worker's thread, as everything that a service owns for a worker. Commands are run as their bytes come,
// in order; replies stand in pending() in the same order. Where the journal must be on disk first (appendfsync
// always), a reply is pending only then: service tells its sessions, and calls `wake`.
class session {
 public:
  // `wake(context)`: pending(), wants_input() or ended() have changed by something other than received() or sent():
  // the journal went on, another client killed this one. Called on its worker's thread.
  using wake_function = void (*)(void* context) noexcept;
  session(service& of, session_origin origin, wake_function wake, void* context);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  // Bytes that came, and are the caller's again afterwards. Runs what is complete.
  void received(std::span<const char> bytes);
  // For large values: where the next bytes may be read to, to be told by arrived(). Empty: use received().
  [[nodiscard]] std::span<char> room() noexcept;
  void arrived(std::size_t bytes);

  // There will be no more: it ends when everything that came is answered, and that is sent.
  void no_more_input() noexcept;

  // To be called after `wake`, and before pending(), when nothing of that is being sent: runs what had to wait.
  void resume();

  // What may be sent now. Stays where it is until sent(), received(), arrived() or resume().
  [[nodiscard]] std::span<const char> pending() const noexcept;
  void sent(std::size_t bytes) noexcept;

  // False while replies pile up (output limits), or a command has to wait (service::pausing()): the socket is not to be
  // read then, so a client that does not read its replies is not served more of them.
  [[nodiscard]] bool wants_input() const noexcept;
  // To be closed once pending() is empty (QUIT, a protocol error, no more input), or at once (killed, above its output
  // limit, which may also come about by nothing but time).
  enum class ending : std::uint8_t { no, when_sent, now };
  [[nodiscard]] ending ended() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace kv

// The rendezvous: unix sockets named by port in a directory of the user.
#pragma once

#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cordma::transport::shm {

// Something that an adapter watches. Called from adapter::poll().
class socket_handler {
 public:
  virtual ~socket_handler() = default;
  virtual void on_socket() noexcept = 0;
};

struct peer_identity {
  int pid = 0;  // 0: in a process namespace that is not visible from here
  unsigned uid = 0;
};
[[nodiscard]] result<peer_identity> identify(int socket);
// "process 7", as text that takes no memory.
class peer_name {
 public:
  explicit peer_name(const peer_identity& who) noexcept;
  operator std::string_view() const noexcept { return {text_.data(), size_}; }  // NOLINT

 private:
  std::array<char, 40> text_;
  std::size_t size_;
};

// The directory, made where it is missing. not_permitted where it belongs to somebody else.
[[nodiscard]] result<std::string> rendezvous_directory(const std::string& configured,
                                                       bool any_user);
// What the host of an address means.
struct named_host {
  std::string name;
  bool here = false;                   // one of its addresses is of this machine
  std::vector<std::string> addresses;  // in inet_ntop()'s spelling; none: every one of this machine
};
// May resolve the name; nowhere, where it cannot be. no_memory where no socket is left to find out.
[[nodiscard]] result<named_host> look_up(const std::string& host);
// Whether who listens at `path` was told to do so on an address of `wanted`. REQUIRES a connection to
// its socket: what it serves is written down before.
[[nodiscard]] result<bool> serves(const std::string& path, const named_host& wanted);

// A listening socket and the lock that makes the name its own; both go with the process.
struct bound_name {
  unique_fd socket;
  unique_fd lock;
  std::string path;
  std::string lock_path;
  bound_name() = default;
  bound_name(bound_name&& other) noexcept = default;
  bound_name& operator=(bound_name&&) = delete;
  ~bound_name();
};
// in_use where a living process listens there; a dead one's name is taken over.
[[nodiscard]] result<bound_name> bind_name(const std::string& path, bool any_user,
                                           const std::vector<std::string>& addresses = {});
[[nodiscard]] std::string port_path(const std::string& directory, std::uint16_t port);

struct dial {
  unique_fd socket;
  bool again = false;  // the listener's backlog is full: try later
};
// unreachable where nobody listens.
[[nodiscard]] result<dial> dial_name(const std::string& path);
// Empty and errno set where there is none.
[[nodiscard]] unique_fd accept_one(int listening) noexcept;

enum class transfer : std::uint8_t { done, again, gone };
// `fds` are borrowed.
[[nodiscard]] transfer send_packet(int socket, std::span<const std::byte> bytes,
                                   std::span<const int> fds) noexcept;
template <class Packet>
[[nodiscard]] transfer send_packet(int socket, const Packet& p,
                                   std::span<const int> fds = {}) noexcept {
  return send_packet(socket, std::as_bytes(std::span(&p, 1)), fds);
}

struct received_packet {
  std::array<std::byte, most_packet_bytes> storage;
  std::size_t size = 0;
  std::array<unique_fd, most_packet_fds> fds;
  std::size_t fd_count = 0;
  bool lost_fds = false;  // no descriptor was left to receive them
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span(storage).first(size);
  }
};
[[nodiscard]] transfer receive_packet(int socket, received_packet& into) noexcept;
// Closes `socket`. What was sent stays there for the peer to read, whatever it has sent or sends meanwhile:
// a socket closed with unread packets would turn the peer's next read into an error that hides our last words.
void hang_up(unique_fd& socket) noexcept;
template <class Packet>
void hang_up(unique_fd& socket, const Packet& last) noexcept {
  static_cast<void>(send_packet(socket.get(), last));
  hang_up(socket);
}
// Whether the other end is gone, without reading anything.
[[nodiscard]] bool hung_up(int socket) noexcept;

}  // namespace cordma::transport::shm

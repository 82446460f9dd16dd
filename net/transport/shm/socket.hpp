// Packets over the unix sockets of the rendezvous.
#pragma once

#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <cordma/net/transport/socket_fd.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cordma::transport::shm {

struct peer_identity {
  int pid = 0;  // 0: in a process namespace that is not visible from here
  unsigned uid = 0;
};
[[nodiscard]] result<peer_identity> identify(int socket);
// "process 7", as text without allocation.
class peer_name {
 public:
  explicit peer_name(const peer_identity& who) noexcept;
  operator std::string_view() const noexcept { return {text_.data(), size_}; }  // NOLINT

 private:
  std::array<char, 40> text_;
  std::size_t size_;
};

// Empty, with errno set, if there is none.
[[nodiscard]] socket_fd accept_one(int listening) noexcept;

// again: the socket is full, or the peer has sent nothing. limit: too many descriptors of this user
// are in flight between processes (RLIMIT_NOFILE).
enum class transfer : std::uint8_t { done, again, limit, gone };
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
  bool lost_fds = false;  // no descriptor was free to receive them
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::span(storage).first(size);
  }
};
[[nodiscard]] transfer receive_packet(int socket, received_packet& into) noexcept;
// Closes `socket`. Sent packets stay readable for the peer, even if it has sent packets or still
// sends some: a socket closed with unread packets would turn the peer's next read into an error
// that hides our last packet.
// In a child of fork(), a parent's socket is only closed.
void hang_up(socket_fd& socket) noexcept;
template <class Packet>
void hang_up(socket_fd& socket, const Packet& last) noexcept {
  if (!socket.inherited()) static_cast<void>(send_packet(socket.get(), last));
  hang_up(socket);
}
// True if the other end has closed; reads nothing.
[[nodiscard]] bool hung_up(int socket) noexcept;

}  // namespace cordma::transport::shm

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cordma/net/transport/shm/socket.hpp>

namespace cordma::transport::shm {

result<peer_identity> identify(int socket) {
  ucred c{};
  socklen_t n = sizeof c;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0) {
    return failure::from_os(errno, "asking who the peer is");
  }
  return peer_identity{c.pid, c.uid};
}

peer_name::peer_name(const peer_identity& who) noexcept {
  const std::string_view named = who.pid == 0 ? "a process of another pid namespace" : "process ";
  char* end = std::copy(named.begin(), named.end(), text_.data());
  if (who.pid != 0) end = std::to_chars(end, text_.data() + text_.size(), who.pid).ptr;
  size_ = static_cast<std::size_t>(end - text_.data());
  CORDMA_ASSERT_OP(size_, <=, text_.size());
}

socket_fd accept_one(int listening) noexcept {
  return socket_fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

transfer send_packet(int socket, std::span<const std::byte> bytes,
                     std::span<const int> fds) noexcept {
  CORDMA_REQUIRE_OP(bytes.size(), <=, most_packet_bytes);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_packet_fds)> room{};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    CORDMA_REQUIRE_OP(fds.size(), <=, most_packet_fds);
    m.msg_control = room.data();
    m.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return transfer::done;
    if (errno == EINTR) continue;
    if (errno == ETOOMANYREFS) return transfer::limit;
    return errno == EAGAIN || errno == ENOBUFS ? transfer::again : transfer::gone;
  }
}

transfer receive_packet(int socket, received_packet& into) noexcept {
  into.size = 0;
  into.fd_count = 0;
  into.lost_fds = false;
  iovec part{into.storage.data(), into.storage.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_packet_fds)> room{};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = room.data();
  m.msg_controllen = room.size();
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN ? transfer::again : transfer::gone;
  into.lost_fds = (m.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      unique_fd owned(fd);
      if (into.fd_count < into.fds.size()) into.fds[into.fd_count++] = std::move(owned);
    }
  }
  if (n == 0) return transfer::gone;
  into.size = static_cast<std::size_t>(n);
  return transfer::done;
}

// Shuts down first: then no packet arrives any more, and none is unread at the close.
void hang_up(socket_fd& socket) noexcept {
  if (!socket.inherited()) {
    ::shutdown(socket.get(), SHUT_RDWR);
    received_packet unread;
    while (receive_packet(socket.get(), unread) == transfer::done) unread.fds = {};
  }
  socket.close();
}

bool hung_up(int socket) noexcept {
  pollfd p{socket, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

}  // namespace cordma::transport::shm

// Sockets: names to addresses, options, and errors with a remedy.
#pragma once

#include <sys/socket.h>

#include <cordma/net/transport/socket_fd.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/check.hpp>
#include <cstring>
#include <utility>
#include <vector>

namespace cordma::transport::tcp {

class socket_address {
 public:
  socket_address() noexcept = default;
  // REQUIRES at most sizeof(sockaddr_storage) bytes.
  socket_address(const void* address, socklen_t length) noexcept : length_(length) {
    CORDMA_REQUIRE_OP(length, <=, sizeof storage_);
    std::memcpy(&storage_, address, length);
  }
  // `ask`: getsockname() or getpeername(). Empty if it fails.
  template <class Ask>
  [[nodiscard]] static socket_address of(int fd, Ask ask) noexcept {
    socket_address s;
    s.length_ = sizeof s.storage_;
    if (ask(fd, reinterpret_cast<sockaddr*>(&s.storage_), &s.length_) != 0) s.length_ = 0;
    return s;
  }
  [[nodiscard]] bool operator==(const socket_address& other) const noexcept {
    return length_ == other.length_ && std::memcmp(&storage_, &other.storage_, length_) == 0;
  }
  [[nodiscard]] bool empty() const noexcept { return length_ == 0; }
  [[nodiscard]] socklen_t length() const noexcept { return length_; }
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  [[nodiscard]] std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;
  // In numbers, with the scope of a link-local address.
  [[nodiscard]] address numeric() const;
  // "10.0.0.1:7000", "[::1]:7000".
  [[nodiscard]] std::string text() const { return numeric().text(); }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

enum class purpose : std::uint8_t { connecting, listening };
// In the order in which they should be tried; never empty. unreachable if the name is unknown.
[[nodiscard]] result<std::vector<socket_address>> resolve(const address& where, purpose why);

// A non-blocking stream socket. no_memory at the limit of descriptors, with a remedy.
[[nodiscard]] result<socket_fd> open_stream(int family) noexcept;
// Listens on every address of the name, all with one port; port 0 selects one that is free on all
// of them. An address of a family that this machine lacks is omitted if there are others. Without a
// host: one socket for both families. Errors: in_use, not_permitted, invalid_value (no address of
// this machine), no_memory, unreachable (unknown name).
[[nodiscard]] result<std::vector<socket_fd>> open_listeners(const address& where, int backlog);
[[nodiscard]] failure descriptor_limit(int os_errno, const char* doing) noexcept;
// False if this machine has no address to reach it from: IPv6 is off, for example.
[[nodiscard]] bool has_address_for(const socket_address& to) noexcept;

// Sets no delay, and the kernel's detection of a silent peer.
void tune(int fd, duration peer_timeout) noexcept;
// REQUIRES that it is connected. If the peer is on this host, the socket's send buffer is kept
// small.
void tune_to_distance(int fd) noexcept;

[[nodiscard]] socket_address local_of(int fd) noexcept;
[[nodiscard]] socket_address peer_of(int fd) noexcept;
// Returns and clears the pending error of a socket; 0 = none.
[[nodiscard]] int take_error(int fd) noexcept;

}  // namespace cordma::transport::tcp

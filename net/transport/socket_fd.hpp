// Owner of a socket that ends the connection for the peer even if fork() has copied the descriptor.
#pragma once

#include <cordma/runtime/process.hpp>
#include <cordma/runtime/unique_fd.hpp>

namespace cordma::transport {

// Shuts down and closes the socket on destruction. close(2) alone ends a connection only with the
// last copy, and any fork() or posix_spawn() of this process makes a copy, if only for a moment. In
// a child of fork(), the parent's socket is closed but not shut down.
class socket_fd {
 public:
  socket_fd() noexcept = default;
  // A negative `fd` means no socket.
  explicit socket_fd(int fd) noexcept : fd_(fd) {}
  socket_fd(socket_fd&&) noexcept = default;
  socket_fd& operator=(socket_fd&& other) noexcept {
    if (this == &other) return *this;
    close();
    fd_ = std::move(other.fd_);
    made_in_ = other.made_in_;
    return *this;
  }
  ~socket_fd() { close(); }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // True in a child of fork(), for a socket of its parent.
  [[nodiscard]] bool inherited() const noexcept { return made_in_.inherited(); }
  void close() noexcept;
  // REQUIRES a TCP connection. The peer sees a reset at once; unsent data is dropped.
  void reset_connection() noexcept;

 private:
  unique_fd fd_;
  process_mark made_in_;
};

}  // namespace cordma::transport

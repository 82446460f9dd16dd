// The sockets that one thread waits for.
#pragma once

#include <cordma/net/transport/socket_fd.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <vector>

namespace cordma::transport {

class socket_set;

// Is called when its socket is ready.
class socket_handler {
 public:
  // `events`: of epoll(7). On the thread of the set, inside its look().
  virtual void on_ready(std::uint32_t events) noexcept = 0;

 protected:
  ~socket_handler() = default;
};

// A socket with a place in a set. Bound to the thread of the set.
class watched_socket {
 public:
  // Takes a place, so that watching needs no memory. Throws std::bad_alloc.
  watched_socket(socket_set& set, socket_handler& owner);
  // Closes the socket.
  ~watched_socket();
  watched_socket(const watched_socket&) = delete;
  watched_socket& operator=(const watched_socket&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // See socket_fd.
  [[nodiscard]] bool inherited() const noexcept { return fd_.inherited(); }
  // REQUIRES that it has none.
  void own(socket_fd fd) noexcept;
  // The events that the set waits for, besides EPOLLERR and EPOLLHUP. Fails, and changes nothing, only if it is not
  // watched yet: no_memory, operating_system.
  result<void> watch(std::uint32_t events) noexcept;
  // on_ready() is not called from here on, also for what look() has found already.
  void unwatch() noexcept;
  // As those of socket_fd.
  void close() noexcept;
  void reset_connection() noexcept;
  // The caller's from here on; not watched any more.
  [[nodiscard]] socket_fd release() noexcept;
  // Gives up the place as well: from here on any one thread may use it, and the set may go.
  void leave_set() noexcept;

 private:
  friend class socket_set;
  socket_set* set_;
  socket_handler* owner_;
  socket_fd fd_;
  std::uint32_t place_;
  std::uint32_t events_ = 0;
  bool watched_ = false;
};

// An epoll set, level-triggered. Its entries name a place and a generation, never an object: an entry can outlive its
// socket in this process if a forked process holds a copy.
class socket_set {
 public:
  explicit socket_set(unique_fd epoll) noexcept : epoll_(std::move(epoll)) {}
  socket_set(const socket_set&) = delete;
  socket_set& operator=(const socket_set&) = delete;

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  // A descriptor that ends a wait, and whose events nobody asks for. Errors: no_memory, operating_system.
  result<void> add_wake_up(int fd, std::uint32_t events) noexcept;
  struct looked {
    bool any = false;     // a descriptor was ready, if only one of add_wake_up()
    bool called = false;  // a socket's on_ready() was called
  };
  // Calls on_ready() of all sockets that are ready. Does not wait.
  looked look() noexcept;

 private:
  friend class watched_socket;
  static constexpr int most_ready = 64;  // sockets per look
  // Stands for add_wake_up().
  static constexpr std::uint64_t no_place = ~std::uint64_t{0};
  struct place {
    watched_socket* who = nullptr;
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
  };
  static constexpr std::uint32_t none_free = ~std::uint32_t{0};

  [[nodiscard]] std::uint32_t take_place(watched_socket& who);
  void give_place(std::uint32_t at) noexcept;
  int control(int operation, const watched_socket& of) noexcept;

  unique_fd epoll_;
  std::vector<place> places_;
  std::uint32_t first_free_ = none_free;
};

}  // namespace cordma::transport

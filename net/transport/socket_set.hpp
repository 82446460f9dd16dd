// The sockets that one thread waits for.
#pragma once

#include <cordma/net/transport/socket_fd.hpp>
#include <cordma/runtime/result.hpp>

#include <cstdint>
#include <vector>

namespace cordma::transport {

class socket_set;

// Called when its socket is ready.
class socket_handler {
 public:
  // `events`: flags of epoll(7). Called on the thread of the set, inside its look().
  virtual void on_ready(std::uint32_t events) noexcept = 0;

 protected:
  ~socket_handler() = default;
};

// A socket with an entry in a set. Bound to the thread of the set.
class watched_socket {
 public:
  // Reserves an entry, so that watching allocates nothing. Throws std::bad_alloc.
  watched_socket(socket_set& set, socket_handler& owner);
  // Closes the socket.
  ~watched_socket();
  watched_socket(const watched_socket&) = delete;
  watched_socket& operator=(const watched_socket&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // See socket_fd.
  [[nodiscard]] bool inherited() const noexcept { return fd_.inherited(); }
  // REQUIRES that it has no socket yet.
  void own(socket_fd fd) noexcept;
  // Selects the events that the set waits for, besides EPOLLERR and EPOLLHUP. Fails only if the
  // socket is not watched yet, and then changes nothing: no_memory, operating_system.
  result<void> watch(std::uint32_t events) noexcept;
  // on_ready() is not called any more, even for events that look() has already found.
  void unwatch() noexcept;
  // See socket_fd.
  void close() noexcept;
  void reset_connection() noexcept;
  // Passes the socket to the caller; it is not watched any more.
  [[nodiscard]] socket_fd release() noexcept;
  // Releases the entry too: from now on any one thread may use the object, and the set may be
  // destroyed.
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

// An epoll set, level-triggered. Its entries store an index and a generation, never a pointer: an
// entry can outlive its socket in this process if a forked process has a copy.
class socket_set {
 public:
  explicit socket_set(unique_fd epoll) noexcept : epoll_(std::move(epoll)) {}
  socket_set(const socket_set&) = delete;
  socket_set& operator=(const socket_set&) = delete;

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  // Adds a descriptor that ends a wait; its events are not handled. Errors: no_memory,
  // operating_system.
  result<void> add_wake_up(int fd, std::uint32_t events) noexcept;
  struct looked {
    bool any = false;     // a descriptor was ready, including those of add_wake_up()
    bool called = false;  // a socket's on_ready() was called
  };
  // Calls on_ready() of all ready sockets. Does not wait.
  looked look() noexcept;

 private:
  friend class watched_socket;
  static constexpr int most_ready = 64;  // sockets per look
  // Marks the descriptors of add_wake_up().
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

// The listening side: listeners, and connections that have not been accepted yet.
#pragma once

#include <cordma/net/transport/tcp/tcp_adapter.hpp>
#include <cordma/net/transport/timer_of.hpp>
#include <optional>

namespace cordma::transport::tcp {

// Reads a hello, and not one byte more.
class hello_reader {
 public:
  // reset: no data arrived, and the kernel at the other end reset the connection.
  enum class progress : std::uint8_t { more, decoded, closed, reset };
  [[nodiscard]] progress read(int fd) noexcept;
  [[nodiscard]] bool empty() const noexcept { return have_ == 0; }
  [[nodiscard]] const decoded_hello& value() const noexcept { return value_; }

 private:
  hello_buffer bytes_;
  std::size_t have_ = 0;
  decoded_hello value_;
};

// Sends a hello into a socket that was just connected, so there is space for it.
[[nodiscard]] bool send_whole_hello(int fd, const hello& h) noexcept;

// Listens on all addresses of a name.
class tcp_listener final : public listener {
 public:
  // See open_listeners().
  [[nodiscard]] static result<std::unique_ptr<tcp_listener>> open(tcp_adapter& home,
                                                                  const address& where);
  tcp_listener(tcp_adapter& home, std::vector<socket_fd> sockets, address bound);
  ~tcp_listener() override;
  [[nodiscard]] const address& bound() const noexcept override { return bound_; }
  [[nodiscard]] std::vector<address> bound_all() const override;

 private:
  static constexpr int most_accepts_per_poll = 16;
  static constexpr duration pause_at_limit = std::chrono::milliseconds(50);
  // Time for which clients wait for a descriptor; then they are notified that there is none.
  static constexpr duration patience_at_limit = std::chrono::seconds(2);
  // One of its addresses.
  class door final : public socket_handler {
   public:
    door(tcp_listener& of, socket_fd fd);
    void on_ready(std::uint32_t events) noexcept override;
    [[nodiscard]] result<void> begin() noexcept;
    [[nodiscard]] address where() const { return local_of(socket_.get()).numeric(); }

   private:
    [[nodiscard]] socket_fd accept_one() noexcept;  // empty on failure, with the reason in errno
    // Called when the limit of descriptors persists. False if no client waits any more.
    [[nodiscard]] bool turn_away() noexcept;
    void resume() noexcept { static_cast<void>(begin()); }  // watched already

    tcp_listener& of_;
    watched_socket socket_;
    timer_of<&door::resume> resume_{*this};
    unique_fd spare_;  // closed for a moment to notify a client that no descriptor is left
    std::optional<time_point> at_limit_since_;
  };
  tcp_adapter& home_;
  std::vector<std::unique_ptr<door>> doors_;
  address bound_;
};

// A client that has connected: first it has to send a hello, then the program has to answer it.
class incoming final : public socket_handler {
 public:
  // A peer that connects and sends nothing is dropped.
  static constexpr duration hello_timeout = std::chrono::seconds(5);

  incoming(tcp_adapter& home, tcp_listener* from, socket_fd fd, std::uint64_t id);
  ~incoming();
  incoming(const incoming&) = delete;
  incoming& operator=(const incoming&) = delete;
  [[nodiscard]] result<void> begin();
  void on_ready(std::uint32_t events) noexcept override;

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] tcp_listener* from() const noexcept { return from_; }
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  [[nodiscard]] const hello& greeting() const noexcept { return reader_.value().value; }
  [[nodiscard]] std::string peer() const { return peer_of(socket_.get()).text(); }
  void answer(const hello& h) noexcept;
  // The socket, for the resulting connection or for another adapter.
  [[nodiscard]] socket_fd release() noexcept { return socket_.release(); }
  // Before it moves to another adapter: leaves this one's sockets.
  void detach() noexcept;

 private:
  void refuse(const decoded_hello& d) noexcept;
  void on_deadline() noexcept { home_->gone(*this); }

  tcp_adapter* home_;
  tcp_listener* from_;
  watched_socket socket_;
  std::uint64_t id_;
  bool greeted_ = false;
  hello_reader reader_;
  timer_of<&incoming::on_deadline> deadline_{*this};
};

}  // namespace cordma::transport::tcp

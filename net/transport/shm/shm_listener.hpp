// A port that accepts connections, and the clients that have not sent hello yet.
#pragma once

#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/timer_of.hpp>
#include <memory>
#include <vector>

namespace cordma::transport::shm {

class shm_listener final : public listener, public socket_handler {
 public:
  shm_listener(shm_adapter& home, bound_name name, address where, std::vector<ip_address> served,
               unique_fd spare);
  ~shm_listener() override;
  [[nodiscard]] const address& bound() const noexcept override { return where_; }
  [[nodiscard]] std::vector<address> bound_all() const override;
  [[nodiscard]] result<void> begin() noexcept;
  void on_ready(std::uint32_t events) noexcept override;

 private:
  // A client between its connect and its hello.
  class greeting final : public socket_handler, public timer {
   public:
    greeting(shm_listener& l, socket_fd s, const peer_identity& w)
        : timer([](timer& t) noexcept {
            auto& g = static_cast<greeting&>(t);
            g.owner_.drop(g);
          }),
          owner_(l),
          socket_(l.home_.sockets(), *this),
          who_(w) {
      socket_.own(std::move(s));
    }
    void on_ready(std::uint32_t) noexcept override { owner_.on_hello(*this); }
    [[nodiscard]] watched_socket& socket() noexcept { return socket_; }
    [[nodiscard]] const peer_identity& who() const noexcept { return who_; }

   private:
    shm_listener& owner_;
    watched_socket socket_;
    peer_identity who_;
  };
  // These throw std::bad_alloc; the client still belongs to the caller then.
  void greet(socket_fd& socket);
  void take_hello(greeting& g, received_packet& p);
  void on_hello(greeting& g) noexcept;
  void drop(greeting& g) noexcept;
  // False: no client was refused, for lack of the spare descriptor.
  [[nodiscard]] bool turn_away(int listening) noexcept;
  // Pauses accepting. Waiting clients stay in the backlog for a moment, because the sockets would
  // be ready all the time.
  void rest() noexcept;
  void go_on() noexcept;
  // True: there may be more.
  bool take_some(int listening) noexcept;
  // The listening side decides this, not a file, which may have been removed.
  [[nodiscard]] bool serves(const introduction& hello) const noexcept;
  void look_at_name() noexcept;
  void look_at_name_later() noexcept;

  shm_adapter& home_;
  // Listens at the name that is no file; a client uses it if the files are missing.
  class second_door final : public socket_handler {
   public:
    explicit second_door(shm_listener& l) : owner_(l), socket_(l.home_.sockets(), *this) {}
    void on_ready(std::uint32_t) noexcept override {
      owner_.take_some(socket_.get());
      owner_.look_at_name();
    }
    [[nodiscard]] watched_socket& socket() noexcept { return socket_; }

   private:
    shm_listener& owner_;
    watched_socket socket_;
  };
  name_files name_;
  watched_socket socket_;
  second_door second_;
  timer_of<&shm_listener::look_at_name> name_timer_{*this};
  timer_of<&shm_listener::go_on> rest_timer_{*this};
  network_namespace namespace_;
  address where_;
  std::vector<ip_address> served_;  // empty: every address
  // Closed for a moment to accept a client and refuse it if no descriptor is left.
  unique_fd spare_;
  std::vector<std::unique_ptr<greeting>> greetings_;
};

}  // namespace cordma::transport::shm

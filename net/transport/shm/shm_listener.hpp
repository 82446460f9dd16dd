// A port others connect to, and the clients that have not said hello yet.
#pragma once

#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/socket.hpp>
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
  struct greeting final : socket_handler, timer {
    greeting(shm_listener& l, socket_fd s, const peer_identity& w)
        : timer([](timer& t) noexcept {
            auto& g = static_cast<greeting&>(t);
            g.owner.drop(g);
          }),
          owner(l),
          socket(l.home_.sockets(), *this),
          who(w) {
      socket.own(std::move(s));
    }
    void on_ready(std::uint32_t) noexcept override { owner.on_hello(*this); }
    shm_listener& owner;
    watched_socket socket;
    peer_identity who;
  };
  // Throw std::bad_alloc; the client is the caller's then.
  void greet(socket_fd& socket);
  void take_hello(greeting& g, received_packet& p);
  void on_hello(greeting& g) noexcept;
  void drop(greeting& g) noexcept;
  // False: nobody could be told, for want of the spare descriptor.
  [[nodiscard]] bool turn_away(int listening) noexcept;
  // Who waits stays in the backlog for a moment: the sockets would be ready all the time.
  void rest() noexcept;
  void go_on() noexcept;
  // True: there may be more.
  bool take_some(int listening) noexcept;
  // The listening side decides, and not a file that may have been removed.
  [[nodiscard]] bool serves(const introduction& hello) const noexcept;
  void look_at_name() noexcept;
  void look_at_name_later() noexcept;

  shm_adapter& home_;
  // Reached by the name that is no file: its files may be gone.
  struct second_door final : socket_handler {
    explicit second_door(shm_listener& l) : owner(l), socket(l.home_.sockets(), *this) {}
    void on_ready(std::uint32_t) noexcept override {
      owner.take_some(socket.get());
      owner.look_at_name();
    }
    shm_listener& owner;
    watched_socket socket;
  };
  struct name_timer : timer {
    explicit name_timer(shm_listener& l) noexcept
        : timer([](timer& t) noexcept { static_cast<name_timer&>(t).owner.look_at_name(); }),
          owner(l) {}
    shm_listener& owner;
  };
  struct rest_timer : timer {
    explicit rest_timer(shm_listener& l) noexcept
        : timer([](timer& t) noexcept { static_cast<rest_timer&>(t).owner.go_on(); }), owner(l) {}
    shm_listener& owner;
  };
  bound_name name_;  // without its sockets
  watched_socket socket_;
  second_door second_;
  name_timer name_timer_;
  rest_timer rest_timer_;
  network_namespace namespace_;
  address where_;
  std::vector<ip_address> served_;  // none: every address
  unique_fd spare_;                 // given up for a moment to tell a client that none is left
  std::vector<std::unique_ptr<greeting>> greetings_;
};

}  // namespace cordma::transport::shm

// A port others connect to, and the clients that have not said hello yet.
#pragma once

#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <memory>
#include <vector>

namespace cordma::transport::shm {

class shm_listener final : public listener, public socket_handler {
 public:
  shm_listener(shm_adapter& home, bound_name name, address where, unique_fd spare);
  ~shm_listener() override;
  [[nodiscard]] const address& bound() const noexcept override { return where_; }
  void on_socket() noexcept override;

 private:
  // A client between its connect and its hello.
  struct greeting final : socket_handler, timer {
    greeting(shm_listener& l, unique_fd s, const peer_identity& w)
        : timer([](timer& t) noexcept {
            auto& g = static_cast<greeting&>(t);
            g.owner.drop(g);
          }),
          owner(l),
          socket(std::move(s)),
          who(w) {}
    void on_socket() noexcept override { owner.on_hello(*this); }
    shm_listener& owner;
    unique_fd socket;
    peer_identity who;
  };
  // Throw std::bad_alloc; the client is the caller's then.
  void greet(unique_fd& socket);
  void take_hello(greeting& g, received_packet& p);
  void on_hello(greeting& g) noexcept;
  void drop(greeting& g) noexcept;
  void turn_away() noexcept;

  shm_adapter& home_;
  bound_name name_;
  address where_;
  unique_fd spare_;  // given up for a moment to tell a client that none is left
  std::vector<std::unique_ptr<greeting>> greetings_;
};

}  // namespace cordma::transport::shm

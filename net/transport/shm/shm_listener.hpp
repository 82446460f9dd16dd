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
    greeting(shm_listener& l, unique_fd s)
        : timer([](timer& t) noexcept {
            auto& g = static_cast<greeting&>(t);
            g.owner.drop(g);
          }),
          owner(l),
          socket(std::move(s)) {}
    void on_socket() noexcept override { owner.on_hello(*this); }
    shm_listener& owner;
    unique_fd socket;
    peer_identity who;
  };
  void on_hello(greeting& g) noexcept;
  void drop(greeting& g) noexcept;
  void turn_away() noexcept;
  void refuse(greeting& g, errc code, std::string_view why) noexcept;

  shm_adapter& home_;
  bound_name name_;
  address where_;
  unique_fd spare_;  // given up for a moment to tell a client that none is left
  std::vector<std::unique_ptr<greeting>> greetings_;
};

}  // namespace cordma::transport::shm

// Hand-written rdma_cm: a listener, or a client, of a program that has a separate event channel.
#pragma once

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <arpa/inet.h>
#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace cordma::test {

// An identifier with a separate channel, which is polled and never blocks.
class raw_id {
 public:
  static sockaddr_in self(std::uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    REQUIRE(inet_pton(AF_INET, own_host().c_str(), &a.sin_addr) == 1);
    return a;
  }

  raw_id() : channel_(rdma_create_event_channel()) {
    REQUIRE(channel_ != nullptr);
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    REQUIRE(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) == 0);
  }
  raw_id(const raw_id&) = delete;
  raw_id& operator=(const raw_id&) = delete;
  ~raw_id() {
    rdma_destroy_id(id_);
    rdma_destroy_event_channel(channel_);
  }
  void listen() {
    sockaddr_in a = self(0);
    REQUIRE(rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&a)) == 0);
    REQUIRE(rdma_listen(id_, 8) == 0);
  }
  [[nodiscard]] std::uint16_t port() noexcept { return ntohs(rdma_get_src_port(id_)); }
  [[nodiscard]] std::string where() { return own_host() + ":" + std::to_string(port()); }
  [[nodiscard]] rdma_cm_id* get() noexcept { return id_; }

  // Returns the next event. The caller acknowledges it, or has it adopted.
  task<rdma_cm_event*> next() {
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel_, &event) != 0) {
      REQUIRE(errno == EAGAIN);
      co_await yield();
    }
    co_return event;
  }
  task<> expect(rdma_cm_event_type wanted) {
    rdma_cm_event* const event = co_await next();
    CHECK(std::string(rdma_event_str(event->event)) == rdma_event_str(wanted));
    rdma_ack_cm_event(event);
  }

 private:
  rdma_event_channel* channel_;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace cordma::test

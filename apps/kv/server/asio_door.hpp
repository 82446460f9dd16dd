// asio_door: a front door on Asio, for kernels that do not permit io_uring.
#pragma once

#include "common_door.hpp"

#include <cordma/runtime/asio.hpp>

#include <asio/posix/stream_descriptor.hpp>
#include <optional>
#include <vector>

namespace kv {

struct asio_client : door_client {
  asio_client(front_door& d, std::uint32_t i, cordma::unique_fd s) noexcept
      : door_client(d, i), socket(std::move(s)) {}
  cordma::unique_fd socket;
  std::optional<std::uint32_t> watched;  // registered events; empty: not in the epoll set yet
};

// Keeps all sockets in one epoll set, on which Asio waits; waiting for each socket through Asio
// would take a system call per request. All clients share one receive buffer and output is sent
// immediately, so an idle client holds no buffer.
class asio_door final : public common_door<asio_client> {
 public:
  asio_door(cordma::reactor& loop, const door_settings& settings);
  ~asio_door() override;

  void listen(int socket, arrival here, complaint cannot, void* context) override;
  void stop_listening() noexcept override;
  [[nodiscard]] const char* engine() const noexcept override { return "asio"; }

 private:
  static constexpr std::size_t buffer_bytes = 64 << 10;
  struct listener {
    int socket;
    arrival here;
    complaint cannot;
    void* context;
    bool failed = false;  // to be retried later
  };

  [[nodiscard]] std::unique_ptr<asio_client> make_client(std::uint32_t index,
                                                         cordma::unique_fd socket) override;
  void expect() noexcept override;
  void send(asio_client& c) noexcept override;
  void mind_input(asio_client& c, bool wanted) noexcept override;
  void shut(asio_client& c) noexcept override;
  void accept_again() noexcept override;

  void wait();
  void tend();
  void look() noexcept;
  [[nodiscard]] int watch(int change, int socket, std::uint32_t events,
                          std::uint64_t whose) noexcept;
  void accept_some(listener& l, std::uint64_t index) noexcept;
  void ready(asio_client& c, std::uint32_t events) noexcept;
  void receive(asio_client& c) noexcept;
  [[nodiscard]] bool receive_once(asio_client& c);

  cordma::asio_host host_;
  asio::posix::stream_descriptor set_;  // the epoll set
  std::unique_ptr<char[]> buffer_;
  std::vector<listener> listeners_;
  bool waiting_ = false;  // on set_
  struct later final : cordma::ready_item {
    explicit later(asio_door& d) noexcept
        : ready_item([](ready_item& i) noexcept { static_cast<later&>(i).door.tend(); }), door(d) {}
    asio_door& door;
  } later_;
};

}  // namespace kv

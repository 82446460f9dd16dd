// asio_door: a front door by Asio, for wherever the kernel does not permit io_uring.
#pragma once

#include "front_door.hpp"

#include <cordma/runtime/asio.hpp>

#include <asio/posix/stream_descriptor.hpp>
#include <vector>

namespace kv {

// Sockets are waited for by Asio; bytes come into one buffer for all, and go out at once: a client that is silent has
// no buffer.
class asio_door final : public front_door {
 public:
  asio_door(cordma::reactor& loop, const door_settings& settings);
  ~asio_door() override;

  void listen(int socket, arrival here, complaint cannot, void* context) override;
  void stop_listening() noexcept override;
  void adopt(cordma::unique_fd socket, session_origin origin,
             const conversation_maker& maker) noexcept override;
  void stop_reading() noexcept override;
  void dismiss() noexcept override;
  [[nodiscard]] std::size_t clients() const noexcept override { return clients_; }
  [[nodiscard]] const door_counters& counters() const noexcept override { return counters_; }
  [[nodiscard]] const char* engine() const noexcept override { return "asio"; }

 private:
  static constexpr std::size_t buffer_bytes = 64 << 10;
  enum class direction : std::uint8_t { in, out };
  struct listener {
    listener(asio::io_context& io, int socket, arrival h, complaint c, void* x)
        : descriptor(io, socket), here(h), cannot(c), context(x) {}
    asio::posix::stream_descriptor descriptor;
    arrival here;
    complaint cannot;
    void* context;
    bool waiting = false;
    bool failed = false;  // to be tried again later
  };
  struct client {
    client(asio_door& d, std::uint32_t i) : door(d), descriptor(d.host_.context()), index(i) {}
    asio_door& door;
    std::unique_ptr<conversation> talk;
    asio::posix::stream_descriptor descriptor;
    std::uint32_t index;
    std::uint32_t active = 0;      // the second in which it said something
    std::uint16_t operations = 0;  // waits under way
    bool receiving = false;
    bool full = false;      // no room in its socket: that is waited for
    bool paused = false;    // it is not read
    bool noted = false;     // in noted_
    bool woken = false;     // by its conversation, which is to go on
    bool said_all = false;  // will send no more
    bool closing = false;
  };

  void accept_on(listener& l);
  void accept_some(listener& l) noexcept;
  void wait_for(client& c, direction d) noexcept;
  void ready(client& c, direction d, const std::error_code& ec) noexcept;
  void receive(client& c) noexcept;
  [[nodiscard]] bool receive_once(client& c);
  void send(client& c) noexcept;
  void go_on(client& c) noexcept;
  void tend(client& c) noexcept;
  void close(client& c) noexcept;
  void note(client& c) noexcept;
  void tend_noted() noexcept;
  void each_second() noexcept;
  static void woken(void* context) noexcept;

  cordma::reactor& loop_;
  const door_settings& settings_;
  cordma::asio_host host_;
  std::unique_ptr<char[]> buffer_;
  std::vector<std::unique_ptr<listener>> listeners_;
  std::vector<std::unique_ptr<client>> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<client*> noted_;    // to be looked at in the next pass
  std::vector<client*> looking_;  // ... by tend_noted()
  std::size_t clients_ = 0;
  std::uint32_t second_ = 0;  // since it was opened
  bool reading_ = true;
  bool dismissing_ = false;
  door_counters counters_;
  struct later final : cordma::ready_item {
    explicit later(asio_door& d) noexcept
        : ready_item([](ready_item& i) noexcept { static_cast<later&>(i).door.tend_noted(); }),
          door(d) {}
    asio_door& door;
  } later_;
  struct tick final : cordma::timer {
    explicit tick(asio_door& d) noexcept
        : timer([](timer& t) noexcept { static_cast<tick&>(t).door.each_second(); }), door(d) {}
    asio_door& door;
  } tick_;
};

}  // namespace kv

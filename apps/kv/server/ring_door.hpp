// ring_door: a front door on io_uring: one system call for all sends and receives of a pass.
#pragma once

#include "common_door.hpp"
#include "socket_ring.hpp"

#include <cordma/runtime/reactor.hpp>

#include <string>
#include <vector>

namespace kv {

struct ring_client : door_client {
  enum class receiving : std::uint8_t { no, yes, once, canceled, into_room };
  ring_client(front_door& d, std::uint32_t i, cordma::unique_fd s) noexcept
      : door_client(d, i), socket(std::move(s)) {}
  cordma::unique_fd socket;
  std::string kept;  // received, and not accepted by the conversation yet
  receiving in = receiving::no;
  bool watched = false;   // for its end
  bool half_way = false;  // it may have closed one direction; its end cannot be observed further
  bool much = false;      // the last receive filled a buffer
};

// Each socket has one multishot receive into whichever provided buffer is next, so an idle client
// holds none. A client that sends much at a time is received from one buffer at a time, and a long
// value directly into its destination: a multishot receive would fill all buffers, which exceeds
// the caches. Pending bytes of all clients are submitted together at the end of a pass. Sends never
// wait in the kernel: if a client does not read, its socket is polled for space. A socket that is
// not being received from is polled for its end: a reset, or a closed unix socket.
class ring_door final : public common_door<ring_client>,
                        private cordma::poller,
                        private cordma::sleeper {
 public:
  ring_door(cordma::reactor& loop, const door_settings& settings,
            std::unique_ptr<socket_ring> ring);
  ~ring_door() override;

  void listen(int socket, arrival here, complaint cannot, void* context) override;
  void stop_listening() noexcept override;
  [[nodiscard]] const char* engine() const noexcept override { return "io_uring"; }

 private:
  using receiving = ring_client::receiving;
  enum class operation : std::uint8_t {
    accept,
    receive,
    fill,
    send,
    room,
    end,
    cancel,
    wake_up,
    nothing
  };
  struct listener {
    int socket;
    arrival here;
    complaint cannot;
    void* context;
    bool accepting = false;
    bool failed = false;  // to be retried later
  };

  std::size_t poll() noexcept override;
  cordma::arm_state arm() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return is_sleeper; }
  [[nodiscard]] const char* name() const noexcept override { return "io_uring"; }
  void sleep(int fd) noexcept override;

  [[nodiscard]] std::unique_ptr<ring_client> make_client(std::uint32_t index,
                                                         cordma::unique_fd socket) override;
  void expect() noexcept override { loop_.stir(); }
  void send(ring_client& c) noexcept override;
  void mind_input(ring_client& c, bool wanted) noexcept override;
  [[nodiscard]] bool feed_kept(ring_client& c) override;
  void shut(ring_client& c) noexcept override;
  void accept_again() noexcept override;

  void completed(const io_uring_cqe& outcome) noexcept;
  void accepted(std::uint32_t index, const io_uring_cqe& outcome) noexcept;
  void received(ring_client& c, const io_uring_cqe& outcome) noexcept;
  void filled(ring_client& c, int outcome) noexcept;
  void sent(ring_client& c, int outcome) noexcept;
  void feed(ring_client& c, std::span<const char> bytes) noexcept;
  void accept_on(std::uint32_t index) noexcept;
  void receive_from(ring_client& c) noexcept;
  void fill(ring_client& c, std::span<char> room) noexcept;
  void cancel(ring_client& c, operation o) noexcept;
  void watch_for_room(ring_client& c) noexcept;
  void watch_for_end(ring_client& c) noexcept;
  void may_have_ended(ring_client& c, int outcome) noexcept;
  // The user_data of an operation.
  [[nodiscard]] static std::uint64_t mark(operation o, std::uint32_t index) noexcept;

  std::unique_ptr<socket_ring> ring_;
  std::vector<listener> listeners_;
  bool watching_ = false;  // the reactor's descriptor, for sleep()
};

}  // namespace kv

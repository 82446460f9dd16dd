// ring_door: a front door by io_uring: one system call for all that a turn of the loop sends and receives.
#pragma once

#include "front_door.hpp"
#include "socket_ring.hpp"

#include <cordma/runtime/reactor.hpp>

#include <string>
#include <vector>

namespace kv {

// A socket is received from by one operation that stays (multishot), into whatever buffer comes next: a client that is
// silent has none. One that sends much at a time is asked for each buffer, and a long value comes to where it belongs:
// the operation that stays would take all there is, which is more than caches hold. What is to be sent is handed over at the end of a pass, for all at once, and never waits in the
// kernel: where a client does not read, the socket is watched for room.
class ring_door final : public front_door, private cordma::poller, private cordma::sleeper {
 public:
  ring_door(cordma::reactor& loop, const door_settings& settings,
            std::unique_ptr<socket_ring> ring);
  ~ring_door() override;

  void listen(int socket, arrival here, complaint cannot, void* context) override;
  void stop_listening() noexcept override;
  void adopt(cordma::unique_fd socket, session_origin origin,
             const conversation_maker& maker) noexcept override;
  void stop_reading() noexcept override;
  void dismiss() noexcept override;
  [[nodiscard]] std::size_t clients() const noexcept override { return clients_; }
  [[nodiscard]] const door_counters& counters() const noexcept override { return counters_; }
  [[nodiscard]] const char* engine() const noexcept override { return "io_uring"; }

 private:
  enum class operation : std::uint8_t {
    accept,
    receive,
    fill,
    send,
    room,
    cancel,
    wake_up,
    nothing
  };
  enum class receiving : std::uint8_t { no, yes, once, canceled, into_room };
  struct listener {
    int socket;
    arrival here;
    complaint cannot;
    void* context;
    bool accepting = false;
    bool failed = false;  // to be tried again later
  };
  struct client {
    client(ring_door& d, std::uint32_t i) noexcept : door(d), index(i) {}
    ring_door& door;
    std::unique_ptr<conversation> talk;
    cordma::unique_fd socket;
    std::string kept;  // came and is not wanted yet
    std::uint32_t index;
    std::uint32_t active = 0;      // the second in which it said something
    std::uint16_t operations = 0;  // the kernel's, on its behalf
    receiving in = receiving::no;
    bool much = false;  // what came last was as much as a buffer takes
    bool sending = false;
    bool full = false;      // no room in its socket: that is watched for
    bool paused = false;    // it is not read
    bool noted = false;     // in noted_
    bool woken = false;     // by its conversation, which is to go on
    bool said_all = false;  // will send no more
    bool closing = false;
  };

  std::size_t poll() noexcept override;
  cordma::arm_state arm() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return is_sleeper; }
  [[nodiscard]] const char* name() const noexcept override { return "io_uring"; }
  void sleep(int fd) noexcept override;

  void completed(const io_uring_cqe& outcome) noexcept;
  void accepted(std::uint32_t index, const io_uring_cqe& outcome) noexcept;
  void received(client& c, const io_uring_cqe& outcome) noexcept;
  void filled(client& c, int outcome) noexcept;
  void sent(client& c, int outcome) noexcept;
  void feed(client& c, std::span<const char> bytes) noexcept;
  void feed_kept(client& c) noexcept;
  void note(client& c) noexcept;
  std::size_t tend_noted() noexcept;
  void go_on(client& c) noexcept;
  void tend(client& c) noexcept;
  void tend_input(client& c, session::ending ending) noexcept;
  void accept_on(std::uint32_t index) noexcept;
  void receive_from(client& c) noexcept;
  void fill(client& c, std::span<char> room) noexcept;
  void cancel(client& c, operation o) noexcept;
  void send_to(client& c, std::span<const char> bytes) noexcept;
  void watch_for_room(client& c) noexcept;
  void close(client& c) noexcept;
  void end(client& c) noexcept;
  void each_second() noexcept;
  // What a completion is known by.
  [[nodiscard]] static std::uint64_t mark(operation o, std::uint32_t index) noexcept;
  static void woken(void* context) noexcept;

  cordma::reactor& loop_;
  const door_settings& settings_;
  std::unique_ptr<socket_ring> ring_;
  std::vector<listener> listeners_;
  std::vector<std::unique_ptr<client>> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<client*> noted_;    // to be looked at in this pass
  std::vector<client*> looking_;  // ... by tend_noted()
  std::size_t clients_ = 0;
  std::uint32_t second_ = 0;  // since it was opened
  bool watching_ = false;     // the reactor's descriptor, for sleep()
  bool reading_ = true;
  bool dismissing_ = false;
  door_counters counters_;
  struct tick final : cordma::timer {
    explicit tick(ring_door& d) noexcept
        : timer([](timer& t) noexcept { static_cast<tick&>(t).door.each_second(); }), door(d) {}
    ring_door& door;
  } tick_;
};

}  // namespace kv

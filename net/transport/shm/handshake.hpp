// How a connection comes up.
//   handshake.cpp              calling a listener, answering a caller
//   handshake_out_of_band.cpp  connecting by descriptors
#pragma once

#include <sys/epoll.h>

#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <cordma/net/transport/socket_set.hpp>
#include <cordma/net/transport/timer_of.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cordma::transport::shm {

class shm_adapter;
class shm_queue_pair;

// What a side learns about the other in the handshake, and keeps about it.
struct peer_terms {
  unique_fd doorbell;  // written when the peer sleeps
  mapped_view page;    // adapter_page
  mapped_view epochs;  // of the peer's regions
  peer_identity who;
  std::uint64_t rnr_timer_ns = 0;
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::uint32_t last_nap = 0;  // that the doorbell was rung for
  std::uint8_t rnr_retry = 7;
  bool fences_itself = true;
  bool reads_us = false;
  bool is_readable = false;  // its private memory, by this side
};

// The events of epoll(7) that a connection's socket is watched for.
inline constexpr std::uint32_t watched_for = EPOLLIN | static_cast<std::uint32_t>(EPOLLRDHUP);

// Whom the connecting side calls, until it has said hello.
struct invitation {
  std::uint16_t port = 0;          // 0: by the path that a descriptor has named
  std::vector<ip_address> wanted;  // the listener has to serve one of them; none: any
  std::vector<std::byte> data;     // private data for the hello
  unique_fd memory;                // of the connection
};

// The name that a peer with our descriptor dials.
struct hidden_name {
  hidden_name(bound_name bound, std::uint64_t token, socket_set& set, socket_handler& owner);
  name_files files;
  watched_socket socket;
  std::uint64_t token;  // our descriptor's
};

// A part of one queue pair. Bound to its adapter's thread.
class handshake {
 public:
  handshake(shm_queue_pair& q, std::string path);

  // Where the peer is reached, or this side.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // The connecting side: finds the listener, says hello and waits for the answer. Fails at once if nobody listens.
  result<void> call(std::unique_ptr<invitation> to);
  // The accepting side: the connection is up, and the peer is told so.
  // Throws std::bad_alloc, and it is not up then.
  void answer(channel memory, peer_terms terms, std::span<const std::byte> data);
  // False: the answer is still to be sent, and nothing goes out ahead of it.
  [[nodiscard]] bool has_answered() const noexcept { return accept_ == nullptr; }
  void came_up() noexcept;
  void stop() noexcept;

  // To be connected by descriptors: makes a hidden name to be reached by.
  result<void> open_hidden();
  [[nodiscard]] result<std::vector<std::byte>> descriptor() const;
  result<void> connect(std::span<const std::byte> peer_descriptor);
  // The peer is awaited there. Its socket, or the name's, is ready.
  [[nodiscard]] bool awaits_peer() const noexcept { return hidden_ != nullptr; }
  void on_hidden_name();

 private:
  [[nodiscard]] introduction introduce(packet type, std::span<const std::byte> data) const noexcept;
  result<void> call_once();
  result<void> meet(socket_fd socket);
  result<void> call_again(const char* limit) noexcept;
  void on_call_timer() noexcept;
  void on_connect_timeout() noexcept;
  void send_accept() noexcept;
  void begin() noexcept;
  void await_peer() noexcept;
  result<void> wait_for_peer();
  void on_hidden_hello();
  [[nodiscard]] shm_adapter& home() const noexcept;

  shm_queue_pair& pair_;
  std::string path_;
  timer_of<&handshake::on_connect_timeout> connect_timer_{*this};
  timer_of<&handshake::on_call_timer> call_timer_{*this};  // until hello or accept is said
  std::unique_ptr<invitation> invitation_;
  std::unique_ptr<introduction> accept_;
  time_point accept_until_{};
  const char* limit_ = nullptr;  // what keeps the hello from being said
  duration pause_ = std::chrono::microseconds(100);
  std::uint64_t probe_value_;
  std::unique_ptr<hidden_name> hidden_;
  std::uint64_t token_ = 0;  // of both descriptors
};

}  // namespace cordma::transport::shm

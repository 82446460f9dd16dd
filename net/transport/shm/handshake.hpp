// How a connection is established.
//   handshake.cpp              connecting to a listener, answering a client
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

// Data about the peer, received in the handshake and kept.
struct peer_terms {
  unique_fd doorbell;  // written if the peer sleeps
  mapped_view page;    // adapter_page
  mapped_view epochs;  // of the peer's regions
  peer_identity who;
  std::uint64_t rnr_timer_ns = 0;
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::uint32_t last_nap = 0;  // last sleep that the doorbell was rung for
  std::uint8_t rnr_retry = 7;
  bool fences_itself = true;
  bool reads_us = false;
  bool is_readable = false;  // this side can read its private memory
};

// The events of epoll(7) for which a connection's socket is watched.
inline constexpr std::uint32_t watched_for = EPOLLIN | static_cast<std::uint32_t>(EPOLLRDHUP);

// The destination of the connecting side, kept until the hello is sent.
struct invitation {
  std::uint16_t port = 0;          // 0: by the path named in a descriptor
  std::vector<ip_address> wanted;  // the listener must serve one of them; empty: any
  std::vector<std::byte> data;     // private data for the hello
  unique_fd memory;                // memory of the connection
};

// The name that a peer dials if it has our descriptor.
struct hidden_name {
  hidden_name(bound_name bound, std::uint64_t token, socket_set& set, socket_handler& owner);
  name_files files;
  watched_socket socket;
  std::uint64_t token;  // token of our descriptor
};

// A part of one queue pair. Bound to its adapter's thread.
class handshake {
 public:
  handshake(shm_queue_pair& q, std::string path);

  // Path at which the peer is reached, or this side.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // The connecting side: finds the listener, sends hello and waits for the response. Fails at once
  // if there is no listener.
  result<void> call(std::unique_ptr<invitation> to);
  // The accepting side: establishes the connection and notifies the peer.
  // Throws std::bad_alloc; the connection is not established then.
  void answer(channel memory, peer_terms terms, std::span<const std::byte> data);
  // False: the accept is still to be sent, and no packet is sent before it.
  [[nodiscard]] bool has_answered() const noexcept { return accept_ == nullptr; }
  void came_up() noexcept;
  void stop() noexcept;

  // For connecting by descriptors: creates a hidden name for this queue pair.
  result<void> open_hidden();
  [[nodiscard]] result<std::vector<std::byte>> descriptor() const;
  result<void> connect(std::span<const std::byte> peer_descriptor);
  // True while a peer is awaited at the hidden name. Call on_hidden_name() when the socket of the
  // name, or of the peer, is ready.
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
  timer_of<&handshake::on_call_timer> call_timer_{*this};  // until hello or accept is sent
  std::unique_ptr<invitation> invitation_;
  std::unique_ptr<introduction> accept_;
  time_point accept_until_{};
  const char* limit_ = nullptr;  // limit that delays the hello
  duration pause_ = std::chrono::microseconds(100);
  std::uint64_t probe_value_;
  std::unique_ptr<hidden_name> hidden_;
  std::uint64_t token_ = 0;  // of both descriptors
};

}  // namespace cordma::transport::shm

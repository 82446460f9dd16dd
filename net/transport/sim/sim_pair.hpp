// A simulated queue pair: its queues, its state, and the protocol of its service.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/sim/fabric.hpp>
#include <cordma/net/transport/sim/inbound.hpp>
#include <cordma/net/transport/sim/queues.hpp>
#include <cordma/net/transport/sim/rc_requester.hpp>
#include <cordma/net/transport/sim/rc_responder.hpp>
#include <cordma/net/transport/sim/unreliable.hpp>
#include <cordma/net/transport/software_receive_queue.hpp>
#include <cordma/net/transport/window_set.hpp>

#include <array>

namespace cordma::transport::sim {

class sim_adapter;

// Whether the peer is notified of the end: `silent` if it knows already, or must find out by
// itself.
enum class farewell : std::uint8_t { silent, graceful, reset };

enum class pair_state : std::uint8_t {
  idle,        // created, not connected; a datagram port is connected from the start
  connecting,  // sent a request to a listener
  accepting,   // answered; the client has not confirmed
  attaching,   // has the peer's descriptor; the peer has not confirmed
  connected,
  closing,  // disconnect() was called: carries out posted requests, then sends goodbye
  error,
};
// True if the second state may follow the first.
[[nodiscard]] constexpr bool operator>>(pair_state from, pair_state to) noexcept {
  switch (to) {
    case pair_state::idle: return false;
    case pair_state::connecting:
    case pair_state::accepting:
    case pair_state::attaching: return from == pair_state::idle;
    case pair_state::connected: return from < pair_state::connected;
    case pair_state::closing: return from == pair_state::connected;
    case pair_state::error: return from != pair_state::error;
  }
  return false;
}

class sim_pair final : public queue_pair {
 public:
  using state = pair_state;

  sim_pair(sim_adapter& owner, const queue_pair_options& options);
  ~sim_pair() override;

  // ---- queue_pair ----
  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override;
  [[nodiscard]] std::string peer_address() const override;
  posted post_send(const send_request& request, completion& now) noexcept override;
  posted post_recv(const recv_request& request, completion& now) noexcept override;
  using queue_pair::put;
  bool put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept override;
  void disconnect() noexcept override;
  void abort() noexcept override;
  result<std::uint32_t> make_window(const window_range& range) override;
  void free_window(std::uint32_t window) noexcept override { windows_.free(window); }
  result<std::vector<std::byte>> descriptor() override;
  result<void> connect(std::span<const std::byte> peer_descriptor) override;
  result<datagram_peer> self() override;
  result<datagram_peer> group(const address& name) override;
  result<void> join(const address& group) override;
  result<void> leave(const address& group) override;

  // ---- connection management ----
  void begin_connect(std::uint32_t peer_host, std::uint16_t port, std::span<const std::byte> data);
  void begin_accept(const host::request& asked, std::span<const std::byte> data);
  // A packet that the connection manager of the host received for this queue pair.
  void on_control(const packet& p) noexcept;
  void on_goodbye_done() noexcept;
  void watch_for_silence() noexcept;

  // ---- input from the network ----
  void receive(const packet& p) noexcept;
  void on_alarm(std::uint8_t which, std::uint64_t token) noexcept;

  // ---- messages in place, for the adapter ----
  // REQUIRES one for which push() was called, and no withdraw() since.
  [[nodiscard]] arrived_message hand_out() noexcept;
  // Of the returned messages, the first `taken` were consumed, and the others stay.
  void looked_at(std::size_t taken, std::size_t stay) noexcept {
    responder_.looked_at(taken, stay);
  }

  // ---- for the protocol parts ----
  [[nodiscard]] fabric& net() noexcept { return host_->net(); }
  [[nodiscard]] host& home() noexcept { return *host_; }
  [[nodiscard]] sim_adapter& owner() noexcept { return owner_; }
  [[nodiscard]] const endpoint_id& id() const noexcept { return id_; }
  [[nodiscard]] const endpoint_id& peer() const noexcept { return peer_; }
  [[nodiscard]] const queue_pair_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t mtu() const noexcept { return mtu_; }
  [[nodiscard]] send_queue& sends() noexcept { return sends_; }
  [[nodiscard]] recv_queue& recvs() noexcept { return recvs_; }
  // With shared receives, takes one of them for the message that has none.
  [[nodiscard]] bool has_receive() noexcept { return !recvs_.empty() || borrow(); }
  [[nodiscard]] window_set& windows() noexcept { return windows_; }
  // The first bytes of the target of the peer's packet.
  [[nodiscard]] region_table::pin pin_target(const packet& p, std::uint64_t bytes,
                                             access wanted) noexcept {
    return host_->regions().resolve(p.rkey, p.remote_addr, bytes, wanted, windows_.owner());
  }
  [[nodiscard]] bool may_send() const noexcept {
    return state_ == state::connected || state_ == state::closing;
  }
  // Requests from here on wait for the end, to be flushed.
  [[nodiscard]] std::uint64_t send_limit() const noexcept {
    return state_ == state::closing ? close_at_ : sends_.posted();
  }
  [[nodiscard]] packet& new_packet(packet_kind kind) noexcept;
  // Completes the oldest send.
  void complete_send(wc_status status) noexcept;
  // Completes the oldest receive.
  void complete_recv(wc_status status, const packet& last, std::uint64_t bytes) noexcept;
  // Fails the oldest send, and the queue pair with it.
  void fail_send(wc_status status, std::string message) noexcept;
  void fail(failure why, farewell tell) noexcept;
  // The local check of a request that is about to be carried out.
  [[nodiscard]] wc_status inspect(const send_entry& e) noexcept;
  // The fault to inject, once: the n-th request fails.
  void fail_request(std::uint32_t n, wc_status status) noexcept {
    requests_left_ = n;
    request_status_ = status;
  }

  enum class alarm : std::uint8_t { retransmit, departure, handshake, silence };
  static constexpr std::size_t alarm_count = 4;
  static_assert(static_cast<std::size_t>(alarm::silence) + 1 == alarm_count);
  // never: off.
  void set_alarm(alarm which, time_point when) noexcept;

 private:
  struct alarm_clock {
    time_point deadline = never;
    time_point queued = never;  // the entry in the network's heap, which may be earlier
    std::uint64_t token = 0;    // of that entry; older ones are ignored
  };

  void pump() noexcept;
  [[nodiscard]] bool borrow() noexcept;
  void flush() noexcept;
  void doom(send_entry& e) noexcept;
  void report_send(const send_entry& e, wc_status status) noexcept;
  void end_send() noexcept;
  void went_up(std::span<const std::byte> data) noexcept;
  void agree(const handshake& theirs) noexcept;
  void finish_closing() noexcept;
  void send_handshake() noexcept;
  void on_handshake_alarm() noexcept;
  void on_silence_alarm() noexcept;
  void on_refuse(const packet& p) noexcept;
  void on_bye(const packet& p) noexcept;
  void on_attach(const packet& p) noexcept;
  [[nodiscard]] handshake introduction() const noexcept;
  [[nodiscard]] std::string peer_name() const;

  sim_adapter& owner_;
  std::shared_ptr<host> host_;
  queue_pair_options options_;
  endpoint_id id_;
  endpoint_id peer_;
  std::uint16_t peer_port_ = 0;
  std::uint16_t local_port_ = 0;
  std::uint32_t mtu_;
  checked_state<pair_state> state_{state::idle};
  bool disconnect_called_ = false;
  bool goodbye_said_ = false;
  bool bye_waits_ = false;  // the peer closed too and waits until this side has finished
  std::uint64_t close_at_ = 0;
  std::uint32_t requests_left_ = 0;
  wc_status request_status_ = wc_status::success;
  std::uint64_t first_psn_;
  time_point handshake_until_{};
  duration handshake_every_{};
  std::vector<std::byte> handshake_data_;
  std::array<alarm_clock, alarm_count> alarms_;
  software_receive_queue* shared_;
  send_queue sends_;
  recv_queue recvs_;  // with shared receives, only the one that a message has taken
  window_set windows_;
  inbound inbound_{*this};
  rc_requester requester_{*this};
  rc_responder responder_{*this, inbound_};
  unreliable unreliable_{*this, inbound_};
};

}  // namespace cordma::transport::sim

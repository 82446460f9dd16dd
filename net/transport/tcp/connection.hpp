// One reliable connection: two queues, one socket. Its guarantees are in README.md.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/peer_watch.hpp>
#include <cordma/net/transport/receive_share.hpp>
#include <cordma/net/transport/tcp/access_target.hpp>
#include <cordma/net/transport/tcp/acknowledgements.hpp>
#include <cordma/net/transport/tcp/arriving_frame.hpp>
#include <cordma/net/transport/tcp/input_buffer.hpp>
#include <cordma/net/transport/tcp/life.hpp>
#include <cordma/net/transport/tcp/output.hpp>
#include <cordma/net/transport/tcp/peer_receives.hpp>
#include <cordma/net/transport/tcp/tcp_adapter.hpp>

namespace cordma::transport::tcp {

// The treatment of the peer's requests.
enum class peer_requests : std::uint8_t {
  carried_out,
  // a message found no receive: later requests are dropped until the peer has learned of it
  dropped,
  over,  // the peer sent goodbye
};
[[nodiscard]] constexpr bool operator>>(peer_requests from, peer_requests to) noexcept {
  using enum peer_requests;
  return to == over || (from == carried_out && to == dropped) ||
         (from == dropped && to == carried_out);
}

// Tokens by which the two sides of an out-of-band connection recognize each other.
struct token_pair {
  token own{};
  token peer{};
};

class out_batch;
class single_frame;
class handshake;

// Bound to the adapter's thread.
class connection final : public queue_pair, public socket_handler, public receive_waiter {
 public:
  connection(tcp_adapter& home, const queue_pair_options& granted);
  ~connection() override;

  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override;
  [[nodiscard]] std::string peer_address() const override { return peer_; }
  [[nodiscard]] posted post_send(const send_request& request, completion& now) noexcept override;
  [[nodiscard]] posted post_recv(const recv_request& request, completion& now) noexcept override;
  using queue_pair::put;
  [[nodiscard]] bool put(message_head head, const std::byte* data,
                         std::uint32_t bytes) noexcept override;
  void ring() noexcept override { transmit(); }
  result<std::uint32_t> make_window(const window_range& range) override;
  void free_window(std::uint32_t window) noexcept override { target_.windows().free(window); }
  void disconnect() noexcept override;
  void abort() noexcept override;
  result<std::vector<std::byte>> descriptor() override;
  result<void> connect(std::span<const std::byte> peer_descriptor) override;

  // Called by the adapter.
  result<void> start(std::vector<socket_address> candidates, std::string peer, const hello& first);
  // The accepting side: `fd` has received `theirs`, and is sent `reply`.
  result<void> adopt(socket_fd fd, const hello& theirs, hello reply);
  void on_ready(std::uint32_t events) noexcept override;
  void turn_came() noexcept override;
  // Fails the connection: there was no memory to set it up.
  void starve() noexcept;
  // Reads from the socket, up to a bound. True if any data arrived.
  bool receive() noexcept { return input_ ? receive_input() : receive_staged(); }
  // True if the last receive() emptied the socket, or if reading is suspended for a receive.
  [[nodiscard]] bool drained() const noexcept { return drained_ || turn_ == receive_turn::awaited; }
  // Called for each message that the last poll returned, in their order, after it was examined;
  // then released().
  void looked_at(const arrived_message& m) noexcept;
  void released() noexcept;
  // Sends acknowledgements and credits that no other frame carried. True when none is left.
  enum class urgency : std::uint8_t { when_idle, now };
  bool tend(urgency u) noexcept;
  // Makes the epoll set watch the socket for the events of its present state. Fails only if the
  // socket was not in the set; then nothing changes.
  result<void> follow() noexcept;
  // Copies completions to `out`; returns their number.
  std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_completions() const noexcept {
    return sends_.has_done() || receives_.has_done();
  }
  [[nodiscard]] const token& own_token() const noexcept { return tokens_.own; }
  void name_by(const token& own) noexcept { tokens_.own = own; }
  [[nodiscard]] bool idle() const noexcept { return life_ == phase::idle; }
  [[nodiscard]] bool expects(const token& peer) const noexcept {
    return life_ == phase::expecting && tokens_.peer == peer;
  }
  [[nodiscard]] hello greeting(hello_kind kind) const noexcept;

  [[nodiscard]] connection_link& link(work w) noexcept {
    return links_[static_cast<std::size_t>(w)];
  }

 private:
  using phase = life_phase;
  // The outcome for the first frame of the input.
  enum class intake : std::uint8_t {
    used,
    hungry,  // the frame is incomplete
    handed,  // messages in front of it were passed to the caller, and must be examined first
    later,   // a message to be passed to the caller by the next poll
    waits,   // a put message that found no receive
  };
  static constexpr int most_reads_per_poll = 4;  // system calls
  friend class handshake;

  // connection.cpp: completing, failing, ending
  void store(const recv_request& request) noexcept;
  [[nodiscard]] static completion completion_of(const send_slot& s) noexcept;
  [[nodiscard]] completion completion_of(const recv_slot& s) noexcept;
  [[nodiscard]] std::size_t take_last(std::span<completion> out) noexcept;
  // True if the segment is in registered memory that permits this access.
  [[nodiscard]] bool is_known(const segment& s, access wanted) const noexcept;
  void enter_error(failure why) noexcept;
  void fail_request(wc_status status) noexcept;
  void break_off(failure why) noexcept;
  void never_came_up(failure why, std::vector<std::byte> data = {}) noexcept;
  void close_socket() noexcept;
  void watch_peer() noexcept {
    if (!watch_.runs()) watch_if_owed();
  }
  void watch_if_owed() noexcept;
  [[nodiscard]] bool owes_something() const noexcept;
  void on_watch() noexcept;
  [[nodiscard]] failure peer_is_gone() const noexcept;

  // connection_handshake.cpp: connecting
  void try_next_candidate() noexcept;
  void on_connected() noexcept;
  void receive_hello();
  void call_again() noexcept;
  void answered(const decoded_hello& d);
  void came_up(const hello& theirs, std::span<const std::byte> data);

  // connection_output.cpp
  void send_batches() noexcept;
  void plan(out_batch& b) noexcept;
  [[nodiscard]] bool plan_answer(out_batch& b) noexcept;
  [[nodiscard]] bool plan_request(out_batch& b) noexcept;
  void plan_control(out_batch& b) noexcept;
  void add_payload(out_batch& b, outgoing& f) noexcept;
  [[nodiscard]] bool lacks_receive() noexcept;
  [[nodiscard]] failure lost_source() const noexcept;
  void commit(out_batch& b, std::size_t written) noexcept;
  void finished(frame_type type) noexcept;
  void finish() noexcept;
  [[nodiscard]] bool anything_to_send() const noexcept;
  void block_output() noexcept;
  void unblock_output() noexcept;

  // connection_single.cpp
  [[nodiscard]] send_slot& fill_slot(std::uint32_t number, const send_request& r) noexcept;
  void name_window(send_slot& s, const send_request& r) noexcept;
  void post_behind(std::uint32_t number) noexcept;
  void keep_inline(std::uint32_t number) noexcept;
  void transmit() noexcept {
    if (life_ == phase::open && output_.is_free() && sends_.all_sent() &&
        target_.answers().empty()) {
      return;
    }
    send_waiting();
  }
  void send_waiting() noexcept;
  [[nodiscard]] bool startable(std::uint32_t number, std::uint32_t credits_used,
                               std::uint32_t reads) noexcept;
  [[nodiscard]] bool may_begin(const send_slot& s, std::uint32_t credits_used,
                               std::uint32_t reads) const noexcept;
  [[nodiscard]] frame stamped(frame head) const noexcept {
    head.ack = static_cast<std::uint16_t>(acks_.executed());
    head.credit = static_cast<std::uint16_t>(receives_.posted());
    return head;
  }
  // Called when a frame's header from stamped() is sent.
  void told() noexcept {
    acks_.told(receives_.posted());
    output_.remove(frame_type::update);
  }
  [[gnu::always_inline]] void request_began(std::uint32_t number, opcode op) noexcept {
    sends_.begin(number, op);
    if (!takes_receive(op)) return;
    credits_.use();
    probe_.message_left();
  }
  [[nodiscard]] bool send_single() noexcept;
  [[nodiscard]] bool send_alone(std::uint32_t number, const send_slot& s) noexcept;
  [[nodiscard]] bool single_request() noexcept;
  [[nodiscard]] bool single_answer() noexcept;
  [[nodiscard]] bool single_update() noexcept;
  void left(const single_frame& f, outgoing::kind what, std::uint32_t number) noexcept;
  void keep_rest(const outgoing& f) noexcept;
  [[nodiscard]] bool may_put(std::uint32_t bytes) const noexcept;

  // connection_input.cpp
  [[nodiscard]] bool receive_staged() noexcept;
  [[nodiscard]] bool receive_once() noexcept;
  // Does one read, between two frames or within a payload. `staged`: number of bytes that were read
  // to `staging`.
  [[nodiscard]] bool read_headers(std::span<std::byte> staging, std::size_t& staged) noexcept;
  [[nodiscard]] bool read_payload(std::span<std::byte> staging, std::size_t& staged) noexcept;
  [[nodiscard]] std::size_t staging_limit(std::size_t most) const noexcept;
  [[nodiscard]] bool took(ssize_t n, std::size_t asked, std::size_t direct,
                          std::size_t& staged) noexcept;
  [[nodiscard]] std::size_t aim(io_list<most_segments + 1>& io, region_table::pin& held) noexcept;
  [[nodiscard]] bool receive_payload(std::span<std::byte> staging) noexcept;
  [[nodiscard]] bool nothing_came(ssize_t n) noexcept;
  void feed(std::span<const std::byte> bytes) noexcept;
  void place(std::span<const std::byte> bytes) noexcept;
  void arrived(std::size_t bytes) noexcept;
  void carry_out(const frame& f) noexcept;
  void on_put(const frame& f) noexcept;
  [[nodiscard]] bool counters_fit(const frame& f) noexcept;
  [[nodiscard]] bool on_counters(const frame& f) noexcept;
  [[nodiscard]] bool on_acked(std::uint16_t acked) noexcept;
  void on_message(const frame& f) noexcept;
  void on_write(const frame& f) noexcept;
  void on_fetch(const frame& f) noexcept;
  void on_answer(const frame& f) noexcept;
  void on_nak(const frame& f) noexcept;
  void on_probe_answer() noexcept;
  void on_probe_rested() noexcept {
    probe_.rested();
    transmit();
  }
  void on_not_ready() noexcept;
  void on_resumed() noexcept;
  void on_goodbye() noexcept;
  void expect_payload(const frame& f, destination into) noexcept;
  void payload_complete() noexcept;
  void answer_complete() noexcept;
  void complete_receive(const frame& f) noexcept;
  [[nodiscard]] bool has_receive() noexcept { return !receives_.all_done() || borrow(); }
  [[nodiscard]] bool borrow() noexcept;
  void drop(const frame& f) noexcept;
  void no_receive(const frame& f) noexcept;
  void refuse(const refusal& r) noexcept;
  [[nodiscard]] failure peer_failure(const refusal& r) const noexcept;
  void protocol_error(const char* what) noexcept;
  void after_input() noexcept;
  void end_of_stream() noexcept;
  void finish_with(failure why) noexcept;
  [[nodiscard]] bool credit_due() const noexcept { return !share_ && acks_.credit_due(receives_); }

  // connection_arrival.cpp
  [[nodiscard]] bool receive_input() noexcept;
  [[nodiscard]] bool fill_input() noexcept;
  [[nodiscard]] intake take_input(bool& any) noexcept;
  [[nodiscard]] intake take_frame(const frame& f, std::size_t header_bytes) noexcept;
  [[nodiscard]] intake hand_out(const frame& f, std::size_t size) noexcept;
  [[nodiscard]] intake fail_input(const char* why) noexcept;
  // False if a receive was taken for a message that was refused: the message uses it when it
  // arrives again.
  [[nodiscard]] bool takes_in_place() const noexcept {
    return in_place() != nullptr && share_ && requests_ == peer_requests::carried_out &&
           (arrivals_ == arrival_state::possible || arrivals_ == arrival_state::under_way) &&
           receives_.all_done();
  }
  void await_receive() noexcept;
  [[nodiscard]] bool stop_waiting() noexcept;
  void withdraw() noexcept;

  static constexpr const char* impossible_counters = "acknowledges or grants what cannot be";

  tcp_adapter& home_;
  event_queue::room events_room_;
  queue_pair_options options_;
  std::array<connection_link, works> links_{connection_link(*this), connection_link(*this),
                                            connection_link(*this)};
  watched_socket socket_;
  std::string peer_;
  token_pair tokens_;
  std::unique_ptr<handshake> handshake_;
  connection_life life_;
  peer_watch<&connection::on_watch> watch_{*this};

  // Requests of this side, and their output.
  send_queue sends_;
  output output_;
  peer_receives credits_;
  receiver_probe<&connection::on_probe_rested> probe_{*this};

  // Requests of the peer, and their input.
  receive_share share_;
  checked_state<receive_turn> turn_{receive_turn::none};
  recv_queue receives_;
  acknowledgements acks_;
  access_target target_;
  checked_state<peer_requests> requests_{peer_requests::carried_out};
  arriving_frame in_;
  bool drained_ = true;
  input_buffer input_;  // only with shared receives
  checked_state<arrival_state> arrivals_{arrival_state::possible};
};

inline bool connection::read_headers(std::span<std::byte> staging, std::size_t& staged) noexcept {
  CORDMA_ASSERT(!staging.empty());
  const ssize_t n = ::recv(socket_.get(), staging.data(), staging.size(), 0);
  if (n <= 0) return nothing_came(n);
  watch_.on_sign();
  staged = static_cast<std::size_t>(n);
  drained_ = staged < staging.size();
  return true;
}

[[gnu::always_inline]] inline void connection::after_input() noexcept {
  acks_.input_came();
  if (life_.failed()) return;
  transmit();
  if (acks_.due() || credit_due()) home_.mark(*this, work::due);
}

inline bool connection::is_known(const segment& s, access wanted) const noexcept {
  if (s.length == 0) return true;
  const memory_range* const r = target_.local(s.lkey);
  if (r == nullptr || !has(r->rights, wanted)) return false;
  const auto start = reinterpret_cast<std::uintptr_t>(r->addr);
  const auto at = reinterpret_cast<std::uintptr_t>(s.addr);
  return at >= start && s.length <= r->length && at - start <= r->length - s.length;
}

}  // namespace cordma::transport::tcp

// One reliable connection: two queues, one socket. What it promises is in README.md.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/tcp/input_buffer.hpp>
#include <cordma/net/transport/tcp/queues.hpp>
#include <cordma/net/transport/tcp/tcp_adapter.hpp>
#include <cordma/net/transport/window_set.hpp>

namespace cordma::transport::tcp {

// A frame that is being sent. Its header is fixed when its first byte leaves.
struct outgoing {
  enum class kind : std::uint8_t { none, request, answer, control, put };
  kind what = kind::none;
  frame_type type = frame_type::update;
  std::uint8_t header_bytes = 0;
  std::uint32_t number = 0;   // of the request
  std::uint32_t payload = 0;  // bytes
  std::uint64_t sent = 0;     // bytes of header and payload
  std::size_t offered = 0;    // bytes of it in the batch that is being written
  header_buffer header;
  [[nodiscard]] std::uint64_t size() const noexcept {
    return std::uint64_t{header_bytes} + payload;
  }
};

// Where a connection stands.
enum class life_phase : std::uint8_t {
  idle,       // created, to be connected out of band
  expecting,  // the peer will come
  connecting,
  greeting,
  open,
  closing,       // disconnect() was called: goodbye follows what was posted
  goodbye_sent,  // still serving the peer, until it says goodbye as well
  finishing,     // one last frame has to leave, then the queue pair is in error
  draining,      // in error; the peer has yet to see it
  dead,          // in error, no socket
};
// Whether the right one may follow the left one.
[[nodiscard]] constexpr bool operator>>(life_phase from, life_phase to) noexcept {
  using enum life_phase;
  switch (to) {
    case idle: return false;
    case expecting: return from == idle;
    case connecting:
      return from == idle || from == greeting;  // the latter: once more, by a new socket
    case greeting: return from == connecting;
    case open: return from == idle || from == expecting || from == greeting;
    case closing: return from == open;
    case goodbye_sent: return from == closing;
    case finishing: return from == open || from == closing || from == goodbye_sent;
    case draining: return from == finishing;
    case dead: return true;
  }
  return false;
}

struct out_batch;
struct handshake;

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
  [[nodiscard]] bool put(message_head head, const std::byte* data,
                         std::uint32_t bytes) noexcept override;
  void ring() noexcept override { transmit(); }
  result<std::uint32_t> make_window(const window_range& range) override;
  void free_window(std::uint32_t window) noexcept override { windows_.free(window); }
  void disconnect() noexcept override;
  void abort() noexcept override;
  result<std::vector<std::byte>> descriptor() override;
  result<void> connect(std::span<const std::byte> peer_descriptor) override;

  // Called by the adapter.
  result<void> start(std::vector<socket_address> candidates, std::string peer, const hello& first);
  // The accepting side: `fd` has said `theirs`, and gets `reply`.
  result<void> adopt(socket_fd fd, const hello& theirs, hello reply);
  void on_ready(std::uint32_t events) noexcept override;
  void turn_came() noexcept override;
  // There was no memory to come up with.
  void starve() noexcept;
  // Takes what the socket has, up to a bound. True if anything came.
  bool receive() noexcept;
  // Whether the last receive() emptied the socket, or nothing of it is wanted.
  [[nodiscard]] bool drained() const noexcept { return drained_ || turn_ == turn::awaited; }
  // A message that it handed out in the last poll was looked at: each of them, in their order, then released().
  void looked_at(const arrived_message& m) noexcept;
  void released() noexcept;
  // Acknowledgements and credits that no other frame took along. True when nothing is left to do.
  enum class urgency : std::uint8_t { when_idle, now };
  bool tend(urgency u) noexcept;
  // Has the epoll set wait for what is to be known of the socket. Fails only where the set had not got
  // it; then all stays as it was.
  result<void> follow() noexcept;
  // Hands out completions; returns how many.
  std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_completions() const noexcept {
    return sends_.taken != sends_.done || receives_.taken != receives_.done;
  }
  [[nodiscard]] const token& own_token() const noexcept { return own_token_; }
  void name_by(const token& own) noexcept { own_token_ = own; }
  [[nodiscard]] bool idle() const noexcept { return phase_ == phase::idle; }
  [[nodiscard]] bool expects(const token& peer) const noexcept {
    return phase_ == phase::expecting && peer_token_ == peer;
  }
  [[nodiscard]] hello greeting(hello_kind kind) const noexcept;

  [[nodiscard]] connection_link& link(work w) noexcept {
    return links_[static_cast<std::size_t>(w)];
  }

 private:
  using phase = life_phase;
  enum class destination : std::uint8_t { none, receive, region, answer, nowhere };
  // What became of the frame in front of the input.
  enum class intake : std::uint8_t {
    used,
    hungry,  // it is not whole
    handed,  // messages in front of it were handed out, and are to be looked at first
    later,   // a message to be handed out: the next poll does
    waits,   // a message that was put, and finds no receive
  };
  static constexpr int most_reads_per_poll = 4;  // system calls
  friend struct handshake;
  struct timed : timer {
    timed(connection& c, timer::function f) noexcept : timer(f), owner(&c) {}
    connection* owner;
  };
  // The frame that is arriving.
  struct arriving {
    frame head;
    destination into = destination::none;
    std::uint32_t left = 0;    // bytes of payload
    std::uint32_t offset = 0;  // bytes of payload that are in place
    std::size_t saved = 0;     // bytes of a header that came in pieces
    header_buffer pieces;
  };

  // connection.cpp: life and death
  [[nodiscard]] bool carrying() const noexcept {
    return phase_ == phase::open || phase_ == phase::closing || phase_ == phase::goodbye_sent;
  }
  void store(const recv_request& request) noexcept;
  [[nodiscard]] completion completion_of(const recv_slot& s) noexcept;
  [[nodiscard]] wc_status check_local(segment_list list, access wanted,
                                      std::uint8_t flags) noexcept;
  [[nodiscard]] wc_status check_request(const send_slot& s, segment_list list) noexcept;
  void enter_error(failure why) noexcept;
  void fail_request(wc_status status) noexcept;
  void break_off(failure why) noexcept;
  void never_came_up(failure why, std::vector<std::byte> data = {}) noexcept;
  void close_socket() noexcept;
  void watch_peer() noexcept;
  // What the peer asks for: its key may be that of a window.
  [[nodiscard]] region_table::pin pin_target(std::uint64_t rkey, std::uint64_t addr,
                                             std::uint64_t length, access wanted) noexcept;
  [[nodiscard]] bool owes_something() const noexcept;
  void on_watch() noexcept;
  [[nodiscard]] failure reset_by_peer(const char* how) const noexcept;

  // handshake.cpp: coming up
  void try_next_candidate() noexcept;
  void on_connected() noexcept;
  void receive_hello();
  void call_again() noexcept;
  void answered(const decoded_hello& d);
  void came_up(const hello& theirs, std::span<const std::byte> data);
  [[nodiscard]] bool send_hello(const hello& h) noexcept;

  // connection_output.cpp
  void transmit() noexcept;
  void plan(out_batch& b) noexcept;
  [[nodiscard]] bool look_at_source(answer& a) noexcept;
  [[nodiscard]] bool plan_answer(out_batch& b) noexcept;
  [[nodiscard]] bool plan_request(out_batch& b) noexcept;
  void plan_control(out_batch& b) noexcept;
  void add_payload(out_batch& b, outgoing& f) noexcept;
  void stamp(outgoing& f, frame& head) const noexcept;
  // Whether a request that needs one has to wait for a receive of the peer.
  [[nodiscard]] bool needs_credit() const noexcept { return !peer_shares_ || held_; }
  [[nodiscard]] bool startable(std::uint32_t number, const out_batch& b) const noexcept;
  void commit(out_batch& b, std::size_t written) noexcept;
  void began(const outgoing& f) noexcept;
  void told() noexcept;
  void finished(const outgoing& f) noexcept;
  void finish() noexcept;
  [[nodiscard]] bool anything_to_send() const noexcept;
  void block_output() noexcept;
  void unblock_output() noexcept;
  // One that is sent may be refused, and with it all that is behind it.
  [[nodiscard]] bool awaits_ack_of_message() const noexcept {
    return static_cast<std::int32_t>(last_message_ - sends_.acked) > 0;
  }
  [[nodiscard]] bool may_put(std::uint32_t bytes) const noexcept;
  void keep_rest(const outgoing& f, message_head head, const std::byte* data) noexcept;

  // connection_input.cpp
  [[nodiscard]] bool receive_once() noexcept;
  // One read; `staged`: bytes that went to `staging`.
  [[nodiscard]] bool read_some(std::span<std::byte> staging, std::size_t& staged) noexcept;
  [[nodiscard]] std::size_t staging_limit(std::size_t most) const noexcept;
  [[nodiscard]] std::size_t aim(io_list<16>& io, region_table::pin& held) noexcept;
  void feed(std::span<const std::byte> bytes) noexcept;
  void place(std::span<const std::byte> bytes) noexcept;
  void place_word(std::span<const std::byte> bytes) noexcept;
  void arrived(std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t take_header(std::span<const std::byte> bytes) noexcept;
  void on_frame(const frame& f) noexcept;
  void carry_out(const frame& f) noexcept;
  void on_put(const frame& f) noexcept;
  [[nodiscard]] bool on_counters(const frame& f) noexcept;
  void on_message(const frame& f) noexcept;
  void on_write(const frame& f) noexcept;
  void on_read(const frame& f) noexcept;
  void on_atomic(const frame& f) noexcept;
  void on_answer(const frame& f) noexcept;
  void on_nak(const frame& f) noexcept;
  void on_probe_answer() noexcept;
  void on_not_ready() noexcept;
  void on_resumed() noexcept;
  void on_goodbye() noexcept;
  void expect_payload(const frame& f, destination into) noexcept;
  void payload_complete() noexcept;
  void carried_out(std::uint32_t bytes) noexcept;
  void complete_receive(const frame& f) noexcept;
  [[nodiscard]] bool has_receive() noexcept {
    return receives_.done != receives_.posted || borrow();
  }
  [[nodiscard]] bool borrow() noexcept;
  void drop(const frame& f) noexcept;
  void no_receive(const frame& f) noexcept;
  void refuse(wc_status status, const char* what) noexcept;
  void protocol_error(const char* what) noexcept;
  void after_input() noexcept;
  void end_of_stream() noexcept;
  void finish_with(failure why) noexcept;
  [[nodiscard]] bool credit_due() const noexcept;

  // connection_arrival.cpp
  [[nodiscard]] bool receive_input() noexcept;
  [[nodiscard]] bool fill_input() noexcept;
  [[nodiscard]] intake take_input(bool& any) noexcept;
  [[nodiscard]] intake take_frame(const frame& f, std::size_t header_bytes) noexcept;
  [[nodiscard]] intake hand_out(const frame& f, std::size_t size) noexcept;
  [[nodiscard]] intake fail_input(const char* why) noexcept;
  // Not where a receive was taken for a message that was refused: it takes that when it comes again.
  [[nodiscard]] bool takes_in_place() const noexcept {
    return in_place && options_.shared != nullptr && !by_receive_ &&
           receives_.posted == receives_.done;
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
  reporting_receive_queue* shared_ = nullptr;
  last_taken last_taken_{*this};
  watched_socket socket_;
  checked_state<life_phase> phase_{phase::idle};
  bool established_ = false;
  bool failed_ = false;
  bool drained_ = true;
  bool output_blocked_ = false;
  bool waiting_ = false;  // counted by the adapter as waiting
  bool update_due_ = false;
  bool probe_answer_due_ = false;
  bool question_due_ = false;  // nothing was heard while a message waits for a receive
  bool refusing_ =
      false;  // a message found no receive: what the peer had sent behind it is dropped
  bool not_ready_due_ = false;  // ... and the peer is to hear of that
  bool peer_shares_ = false;    // promises receives only to a message that found none:
  bool held_ = false;           // the first one that was not sent
  bool resumed_due_ = false;
  bool peer_said_goodbye_ = false;
  bool prompt_ = false;  // the peer waits for its acknowledgement: nothing else will take it along
  enum class rnr : std::uint8_t { idle, asked, resting } rnr_ = rnr::idle;
  std::uint8_t refusals_ = 0;    // answers without credit to the request that is first in line
  std::uint32_t asked_for_ = 0;  // the request that the probe under way is about
  std::uint32_t idle_polls_ = 0;

  send_queue sends_;
  recv_queue receives_;
  answer_queue answers_;
  window_set windows_;
  std::uint32_t last_request_ = 0;  // closing: the first that is not carried out any more
  outgoing partial_;
  arriving in_;
  std::unique_ptr<std::byte[]> rest_;  // payload of a put, of which the socket took a part
  std::uint32_t last_message_ = 0;     // behind the last message sent, unless it is acknowledged
  // Where receives are shared.
  input_buffer input_;
  bool handed_out_ = false;  // what is in front of the input is looked at, and stays where it is
  bool by_receive_ = false;  // a message stayed: all that have come take receives
  // Of a message that was put and finds no receive.
  enum class turn : std::uint8_t { none, awaited, came } turn_ = turn::none;
  std::uint64_t last_finished_ = 0;  // shared_->finished() after the last receive taken here
  std::uint32_t last_payload_ = 0;   // bytes, of the frame before: what the next one may be like

  std::uint32_t peer_recv_depth_ = 0;
  std::uint32_t credits_ = 0;       // receives the peer has posted so far
  std::uint32_t credits_used_ = 0;  // ... and those taken by requests sent
  std::uint32_t executed_ = 0;      // requests of the peer carried out
  std::uint32_t told_ack_ = 0;
  std::uint32_t told_credit_ = 0;
  std::uint32_t bytes_unacked_ = 0;

  std::uint64_t held_in_poll_ = 0;  // flushed completions wait for the poll after this one
  std::uint64_t activity_ = 0;      // transfers in either direction
  std::uint64_t activity_seen_ = 0;
  unsigned silent_periods_ = 0;
  timed watch_timer_;
  timed rnr_timer_;
  std::string peer_;
  failure finish_why_{errc::ok};
  std::unique_ptr<handshake> handshake_;
  token own_token_{};
  token peer_token_{};
};

}  // namespace cordma::transport::tcp

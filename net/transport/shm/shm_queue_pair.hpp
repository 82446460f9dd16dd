// One connection over shared memory. Bound to its adapter's thread.
//   handshake.hpp               how it is established
//   shm_queue_pair.cpp          life cycle: failing, closing, watching the peer
//   shm_queue_pair_control.cpp  packets over the socket
//   shm_queue_pair_send.cpp     posting, eager and fetched messages, retiring
//   shm_queue_pair_receive.cpp  taking messages from the ring
//   shm_queue_pair_remote.cpp   reads, writes and atomics
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/peer_watch.hpp>
#include <cordma/net/transport/receive_share.hpp>
#include <cordma/net/transport/shm/arriving_message.hpp>
#include <cordma/net/transport/shm/ending.hpp>
#include <cordma/net/transport/shm/handshake.hpp>
#include <cordma/net/transport/shm/queues.hpp>
#include <cordma/net/transport/shm/region_talk.hpp>
#include <cordma/net/transport/shm/ring.hpp>
#include <cordma/net/transport/shm/shm_domain.hpp>
#include <cordma/net/transport/transport.hpp>
#include <span>
#include <string>
#include <vector>

namespace cordma::transport::shm {

// The right is checked again between two pieces, so that deregistering waits for one piece only.
inline constexpr std::uint64_t access_piece = 1U << 20;  // bytes

enum class pair_state : std::uint8_t {
  unconnected,
  connecting,
  up,     // the program has not received `established` yet
  open,   // the program has received `established`
  error,  // the program has not received the cause yet
  over,   // the program has received the cause; outstanding requests are flushed
};
// True if the right state may follow the left one. A connect() that finds no listener leaves its
// queue pair unconnected.
[[nodiscard]] constexpr bool operator>>(pair_state from, pair_state to) noexcept {
  using enum pair_state;
  switch (to) {
    case unconnected: return from == error;
    case connecting: return from == unconnected;
    case up: return from < up;
    case open: return from == up;
    case error: return from < error;
    case over: return from == error;
  }
  return false;
}

class shm_queue_pair final : public queue_pair, public socket_handler, public receive_waiter {
 public:
  shm_queue_pair(shm_adapter& home, const queue_pair_options& options, std::string path);
  ~shm_queue_pair() override;

  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override;
  [[nodiscard]] std::string peer_address() const override;
  posted post_send(const send_request& request, completion& now) noexcept override;
  posted post_recv(const recv_request& request, completion& now) noexcept override;
  bool post_now(send_request& request) noexcept override;
  bool put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept override;
  bool put(const std::byte* data, std::uint32_t bytes) noexcept override;
  void ring() noexcept override;
  void disconnect() noexcept override;
  void abort() noexcept override;
  result<peer_view> view(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length) override;
  result<std::vector<std::byte>> descriptor() override { return handshake_.descriptor(); }
  result<void> connect(std::span<const std::byte> peer_descriptor) override {
    return handshake_.connect(peer_descriptor);
  }

  // For the adapter and the handshake.
  void on_ready(std::uint32_t events) noexcept override;
  void turn_came() noexcept override;
  [[nodiscard]] handshake& coming_up() noexcept { return handshake_; }
  // REQUIRES that it has none. If the socket cannot be watched, it still belongs to the caller.
  [[nodiscard]] result<void> adopt_socket(socket_fd& socket) noexcept;

  // Returns completions; sets `progressed` if anything else changed.
  std::size_t poll(std::span<completion> out, bool& progressed) noexcept;
  // True if there is nothing to do: one load of a cell, and of a flag that this thread wrote.
  [[nodiscard]] bool quiet() const noexcept { return plain_ && !reader_.ready(); }
  [[nodiscard]] bool is_plain() const noexcept { return plain_; }
  // True if complete messages are passed to the taker without a copy.
  [[nodiscard]] bool takes_in_place() const noexcept {
    return in_place() != nullptr && !by_receive_;
  }
  // Total cells consumed.
  [[nodiscard]] std::uint64_t taken() const noexcept { return reader_.position(); }
  [[nodiscard]] bool is_announced() const noexcept { return state_ == state::open; }
  // Appends complete messages in the ring to the `have` messages in `out`; returns the new number.
  // From the first message on that is not complete, all messages need receives.
  std::size_t take_in_place(std::span<arrived_message> out, std::size_t have) noexcept;
  // Takes one such message.
  [[nodiscard]] bool takes_one(arrived_message& m) noexcept;
  [[nodiscard]] bool is_ready() const noexcept { return reader_.ready(); }
  // Routes this message, and all later ones, through a posted receive.
  void put_back(const arrived_message& m) noexcept;
  [[nodiscard]] bool is_whole(cell_header h) const noexcept;
  [[nodiscard]] bool has_whole() const noexcept;
  // The next message cannot be taken without a receive: returns true if the layer above must be
  // notified that it needs one.
  [[nodiscard]] bool needs_receive(cell_header h, arrived_message& m) noexcept;
  void lend(cell_header h, arrived_message& m) noexcept;
  // Called when all messages passed to the caller were read, or put back.
  void looked_at() noexcept {
    lent_ = false;
    if (state_ != state::open) return;
    reader_.tell();
    if (peer_page_->may_sleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_waiter();
  }
  // True if a barrier_joined() of this side replaces a fence of the peer.
  [[nodiscard]] bool peer_takes_barriers() const noexcept {
    return is_up() && !peer_.fences_itself;
  }
  // Before sleeping: publishes the free ring space. has_work() is true if poll() would find
  // something.
  void tell() noexcept;
  [[nodiscard]] bool has_work() noexcept;
  void event_taken(cm_event::type what) noexcept;

 private:
  friend class handshake;
  using state = pair_state;
  using stage = send_stage;
  enum class taking : std::uint8_t { delivered, consumed, blocked };

  [[nodiscard]] bool is_up() const noexcept { return state_ == state::up || state_ == state::open; }

  // shm_queue_pair.cpp
  // Either side: the connection is established, the event is queued. `data` was received with an
  // accept. REQUIRES its memory.
  // Throws std::bad_alloc; nothing has changed then.
  void establish(peer_terms terms, std::vector<std::byte> data);
  // In any state.
  void fail(failure why, wc_status status = wc_status::wr_flush_err) noexcept;
  void fail_and_tell(failure why, wc_status status, std::uint64_t position,
                     wc_status mine = wc_status::wr_flush_err) noexcept;
  void fail_connecting(failure why, std::vector<std::byte> data = {}) noexcept;
  // Fails because memory is exhausted.
  void starve() noexcept;
  void malformed(const char* what) noexcept;
  void lose_peer(failure why) noexcept;
  void lose_peer_now(failure why) noexcept;
  void end_socket() noexcept;
  void withdraw() noexcept;
  void advance_close() noexcept;
  void finish_dying() noexcept;
  std::size_t hand_out_flushed(std::span<completion> out) noexcept;
  void settle() noexcept;
  [[nodiscard]] bool probe() const noexcept;
  void watch_peer() noexcept;
  void on_watch() noexcept;
  [[nodiscard]] std::uint64_t signs_of_life() const noexcept;
  [[nodiscard]] peer_name peer_text() const noexcept { return peer_name(peer_.who); }
  [[nodiscard]] ring_control& out_control() const noexcept { return *memory_.ring[0]; }
  [[nodiscard]] ring_control& in_control() const noexcept { return *memory_.ring[1]; }

  // shm_queue_pair_control.cpp
  // These throw std::bad_alloc.
  void take_packets();
  void on_packet(received_packet& p);
  void on_accept(received_packet& p);
  void on_refusal(packet type, received_packet& p);
  void on_region_request(const region_packet& r);
  void on_region(packet type, const region_packet& r, received_packet& p);
  void on_fault(const fault_packet& f);
  [[nodiscard]] bool offer(std::uint32_t lkey, const memory_range& range, bool& blocked) noexcept;
  void flush_answers() noexcept;
  // Like send_packet(), but only after the accept was sent.
  template <class Packet>
  [[nodiscard]] transfer say(const Packet& p, std::span<const int> fds = {}) noexcept {
    return handshake_.has_answered() ? send_packet(socket_.get(), p, fds) : transfer::again;
  }

  // shm_queue_pair_send.cpp
  posted post_slowly(const send_request& request, completion& now) noexcept;
  [[nodiscard]] bool put_headed(message_head head, const std::byte* data,
                                std::uint32_t bytes) noexcept;
  [[nodiscard]] bool put_any(const message_head* head, const std::byte* data,
                             std::uint32_t bytes) noexcept;
  void advance() noexcept;
  [[nodiscard]] bool execute(send_entry& e) noexcept;
  [[nodiscard]] bool execute_send(send_entry& e) noexcept;
  [[nodiscard]] bool execute_fragments(send_entry& e) noexcept;
  [[nodiscard]] bool execute_fetch(send_entry& e, bool& impossible) noexcept;
  void write_eager(const send_request& r, std::uint64_t total) noexcept;
  std::size_t retire(std::span<completion> out) noexcept;
  // True if the peer's progress has completed the entry.
  [[nodiscard]] bool is_done(const send_entry& e, std::uint64_t fetched) noexcept;
  void finish_taken() noexcept;
  void fail_entry(send_entry& e, wc_status status, const char* why) noexcept;
  void published(bool more) noexcept {
    if (!more) wake_peer();
  }
  void wake_peer() noexcept {
    if (peer_page_->may_sleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_sleeper();
  }
  void show_withheld() noexcept;
  [[nodiscard]] bool all_taken() noexcept;
  void wake_sleeper() noexcept;
  void ring_doorbell() noexcept;
  void wake_waiter() noexcept;
  void set_waiting(bool waits) noexcept;
  [[nodiscard]] bool blocked_for_room() noexcept;

  // shm_queue_pair_remote.cpp
  [[nodiscard]] bool execute_access(send_entry& e) noexcept;
  [[nodiscard]] bool access_now(send_request& request) noexcept;
  [[nodiscard]] bool access_one(const send_request& r) noexcept;
  [[nodiscard]] bool carry_out(const send_request& request, std::uint64_t& old) noexcept;
  [[nodiscard]] bool atomic_now(const send_request& r, remote_region& region,
                                std::uint64_t& old) noexcept;
  [[nodiscard]] wc_status access_now(const send_request& r, std::uint64_t total,
                                     remote_region& region) noexcept;
  [[nodiscard]] wc_status check_access(const send_request& r, std::uint64_t total,
                                       const remote_region& region) const noexcept;
  [[nodiscard]] wc_status copy_through_kernel(const send_request& r, std::uint64_t total,
                                              bool& impossible) noexcept;
  [[nodiscard]] bool execute_served(send_entry& e) noexcept;
  [[nodiscard]] bool write_and_tell(const send_request& r, std::uint64_t total,
                                    const remote_region& region) noexcept;
  void tell_written(const send_request& r, std::uint64_t total) noexcept;
  [[nodiscard]] bool send_service_request(send_entry& e) noexcept;
  [[nodiscard]] bool finish_access(send_entry& e) noexcept;
  void ask(std::uint64_t rkey) noexcept;
  void serve(const cell_header& h) noexcept;
  // False: the peer has deregistered the region, or has failed. step_out() must follow in either
  // case.
  [[nodiscard]] bool step_in(const remote_region& region) noexcept;
  [[nodiscard]] bool peer_withdrew() const noexcept;
  void step_out() noexcept;

  // shm_queue_pair_receive.cpp
  std::size_t receive(std::span<completion> out, bool& progressed) noexcept;
  taking take(const cell_header& h, completion& out) noexcept;
  [[nodiscard]] bool take_at_once(const recv_request& r, completion& out) noexcept;
  void deliver(const cell_header& h, std::uint64_t id, const segment* to, std::size_t count,
               completion& out) noexcept;
  taking take_send(const cell_header& h, completion& out) noexcept;
  taking take_fragment(const cell_header& h, completion& out) noexcept;
  taking take_write_imm(const cell_header& h, completion& out) noexcept;
  taking start_fetch(const cell_header& h) noexcept;
  [[nodiscard]] bool fetch_some(completion& out) noexcept;
  [[nodiscard]] bool fetch_piece(std::uint64_t bytes) noexcept;
  [[nodiscard]] bool read_from_peer(std::uint64_t from, std::uint64_t bytes,
                                    segment_cursor& to) noexcept;
  // Completes the first receive with this message.
  void complete(const cell_header& h, std::uint64_t bytes, completion& out) noexcept;
  [[nodiscard]] bool borrow() noexcept;
  // Value for completion::from.
  [[nodiscard]] queue_pair* taker() noexcept { return share_ ? this : nullptr; }
  // True in error, while `last_receive` is still to be reported.
  [[nodiscard]] bool owes_last() const noexcept {
    return peer_page_ != nullptr && share_.owes_last();
  }
  taking no_receive() noexcept;
  void too_long(recv_entry& r, std::uint64_t position) noexcept;
  void not_allowed(std::uint64_t position) noexcept;
  void hold_up() noexcept;
  void on_rnr_timeout() noexcept;

  // Hot.
  ring_reader reader_;
  bool plain_ = false;       // open, with no outstanding work of this side: see settle()
  bool open_ = false;        // open, not closing: sends may bypass the queue
  bool lent_ = false;        // messages passed to the taker are still in use
  bool by_receive_ = false;  // a message waits for a receive or has one, with or without a taker
  checked_state<pair_state> state_{pair_state::unconnected};
  access_mark accesses_;
  adapter_page* peer_page_ = nullptr;
  std::uint64_t eager_ = 0;
  shm_domain& domain_;
  shm_adapter& home_;
  ring_writer writer_;
  send_queue sends_;
  channel memory_;
  receive_share share_;
  recv_queue receives_;
  turn turn_{*this};
  // Runs while a message waits for a receive.
  timer_of<&shm_queue_pair::on_rnr_timeout> rnr_timer_{*this};
  remote_memory regions_;  // by rkey

  event_queue::room events_room_;
  queue_pair_options options_;
  watched_socket socket_;
  peer_terms peer_;
  handshake handshake_;
  arriving_message arriving_;
  region_talk talk_;
  owner_service service_;
  // Every activity of the peer counts: it takes messages, copies, serves, looks for a receive,
  // sends messages, reads or writes our memory, or answers a region request.
  peer_watch<&shm_queue_pair::on_watch> watch_{*this};
  ending ending_;
};

// REQUIRES is_plain() and is_ready(). False: the next message cannot be taken this way.
[[gnu::always_inline]] inline bool shm_queue_pair::takes_one(arrived_message& m) noexcept {
  if (!takes_in_place()) return false;
  const cell_header h = reader_.header();
  if (!is_whole(h)) return false;
  lend(h, m);
  return true;
}

inline void shm_queue_pair::lend(cell_header h, arrived_message& m) noexcept {
  m = {.from = this, .data = reader_.payload(), .bytes = h.length};
  reader_.step(cells_for(h.length));
  writer_.on_arrived();
  lent_ = true;
}

// True if the next message is such a message.
inline bool shm_queue_pair::has_whole() const noexcept {
  return takes_in_place() && reader_.ready() && is_whole(reader_.header());
}

// True for a message that consumes no receive if a taker is set.
inline bool shm_queue_pair::is_whole(cell_header h) const noexcept {
  return h.what == message::send && h.flags == 0 && h.length <= reader_.most_payload();
}

[[gnu::always_inline]] inline bool shm_queue_pair::step_in(const remote_region& region) noexcept {
  accesses_.enter(out_control().accessing);
  return region.valid() && !peer_withdrew();
}

// True if the peer has failed and its program may reuse its memory.
inline bool shm_queue_pair::peer_withdrew() const noexcept {
  return in_control().ended.load(std::memory_order_acquire) == end_of_stream::withdrawn;
}

inline void shm_queue_pair::step_out() noexcept { accesses_.leave(out_control().accessing); }

}  // namespace cordma::transport::shm

// One connection over shared memory. Bound to its adapter's thread.
//   shm_queue_pair.cpp              life: set-up, failing, closing
//   shm_queue_pair_connect.cpp      calling a listener, answering a caller
//   shm_queue_pair_out_of_band.cpp  connecting by descriptors
//   shm_queue_pair_control.cpp      packets over the socket
//   shm_queue_pair_send.cpp         posting, eager and fetched messages, retiring
//   shm_queue_pair_receive.cpp      taking messages out of the ring
//   shm_queue_pair_remote.cpp       reads, writes and atomics
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/event_queue.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/remote_memory.hpp>
#include <cordma/net/transport/shm/ring.hpp>
#include <cordma/net/transport/shm/shm_domain.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/socket_set.hpp>
#include <cordma/net/transport/software_receive_queue.hpp>
#include <cordma/net/transport/transport.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace cordma::transport::shm {

class shm_adapter;
class shm_queue_pair;

// What a side learns about the other in the handshake.
struct peer_terms {
  unique_fd doorbell;  // written when the peer sleeps
  mapped_view page;    // adapter_page
  mapped_view epochs;  // of the peer's regions
  peer_identity who;
  std::uint64_t rnr_timer_ns = 0;
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::uint8_t rnr_retry = 7;
  bool fences_itself = true;
  bool reads_us = false;
};

// Between two pieces the right is checked again, so that deregistering waits for one piece only.
inline constexpr std::uint64_t access_piece = 1U << 20;  // bytes

// A queue pair's place among those that shared receives are there for.
struct turn : list_node {
  explicit turn(shm_queue_pair& q) noexcept : owner(&q) {}
  shm_queue_pair* owner;
};

// The events of epoll(7) that a connection's socket is watched for.
inline constexpr std::uint32_t watched_for = EPOLLIN | static_cast<std::uint32_t>(EPOLLRDHUP);

enum class side : std::uint8_t { connects = 0, accepts = 1 };
static_assert(static_cast<std::size_t>(side::accepts) <
              std::extent_v<decltype(control_page::direction)>);

enum class pair_state : std::uint8_t { unconnected, connecting, up, error };
// Whether the right one may follow the left one. A call that reached nobody leaves its queue pair as it was.
[[nodiscard]] constexpr bool operator>>(pair_state from, pair_state to) noexcept {
  switch (to) {
    case pair_state::unconnected: return from == pair_state::error;
    case pair_state::connecting: return from == pair_state::unconnected;
    case pair_state::up: return from < pair_state::up;
    case pair_state::error: return true;
  }
  return false;
}

// Whom the connecting side calls, until it has said hello.
struct invitation {
  std::uint16_t port = 0;          // 0: by the path that a descriptor has named
  std::vector<ip_address> wanted;  // the listener has to serve one of them; none: any
  std::vector<std::byte> data;     // private data for the hello
  unique_fd memory;                // of the connection
};

// The name that a peer with our descriptor dials.
struct hidden_name {
  hidden_name(bound_name bound, socket_set& set, socket_handler& owner);
  name_files name;
  watched_socket socket;
};

class shm_queue_pair final : public queue_pair, public socket_handler, public receive_waiter {
 public:
  shm_queue_pair(shm_adapter& home, side which, const queue_pair_options& options,
                 std::string path);
  ~shm_queue_pair() override;

  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override;
  [[nodiscard]] std::string peer_address() const override;
  posted post_send(const send_request& request, completion& now) noexcept override;
  posted post_recv(const recv_request& request, completion& now) noexcept override;
  bool post_now(const send_request& request, std::uint64_t& old) noexcept override;
  bool put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept override;
  bool put(const std::byte* data, std::uint32_t bytes) noexcept override;
  void ring() noexcept override;
  void disconnect() noexcept override;
  void abort() noexcept override;
  result<peer_view> view(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length) override;
  result<std::vector<std::byte>> descriptor() override;
  result<void> connect(std::span<const std::byte> peer_descriptor) override;

  // For the adapter and the handshake.
  void on_ready(std::uint32_t events) noexcept override;
  void turn_came() noexcept override;
  // The connecting side: finds the listener, says hello and waits for the answer. Fails at once if nobody listens.
  result<void> call(std::unique_ptr<invitation> to);
  // Either side: the connection is up, the event is queued. `data` came with an accept.
  // Throws std::bad_alloc, and nothing has changed then.
  void establish(channel memory, peer_terms terms, std::vector<std::byte> data);
  // The accepting side: the same, and says so to the peer.
  void answer(channel memory, peer_terms terms, std::span<const std::byte> data);
  [[nodiscard]] result<void> adopt_socket(socket_fd& socket) noexcept;
  [[nodiscard]] introduction introduce(packet type, std::span<const std::byte> data) const noexcept;

  // To be connected by descriptors: makes a hidden name to be reached by.
  result<void> open_hidden();

  // Hands out completions; sets `progressed` where anything else moved.
  std::size_t poll(std::span<completion> out, bool& progressed) noexcept;
  // Nothing at all to do: one load of a cell, and of what this thread wrote.
  [[nodiscard]] bool quiet() const noexcept { return plain_ && !reader_.ready(); }
  [[nodiscard]] bool is_plain() const noexcept { return plain_; }
  // Whether whole messages are handed out where they lie.
  [[nodiscard]] bool takes_in_place() const noexcept { return in_place != nullptr && !by_receive_; }
  // Cells taken, ever.
  [[nodiscard]] std::uint64_t taken() const noexcept { return reader_.position(); }
  [[nodiscard]] bool is_announced() const noexcept { return state_ == state::up && announced_; }
  // Adds messages that lie in the ring whole to the `have` that are in `out`; how many they are then. From one on that
  // does not, all come by receives.
  std::size_t take_in_place(std::span<arrived_message> out, std::size_t have) noexcept;
  // One of them.
  [[nodiscard]] bool takes_one(arrived_message& m) noexcept;
  [[nodiscard]] bool is_ready() const noexcept { return reader_.ready(); }
  // Such a message is to come by a receive, and all behind it.
  void put_back(const arrived_message& m) noexcept;
  [[nodiscard]] bool is_whole(cell_header h) const noexcept;
  [[nodiscard]] bool has_whole() const noexcept;
  // The next message is not to be taken in place: whether it needs a receive, and the layer above is to know.
  [[nodiscard]] bool needs_receive(cell_header h, arrived_message& m) noexcept;
  void lend(cell_header h, arrived_message& m) noexcept;
  // All that was handed out was looked at, or put back.
  void looked_at() noexcept {
    lent_ = false;
    if (state_ != state::up) return;
    reader_.tell();
    if (peer_page_->may_sleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_waiter();
  }
  // A barrier_joined() of this side does for a fence of the peer's.
  [[nodiscard]] bool peer_takes_barriers() const noexcept {
    return state_ == state::up && !peer_.fences_itself;
  }
  // Before sleeping: gives back ring space, and says whether poll() would find something.
  void tell() noexcept;
  [[nodiscard]] bool has_work() noexcept;
  void event_taken(cm_event::type what) noexcept;

 private:
  using state = pair_state;
  enum class stage : std::uint8_t { waiting, fetch, flush, finished };
  enum class taking : std::uint8_t { delivered, consumed, blocked };
  struct send_entry {
    send_request request;        // its segments are ours
    std::uint64_t total = 0;     // bytes
    std::uint64_t offset = 0;    // bytes done, of fragments and served requests
    std::uint64_t goal = 0;      // of `fetched` or `taken`
    std::uint64_t position = 0;  // in the ring, where the message starts
    wc_status status = wc_status::success;
    stage at = stage::waiting;
  };
  struct recv_entry {
    std::uint64_t id = 0;
    std::uint64_t capacity = 0;  // bytes
    const segment* segments = nullptr;
    std::uint16_t count = 0;
    bool permitted = true;
  };
  struct fetch_state {
    std::array<piece, most_segments> pieces;
    std::uint32_t count = 0;
    std::uint32_t index = 0;
    std::uint64_t in_piece = 0;
    std::uint64_t offset = 0;
    std::uint64_t total = 0;
    std::uint64_t position = 0;
    std::uint32_t imm = 0;
    bool has_imm = false;
    bool active = false;
  };
  struct pair_timer : timer {
    pair_timer(function f, shm_queue_pair& q) noexcept : timer(f), owner(q) {}
    shm_queue_pair& owner;
  };

  // shm_queue_pair.cpp
  void fail(failure why, wc_status status = wc_status::wr_flush_err) noexcept;
  void fail_and_tell(failure why, wc_status status, std::uint64_t position,
                     wc_status mine = wc_status::wr_flush_err) noexcept;
  // There was no memory to go on.
  void starve() noexcept;
  void malformed(const char* what) noexcept;
  void fail_connecting(failure why, std::vector<std::byte> data = {}) noexcept;
  void lose_peer(failure why) noexcept;
  void end_socket() noexcept;
  void leave_to_parent() noexcept;
  void withdraw() noexcept;
  void advance_close() noexcept;
  void finish_dying() noexcept;
  std::size_t hand_out_flushed(std::span<completion> out) noexcept;
  void settle() noexcept;
  [[nodiscard]] bool probe() noexcept;
  void watch_peer() noexcept;
  void on_watch() noexcept;
  [[nodiscard]] std::uint64_t signs_of_life() const noexcept;
  [[nodiscard]] peer_name peer_text() const noexcept { return peer_name(peer_.who); }
  [[nodiscard]] ring_control& out_control() const noexcept;
  [[nodiscard]] ring_control& in_control() const noexcept;

  // shm_queue_pair_control.cpp
  // Throw std::bad_alloc.
  void take_packets();
  void on_packet(received_packet& p);
  void on_accept(received_packet& p);
  void on_refusal(packet type, received_packet& p);
  void on_region_request(const region_packet& r);
  void on_region(packet type, const region_packet& r, received_packet& p);
  void on_fault(const fault_packet& f);
  [[nodiscard]] bool offer(std::uint32_t lkey, const memory_range& range, bool& blocked) noexcept;
  void flush_answers() noexcept;

  // shm_queue_pair_connect.cpp
  result<void> call_once();
  result<void> meet(socket_fd socket);
  result<void> call_again(const char* limit) noexcept;
  void on_call_timer() noexcept;
  void send_accept() noexcept;
  // As send_packet(), once the accept is out.
  template <class Packet>
  [[nodiscard]] transfer say(const Packet& p, std::span<const int> fds = {}) noexcept {
    return accept_ != nullptr ? transfer::again : send_packet(socket_.get(), p, fds);
  }

  // shm_queue_pair_out_of_band.cpp
  result<void> wait_for_peer();
  void on_hidden_name();
  void on_hidden_hello();
  void close_hidden() noexcept;

  // shm_queue_pair_send.cpp
  posted post_slowly(const send_request& request, completion& now) noexcept;
  [[nodiscard]] bool put_any(const message_head* head, const std::byte* data,
                             std::uint32_t bytes) noexcept;
  [[nodiscard]] bool shown() noexcept;
  void advance() noexcept;
  [[nodiscard]] bool execute(send_entry& e) noexcept;
  [[nodiscard]] bool execute_send(send_entry& e) noexcept;
  [[nodiscard]] bool execute_fragments(send_entry& e) noexcept;
  [[nodiscard]] bool execute_fetch(send_entry& e, bool& impossible) noexcept;
  void write_eager(const send_request& r, std::uint64_t total) noexcept;
  std::size_t retire(std::span<completion> out) noexcept;
  [[nodiscard]] std::uint64_t in_flight_fetched() noexcept;
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
  [[nodiscard]] bool access_one(const send_request& r, remote_region& region) noexcept;
  [[nodiscard]] bool atomic_now(const send_request& r, remote_region& region,
                                std::uint64_t& old) noexcept;
  [[nodiscard]] wc_status access_now(const send_request& r, std::uint64_t total,
                                     remote_region& region) noexcept;
  [[nodiscard]] wc_status check_access(const send_request& r, std::uint64_t total,
                                       const remote_region& region) const noexcept;
  [[nodiscard]] wc_status copy_through_kernel(const send_request& r, std::uint64_t total,
                                              bool& impossible) noexcept;
  [[nodiscard]] bool execute_served(send_entry& e) noexcept;
  [[nodiscard]] bool send_service_request(send_entry& e) noexcept;
  [[nodiscard]] bool execute_write_imm(send_entry& e) noexcept;
  void ask(std::uint64_t rkey) noexcept;
  void serve(const cell_header& h) noexcept;
  // False: the peer has deregistered it, or has failed. Either way step_out() follows.
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
  [[nodiscard]] bool fetch_piece(const piece& p, std::uint64_t bytes, recv_entry& r) noexcept;
  [[nodiscard]] bool read_from_peer(std::uint64_t from, std::uint64_t bytes,
                                    segment_cursor& to) noexcept;
  void store(const recv_request& request) noexcept;
  [[nodiscard]] bool borrow() noexcept;
  void leave_shared() noexcept;
  // completion::from
  [[nodiscard]] queue_pair* taker() noexcept { return shared_ != nullptr ? this : nullptr; }
  // In error: it has yet to say that it took its last receive.
  [[nodiscard]] bool owes_last() const noexcept {
    return shared_ != nullptr && peer_page_ != nullptr && !last_taken_.told;
  }
  taking no_receive() noexcept;
  void too_long(recv_entry& r, std::uint64_t position) noexcept;
  void not_allowed(recv_entry& r, std::uint64_t position) noexcept;
  void hold_up() noexcept;
  void on_rnr_timeout() noexcept;
  void on_connect_timeout() noexcept;
  [[nodiscard]] bool receives_empty() const noexcept { return recv_head_ == recv_tail_; }
  [[nodiscard]] recv_entry& first_receive() noexcept { return recvs_[recv_head_ & recv_mask_]; }

  // Hot.
  ring_reader reader_;
  bool plain_ = false;      // up, announced, nothing of our own outstanding: see settle()
  bool open_ = false;       // up, announced, not closing, sends may bypass the queue
  bool announced_ = false;  // the event `established` was taken
  checked_state<pair_state> state_{pair_state::unconnected};
  std::uint32_t recv_head_ = 0;
  std::uint32_t recv_tail_ = 0;
  std::uint32_t recv_mask_ = 0;
  std::unique_ptr<recv_entry[]> recvs_;
  bool lent_ = false;        // messages that were handed out in place are still looked at
  bool by_receive_ = false;  // a message waits for a receive, in_place or not, or has taken one
  // Where its receives come from, not its own: `recvs_` then has the one that a message has taken.
  reporting_receive_queue* shared_ = nullptr;
  ring_writer writer_;
  std::uint64_t eager_ = 0;
  std::uint32_t head_ = 0;  // oldest send not retired
  std::uint32_t exec_ = 0;  // oldest send not carried out
  std::uint32_t tail_ = 0;
  std::uint32_t send_mask_ = 0;
  std::unique_ptr<send_entry[]> sends_;
  adapter_page* peer_page_ = nullptr;
  shm_domain& domain_;
  shm_adapter& home_;
  event_queue::room events_room_;
  turn turn_{*this};
  last_taken last_taken_{*this};

  side side_;
  bool closing_ = false;
  bool said_bye_ = false;
  bool heard_bye_ = false;
  bool dying_ = false;
  bool cause_out_ = false;  // the event `disconnected` was taken
  bool waiting_ = false;    // what ring_control::waiting says
  bool can_read_peer_ = false;
  bool fences_ = false;
  bool rnr_waiting_ = false;
  bool serve_sent_ = false;
  std::uint32_t close_mark_ = 0;
  std::uint64_t bye_goal_ = 0;
  std::uint32_t last_nap_ = 0;
  std::uint64_t fetches_sent_ = 0;
  std::uint64_t fetched_known_ = 0;
  std::uint64_t fetches_done_ = 0;
  std::uint64_t serves_sent_ = 0;
  std::uint64_t served_ = 0;
  std::uint64_t serve_length_ = 0;
  std::uint64_t asked_ = 0;    // rkey whose answer we wait for
  std::uint64_t partial_ = 0;  // bytes of a fragmented message received so far
  bool in_partial_ = false;
  fetch_state fetch_;

  queue_pair_options options_;
  std::string path_;
  watched_socket socket_;
  channel memory_;
  peer_terms peer_;
  remote_memory regions_;                                     // by rkey
  remote_memory offers_;                                      // by offer_key()
  std::unordered_map<std::uint32_t, std::uint32_t> offered_;  // lkey -> epoch
  std::uint32_t offered_key_ = 0;
  std::uint32_t offered_epoch_ = 0;
  std::vector<region_packet> unanswered_;
  std::unique_ptr<segment[]> segment_store_;
  std::unique_ptr<std::byte[]> inline_store_;
  std::optional<failure> dying_why_;
  wc_status dying_status_ = wc_status::wr_flush_err;
  std::uint64_t dying_position_ = no_position;
  wc_status first_recv_status_ = wc_status::wr_flush_err;
  pair_timer connect_timer_;
  pair_timer call_timer_;  // until hello or accept is said
  pair_timer rnr_timer_;
  pair_timer watch_timer_;  // runs while the peer owes something; see watch_peer()
  std::uint64_t signs_seen_ = 0;
  std::uint64_t packets_taken_ = 0;
  bool suspected_ = false;  // nothing was seen of it for half its time
  std::uint64_t probe_value_ = 0;
  // Coming up.
  std::unique_ptr<invitation> invitation_;
  std::unique_ptr<introduction> accept_;
  time_point accept_until_{};
  const char* limit_ = nullptr;  // what keeps the hello from being said
  std::uint32_t accesses_ = 0;   // odd: inside one
  duration pause_ = std::chrono::microseconds(100);
  // Out of band.
  std::unique_ptr<hidden_name> hidden_;
  std::uint64_t token_ = 0;         // our descriptor's
  std::uint64_t common_token_ = 0;  // of both descriptors
};

// REQUIRES that it is not quiet. False: none can be taken so.
[[gnu::always_inline]] inline bool shm_queue_pair::takes_one(arrived_message& m) noexcept {
  if (!plain_ || !takes_in_place()) return false;
  const cell_header h = reader_.header();
  if (!is_whole(h)) return false;
  lend(h, m);
  return true;
}

inline void shm_queue_pair::lend(cell_header h, arrived_message& m) noexcept {
  m = {.from = this, .data = reader_.payload(), .bytes = h.length};
  reader_.step(cells_for(h.length));
  lent_ = true;
}

// One of those is next.
inline bool shm_queue_pair::has_whole() const noexcept {
  return takes_in_place() && reader_.ready() && is_whole(reader_.header());
}

// Takes no receive where messages are taken in place.
inline bool shm_queue_pair::is_whole(cell_header h) const noexcept {
  return h.what == message::send && h.flags == 0 && h.length <= reader_.most_payload();
}

inline ring_control& shm_queue_pair::out_control() const noexcept {
  return memory_.control->direction[static_cast<std::size_t>(side_)];
}
inline ring_control& shm_queue_pair::in_control() const noexcept {
  return memory_.control->direction[1 - static_cast<std::size_t>(side_)];
}

inline bool shm_queue_pair::step_in(const remote_region& region) noexcept {
  out_control().accessing.store(++accesses_, std::memory_order_relaxed);
  // The owner invalidates the epoch, or withdraws, runs a barrier on our processor, then looks at `accessing`.
  if (fences_) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  return region.valid() && !peer_withdrew();
}

// It has failed, and its program has its memory back.
inline bool shm_queue_pair::peer_withdrew() const noexcept {
  return in_control().ended.load(std::memory_order_acquire) == end_of_stream::withdrawn;
}

inline void shm_queue_pair::step_out() noexcept {
  out_control().accessing.store(++accesses_, std::memory_order_release);
}

}  // namespace cordma::transport::shm

// What stands behind an Endpoint: its queue pair, credits, and all that waits for it.
#pragma once

#include <cordma/net/datagram.hpp>
#include <cordma/net/datapath/adapter_poller.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/datapath/slot.hpp>
#include <cordma/net/datapath/window_core.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/memory/context_core.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cordma::detail {

class worker_core;

// Of what is bound to an Endpoint: see reactor::wrong_thread().
inline constexpr std::string_view endpoint_rule =
    "endpoints may only be used on the thread of their Worker";

// Whether it takes a receive of the peer, by opcode, and all that do, by bit.
inline constexpr std::uint32_t messages_bits =
    1U << static_cast<unsigned>(transport::opcode::send) |
    1U << static_cast<unsigned>(transport::opcode::send_imm) |
    1U << static_cast<unsigned>(transport::opcode::write_imm) |
    1U << static_cast<unsigned>(transport::opcode::send_invalidate);
[[nodiscard]] constexpr bool consumes_receive(transport::opcode op) noexcept {
  return (messages_bits >> static_cast<unsigned>(op) & 1U) != 0;
}
static_assert(consumes_receive(transport::opcode::send_invalidate));
static_assert(consumes_receive(transport::opcode::write_imm));
static_assert(!consumes_receive(transport::opcode::write));
static_assert(!consumes_receive(transport::opcode::recv) &&
                  !consumes_receive(transport::opcode::recv_write_imm),
              "a receive is not what consumes one");

// Whether the right one may follow the left one.
[[nodiscard]] constexpr bool operator>>(endpoint_state before, endpoint_state next) noexcept {
  return before < next && before != endpoint_state::closed;
}
static_assert(endpoint_state::connecting >> endpoint_state::connected);
static_assert(endpoint_state::connecting >> endpoint_state::closing, "it is not wired yet");
static_assert(endpoint_state::closing >> endpoint_state::closed);
static_assert(!(endpoint_state::closing >> endpoint_state::connected));
static_assert(!(endpoint_state::closed >> endpoint_state::connecting));
static_assert(!(endpoint_state::closed >> endpoint_state::connected));

// A request that is done with its post; one that was not, after all.
inline void count_put(endpoint_counters& c, std::uint64_t bytes) noexcept {
  ++c.sends;
  ++c.rings;
  ++c.immediate;
  c.bytes_sent += bytes;
}
inline void take_back_put(endpoint_counters& c, std::uint64_t bytes) noexcept {
  --c.sends;
  --c.rings;
  --c.immediate;
  c.bytes_sent -= bytes;
}

struct endpoint_core final : list_node, transport::message_taker {
  endpoint_core();

  worker_core* worker = nullptr;          // null once the worker is gone
  reactor* home = nullptr;                // likewise
  std::shared_ptr<context_core> context;  // keeps `caps` alive, and tells whose memory fits
  std::unique_ptr<transport::queue_pair> pair;
  adapter_poller* via = nullptr;  // null once the worker is gone
  const transport::capabilities* caps = nullptr;
  std::size_t kind = 0;
  std::size_t key_place = 0;  // where the remote keys of that kind are, if nothing else is
  endpoint_state state = endpoint_state::connecting;
  bool handle_gone = false;  // nobody holds it: goes when the last request came back
  bool closed_here = false;  // by close() or abort(), rather than by the peer or an error
  bool fence_next = false;
  // One bit per opcode: what is posted as it comes, as long as there are credits. None unless it is
  // connected, nor while there is more to look at: a fence is due, requests wait, a canceled receive
  // is still posted.
  std::uint32_t open_to = 0;
  std::uint32_t batches = 0;
  bool posts_now = false;  // queue_pair::put() and post_now() may carry out what is open
  // Slots: posted receives in the order of posting, and messages that wait for a receive in the order
  // of arrival.
  slot* first_recv = nullptr;
  slot** recvs_end = &first_recv;  // where the next one is named
  slot* first_kept = nullptr;
  slot** kept_end = &first_kept;
  // Receives that the transport does not know: where messages are taken in place, and until one has to be received.
  list<post_base> held_recvs;
  bool holds_recvs = false;    // they are held from now on
  bool message_waits = false;  // ... and one is there that no receive was held for
  std::uint32_t orphans = 0;   // posted or kept
  std::uint32_t unrung = 0;    // posts that a doorbell still has to show
  std::uint32_t send_credits = 0;
  std::uint32_t recv_credits = 0;
  transport::queue_pair_options granted;
  list<post_base> waiting_sends;
  list<post_base> waiting_recvs;
  // While requests wait there: the last time that one of them was posted, or that the first began to wait.
  coarse_time sends_wait_since = 0;
  coarse_time recvs_wait_since = 0;
  list<state_operation> state_waiters;
  list<resolve_operation> resolvers;  // of a datagram port
  list<window_core> windows;          // that the queue pair knows
  std::shared_ptr<const failure> cause;
  connection_attempt* connector = nullptr;
  endpoint_counters counters;
  std::string reason;
  std::vector<std::byte> peer_data;
  MemoryRegion posted_word;  // empty: the peer is not told how many receives were posted
  // Of Worker::endpoint(), until it is connected: makes the connection that this endpoint takes over.
  std::unique_ptr<connection_attempt> wiring;
  std::unique_ptr<shared_source> shared;  // where its messages come from granted.shared
  std::unique_ptr<endpoint_frames> peer;  // where they are frames
  std::unique_ptr<early_frames> early;    // where they will be, until it is connected or ended
  std::uint32_t frame_sends = 0;          // places in the send queue that are set aside for frames
  std::uint32_t frames_in_flight = 0;     // on its rails as well
  link_owner* rail = nullptr;             // whose link it is, and nobody's Endpoint
  ending_link ending{*this};
  Endpoint* handle = nullptr;
  post_base::aside plain_needs = post_base::aside::nothing;  // of a send or a receive; see there
  bool counted = false;                                      // in worker_core::endpoint_count

  // Set aside while there is memory, so that ending for the want of it has a cause to name.
  std::shared_ptr<failure> cause_storage = std::make_shared<failure>(errc::ok);
  std::uint32_t reserved_slots = 0;

  ~endpoint_core();
  // Throws std::bad_alloc; errc::full is for the caller to check first.
  void adopt(worker_core& owner, std::unique_ptr<transport::queue_pair> p,
             adapter_poller& made_with);
  void on_resolved(const transport::cm_event& event) noexcept;
  // The connection of `made`, on which nothing was posted, becomes this one's; then start_waiting().
  void take_over(endpoint_core& made) noexcept;
  // Starts what waited for the connection, in its order.
  void start_waiting() noexcept;
  // It carries plain messages.
  [[nodiscard]] bool is_plain() const noexcept { return peer == nullptr && early == nullptr; }
  void refresh_grant() noexcept;
  void post_or_queue(post_base& op) noexcept;
  void pump(bool recvs) noexcept;
  // Of a plain endpoint: into the receive that is held for it.
  void on_arrived(transport::arrived_message& m) noexcept override;
  // True: the receive is held. Else it is to be posted, and all that were held are.
  [[nodiscard]] bool hold(post_base& op) noexcept;
  [[nodiscard]] bool hold_at_once(post_base& op) noexcept;
  // From now on the transport has the receives.
  void post_held() noexcept;
  void post_held_now() noexcept;
  void refresh_open() noexcept;
  [[nodiscard]] post_base* first_waiting_for_pool() noexcept;
  void ring() noexcept;
  void tell_posted() noexcept;
  void drop_pair() noexcept;
  // Disconnects once nothing waits for credits any more; never in a child of fork().
  void begin_close() noexcept;
  [[nodiscard]] bool is_inherited() const noexcept { return home != nullptr && home->inherited(); }
  void set_state(endpoint_state s) noexcept;
  // The first cause counts; the later ones follow from it.
  void end(failure why) noexcept;
  void blame(failure why) noexcept;
  void flush_waiting() noexcept;
  // memory_window.cpp: the peer said so. The windows outlive this.
  void invalidated(std::uint64_t key) noexcept;
  void forget_windows() noexcept;
  [[nodiscard]] failure flushed(const char* operation) const noexcept;
  // What is started after the end fails with.
  [[nodiscard]] std::optional<failure> why_not(const char* operation) const noexcept;
  [[nodiscard]] std::size_t inflight() const noexcept {
    return granted.send_depth - send_credits + granted.recv_depth - recv_credits + frames_in_flight;
  }
};

}  // namespace cordma::detail

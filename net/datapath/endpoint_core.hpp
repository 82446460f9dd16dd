// Implementation of an Endpoint: its queue pair, credits, and waiting operations.
#pragma once

#include <cordma/net/datagram.hpp>
#include <cordma/net/datapath/adapter_poller.hpp>
#include <cordma/net/datapath/endpoint_life.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/datapath/request_line.hpp>
#include <cordma/net/datapath/slot_list.hpp>
#include <cordma/net/datapath/window_core.hpp>
#include <cordma/net/memory/context_core.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cordma::detail {

class worker_core;

// The rule for objects bound to an Endpoint: see reactor::wrong_thread().
inline constexpr std::string_view endpoint_rule =
    "endpoints may only be used on the thread of their Worker";

// Whether an opcode consumes a receive of the peer; and a bit mask of all opcodes that do.
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

// The transport of an endpoint, and the data that its operations need for it.
struct endpoint_route {
  adapter_poller* via = nullptr;  // null once the worker is destroyed
  const transport::capabilities* caps = nullptr;
  std::size_t kind = 0;
  std::size_t key_place = 0;  // default index of the remote key of that kind
  // For a send or a receive that needs no additional resource.
  post_base::aside plain_needs = post_base::aside::nothing;
};

// State of the receives. `overtaken` is `held` with one additional bit.
enum class receiving : std::uint8_t {
  posted = 0,     // the transport has them
  held = 1,       // held here: messages are copied from the ring, until one needs a posted receive
  overtaken = 3,  // as held, and a message has arrived for which no receive was held
};
// The state after the message that had arrived is received.
[[nodiscard]] constexpr receiving caught_up(receiving r) noexcept {
  return static_cast<receiving>(static_cast<unsigned>(r) & static_cast<unsigned>(receiving::held));
}
static_assert(caught_up(receiving::overtaken) == receiving::held);
static_assert(caught_up(receiving::held) == receiving::held);
static_assert(caught_up(receiving::posted) == receiving::posted);

struct held_receives {
  list<post_base> all;
  receiving how = receiving::posted;
};

// Posted receives in the order of posting, and messages that wait for a receive in the order of
// arrival.
struct receive_slots {
  slot_list posted;
  slot_list kept;
  std::uint32_t orphans = 0;  // posted or kept
};

// The frames of an endpoint that carries its messages as frames.
struct endpoint_traffic {
  std::unique_ptr<endpoint_frames> now;
  std::unique_ptr<early_frames> early;  // used until it is connected or ended
  std::uint32_t sends = 0;              // entries of the send queue that are reserved for frames
  std::uint32_t in_flight = 0;          // including its rails
};

// Resources of the Worker that an endpoint uses.
struct worker_share {
  std::uint32_t slots = 0;
  bool is_counted = false;  // among its endpoints
};

// Data from the setup of a connection.
struct introduction {
  std::string reason;
  std::vector<std::byte> peer_data;
};

// Most sends ring a separate doorbell and complete in their post call: `puts` counts all three at
// once.
struct endpoint_tally : endpoint_counters {
  std::uint64_t puts = 0;  // not included in the other counters
};

class endpoint_core final : public list_node, public transport::message_taker {
 public:
  using side = post_base::side;

  endpoint_core();
  ~endpoint_core();

  // Both are null once the Worker is destroyed.
  [[nodiscard]] worker_core* worker() const noexcept { return worker_; }
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // Operations accept only memory of this Context.
  [[nodiscard]] const std::shared_ptr<context_core>& context() const noexcept { return context_; }
  // Null before it is created, and after it is destroyed.
  [[nodiscard]] transport::queue_pair* pair() const noexcept { return pair_.get(); }
  [[nodiscard]] adapter_poller* via() const noexcept { return route_.via; }
  [[nodiscard]] const transport::capabilities& caps() const noexcept { return *route_.caps; }
  [[nodiscard]] std::size_t kind() const noexcept { return route_.kind; }
  [[nodiscard]] std::size_t key_place() const noexcept { return route_.key_place; }
  [[nodiscard]] post_base::aside plain_needs() const noexcept { return route_.plain_needs; }
  [[nodiscard]] const transport::queue_pair_options& granted() const noexcept { return granted_; }
  [[nodiscard]] endpoint_counters counters() const noexcept;
  [[nodiscard]] const introduction& told() const noexcept { return told_; }
  [[nodiscard]] bool is_inherited() const noexcept {
    return home_ != nullptr && home_->inherited();
  }

  // ---- construction ----

  // Throws std::bad_alloc. The caller checks for errc::full first.
  void adopt(worker_core& owner, std::unique_ptr<transport::queue_pair> p,
             adapter_poller& made_with);
  // Makes it the link of a rail, without an Endpoint; `sends` queue entries are for frames.
  // REQUIRES that adopt() is next.
  void serve(link_owner& rail, std::uint32_t sends) noexcept;
  [[nodiscard]] bool is_rail() const noexcept { return rail_ != nullptr; }
  // For Worker::endpoint(): until it is connected all operations wait, and are checked against
  // these capabilities.
  void await_wiring(worker_core& owner, const transport::capabilities& until_then,
                    const endpoint_options& asked);
  void set_wiring(std::unique_ptr<connection_attempt> w) noexcept { wiring_ = std::move(w); }
  std::unique_ptr<connection_attempt> take_wiring() noexcept { return std::move(wiring_); }
  [[nodiscard]] bool is_unwired() const noexcept { return wiring_ != nullptr; }
  // Moves the connection of `made`, on which nothing was posted, to this endpoint, and starts the
  // waiting operations.
  void on_wired(endpoint_core& made) noexcept;
  void connect_by(connection_attempt* a) noexcept { connector_ = a; }
  [[nodiscard]] const connection_attempt* connector() const noexcept { return connector_; }
  void explain(std::string reason) noexcept { told_.reason = std::move(reason); }
  void keep_peer_data(std::vector<std::byte> data) noexcept { told_.peer_data = std::move(data); }

  // ---- associated objects ----

  // Null before and after it belongs to an Endpoint.
  [[nodiscard]] Endpoint* handle() const noexcept { return handle_; }
  void belong_to(Endpoint* e) noexcept { handle_ = e; }
  [[nodiscard]] bool handle_gone() const noexcept { return handle_gone_; }
  // The Endpoint was destroyed: ends the connection; this object is destroyed with its last
  // request.
  void on_handle_gone() noexcept;
  // Whether it carries plain messages.
  [[nodiscard]] bool is_plain() const noexcept { return frames() == nullptr && early() == nullptr; }
  [[nodiscard]] endpoint_frames* frames() const noexcept { return traffic_.now.get(); }
  // Makes it carry its messages as frames, which get `sends` entries of its send queue.
  void carry(std::unique_ptr<endpoint_frames> frames, std::uint32_t sends) noexcept;
  [[nodiscard]] early_frames* early() const noexcept { return traffic_.early.get(); }
  void carry_later(std::unique_ptr<early_frames> e) noexcept { traffic_.early = std::move(e); }
  [[nodiscard]] std::uint32_t frames_in_flight() const noexcept { return traffic_.in_flight; }
  void on_frame_posted() noexcept { ++traffic_.in_flight; }
  void on_frame_done() noexcept { --traffic_.in_flight; }
  // Set if its messages arrive by granted().shared.
  [[nodiscard]] shared_source* shared() const noexcept { return shared_.get(); }
  void share(std::unique_ptr<shared_source> s) noexcept { shared_ = std::move(s); }
  void publish_receives(const MemoryRegion& word) noexcept;
  void wait(state_operation& op) noexcept { life_.wait(op); }
  void wait(resolve_operation& op) noexcept { resolvers_.push_back(op); }
  // Called when the queue pair has created the window.
  void add(window_core& w) noexcept;
  // Called when the peer has invalidated the key (memory_window.cpp). The windows outlive this.
  void invalidated(std::uint64_t key) noexcept;

  // ---- requests ----

  void post_or_queue(post_base& op) noexcept;
  // Posts waiting requests while there are free queue entries.
  void pump(side as) noexcept;
  // Whether a request may be posted directly while there are free queue entries. False unless it is
  // connected, and false while other work has precedence: a fence is due, requests wait, or a
  // canceled receive is still posted.
  [[nodiscard]] bool is_open_to(transport::opcode op) const noexcept {
    return (open_to_ >> static_cast<unsigned>(op) & 1U) != 0;
  }
  [[nodiscard]] bool is_shut() const noexcept { return open_to_ == 0; }
  // Whether queue_pair::put() and post_now() may execute open requests.
  [[nodiscard]] bool posts_now() const noexcept { return posts_now_; }
  [[nodiscard]] bool has_place(side as) const noexcept {
    return (as == side::recv ? recvs_ : sends_).has_place();
  }
  // Pass a request to the transport.
  [[nodiscard]] transport::posted post_recv(const post_base& op, transport::datagram_peer* peer,
                                            transport::completion& now) noexcept;
  [[nodiscard]] transport::posted post_send(post_base& op, transport::completion& now) noexcept;
  // Records a request that did not complete in its post call; it gets a queue entry, and keeps its
  // slot.
  void take_place(side as, slot& s) noexcept;
  void give_back(side as) noexcept { line(as).give_back(); }
  void on_recv_done(const slot& s, const transport::completion& c) noexcept;
  // For a plain endpoint: copies the message into the held receive.
  void on_arrived(transport::arrived_message& m) noexcept override;
  [[nodiscard]] bool holds_receives() const noexcept { return held_.how != receiving::posted; }
  // Returns true if the receive is held. Otherwise the caller posts it, and all held receives are
  // posted.
  [[nodiscard]] bool hold(post_base& op) noexcept;
  [[nodiscard]] bool hold_at_once(post_base& op) noexcept;
  // Called when the message for which no receive was held is received.
  void catch_up() noexcept { held_.how = caught_up(held_.how); }
  // Posts the held receives; the transport has all receives from now on.
  void post_held() noexcept;

  // Cancels a posted receive into a pool.
  void make_orphan(post_base& op) noexcept;
  // Keeps the message of an orphan until a receive takes it.
  void orphan_done(slot& s, const transport::completion& c) noexcept;

  void fence() noexcept {
    fence_next_ = true;
    open_to_ = 0;
  }
  // Whether the next request waits for those before it.
  [[nodiscard]] bool take_fence() noexcept {
    if (!fence_next_) return false;
    fence_next_ = false;
    refresh_open();
    return true;
  }
  void begin_batch() noexcept {
    ++batches_;
    refresh_open();
  }
  // Requests posted before a fork() are sent by the parent.
  void end_batch() noexcept {
    if (--batches_ != 0 || is_inherited()) return;
    refresh_open();
    ring();
  }
  // Whether a batch delays its doorbell; false if the transport has none.
  [[nodiscard]] bool holds_back() const noexcept {
    return batches_ != 0 && !route_.caps->posts_now;
  }

  [[nodiscard]] std::size_t inflight() const noexcept {
    return sends_.in_flight() + recvs_.in_flight() + traffic_.in_flight;
  }
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept { return sends_.in_flight(); }
  [[nodiscard]] std::uint32_t recvs_in_flight() const noexcept { return recvs_.in_flight(); }
  // Whether no more queue entries were returned than taken.
  [[nodiscard]] bool is_balanced() const noexcept {
    return sends_.in_flight() <= sends_.depth() && recvs_.in_flight() <= recvs_.depth();
  }

  // ---- counters ----

  // Counts a request to the send queue; in a batch it becomes visible at the end.
  void count_post(transport::send_request& r) noexcept {
    ++counters_.sends;
    if (batches_ != 0) {
      r.flags |= transport::post_flag::more;
      ++unrung_;
    } else {
      ++counters_.rings;
    }
  }
  void count_post_on_rail() noexcept {
    ++counters_.sends;
    ++counters_.rings;
  }
  // Counts a request that completed in its post call; take_back_put() reverts this if it did not.
  void count_put(std::uint64_t bytes) noexcept {
    ++counters_.puts;
    counters_.bytes_sent += bytes;
  }
  void take_back_put(std::uint64_t bytes) noexcept {
    --counters_.puts;
    counters_.bytes_sent -= bytes;
  }
  void count_immediate() noexcept { ++counters_.immediate; }
  void count_waited() noexcept { ++counters_.waited; }
  void count_sent(std::uint64_t bytes) noexcept { counters_.bytes_sent += bytes; }
  // Counts bytes into a receive of this endpoint, which was counted at its post. count_received()
  // is for a receive of another queue.
  void count_arrived(std::uint64_t bytes) noexcept { counters_.bytes_received += bytes; }
  void count_received(std::uint64_t bytes) noexcept {
    ++counters_.recvs;
    counters_.bytes_received += bytes;
  }

  // ---- end ----

  [[nodiscard]] endpoint_state state() const noexcept { return life_.state(); }
  void set_state(endpoint_state s) noexcept;
  void on_event(transport::cm_event event) noexcept;
  // Started by this side: close() after the started operations, abort() at once.
  void close() noexcept;
  void abort() noexcept;
  // Disconnects once no request waits for a queue entry; never in a child of fork().
  void begin_close() noexcept;
  void blame(failure why) noexcept { life_.blame(std::move(why)); }
  void end(failure why) noexcept;
  // Null while it has not ended.
  [[nodiscard]] const std::shared_ptr<const failure>& cause() const noexcept {
    return life_.cause();
  }
  [[nodiscard]] failure flushed(const char* operation) const noexcept {
    return life_.flushed(operation);
  }
  [[nodiscard]] std::optional<failure> why_not(const char* operation) const noexcept {
    return life_.why_not(operation);
  }
  [[nodiscard]] ending_link& ending() noexcept { return ending_; }
  void drop_pair() noexcept;
  // The same, if the users of the queue pair are already notified.
  void lose_pair() noexcept { pair_.reset(); }
  void fail_connecting(const failure& why) noexcept;
  void on_worker_gone(const failure& why) noexcept;
  // Called before its Worker is destroyed, which it outlives; it does not use the Worker
  // afterwards.
  void leave_worker() noexcept;
  void leave_to_parent(const failure& why) noexcept;

  // For the report of a Worker: may run in a signal handler.
  [[nodiscard]] bool is_idle() noexcept;
  void dump_queues(dump_writer& out) noexcept;
  // Returns false if the list was being changed.
  template <class Visit>
  [[nodiscard]] bool look_through_held(Visit visit) noexcept {
    return held_.all.look_through(visit);
  }

 private:
  [[nodiscard]] request_line& line(side as) noexcept { return as == side::recv ? recvs_ : sends_; }
  void go_by(const transport::capabilities& caps) noexcept;
  void take_over(endpoint_core& made) noexcept;
  void start_waiting() noexcept;
  // Includes the requests in flight.
  void grant(const transport::queue_pair_options& granted) noexcept;
  void refresh_open() noexcept;
  [[nodiscard]] transport::posted post_and_tell(const transport::recv_request& r,
                                                transport::completion& now) noexcept;
  void tell_posted() noexcept;
  // Completes the copy of `m` into `op`, then pumps.
  void copy_and_pump(post_base& op, const transport::arrived_message& m) noexcept;
  void post_held_now() noexcept;
  [[nodiscard]] bool adopt_orphan(post_base& op) noexcept;
  void drop_first_kept() noexcept;
  void free_orphan(slot& s) noexcept;
  [[nodiscard]] post_base* first_waiting_for_pool() noexcept;
  void ring() noexcept;
  void on_established(std::vector<std::byte> data) noexcept;
  void on_resolved(const transport::cm_event& event) noexcept;
  void flush_waiting() noexcept;
  void forget_windows() noexcept;

  // Members used by every message come first, in the order of use.
  worker_core* worker_ = nullptr;
  reactor* home_ = nullptr;
  std::shared_ptr<context_core> context_;  // keeps the capabilities alive
  std::unique_ptr<transport::queue_pair> pair_;
  endpoint_route route_;
  std::uint32_t open_to_ = 0;  // one bit per opcode
  bool posts_now_ = false;
  bool fence_next_ = false;
  std::uint32_t batches_ = 0;
  std::uint32_t unrung_ = 0;  // posts that still need a doorbell
  held_receives held_;
  request_line recvs_;
  request_line sends_;
  transport::queue_pair_options granted_;  // without the entries for frames
  receive_slots received_;
  MemoryRegion posted_word_;  // empty: the number of posted receives is not published
  endpoint_tally counters_;
  endpoint_traffic traffic_;
  Endpoint* handle_ = nullptr;
  bool handle_gone_ = false;
  endpoint_life life_;
  std::unique_ptr<shared_source> shared_;
  list<window_core> windows_;          // known to the queue pair
  list<resolve_operation> resolvers_;  // of a datagram port
  connection_attempt* connector_ = nullptr;
  std::unique_ptr<connection_attempt> wiring_;  // makes the connection that on_wired() takes over
  link_owner* rail_ = nullptr;
  ending_link ending_{*this};
  worker_share share_;
  introduction told_;
};

}  // namespace cordma::detail

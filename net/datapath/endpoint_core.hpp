// What stands behind an Endpoint: its queue pair, credits, and all that waits for it.
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

// By which transport an endpoint goes, and what its operations need for that.
struct endpoint_route {
  adapter_poller* via = nullptr;  // null once the worker is gone
  const transport::capabilities* caps = nullptr;
  std::size_t kind = 0;
  std::size_t key_place = 0;  // where the remote keys of that kind are, if nothing else is
  // Of a send or a receive that needs nothing of its own; see there.
  post_base::aside plain_needs = post_base::aside::nothing;
};

// Where receives are. `overtaken` is `held` with one bit more.
enum class receiving : std::uint8_t {
  posted = 0,     // the transport has them
  held = 1,       // here: messages are taken in place, until one has to be received
  overtaken = 3,  // likewise, and a message is there that no receive was held for
};
// Once the message that was there is received.
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

// Posted receives in the order of posting, and messages that wait for a receive in the order of arrival.
struct receive_slots {
  slot_list posted;
  slot_list kept;
  std::uint32_t orphans = 0;  // posted or kept
};

// The frames of an endpoint, where its messages are frames.
struct endpoint_traffic {
  std::unique_ptr<endpoint_frames> now;
  std::unique_ptr<early_frames> early;  // where they will be, until it is connected or ended
  std::uint32_t sends = 0;              // places in the send queue that are set aside for frames
  std::uint32_t in_flight = 0;          // on its rails as well
};

// What an endpoint takes of its Worker.
struct worker_share {
  std::uint32_t slots = 0;
  bool is_counted = false;  // among its endpoints
};

// How a connection came about.
struct introduction {
  std::string reason;
  std::vector<std::byte> peer_data;
};

// Most sends have a doorbell of their own, and are done with the post: one count for the three.
struct endpoint_tally : endpoint_counters {
  std::uint64_t puts = 0;  // those, which the others do not contain
};

class endpoint_core final : public list_node, public transport::message_taker {
 public:
  using side = post_base::side;

  endpoint_core();
  ~endpoint_core();

  // Null once the Worker is gone, both.
  [[nodiscard]] worker_core* worker() const noexcept { return worker_; }
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // Its memory fits, and no other.
  [[nodiscard]] const std::shared_ptr<context_core>& context() const noexcept { return context_; }
  // Null: there is none yet, or not any more.
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

  // ---- how it comes about ----

  // Throws std::bad_alloc; errc::full is for the caller to check first.
  void adopt(worker_core& owner, std::unique_ptr<transport::queue_pair> p,
             adapter_poller& made_with);
  // It is a rail's link, and nobody's Endpoint: so many places are for frames. REQUIRES that it adopts next.
  void serve(link_owner& rail, std::uint32_t sends) noexcept;
  [[nodiscard]] bool is_rail() const noexcept { return rail_ != nullptr; }
  // Of Worker::endpoint(): until it is connected everything waits, and is checked by these capabilities.
  void await_wiring(worker_core& owner, const transport::capabilities& until_then,
                    const endpoint_options& asked);
  void set_wiring(std::unique_ptr<connection_attempt> w) noexcept { wiring_ = std::move(w); }
  std::unique_ptr<connection_attempt> take_wiring() noexcept { return std::move(wiring_); }
  [[nodiscard]] bool is_unwired() const noexcept { return wiring_ != nullptr; }
  // The connection of `made`, on which nothing was posted, becomes this one's; what waited for it starts.
  void on_wired(endpoint_core& made) noexcept;
  void connect_by(connection_attempt* a) noexcept { connector_ = a; }
  [[nodiscard]] const connection_attempt* connector() const noexcept { return connector_; }
  void explain(std::string reason) noexcept { told_.reason = std::move(reason); }
  void keep_peer_data(std::vector<std::byte> data) noexcept { told_.peer_data = std::move(data); }

  // ---- what belongs to it ----

  // Null: it is nobody's yet, or not any more.
  [[nodiscard]] Endpoint* handle() const noexcept { return handle_; }
  void belong_to(Endpoint* e) noexcept { handle_ = e; }
  [[nodiscard]] bool handle_gone() const noexcept { return handle_gone_; }
  // Nobody holds it: it ends, and goes when the last request came back.
  void on_handle_gone() noexcept;
  // It carries plain messages.
  [[nodiscard]] bool is_plain() const noexcept { return frames() == nullptr && early() == nullptr; }
  [[nodiscard]] endpoint_frames* frames() const noexcept { return traffic_.now.get(); }
  // Its messages are frames, which have so many places of its send queue.
  void carry(std::unique_ptr<endpoint_frames> frames, std::uint32_t sends) noexcept;
  [[nodiscard]] early_frames* early() const noexcept { return traffic_.early.get(); }
  void carry_later(std::unique_ptr<early_frames> e) noexcept { traffic_.early = std::move(e); }
  [[nodiscard]] std::uint32_t frames_in_flight() const noexcept { return traffic_.in_flight; }
  void on_frame_posted() noexcept { ++traffic_.in_flight; }
  void on_frame_done() noexcept { --traffic_.in_flight; }
  // Where its messages come from granted().shared.
  [[nodiscard]] shared_source* shared() const noexcept { return shared_.get(); }
  void share(std::unique_ptr<shared_source> s) noexcept { shared_ = std::move(s); }
  void publish_receives(const MemoryRegion& word) noexcept;
  void wait(state_operation& op) noexcept { life_.wait(op); }
  void wait(resolve_operation& op) noexcept { resolvers_.push_back(op); }
  // The queue pair has made it.
  void add(window_core& w) noexcept;
  // memory_window.cpp: the peer said so. The windows outlive this.
  void invalidated(std::uint64_t key) noexcept;

  // ---- requests ----

  void post_or_queue(post_base& op) noexcept;
  // What waits for a place is posted, as far as there are some.
  void pump(side as) noexcept;
  // What is posted as it comes, as long as there are places. Nothing is unless it is connected, nor while there is
  // more to look at: a fence is due, requests wait, a canceled receive is still posted.
  [[nodiscard]] bool is_open_to(transport::opcode op) const noexcept {
    return (open_to_ >> static_cast<unsigned>(op) & 1U) != 0;
  }
  [[nodiscard]] bool is_shut() const noexcept { return open_to_ == 0; }
  // queue_pair::put() and post_now() may carry out what is open.
  [[nodiscard]] bool posts_now() const noexcept { return posts_now_; }
  [[nodiscard]] bool has_place(side as) const noexcept {
    return (as == side::recv ? recvs_ : sends_).has_place();
  }
  // To the transport.
  [[nodiscard]] transport::posted post_recv(const post_base& op, transport::datagram_peer* peer,
                                            transport::completion& now) noexcept;
  [[nodiscard]] transport::posted post_send(post_base& op, transport::completion& now) noexcept;
  // What was posted is not done yet: it has a place, and its slot.
  void take_place(side as, slot& s) noexcept;
  void give_back(side as) noexcept { line(as).give_back(); }
  void on_recv_done(const slot& s, const transport::completion& c) noexcept;
  // Of a plain endpoint: into the receive that is held for it.
  void on_arrived(transport::arrived_message& m) noexcept override;
  [[nodiscard]] bool holds_receives() const noexcept { return held_.how != receiving::posted; }
  // True: the receive is held. Else it is to be posted, and all that were held are.
  [[nodiscard]] bool hold(post_base& op) noexcept;
  [[nodiscard]] bool hold_at_once(post_base& op) noexcept;
  // The message that no receive was held for is received.
  void catch_up() noexcept { held_.how = caught_up(held_.how); }
  // From now on the transport has the receives.
  void post_held() noexcept;

  // The posted receive, into a pool, is canceled.
  void make_orphan(post_base& op) noexcept;
  // What an orphan received stays, until a receive takes it.
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
  // What was posted before a fork() is the parent's to send.
  void end_batch() noexcept {
    if (--batches_ != 0 || is_inherited()) return;
    refresh_open();
    ring();
  }
  // A batch waits for its doorbell, where there is one.
  [[nodiscard]] bool holds_back() const noexcept {
    return batches_ != 0 && !route_.caps->posts_now;
  }

  [[nodiscard]] std::size_t inflight() const noexcept {
    return sends_.in_flight() + recvs_.in_flight() + traffic_.in_flight;
  }
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept { return sends_.in_flight(); }
  [[nodiscard]] std::uint32_t recvs_in_flight() const noexcept { return recvs_.in_flight(); }
  // No more places were given back than were taken.
  [[nodiscard]] bool is_balanced() const noexcept {
    return sends_.in_flight() <= sends_.depth() && recvs_.in_flight() <= recvs_.depth();
  }

  // ---- counters ----

  // One more request to the send queue: in a batch, it is shown at the end.
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
  // A request that is done with its post; one that was not, after all.
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
  // Into a receive of its own, which was counted; into another.
  void count_arrived(std::uint64_t bytes) noexcept { counters_.bytes_received += bytes; }
  void count_received(std::uint64_t bytes) noexcept {
    ++counters_.recvs;
    counters_.bytes_received += bytes;
  }

  // ---- its end ----

  [[nodiscard]] endpoint_state state() const noexcept { return life_.state(); }
  void set_state(endpoint_state s) noexcept;
  void on_event(transport::cm_event event) noexcept;
  // By this side: after what was started; at once.
  void close() noexcept;
  void abort() noexcept;
  // Disconnects once nothing waits for places any more; never in a child of fork().
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
  // The same, and what stands on the queue pair knows.
  void lose_pair() noexcept { pair_.reset(); }
  void fail_connecting(const failure& why) noexcept;
  void on_worker_gone(const failure& why) noexcept;
  // It outlives its Worker, and asks it nothing any more.
  void leave_worker() noexcept;
  void leave_to_parent(const failure& why) noexcept;

  // For the report of a Worker: may run in a signal handler.
  [[nodiscard]] bool is_idle() noexcept;
  void dump_queues(dump_writer& out) noexcept;
  // False: the list was just being changed.
  template <class Visit>
  [[nodiscard]] bool look_through_held(Visit visit) noexcept {
    return held_.all.look_through(visit);
  }

 private:
  [[nodiscard]] request_line& line(side as) noexcept { return as == side::recv ? recvs_ : sends_; }
  void go_by(const transport::capabilities& caps) noexcept;
  void take_over(endpoint_core& made) noexcept;
  void start_waiting() noexcept;
  // It covers what is in flight.
  void grant(const transport::queue_pair_options& granted) noexcept;
  void refresh_open() noexcept;
  [[nodiscard]] transport::posted post_and_tell(const transport::recv_request& r,
                                                transport::completion& now) noexcept;
  void tell_posted() noexcept;
  // What was finished with `m`.
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

  // What a message touches comes first, in the order in which it does.
  worker_core* worker_ = nullptr;
  reactor* home_ = nullptr;
  std::shared_ptr<context_core> context_;  // keeps the capabilities alive
  std::unique_ptr<transport::queue_pair> pair_;
  endpoint_route route_;
  std::uint32_t open_to_ = 0;  // one bit per opcode
  bool posts_now_ = false;
  bool fence_next_ = false;
  std::uint32_t batches_ = 0;
  std::uint32_t unrung_ = 0;  // posts that a doorbell still has to show
  held_receives held_;
  request_line recvs_;
  request_line sends_;
  transport::queue_pair_options granted_;  // but for the places of frames
  receive_slots received_;
  MemoryRegion posted_word_;  // empty: the peer is not told how many receives were posted
  endpoint_tally counters_;
  endpoint_traffic traffic_;
  Endpoint* handle_ = nullptr;
  bool handle_gone_ = false;
  endpoint_life life_;
  std::unique_ptr<shared_source> shared_;
  list<window_core> windows_;          // that the queue pair knows
  list<resolve_operation> resolvers_;  // of a datagram port
  connection_attempt* connector_ = nullptr;
  std::unique_ptr<connection_attempt> wiring_;  // makes the connection that is taken over
  link_owner* rail_ = nullptr;
  ending_link ending_{*this};
  worker_share share_;
  introduction told_;
};

}  // namespace cordma::detail

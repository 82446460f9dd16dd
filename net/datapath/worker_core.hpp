// What stands behind Worker and Endpoint: slots, credits, and the way from a completion to a coroutine.
#pragma once

#include <cordma/net/datagram.hpp>
#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/memory/context_core.hpp>
#include <cordma/net/datapath/device_event_queue.hpp>
#include <cordma/net/extras/device_receive.hpp>
#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/datapath/window_core.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/reactor.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace cordma {
class connect_operation;
class Messages;
struct connect_options;
}  // namespace cordma

namespace cordma::detail {

// Of what is bound to an Endpoint: see reactor::wrong_thread().
inline constexpr std::string_view endpoint_rule =
    "endpoints may only be used on the thread of their Worker";

// Of a receive that succeeded.
[[nodiscard]] inline Received to_received(const transport::completion& c) noexcept {
  return {
      .bytes = c.byte_len, .imm = c.imm, .has_imm = c.has_imm, .op = c.op, .invalidated = c.key};
}

struct early_messages;
struct listener_core;
struct message_core;
struct peer_core;
struct rail_core;

// Tells what outlives its Worker that it is gone.
struct worker_anchor {
  worker_core* worker = nullptr;
};

// Whether it takes a receive of the peer, by opcode, and all that do, by bit.
inline constexpr std::uint32_t messages_bits =
    1U << static_cast<unsigned>(transport::opcode::send) |
    1U << static_cast<unsigned>(transport::opcode::send_imm) |
    1U << static_cast<unsigned>(transport::opcode::write_imm) |
    1U << static_cast<unsigned>(transport::opcode::send_invalidate);
[[nodiscard]] constexpr bool consumes_receive(transport::opcode op) noexcept {
  return (messages_bits >> static_cast<unsigned>(op) & 1U) != 0;
}

// One request in flight.
struct slot {
  post_base* op = nullptr;            // null: free, or detached
  endpoint_core* endpoint = nullptr;  // null: free
  std::uint64_t id = 0;               // of its request, or of the next one while it is free
  slot* next = nullptr;               // of those that are free; in use, in a list of its endpoint
  std::uint8_t pinned = 0;
  bool is_recv = false;
  // What remains of receives into pools that were canceled while posted: the last of those posted,
  // since later ones move up. Its message is not lost: the endpoint's next receive into a pool takes
  // over the slot, whether or not the message is there yet.
  bool orphan = false;
  bool arrived = false;
  Received received;
  // What a detached operation leaves behind until its completion is reaped.
  Buffer lease;
  std::array<region_core*, most_segments> pins{};
};

inline constexpr std::uint32_t slots_per_chunk = 256;
inline constexpr std::uint32_t most_reserved = 1U << 14;  // slots; 2 MB
inline constexpr std::uint32_t generation_mask = 0xFFFFFFU;
inline constexpr std::uint8_t id_type_request = 1;
// The id of a request: {generation : 24, type : 8, index : 32}. The generation is on top, so that it wraps around by
// itself.
inline constexpr std::uint64_t one_generation = std::uint64_t{1} << 40;
[[nodiscard]] constexpr std::uint64_t request_id(std::uint32_t index,
                                                 std::uint32_t generation) noexcept {
  return generation * one_generation | (std::uint64_t{id_type_request} << 32) | index;
}
[[nodiscard]] constexpr std::uint32_t index_of(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id);
}
[[nodiscard]] constexpr std::uint8_t type_of(std::uint64_t id) noexcept {
  return static_cast<std::uint8_t>(id >> 32);
}
[[nodiscard]] constexpr std::uint32_t generation_of(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id >> 40);
}

struct slot_chunk {
  std::array<slot, slots_per_chunk> slots;
  MemoryRegion words;  // 8 bytes per slot: where atomics put the old value; made at first use
  // Who is at the other end of a slot's datagram; there once the worker has a datagram port.
  std::unique_ptr<std::array<transport::datagram_peer, slots_per_chunk>> peers;
};

// An endpoint whose connection has ended, while what came before may still be among the completions.
struct ending_link : list_node {
  explicit ending_link(endpoint_core& e) noexcept : owner(&e) {}
  endpoint_core* owner;
};

// Asks one adapter in every pass of the reactor.
class adapter_poller final : public poller {
 public:
  adapter_poller(worker_core& owner, transport::domain& d, std::unique_ptr<transport::adapter> a)
      : adapter_(std::move(a)), domain_(&d), owner_(owner) {}
  ~adapter_poller() override {
    if (kept_) static_cast<void>(adapter_.release());
  }
  std::size_t poll() noexcept override;
  arm_state arm() noexcept override { return ending_.empty() ? adapter_->arm() : arm_state::busy; }
  void disarm() noexcept override { adapter_->disarm(); }
  [[nodiscard]] int wait_fd() const noexcept override { return adapter_->wait_fd(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return adapter_->edge_triggered(); }
  [[nodiscard]] const char* name() const noexcept override {
    return transport::name(domain_->caps().transport).data();
  }
  [[nodiscard]] transport::adapter& adapter() noexcept { return *adapter_; }
  [[nodiscard]] transport::domain& domain() noexcept { return *domain_; }
  [[nodiscard]] const worker_core& owner() const noexcept { return owner_; }
  // In a child of fork(): see domain::leave_to_parent().
  void leave_to_parent() noexcept { kept_ = !domain_->leave_to_parent(); }
  // Whether what was made with the adapter must not be destroyed.
  [[nodiscard]] bool kept() const noexcept { return kept_; }
  // Destroys one of those, except where it is the parent's.
  template <class Made>
  void drop(std::unique_ptr<Made>& made) const noexcept {
    if (kept_) static_cast<void>(made.release());
    made.reset();
  }
  // Its completion queue told of a request that never was: nothing it tells can be believed.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  void set_broken() noexcept { broken_ = true; }
  [[nodiscard]] failure why_broken() const;
  // It ends when all that came before has been told; its cause is known at once.
  void end_later(endpoint_core& e) noexcept;

 private:
  void end_due(bool all_told) noexcept;
  static constexpr std::size_t batch_size = 32;
  // A queue that is never found empty keeps nobody from ending: this many polls are more than what may lie in it.
  static constexpr int patience = 1024;
  std::unique_ptr<transport::adapter> adapter_;
  transport::domain* domain_;
  worker_core& owner_;
  bool broken_ = false;
  bool kept_ = false;
  list<ending_link> ending_;
  int polls_to_end_ = patience;
  std::array<transport::completion, batch_size> batch_;
};

struct endpoint_core : list_node {
  endpoint_core();

  worker_core* worker = nullptr;          // null once the worker is gone
  reactor* home = nullptr;                // likewise
  std::shared_ptr<context_core> context;  // keeps `caps` alive, and tells whose memory fits
  std::unique_ptr<transport::queue_pair> pair;
  adapter_poller* via = nullptr;  // null once the worker is gone
  const transport::capabilities* caps = nullptr;
  std::size_t kind = 0;
  endpoint_state state = endpoint_state::connecting;
  bool handle_gone = false;  // nobody holds it: goes when the last request came back
  bool closed_here = false;  // by close() or abort(), rather than by the peer or an error
  bool fence_next = false;
  // One bit per opcode: what is posted as it comes, as long as there are credits. None unless it is
  // connected, nor while there is more to look at: a fence is due, requests wait, a canceled receive
  // is still posted.
  std::uint32_t open_to = 0;
  std::uint32_t batches = 0;
  // Slots: posted receives in the order of posting, and messages that wait for a receive in the order
  // of arrival.
  slot* first_recv = nullptr;
  slot** recvs_end = &first_recv;  // where the next one is named
  slot* first_kept = nullptr;
  slot** kept_end = &first_kept;
  std::uint32_t orphans = 0;  // posted or kept
  std::uint32_t unrung = 0;   // posts that a doorbell still has to show
  std::uint32_t send_credits = 0;
  std::uint32_t recv_credits = 0;
  transport::queue_pair_options granted;
  list<post_base> waiting_sends;
  list<post_base> waiting_recvs;
  list<state_operation> state_waiters;
  list<resolve_operation> resolvers;  // of a datagram port
  list<window_core> windows;          // that the queue pair knows
  std::shared_ptr<const failure> cause;
  connect_operation* connector = nullptr;
  endpoint_counters counters;
  std::string reason;
  std::vector<std::byte> peer_data;
  MemoryRegion posted_word;  // empty: the peer is not told how many receives were posted
  // Of Worker::endpoint(), until it is connected: makes the connection that this endpoint takes over.
  std::unique_ptr<connect_operation> wiring;
  std::unique_ptr<device_source> shared;  // where its messages come from granted.shared
  std::unique_ptr<peer_core> peer;        // where they are frames
  std::unique_ptr<early_messages> early;  // where they will be, until it is connected or ended
  std::uint32_t frame_sends = 0;          // places in the send queue that are set aside for frames
  std::uint32_t frames_in_flight = 0;     // on its rails as well
  rail_core* rail = nullptr;              // whose link it is, and nobody's Endpoint
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
  // wiring.cpp: before it is connected, what is started waits.
  void start_wiring(worker_core& owner, const std::string& to, const connect_options& options);
  void on_wired() noexcept;
  void on_resolved(const transport::cm_event& event) noexcept;
  void take_over(endpoint_core& made) noexcept;
  void start_waiting() noexcept;
  // Whose frames it carries, or will; null: plain messages, or the Messages are gone.
  [[nodiscard]] message_core* messages() const noexcept;
  [[nodiscard]] bool is_plain() const noexcept { return peer == nullptr && early == nullptr; }
  void refresh_grant() noexcept;
  void post_or_queue(post_base& op) noexcept;
  void pump(bool recvs) noexcept;
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

class worker_core {
 public:
  worker_core(std::shared_ptr<context_core> context, reactor& home);
  ~worker_core();
  worker_core(const worker_core&) = delete;
  worker_core& operator=(const worker_core&) = delete;

  [[nodiscard]] reactor& home() noexcept { return home_; }
  // For the destructors of all handles, on its thread, or on any once no thread runs it: see reactor::enter_to_destroy().
  // In a child of fork() everything ends here as far as the child can see; from the peers' side nothing happens.
  void enter_to_destroy() noexcept {
    if (!home_.enter_to_destroy()) [[unlikely]]
      leave_to_parent();
  }
  void leave_to_parent() noexcept;
  [[nodiscard]] context_core& context() noexcept { return *context_; }
  [[nodiscard]] const std::shared_ptr<context_core>& shared_context() const noexcept {
    return context_;
  }
  [[nodiscard]] const std::shared_ptr<worker_anchor>& anchor() const noexcept { return anchor_; }
  [[nodiscard]] std::vector<std::unique_ptr<adapter_poller>>& adapters() noexcept {
    return adapters_;
  }

  // Of the domains that carry rails only, in their order.
  [[nodiscard]] const std::vector<std::unique_ptr<adapter_poller>>& rail_adapters() const noexcept {
    return rail_adapters_;
  }
  [[nodiscard]] device_event_queue& device_events() noexcept { return device_events_; }
  // What Worker offers under this name.
  result<void> wake_for(transport::wake_reason reason);

  // post() and tell_all() become part of their one caller; the others are for everybody else.
  void post(endpoint_core& endpoint, post_base& op, post_base::side as) noexcept;
  void post_late(endpoint_core& endpoint, post_base& op) noexcept;
  // Of what was done with its post, until the next is posted.
  [[nodiscard]] const transport::completion& at_once() const noexcept { return at_once_; }
  void tell_all(adapter_poller& via, std::span<const transport::completion> all) noexcept;
  void on_completions(adapter_poller& via, std::span<const transport::completion> all) noexcept;
  void on_event(adapter_poller& via, transport::cm_event event) noexcept;
  void detach(post_base& op) noexcept;
  void make_orphan(post_base& op) noexcept;
  // True if `op` took over the oldest orphan of its endpoint.
  bool adopt_orphan(endpoint_core& endpoint, post_base& op) noexcept;
  [[nodiscard]] slot& at(std::uint32_t index) noexcept {
    return chunks_[index / slots_per_chunk]->slots[index % slots_per_chunk];
  }
  // The handle is gone: aborts, and keeps the core until nothing is in flight.
  void bury(std::unique_ptr<endpoint_core> endpoint) noexcept;
  void sweep() noexcept {
    if (!graveyard_.empty()) [[unlikely]]
      sweep_graveyard();
  }
  void sweep_graveyard() noexcept;
  [[nodiscard]] bool is_full() const noexcept {
    return most_endpoints != 0 && endpoint_count >= most_endpoints;
  }
  void add(endpoint_core& e) noexcept { endpoints_.push_back(e); }
  // Makes room for so many more requests in flight, so that posting never allocates: up to most_reserved, since
  // thousands of endpoints are never all busy. Beyond, room is had when it is used. Throws std::bad_alloc.
  // unreserve() gives the room back.
  void reserve(std::uint32_t slots);
  void unreserve(std::uint32_t slots) noexcept { reserved_slots_ -= slots; }
  void add(listener_core& l);
  void add(completion_sink& s);
  void remove(completion_sink& s) noexcept;
  // False where the endpoint is to receive from a SharedReceive over another transport.
  [[nodiscard]] bool may_share(const endpoint_options& options,
                               transport::kind over) const noexcept;
  // Ends every endpoint that receives from there, and takes its queue pair away.
  void end_users_of(const transport::receive_queue& queue, const failure& why) noexcept;

  // What Worker offers under these names.
  result<Endpoint> prepare(const endpoint_options& options, std::optional<transport::kind> over,
                           Messages* messages);
  result<DatagramEndpoint> datagram(endpoint_options options, std::optional<transport::kind> over);
  result<Endpoint> endpoint(const std::string& to, const connect_options& options);
  [[nodiscard]] std::vector<send_operation> flush_all();

  static constexpr std::size_t no_limit = ~std::size_t{0};
  std::size_t may_complete = no_limit;  // requests, in this pass of the loop
  std::size_t most_endpoints = 0;       // 0: no limit
  std::size_t endpoint_count = 0;
  missing_transports missing;  // of the Context's, those that this Worker could not open
  // Of the Context and of this Worker: see detail::left_out().
  [[nodiscard]] std::string left_out(const std::optional<transport::kind>& only) const;
  std::uint64_t stale_completions = 0;
  std::uint64_t corrupt_completions = 0;
  [[nodiscard]] std::size_t in_flight() noexcept;

 private:
  void open_adapters();
  // False where there is no memory for one more.
  [[nodiscard]] bool try_to_grow() noexcept;
  void free_slot(slot& s) noexcept;
  void on_unknown(adapter_poller& via, const transport::completion& c) noexcept;
  void on_recv_done(endpoint_core& e, const slot& s, const transport::completion& c) noexcept;
  void on_left_behind(slot& s, const transport::completion& c) noexcept;
  // Of the request in this slot: finish_request() in one place, complete() elsewhere.
  void finish_request(slot& s, const transport::completion& c) noexcept;
  void finish_as(post_base::side as, slot& s, const transport::completion& c) noexcept;
  void complete(slot& s, const transport::completion& c) noexcept;
  // Ends all that was made with `via`: every request in flight is flushed, once.
  void give_up(adapter_poller& via) noexcept;
  // Those for which `which(endpoint)` holds: their queue pairs go, what is in flight is flushed, once.
  template <class Which>
  void end_all(Which which, const failure& why) noexcept;
  void on_sink_completion(const transport::completion& c) noexcept;
  void drop_wirings();
  void grow();
  void orphan_done(slot& s, const transport::completion& c) noexcept;
  void drop_first_kept(endpoint_core& endpoint) noexcept;
  // Takes it out of the list of posted receives, where it is not the first: only when connections end.
  void not_first_recv(endpoint_core& endpoint, const slot& s) noexcept;
  [[nodiscard]] result<void> prepare_words(std::uint32_t index) noexcept;
  [[nodiscard]] Slice atomic_word(std::uint32_t index) noexcept;
  // Throws std::bad_alloc.
  void make_peers();
  [[nodiscard]] transport::datagram_peer& peer_of(std::uint32_t index) noexcept {
    return (*chunks_[index / slots_per_chunk]->peers)[index % slots_per_chunk];
  }
  // What a request needs beside its slot, ahead of posting it and after its completion.
  [[nodiscard]] result<void> set_aside(post_base& op, std::uint32_t index) noexcept;
  void take_aside(post_base& op, std::uint32_t index, const transport::completion& c) noexcept;
  void post_after_growing(endpoint_core& endpoint, post_base& op) noexcept;
  [[nodiscard]] result<std::unique_ptr<endpoint_core>> create(const endpoint_options& options,
                                                              adapter_poller& via);
  void post_with_aside(endpoint_core& endpoint, post_base& op) noexcept;
  [[nodiscard]] transport::posted post_in(slot& s, endpoint_core& endpoint, post_base& op,
                                          post_base::side as,
                                          transport::datagram_peer* peer) noexcept;
  [[nodiscard]] transport::posted post_recv(endpoint_core& endpoint, const post_base& op,
                                            transport::datagram_peer* peer) noexcept;
  [[nodiscard]] transport::posted post_and_tell(endpoint_core& endpoint,
                                                const transport::recv_request& r) noexcept;
  [[nodiscard]] transport::posted post_send(endpoint_core& endpoint, post_base& op) noexcept;

  std::shared_ptr<context_core> context_;
  std::shared_ptr<worker_anchor> anchor_;
  reactor& home_;
  std::vector<std::unique_ptr<slot_chunk>> chunks_;
  std::uint32_t slots_ = 0;  // in all of them
  slot* first_free_ = nullptr;
  std::uint64_t reserved_slots_ = 0;
  bool has_peers_ = false;
  transport::completion at_once_;  // of what is done with its post
  list<endpoint_core> endpoints_;
  list<endpoint_core> graveyard_;  // owned; no handle left, requests still in flight
  std::vector<listener_core*> listeners_;
  std::vector<completion_sink*> sinks_;  // by their number; null: free
  std::vector<std::unique_ptr<adapter_poller>> adapters_;
  std::vector<std::unique_ptr<adapter_poller>> rail_adapters_;
  device_event_queue device_events_;
  bool left_to_parent_ = false;
  friend struct listener_core;
};

inline post_base::post_base(endpoint_core& endpoint, transport::opcode op, aside needs) noexcept
    : operation_base(endpoint.home),
      aside_(needs == aside::nothing ? endpoint.plain_needs : needs),
      endpoint_(&endpoint) {
  request_.op = op;
}

inline bool post_base::accepts(const Slice& s) const noexcept {
  const region_core* const region = s.region();
  const bool lands_here =
      request_.op == transport::opcode::recv || request_.op == transport::opcode::read;
  return region != nullptr && region->context == endpoint_->context && s.size() <= UINT32_MAX &&
         (!lands_here || has(region->range.rights, transport::access::local_write));
}

inline void post_base::put(std::uint16_t place, const Slice& s) noexcept {
  segments_[place] = {s.data(), static_cast<std::uint32_t>(s.size()),
                      s.region()->keys[endpoint_->kind].lkey};
  regions_[place] = s.region();
  request_.segment_count = place + 1;
}

inline void post_base::add(const Slice& s) noexcept {
  const std::uint16_t place = request_.segment_count;
  if (place == most_segments || !accepts(s)) [[unlikely]] {
    refuse_slice(s);
    return;
  }
  put(place, s);
  total_ += s.size();
}

inline void post_base::target_key(const RemoteSlice& remote) noexcept {
  target(remote, remote.size());
}

inline void post_base::target(const RemoteSlice& remote, std::uint64_t bytes) noexcept {
  request_.remote_addr = remote.addr();
  request_.rkey = remote.rkey(endpoint_->caps->transport);
  if (remote.size() != bytes || endpoint_->via == nullptr || request_.rkey == 0) [[unlikely]]
    refuse_target(remote, bytes);
}

inline void worker_core::free_slot(slot& s) noexcept {
  s.op = nullptr;
  s.endpoint = nullptr;
  s.id += one_generation;
  s.next = first_free_;
  first_free_ = &s;
}

}  // namespace cordma::detail

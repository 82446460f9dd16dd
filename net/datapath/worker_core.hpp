// Implementation of a Worker: its adapters, endpoints and slots, and the path from a completion to
// a coroutine.
#pragma once

#include <cordma/net/datapath/adapter_poller.hpp>
#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/device_event_queue.hpp>
#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/datapath/hooks.hpp>
#include <cordma/net/datapath/slot.hpp>
#include <cordma/net/memory/context_core.hpp>
#include <cordma/runtime/reactor.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cordma {
class Worker;
struct worker_counters;
}  // namespace cordma

namespace cordma::detail {

// Lets objects that outlive their Worker see that it is destroyed.
struct worker_anchor {
  worker_core* worker = nullptr;
  const context_core* context = nullptr;  // its Context; also null once it is destroyed
};

class worker_core {
 public:
  worker_core(std::shared_ptr<context_core> context, reactor& home);
  ~worker_core();
  worker_core(const worker_core&) = delete;
  worker_core& operator=(const worker_core&) = delete;

  [[nodiscard]] reactor& home() noexcept { return home_; }
  // Null if nothing is recorded.
  [[nodiscard]] trace_ring* trace() const noexcept { return trace_; }
  void trace_completions(adapter_poller& via, std::span<const transport::completion> all) noexcept;
  void trace_frame(const endpoint_core& e, const transport::send_request& frame) noexcept;
  // For the destructors of all handles: on its thread, or on any thread once none runs it; see
  // reactor::enter_to_destroy(). In a child of fork() everything ends as far as the child can see;
  // peers see no change.
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

  // For the domains that carry only rails, in their order.
  [[nodiscard]] const std::vector<std::unique_ptr<adapter_poller>>& rail_adapters() const noexcept {
    return rail_adapters_;
  }
  [[nodiscard]] device_event_queue& device_events() noexcept { return device_events_; }
  // Implements Worker::wake_for().
  result<void> wake_for(transport::wake_reason reason);

  // post() is inlined into its only caller; post_late() is for all other callers.
  void post(endpoint_core& endpoint, post_base& op, post_base::side as) noexcept;
  void post_late(endpoint_core& endpoint, post_base& op) noexcept;
  // Completion of the last request that completed in its post call; valid until the next post.
  [[nodiscard]] const transport::completion& at_once() const noexcept { return at_once_; }
  void on_completions(adapter_poller& via, std::span<const transport::completion> all) noexcept;
  void on_event(adapter_poller& via, transport::cm_event event) noexcept;
  void detach(post_base& op) noexcept;
  void free_slot(slot& s) noexcept;
  [[nodiscard]] slot& at(std::uint32_t index) noexcept {
    return chunks_[index / slots_per_chunk]->slots[index % slots_per_chunk];
  }
  // The handle was destroyed: aborts, and keeps the core until nothing is in flight.
  void bury(std::unique_ptr<endpoint_core> endpoint) noexcept;
  // Destroys buried endpoints with nothing in flight.
  void sweep() noexcept;
  [[nodiscard]] bool has_graves() const noexcept { return !graveyard_.empty(); }
  // Limits the completions and arriving messages until the next call.
  void limit(std::size_t most) noexcept;
  static constexpr std::size_t no_limit = ~std::size_t{0};
  [[nodiscard]] bool is_limited() const noexcept { return may_complete_ != no_limit; }
  // share_of_limit() is the part of `most` that may happen now; use_limit() records the events that
  // did.
  [[nodiscard]] std::size_t share_of_limit(std::size_t most) const noexcept {
    return std::min(most, may_complete_);
  }
  void use_limit(std::size_t happened) noexcept {
    if (is_limited()) may_complete_ -= happened;
  }
  // Limit of endpoints; 0: none.
  void limit_endpoints(std::size_t most) noexcept { most_endpoints_ = most; }
  [[nodiscard]] bool is_full() const noexcept {
    return most_endpoints_ != 0 && endpoint_count_ >= most_endpoints_;
  }
  void add(endpoint_core& e) noexcept { endpoints_.push_back(e); }
  void count_endpoint(worker_share& share) noexcept {
    ++endpoint_count_;
    share.is_counted = true;
  }
  // Reserves slots for this many more requests in flight, so that posting never allocates. It
  // reserves at most most_reserved, since thousands of endpoints are never all busy; above that,
  // slots are allocated on use. Throws std::bad_alloc.
  void reserve(worker_share& share, std::uint32_t slots);
  void take_back(const worker_share& share) noexcept;
  void add(request_acceptor& l);
  void remove(const request_acceptor& l) noexcept;
  void add(completion_sink& s);
  void remove(completion_sink& s) noexcept;
  // Returns false if the endpoint is to receive from a SharedReceive over another transport.
  [[nodiscard]] bool may_share(const endpoint_options& options,
                               transport::kind over) const noexcept;
  // Ends every endpoint that receives from this queue, and destroys its queue pair.
  void end_users_of(const transport::receive_queue& queue, const failure& why) noexcept;

  // Creates a queue pair that is not connected yet. Errors: full, and as adapter::create().
  [[nodiscard]] result<std::unique_ptr<endpoint_core>> create(const endpoint_options& options,
                                                              adapter_poller& via);
  // Implement the functions of Worker with these names.
  result<DatagramEndpoint> datagram(endpoint_options options, std::optional<transport::kind> over);
  [[nodiscard]] std::vector<send_operation> flush_all();

  [[nodiscard]] worker_counters counters() noexcept;  // worker.cpp
  // The Context's transports that this Worker could not open.
  [[nodiscard]] const missing_transports& missing() const noexcept { return missing_; }
  // Of the Context and of this Worker: see detail::left_out().
  [[nodiscard]] std::string left_out(const std::optional<transport::kind>& only) const;

 private:
  // Its part of the report of its reactor (worker_dump.cpp).
  struct section final : report_section {
    explicit section(worker_core& w) noexcept;
    worker_core& owner;
  };
  void take_care() noexcept;
  void dump(dump_writer& out) noexcept;
  void dump_endpoint(dump_writer& out, endpoint_core& e) noexcept;
  // The request in flight of `e` that was posted first; name is null if there is none.
  struct oldest {
    const char* name = nullptr;
    coarse_time since = 0;
  };
  [[nodiscard]] oldest oldest_of(endpoint_core& e) noexcept;
  void trace_post(const endpoint_core& e, const post_base& op) noexcept;
  void trace_event(const transport::cm_event& event) noexcept;
  void open_adapters();
  // Returns false if there is no memory for one more.
  [[nodiscard]] bool try_to_grow() noexcept;
  void on_request(adapter_poller& via, const transport::completion& c) noexcept;
  void on_stale(adapter_poller& via, std::uint32_t age) noexcept;
  void on_corrupt(adapter_poller& via) noexcept;
  void on_left_behind(slot& s, const transport::completion& c) noexcept;
  // For the request in this slot: finish_request() is inlined in one place, complete() is for other
  // callers.
  void finish_request(slot& s, const transport::completion& c, bool in_poll) noexcept;
  void finish_as(post_base::side as, slot& s, const transport::completion& c,
                 bool in_poll) noexcept;
  void complete(slot& s, const transport::completion& c) noexcept;
  // Ends everything that was made with `via`: every request in flight is flushed, once.
  void give_up(adapter_poller& via) noexcept;
  // Ends the endpoints for which `which(endpoint)` holds: their queue pairs are destroyed, and
  // requests in flight are flushed, once.
  template <class Which>
  void end_all(Which which, const failure& why) noexcept;
  void on_sink_completion(const adapter_poller& via, const transport::completion& c) noexcept;
  void drop_wirings();
  void grow();
  [[nodiscard]] result<void> prepare_words(std::uint32_t index) noexcept;
  [[nodiscard]] Slice atomic_word(std::uint32_t index) noexcept;
  // Throws std::bad_alloc.
  void make_peers();
  [[nodiscard]] transport::datagram_peer& peer_of(std::uint32_t index) noexcept {
    return (*chunks_[index / slots_per_chunk]->peers)[index % slots_per_chunk];
  }
  // Prepares an operation's additional resource before the post, and reads it after the completion.
  [[nodiscard]] result<void> set_aside(post_base& op, std::uint32_t index) noexcept;
  void take_aside(post_base& op, std::uint32_t index, const transport::completion& c) noexcept;
  void post_after_growing(endpoint_core& endpoint, post_base& op) noexcept;
  void post_with_aside(endpoint_core& endpoint, post_base& op) noexcept;
  [[nodiscard]] transport::posted post_in(slot& s, endpoint_core& endpoint, post_base& op,
                                          post_base::side as,
                                          transport::datagram_peer* peer) noexcept;

  std::shared_ptr<context_core> context_;
  std::shared_ptr<worker_anchor> anchor_;
  reactor& home_;
  std::vector<std::unique_ptr<slot_chunk>> chunks_;
  std::uint32_t slots_ = 0;  // in all chunks
  slot* first_free_ = nullptr;
  std::uint64_t reserved_slots_ = 0;
  bool has_peers_ = false;
  transport::completion at_once_;  // of the last request that completed in its post call
  list<endpoint_core> endpoints_;
  list<endpoint_core> graveyard_;  // owned; no handle left, requests still in flight
  std::vector<request_acceptor*> listeners_;
  std::vector<completion_sink*> sinks_;  // by their number; null: free
  std::vector<std::unique_ptr<adapter_poller>> adapters_;
  std::vector<std::unique_ptr<adapter_poller>> rail_adapters_;
  device_event_queue device_events_;
  std::size_t may_complete_ = no_limit;  // requests, in this pass of the loop
  std::size_t most_endpoints_ = 0;
  std::size_t endpoint_count_ = 0;
  missing_transports missing_;
  std::uint64_t stale_completions_ = 0;
  std::uint64_t corrupt_completions_ = 0;
  bool left_to_parent_ = false;
  bool growing_ = false;  // chunks_ is in the middle of a change
  trace_ring* trace_ = nullptr;
  section section_{*this};
};

// Each id identifies its type, and yields the values that it was made of.
static_assert(id_type_sink != id_type_request);
static_assert(type_of(sink_id(generation_mask, UINT32_MAX)) == id_type_sink);
static_assert(generation_of(sink_id(generation_mask, 0)) == generation_mask);
static_assert(index_of(sink_id(1, UINT32_MAX)) == UINT32_MAX);

inline void worker_core::free_slot(slot& s) noexcept {
  s.op = nullptr;
  s.endpoint = nullptr;
  s.id += one_generation;
  s.next = first_free_;
  first_free_ = &s;
}

// The core of a Worker, for the layers below connecting, which do not include it (worker.cpp).
[[nodiscard]] worker_core& core_of(Worker& worker) noexcept;

}  // namespace cordma::detail

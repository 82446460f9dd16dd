// From an operation to the transport, and from a completion back to it: what every message goes
// through, in one file, so that the compiler sees it whole.
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/transport/small_copy.hpp>

#include <algorithm>
#include <new>

namespace cordma::detail {

using transport::completion;
using transport::posted;

[[gnu::always_inline]] inline void post_base::complete(side as, endpoint_core& e,
                                                       const completion& c, bool in_poll) noexcept {
  if (c.status != transport::wc_status::success) [[unlikely]] {
    complete_badly(c);
    return;
  }
  if (as == side::recv) {
    received_ = to_received(c);
    e.counters.bytes_received += c.byte_len;
  }
  in_poll ? finish_in_poll() : finish();
}

bool worker_core::try_to_grow() noexcept {
  try {
    grow();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

[[gnu::always_inline]] inline posted worker_core::post_recv(
    endpoint_core& e, const post_base& op, transport::datagram_peer* peer) noexcept {
  ++e.counters.recvs;
  const transport::recv_request request{.id = op.request_.id,
                                        .segment_count = op.request_.segment_count,
                                        .segments = op.request_.segments,
                                        .from = peer};
  if (e.posted_word) [[unlikely]]
    return post_and_tell(e, request);
  return e.pair->post_recv(request, at_once_);
}

[[gnu::noinline]] posted worker_core::post_and_tell(endpoint_core& e,
                                                    const transport::recv_request& r) noexcept {
  const posted done = e.pair->post_recv(r, at_once_);
  e.tell_posted();
  return done;
}

[[gnu::always_inline]] inline posted worker_core::post_send(endpoint_core& e,
                                                            post_base& op) noexcept {
  ++e.counters.sends;
  e.counters.bytes_sent += op.total_;
  if (e.batches != 0) {
    op.request_.flags |= transport::post_flag::more;
    ++e.unrung;
  } else {
    ++e.counters.rings;
  }
  return e.pair->post_send(op.request_, at_once_);
}

// The slot lends its id; it is taken only by what is not done at once.
[[gnu::always_inline]] inline posted worker_core::post_in(slot& s, endpoint_core& e, post_base& op,
                                                          post_base::side as,
                                                          transport::datagram_peer* peer) noexcept {
  op.request_.id = s.id;
  op.request_.segments = op.segments_.data();
  s.is_recv = as == post_base::side::recv;
  s.since = e.home->coarse_now();
  if (as == post_base::side::recv) {
    if (post_recv(e, op, peer) == posted::done) {
      e.message_waits = false;
      return posted::done;
    }
    if (e.holds_recvs) [[unlikely]]
      e.post_held();
    first_free_ = s.next;
    --e.recv_credits;
    s.next = nullptr;
    *e.recvs_end = &s;
    e.recvs_end = &s.next;
  } else {
    if (post_send(e, op) == posted::done) return posted::done;
    first_free_ = s.next;
    --e.send_credits;
  }
  s.op = &op;
  s.endpoint = &e;
  op.slot_ = &s;
  op.set_phase(operation_base::phase::posted);
  return posted::pending;
}

[[gnu::always_inline]] inline void post_base::done_at_once(side as) noexcept {
  endpoint_core& e = *endpoint_;
  ++e.counters.immediate;
  complete(as, e, e.worker->at_once(), false);
}

void worker_core::post_with_aside(endpoint_core& e, post_base& op) noexcept {
  slot& s = *first_free_;
  const std::uint32_t index = index_of(s.id);
  const result<void> ready = set_aside(op, index);
  if (!ready) {
    op.complete_failed(ready.why());
    return;
  }
  auto* const peer = op.aside_ == post_base::aside::peer ? &peer_of(index) : nullptr;
  op.request_.to = peer;
  if (post_in(s, e, op, op.own_side(), peer) != posted::done) return;
  if (op.aside_ != post_base::aside::nothing) take_aside(op, index, at_once_);
  op.done_at_once(op.own_side());
}

// Messages kept for a later receive can use up what was reserved; or there was more than is reserved.
void worker_core::post_after_growing(endpoint_core& e, post_base& op) noexcept {
  if (try_to_grow()) {
    CORDMA_ASSERT(first_free_ != nullptr);
    return post_late(e, op);
  }
  op.complete_failed(errc::no_memory);
}

[[gnu::always_inline]] inline void worker_core::post(endpoint_core& e, post_base& op,
                                                     post_base::side as) noexcept {
  if (as == post_base::side::recv && e.holds_recvs && e.hold(op)) return;
  if (first_free_ == nullptr) [[unlikely]]
    return post_after_growing(e, op);
  if (op.aside_ != post_base::aside::nothing) [[unlikely]]
    return post_with_aside(e, op);
  if (post_in(*first_free_, e, op, as, nullptr) == posted::done) op.done_at_once(as);
}

bool endpoint_core::hold(post_base& op) noexcept {
  if (message_waits) return false;
  if (hold_at_once(op)) return true;
  post_held();
  return false;
}

// Where receives are held, and it is as most are.
[[gnu::always_inline]] inline bool endpoint_core::hold_at_once(post_base& op) noexcept {
  if (!holds_recvs || message_waits || op.lease_ || op.aside_ != post_base::aside::nothing ||
      op.request_.segment_count != 1 || op.total_ > caps->max_message || recv_credits == 0) {
    return false;
  }
  op.set_phase(operation_base::phase::posted);
  --recv_credits;
  ++counters.recvs;
  held_recvs.push_back(op);
  op.set_held_since(home->coarse_now());
  if (posted_word) [[unlikely]]
    tell_posted();
  return true;
}

void endpoint_core::post_held() noexcept {
  holds_recvs = false;
  if (pair != nullptr) pair->set_in_place(nullptr);
  message_waits = false;
  while (!held_recvs.empty()) {
    post_base& op = held_recvs.pop_front();
    ++recv_credits;
    --counters.recvs;
    worker->post_late(*this, op);
  }
}

// Some may take a message at once: then others, which wait, have their places.
void endpoint_core::post_held_now() noexcept {
  post_held();
  if (open_to == 0) pump(true);
}

void endpoint_core::on_arrived(transport::arrived_message& m) noexcept {
  if (m.data == nullptr) return post_held_now();
  if (held_recvs.empty()) {
    message_waits = m.stays = true;
    return;
  }
  post_base& op = held_recvs.front();
  if (m.bytes > op.total_) [[unlikely]] {
    m.stays = true;
    return post_held_now();  // the transport fails it
  }
  ++recv_credits;
  transport::copy_bytes(op.segments_[0].addr, m.data, m.bytes);
  op.received_ = {.bytes = m.bytes};
  counters.bytes_received += m.bytes;
  op.finish_in_poll();
  if (open_to == 0) [[unlikely]]
    pump(true);
}

void worker_core::post_late(endpoint_core& e, post_base& op) noexcept {
  if (trace_ != nullptr) [[unlikely]]
    trace_post(e, op);
  post(e, op, op.own_side());
}

void endpoint_core::post_or_queue(post_base& op) noexcept {
  const bool recv = op.is_recv();
  if (recv && orphans != 0 && op.lease_ && worker->adopt_orphan(*this, op)) return;
  if (std::optional<failure> ended = why_not(op.op_name())) [[unlikely]] {
    op.complete_failed(std::move(*ended));
    return;
  }
  if (recv && orphans != 0) [[unlikely]] {
    op.complete_failed(
        {errc::bad_state,
         "a canceled receive into a pool is still posted and the next message is its: "
         "receive into a pool until it has been taken over"});
    return;
  }
  list<post_base>& waiting = recv ? waiting_recvs : waiting_sends;
  const std::uint32_t credits = recv ? recv_credits : send_credits;
  const bool too_early = state == endpoint_state::connecting && !recv;
  if (credits != 0 && waiting.empty() && !too_early) {
    worker->post_late(*this, op);
    return;
  }
  ++counters.waited;
  if (waiting.empty()) (recv ? recvs_wait_since : sends_wait_since) = home->coarse_now();
  op.set_phase(operation_base::phase::queued);
  waiting.push_back(op);
  open_to = 0;
}

// No slot, no completion: where the transport can, most are done with their post.
[[gnu::always_inline]] inline void post_base::done_now() noexcept {
  count_put(endpoint_->counters, total_);
  finish();
}

[[gnu::noinline]] void post_base::carry_out() noexcept {
  request_.segments = segments_.data();
  if (!endpoint_->pair->post_now(request_)) return post_open_send();
  done_now();
}

// Whether it may go as it comes, on this thread.
[[gnu::always_inline]] inline bool post_base::is_open() const noexcept {
  const endpoint_core& e = *endpoint_;
  return !failure_ && (e.open_to >> static_cast<unsigned>(request_.op) & 1U) != 0 &&
         e.home->on_owner_thread();
}

[[gnu::always_inline]] inline void post_base::post_open(side as) noexcept {
  endpoint_core& e = *endpoint_;
  if ((as == side::recv ? e.recv_credits : e.send_credits) != 0 &&
      request_.segment_count <= e.granted.max_segments && total_ <= e.caps->max_message)
      [[likely]] {
    e.worker->post(e, *this, as);
  } else {
    start_with_care();
  }
}

[[gnu::noinline]] void post_base::post_open_send() noexcept { post_open(side::send); }
[[gnu::noinline]] void post_base::post_open_recv() noexcept { post_open(side::recv); }

void post_base::start_send() noexcept {
  if (!is_open()) [[unlikely]]
    return start_with_care();
  endpoint_core& e = *endpoint_;
  if (!e.posts_now) return post_open_send();
  if (request_.op != transport::opcode::send || request_.segment_count != 1 ||
      aside_ != aside::nothing) {
    return carry_out();
  }
  if (!e.pair->put(segments_[0].addr, static_cast<std::uint32_t>(total_))) return post_open_send();
  done_now();
}

void post_base::start_recv() noexcept {
  if (!is_open()) [[unlikely]]
    return start_with_care();
  if (!endpoint_->hold_at_once(*this)) return post_open_recv();
}

void post_base::start_with_care() noexcept {
  endpoint_core& e = *endpoint_;
  const bool possible =
      !failure_ && e.worker != nullptr && e.home->on_owner_thread() &&
      (is_recv() ? e.granted.shared == nullptr : e.caps->supports(e.granted.type, request_.op)) &&
      (e.peer == nullptr || !consumes_receive(request_.op)) &&
      request_.segment_count <= e.granted.max_segments && total_ <= e.caps->max_message;
  if (!possible) {
    complete_failed(failure_ ? std::move(*failure_) : obstacle());
    return;
  }
  if (e.fence_next && !is_recv()) {
    request_.flags |= transport::post_flag::fence;
    e.fence_next = false;
    e.refresh_open();
  }
  e.post_or_queue(*this);
}

void endpoint_core::pump(bool recvs) noexcept {
  list<post_base>& waiting = recvs ? waiting_recvs : waiting_sends;
  while (!waiting.empty() && (recvs ? recv_credits : send_credits) != 0) {
    worker->post_late(*this, waiting.pop_front());
    (recvs ? recvs_wait_since : sends_wait_since) = home->coarse_now();
  }
  if (state == endpoint_state::closing && !recvs) begin_close();
  refresh_open();
}

// A receive leaves the list of those posted.
[[gnu::always_inline]] inline void worker_core::on_recv_done(endpoint_core& e, const slot& s,
                                                             const completion& c) noexcept {
  if (c.key != 0) [[unlikely]]
    e.invalidated(c.key);
  if (e.first_recv == &s) [[likely]] {
    e.first_recv = s.next;
    if (e.first_recv == nullptr) e.recvs_end = &e.first_recv;
  } else {
    not_first_recv(e, s);
  }
}

// Nobody waits for it any more.
void worker_core::on_left_behind(slot& s, const completion& c) noexcept {
  endpoint_core& e = *s.endpoint;
  const bool recv = s.is_recv;
  ++(recv ? e.recv_credits : e.send_credits);
  CORDMA_ASSERT_OP(e.send_credits, <=, e.granted.send_depth);
  CORDMA_ASSERT_OP(e.recv_credits, <=, e.granted.recv_depth);
  if (s.orphan) {
    orphan_done(s, c);
  } else {
    CORDMA_ASSERT_OP(s.pinned, <=, s.pins.size());
    for (std::uint8_t i = 0; i < s.pinned; ++i) release(*s.pins[i]);
    s.pinned = 0;
    s.lease.reset();
    free_slot(s);
  }
  e.pump(recv);
}

[[gnu::always_inline]] inline void worker_core::finish_as(post_base::side as, slot& s,
                                                          const completion& c,
                                                          bool in_poll) noexcept {
  constexpr auto recv = post_base::side::recv;
  endpoint_core& e = *s.endpoint;
  post_base* const op = s.op;
  if (as == recv) on_recv_done(e, s, c);
  if (op == nullptr) [[unlikely]]
    return on_left_behind(s, c);
  op->slot_ = nullptr;
  if (op->aside_ != post_base::aside::nothing) [[unlikely]]
    take_aside(*op, index_of(s.id), c);
  free_slot(s);
  ++(as == recv ? e.recv_credits : e.send_credits);
  op->complete(as, e, c, in_poll);
  if (e.open_to == 0) [[unlikely]]
    e.pump(as == recv);
}

// What it was is asked once.
[[gnu::always_inline]] inline void worker_core::finish_request(slot& s, const completion& c,
                                                               bool in_poll) noexcept {
  if (s.is_recv) {
    finish_as(post_base::side::recv, s, c, in_poll);
  } else {
    finish_as(post_base::side::send, s, c, in_poll);
  }
}

void worker_core::complete(slot& s, const completion& c) noexcept { finish_request(s, c, false); }

// By what its id says that it is.
void worker_core::on_completions(adapter_poller& via, std::span<const completion> all) noexcept {
  for (const completion& c : all) {
    switch (type_of(c.id)) {
      [[likely]] case id_type_request:
        on_request(via, c);
        break;
      case id_type_sink: on_sink_completion(via, c); break;
      default: on_corrupt(via);
    }
  }
}

[[gnu::always_inline]] inline void worker_core::on_request(adapter_poller& via,
                                                           const completion& c) noexcept {
  const std::uint32_t index = index_of(c.id);
  if (index >= slots_) [[unlikely]]
    return on_corrupt(via);
  slot& s = at(index);
  if (c.id != s.id || s.endpoint == nullptr) [[unlikely]]
    return on_stale(via, generation_of(s.id) - generation_of(c.id));
  finish_request(s, c, true);
}

// There was such a request, and its slot has moved on by so many.
void worker_core::on_stale(adapter_poller& via, std::uint32_t age) noexcept {
  age &= generation_mask;
  if (age == 0 || age > generation_mask / 2) return on_corrupt(via);
  ++stale_completions;
}

// There never was.
void worker_core::on_corrupt(adapter_poller& via) noexcept {
  if (via.broken()) {
    ++stale_completions;
    return;
  }
  ++corrupt_completions;
  give_up(via);
}

// From one that stays on, all of the same sender stay. Returns the first that is not.
transport::arrived_message* adapter_poller::let_stay(transport::arrived_message* m) noexcept {
  const transport::queue_pair* const sender = m->from;
  const auto all = adapter_->arrived();
  for (; m != all.data() + all.size() && m->from == sender; ++m) m->stays = true;
  return m;
}

void adapter_poller::hand_over_arrived() noexcept {
  const auto all = adapter_->arrived();
  for (transport::arrived_message* m = all.data(); m != all.data() + all.size();) {
    if (m->from != nullptr) [[likely]]
      m->from->in_place()->on_arrived(*m);
    if (!m->stays) [[likely]] {
      ++m;
    } else {
      m = let_stay(m);
    }
  }
  adapter_->release_arrived();
}

std::size_t adapter_poller::poll() noexcept {
  if (careful_) [[unlikely]]
    return poll_carefully();
  bool progressed = false;
  const std::size_t n = adapter_->poll(batch_, progressed);
  transport::adapter& a = *adapter_;
  if ((n | std::size_t{progressed} | std::size_t{a.has_events()}) != 0) [[unlikely]]
    return look_at(n, batch_.size(), progressed);
  if (a.arrived().size() != 1) return a.arrived().empty() ? 0 : look_at(0, batch_.size(), false);
  // As most often.
  transport::arrived_message& m = a.arrived().front();
  m.from->in_place()->on_arrived(m);
  a.release_arrived();
  if (careful_) [[unlikely]]
    tidy(true);
  return 1;
}

// At most so many things may happen in this pass as the worker says.
[[gnu::noinline]] std::size_t adapter_poller::poll_carefully() noexcept {
  bool progressed = false;
  const std::size_t most = std::min(batch_.size(), owner_.may_complete);
  const std::size_t n = adapter_->poll(std::span(batch_).first(most), progressed);
  if (owner_.may_complete != worker_core::no_limit) {
    owner_.may_complete -= n + adapter_->arrived().size();
  }
  return look_at(n, most, progressed);
}

// The completions of a poll, its events and its messages.
[[gnu::noinline]] std::size_t adapter_poller::look_at(std::size_t n, std::size_t room,
                                                      bool progressed) noexcept {
  const std::size_t all = n + adapter_->arrived().size();
  while (adapter_->has_events()) {
    owner_.on_event(*this, adapter_->next_event());
    progressed = true;
  }
  if (n != 0) {
    told_ = std::span(batch_).first(n);
    if (owner_.trace() != nullptr) [[unlikely]]
      owner_.trace_completions(*this, told_);
    // What is posted meanwhile is not done before those that come after in the batch.
    adapter_->begin_handing_out();
    owner_.on_completions(*this, told_);
    told_ = {};
    adapter_->end_handing_out();
  }
  if (!adapter_->arrived().empty()) hand_over_arrived();
  if (careful_) tidy(all < room);
  return all + (progressed ? 1 : 0);
}

[[gnu::noinline]] void adapter_poller::tidy(bool all_told) noexcept {
  if (!ending_.empty()) end_due(all_told);
  owner_.sweep();
  careful_ =
      !ending_.empty() || owner_.has_graves() || owner_.may_complete != worker_core::no_limit;
}

}  // namespace cordma::detail

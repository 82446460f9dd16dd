// From an operation to the transport, and from a completion back to it: what every message goes
// through, in one file, so that the compiler sees it whole.
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/worker_core.hpp>

#include <algorithm>
#include <new>

namespace cordma::detail {

using transport::completion;
using transport::posted;

[[gnu::always_inline]] inline void post_base::complete(side as, endpoint_core& e,
                                                       const completion& c) noexcept {
  if (c.status != transport::wc_status::success) [[unlikely]] {
    complete_badly(c);
    return;
  }
  if (as == side::recv) {
    received_ = to_received(c);
    e.counters.bytes_received += c.byte_len;
  }
  finish();
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
    if (post_recv(e, op, peer) == posted::done) return posted::done;
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
  complete(as, e, e.worker->at_once());
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
  if (first_free_ == nullptr) [[unlikely]]
    return post_after_growing(e, op);
  if (op.aside_ != post_base::aside::nothing) [[unlikely]]
    return post_with_aside(e, op);
  if (post_in(*first_free_, e, op, as, nullptr) == posted::done) op.done_at_once(as);
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

[[gnu::always_inline]] inline void post_base::start_as(side as) noexcept {
  endpoint_core& e = *endpoint_;
  const bool open = !failure_ && (e.open_to >> static_cast<unsigned>(request_.op) & 1U) != 0 &&
                    e.home->on_owner_thread();
  if (open && (as == side::recv ? e.recv_credits : e.send_credits) != 0 &&
      request_.segment_count <= e.granted.max_segments && total_ <= e.caps->max_message)
      [[likely]] {
    e.worker->post(e, *this, as);
  } else {
    start_with_care();
  }
}

void post_base::start_send() noexcept { start_as(side::send); }
void post_base::start_recv() noexcept { start_as(side::recv); }

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
                                                          const completion& c) noexcept {
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
  op->complete(as, e, c);
  if (e.open_to == 0) [[unlikely]]
    e.pump(as == recv);
}

// What it was is asked once.
[[gnu::always_inline]] inline void worker_core::finish_request(slot& s,
                                                               const completion& c) noexcept {
  if (s.is_recv) {
    finish_as(post_base::side::recv, s, c);
  } else {
    finish_as(post_base::side::send, s, c);
  }
}

void worker_core::complete(slot& s, const completion& c) noexcept { finish_request(s, c); }

[[gnu::always_inline]] inline void worker_core::tell_all(adapter_poller& via,
                                                         std::span<const completion> all) noexcept {
  const completion* next = all.data();
  for (std::size_t left = all.size(); left != 0; --left) {
    const completion& c = *next++;
    const std::uint32_t index = index_of(c.id);
    if (index < slots_) [[likely]] {
      slot& s = at(index);
      if (c.id == s.id && s.endpoint != nullptr) [[likely]] {
        finish_request(s, c);
        continue;
      }
    }
    on_unknown(via, c);
  }
}

void worker_core::on_completions(adapter_poller& via, std::span<const completion> all) noexcept {
  tell_all(via, all);
}

void worker_core::on_unknown(adapter_poller& via, const completion& c) noexcept {
  if (type_of(c.id) == id_type_sink && !via.broken()) return on_sink_completion(c);
  // Stale: there was such a request, and its slot has moved on.
  const std::uint32_t index = index_of(c.id);
  const bool possible = type_of(c.id) == id_type_request && index < slots_;
  const std::uint32_t age =
      possible ? (generation_of(at(index).id) - generation_of(c.id)) & generation_mask : 0;
  if (via.broken() || (age != 0 && age <= generation_mask / 2)) {
    ++stale_completions;
    return;
  }
  ++corrupt_completions;
  give_up(via);
}

std::size_t adapter_poller::poll() noexcept {
  bool progressed = false;
  const std::size_t room = std::min(batch_.size(), owner_.may_complete);
  const std::size_t n = adapter_->poll(std::span(batch_).first(room), progressed);
  if (owner_.may_complete != worker_core::no_limit) owner_.may_complete -= n;
  while (adapter_->has_events()) {
    owner_.on_event(*this, adapter_->next_event());
    progressed = true;
  }
  if (n != 0) {
    const std::span<const completion> all = std::span(batch_).first(n);
    if (owner_.trace() != nullptr) [[unlikely]]
      owner_.trace_completions(*this, all);
    // What is posted meanwhile is not done before those that come after in the batch.
    adapter_->handing_out = true;
    owner_.tell_all(*this, all);
    adapter_->handing_out = false;
  }
  if (!ending_.empty()) [[unlikely]]
    end_due(n < room);
  owner_.sweep();
  return n + (progressed ? 1 : 0);
}

}  // namespace cordma::detail

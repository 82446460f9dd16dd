// From an operation to the transport, and from a completion back to it: what every message goes
// through, in one file, so that the compiler sees it whole.
#include <cordma/net/detail/worker_core.hpp>

#include <new>

namespace cordma::detail {

using transport::completion;
using transport::posted;

[[gnu::always_inline]] inline void post_base::complete(const completion& c) noexcept {
  if (c.status != transport::wc_status::success) [[unlikely]] {
    complete_badly(c);
    return;
  }
  if (is_recv()) {
    received_ = to_received(c);
    endpoint_->counters.bytes_received += c.byte_len;
  }
  finish();
}

inline bool worker_core::has_free_slot() noexcept {
  // Only messages kept for a later receive can use up what was reserved.
  if (first_free_ != 0) [[likely]]
    return true;
  try {
    grow();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

inline posted worker_core::post_recv(endpoint_core& e, const post_base& op,
                                     transport::datagram_peer* peer, completion& now) noexcept {
  ++e.counters.recvs;
  const posted done = e.pair->post_recv({.id = op.request_.id,
                                         .segment_count = op.request_.segment_count,
                                         .segments = op.request_.segments,
                                         .from = peer},
                                        now);
  if (e.posted_word) [[unlikely]]
    e.tell_posted();
  return done;
}

inline posted worker_core::post_send(endpoint_core& e, post_base& op,
                                     const transport::datagram_peer* peer,
                                     completion& now) noexcept {
  ++e.counters.sends;
  e.counters.bytes_sent += op.total_;
  if (e.batches != 0) {
    op.request_.flags |= transport::post_flag::more;
    ++e.unrung;
  } else {
    ++e.counters.rings;
  }
  op.request_.to = peer;
  return e.pair->post_send(op.request_, now);
}

// The slot lends its id; it is taken only by what is not done at once.
[[gnu::always_inline]] inline posted worker_core::post_in(std::uint32_t index, endpoint_core& e,
                                                          post_base& op,
                                                          transport::datagram_peer* peer,
                                                          completion& now) noexcept {
  slot& s = at(index);
  op.request_.id =
      (std::uint64_t{id_type_request} << 56) | (std::uint64_t{s.generation} << 32) | index;
  op.request_.segments = op.segments_.data();
  const bool recv = op.is_recv();
  if ((recv ? post_recv(e, op, peer, now) : post_send(e, op, peer, now)) == posted::done) {
    ++e.counters.immediate;
    return posted::done;
  }
  first_free_ = s.next_free;
  ++in_flight;
  s.in_use = true;
  s.op = &op;
  s.endpoint = &e;
  s.is_recv = recv;
  op.slot_ = index;
  op.set_phase(operation_base::phase::posted);
  if (!recv) {
    --e.send_credits;
    return posted::pending;
  }
  --e.recv_credits;
  s.next_free = 0;
  (e.last_recv != 0 ? at(e.last_recv - 1).next_free : e.first_recv) = index + 1;
  e.last_recv = index + 1;
  return posted::pending;
}

void worker_core::post_with_aside(endpoint_core& e, post_base& op, std::uint32_t index) noexcept {
  const result<void> ready = set_aside(op, index);
  if (!ready) {
    op.complete_failed(ready.why());
    return;
  }
  auto* const peer = op.aside_ == post_base::aside::peer ? &peer_of(index) : nullptr;
  completion now;
  if (post_in(index, e, op, peer, now) != posted::done) return;
  if (op.aside_ != post_base::aside::nothing) take_aside(op, index, now);
  op.complete(now);
}

[[gnu::always_inline]] inline void worker_core::post(endpoint_core& e, post_base& op) noexcept {
  if (!has_free_slot()) [[unlikely]] {
    op.complete_failed(errc::no_memory);
    return;
  }
  const std::uint32_t index = first_free_ - 1;
  if (op.aside_ != post_base::aside::nothing) [[unlikely]] {
    post_with_aside(e, op, index);
    return;
  }
  completion now;
  if (post_in(index, e, op, nullptr, now) == posted::done) op.complete(now);
}

void endpoint_core::post_or_queue(post_base& op) noexcept {
  const bool recv = op.is_recv();
  if (recv && orphans != 0 && op.lease_ && worker->adopt_orphan(*this, op)) return;
  if (state == endpoint_state::closed || state == endpoint_state::closing) [[unlikely]] {
    if (closed_here) {
      op.complete_failed({errc::not_connected, "this side closed the connection"});
    } else {
      op.complete_failed(flushed(op.op_name()));
    }
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
    worker->post(*this, op);
    return;
  }
  ++counters.waited;
  op.set_phase(operation_base::phase::queued);
  waiting.push_back(op);
}

void post_base::do_start() noexcept {
  endpoint_core& e = *endpoint_;
  const bool possible =
      !failure_ && e.worker != nullptr && e.home->on_owner_thread() &&
      (is_recv() ? e.granted.shared == nullptr : e.caps->supports(e.granted.type, request_.op)) &&
      request_.segment_count <= e.granted.max_segments && total_ <= e.caps->max_message;
  if (!possible) [[unlikely]] {
    complete_failed(failure_ ? std::move(*failure_) : obstacle());
    return;
  }
  if (e.fence_next && !is_recv()) [[unlikely]] {
    request_.flags |= transport::post_flag::fence;
    e.fence_next = false;
  }
  const bool recv = is_recv();
  const bool free_place = recv ? e.recv_credits != 0 && e.waiting_recvs.empty()
                               : e.send_credits != 0 && e.waiting_sends.empty();
  if (free_place && e.state == endpoint_state::connected && e.orphans == 0) [[likely]] {
    e.worker->post(e, *this);
  } else {
    e.post_or_queue(*this);
  }
}

void endpoint_core::pump(bool recvs) noexcept {
  list<post_base>& waiting = recvs ? waiting_recvs : waiting_sends;
  while (!waiting.empty() && (recvs ? recv_credits : send_credits) != 0) {
    worker->post(*this, waiting.pop_front());
  }
  if (state == endpoint_state::closing && !recvs) begin_close();
}

inline void worker_core::complete(slot& s, std::uint32_t index, const completion& c) noexcept {
  endpoint_core& e = *s.endpoint;
  post_base* const op = s.op;
  const bool recv = s.is_recv;
  --in_flight;
  if (recv && c.key != 0) [[unlikely]]
    e.invalidated(c.key);
  if (recv && e.first_recv == index + 1) [[likely]] {
    e.first_recv = s.next_free;
    if (e.first_recv == 0) e.last_recv = 0;
  } else if (recv) {
    not_first_recv(e, index);
  }
  if (s.orphan) [[unlikely]] {
    ++e.recv_credits;
    orphan_done(s, index, c);
    e.pump(true);
    return;
  }
  if (op != nullptr) {
    op->slot_ = post_base::no_slot;
    if (op->aside_ != post_base::aside::nothing) [[unlikely]]
      take_aside(*op, index, c);
  } else {
    for (std::uint8_t i = 0; i < s.pinned; ++i) release(*s.pins[i]);
    s.pinned = 0;
    s.lease.reset();
  }
  free_slot(s, index);
  ++(recv ? e.recv_credits : e.send_credits);
  if (op != nullptr) op->complete(c);
  e.pump(recv);
}

void worker_core::on_completion(adapter_poller& via, const completion& c) noexcept {
  const auto index = static_cast<std::uint32_t>(c.id);
  const auto generation = static_cast<std::uint32_t>(c.id >> 32) & generation_mask;
  const bool possible = (c.id >> 56) == id_type_request && index < chunks_.size() * slots_per_chunk;
  if (possible && at(index).in_use && at(index).generation == generation) [[likely]] {
    complete(at(index), index, c);
    return;
  }
  if ((c.id >> 56) == id_type_shared && !via.broken()) return on_shared_completion(c);
  // Stale: there was such a request, and its slot has moved on.
  const std::uint32_t age = possible ? (at(index).generation - generation) & generation_mask : 0;
  if (via.broken() || (age != 0 && age <= generation_mask / 2)) {
    ++stale_completions;
    return;
  }
  ++corrupt_completions;
  give_up(via);
}

}  // namespace cordma::detail

// The path from an operation to the transport, and from a completion back to the operation. Every
// message takes it; it is in one file so that the compiler can inline all of it.
#include <cordma/net/datagram.hpp>
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/memory_window.hpp>
#include <cordma/net/transport/small_copy.hpp>

#include <algorithm>
#include <cstring>
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
    e.count_arrived(c.byte_len);
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

[[gnu::always_inline]] inline posted endpoint_core::post_recv(const post_base& op,
                                                              transport::datagram_peer* peer,
                                                              completion& now) noexcept {
  ++counters_.recvs;
  const transport::recv_request request{.id = op.request_.id,
                                        .segment_count = op.request_.segment_count,
                                        .segments = op.request_.segments,
                                        .from = peer};
  if (posted_word_) [[unlikely]]
    return post_and_tell(request, now);
  return pair_->post_recv(request, now);
}

[[gnu::noinline]] posted endpoint_core::post_and_tell(const transport::recv_request& r,
                                                      completion& now) noexcept {
  const posted done = pair_->post_recv(r, now);
  tell_posted();
  return done;
}

[[gnu::always_inline]] inline posted endpoint_core::post_send(post_base& op,
                                                              completion& now) noexcept {
  counters_.bytes_sent += op.total_;
  count_post(op.request_);
  return pair_->post_send(op.request_, now);
}

[[gnu::always_inline]] inline void endpoint_core::take_place(side as, slot& s) noexcept {
  if (as == side::recv && holds_receives()) [[unlikely]]
    post_held();
  line(as).take_place();
  if (as == side::recv) received_.posted.push_back(s);
}

// The request uses the slot's id; it occupies the slot only if it does not complete in its post
// call.
[[gnu::always_inline]] inline posted worker_core::post_in(slot& s, endpoint_core& e, post_base& op,
                                                          post_base::side as,
                                                          transport::datagram_peer* peer) noexcept {
  op.request_.id = s.id;
  op.request_.segments = op.segments_.data();
  s.is_recv = as == post_base::side::recv;
  s.since = e.home()->coarse_now();
  if (as == post_base::side::recv) {
    if (e.post_recv(op, peer, at_once_) == posted::done) {
      e.catch_up();
      return posted::done;
    }
  } else if (e.post_send(op, at_once_) == posted::done) {
    return posted::done;
  }
  first_free_ = s.next;
  e.take_place(as, s);
  s.op = &op;
  s.endpoint = &e;
  op.slot_ = &s;
  op.set_phase(operation_base::phase::posted);
  return posted::pending;
}

[[gnu::always_inline]] inline void post_base::done_at_once(side as) noexcept {
  endpoint_core& e = *endpoint_;
  e.count_immediate();
  complete(as, e, e.worker()->at_once(), false);
}

[[gnu::always_inline]] inline Slice worker_core::atomic_word(std::uint32_t index) noexcept {
  slot_chunk& c = *chunks_[index / slots_per_chunk];
  return c.words.all().part((index % slots_per_chunk) * 8, 8);
}

[[gnu::always_inline]] inline void worker_core::take_aside(post_base& op, std::uint32_t index,
                                                           const completion& c) noexcept {
  if (op.aside_ == post_base::aside::word) {
    std::memcpy(&op.request_.operand, op.segments_[0].addr, 8);
  } else if (op.aside_ == post_base::aside::peer) {
    static_cast<datagram_base&>(op).peer_ = peer_of(index);
  } else if (op.aside_ == post_base::aside::window) {
    if (c.status == transport::wc_status::success) static_cast<bind_base&>(op).bound(c.key);
  }
}

void worker_core::post_with_aside(endpoint_core& e, post_base& op) noexcept {
  slot& s = *first_free_;
  const std::uint32_t index = index_of(s.id);
  const bool word = op.aside_ == post_base::aside::word;
  if (!word || !chunks_[index / slots_per_chunk]->words) [[unlikely]] {
    const result<void> ready = set_aside(op, index);
    if (!ready) return op.complete_failed(ready.why());
  }
  if (word) [[likely]] {
    op.request_.to = nullptr;
    const Slice own = atomic_word(index);
    op.put(0, own);
    op.total_ = own.size();
    if (post_in(s, e, op, post_base::side::send, nullptr) != posted::done) return;
    take_aside(op, index, at_once_);
    return op.done_at_once(post_base::side::send);
  }
  auto* const peer = op.aside_ == post_base::aside::peer ? &peer_of(index) : nullptr;
  op.request_.to = peer;
  if (post_in(s, e, op, op.own_side(), peer) != posted::done) return;
  if (op.aside_ != post_base::aside::nothing) take_aside(op, index, at_once_);
  op.done_at_once(op.own_side());
}

// All reserved slots are in use: by messages kept for a later receive, or by more requests than are
// reserved.
void worker_core::post_after_growing(endpoint_core& e, post_base& op) noexcept {
  if (try_to_grow()) {
    CORDMA_ASSERT(first_free_ != nullptr);
    return post_late(e, op);
  }
  op.complete_failed(errc::no_memory);
}

[[gnu::always_inline]] inline void worker_core::post(endpoint_core& e, post_base& op,
                                                     post_base::side as) noexcept {
  if (as == post_base::side::recv && e.holds_receives() && e.hold(op)) return;
  if (first_free_ == nullptr) [[unlikely]]
    return post_after_growing(e, op);
  if (op.aside_ != post_base::aside::nothing) [[unlikely]]
    return post_with_aside(e, op);
  if (post_in(*first_free_, e, op, as, nullptr) == posted::done) op.done_at_once(as);
}

bool endpoint_core::hold(post_base& op) noexcept {
  if (held_.how == receiving::overtaken) return false;
  if (hold_at_once(op)) return true;
  post_held();
  return false;
}

// Fast path if receives are held, for a receive of the common form.
[[gnu::always_inline]] inline bool endpoint_core::hold_at_once(post_base& op) noexcept {
  if (held_.how != receiving::held || op.lease_ || op.aside_ != post_base::aside::nothing ||
      op.request_.segment_count != 1 || op.total_ > route_.caps->max_message ||
      !recvs_.has_place()) {
    return false;
  }
  op.set_phase(operation_base::phase::posted);
  recvs_.take_place();
  ++counters_.recvs;
  held_.all.push_back(op);
  op.set_held_since(home_->coarse_now());
  if (posted_word_) [[unlikely]]
    tell_posted();
  return true;
}

void endpoint_core::post_held() noexcept {
  held_.how = receiving::posted;
  if (pair_ != nullptr) pair_->set_in_place(nullptr);
  while (!held_.all.empty()) {
    post_base& op = held_.all.pop_front();
    recvs_.give_back();
    --counters_.recvs;
    worker_->post_late(*this, op);
  }
}

// A receive may complete at once with a message; waiting receives then get its queue entry.
void endpoint_core::post_held_now() noexcept {
  post_held();
  if (open_to_ == 0) pump(side::recv);
}

void endpoint_core::on_arrived(transport::arrived_message& m) noexcept {
  if (m.data == nullptr) return post_held_now();
  if (held_.all.empty()) {
    held_.how = receiving::overtaken;
    m.stays = true;
    return;
  }
  post_base& op = held_.all.front();
  if (m.bytes > op.total_) [[unlikely]] {
    m.stays = true;
    return post_held_now();  // the transport fails it
  }
  recvs_.give_back();
  op.received_ = {.bytes = m.bytes};
  counters_.bytes_received += m.bytes;
  op.finish_from_list();
  if (open_to_ == 0) [[unlikely]]
    return copy_and_pump(op, m);
  // Last, so that a longer copy does not save registers. The awaiter is not resumed before it.
  transport::copy_bytes(op.segments_[0].addr, m.data, m.bytes);
}

[[gnu::noinline]] void endpoint_core::copy_and_pump(post_base& op,
                                                    const transport::arrived_message& m) noexcept {
  transport::copy_bytes(op.segments_[0].addr, m.data, m.bytes);
  pump(side::recv);
}

void worker_core::post_late(endpoint_core& e, post_base& op) noexcept {
  if (trace_ != nullptr) [[unlikely]]
    trace_post(e, op);
  post(e, op, op.own_side());
}

void endpoint_core::post_or_queue(post_base& op) noexcept {
  const bool recv = op.is_recv();
  if (recv && received_.orphans != 0 && op.lease_ && adopt_orphan(op)) return;
  if (std::optional<failure> ended = why_not(op.op_name())) [[unlikely]] {
    op.complete_failed(std::move(*ended));
    return;
  }
  if (recv && received_.orphans != 0) [[unlikely]] {
    op.complete_failed(
        {errc::bad_state,
         "a canceled receive into a pool is still posted and the next message is its: "
         "receive into a pool until it has been taken over"});
    return;
  }
  request_line& queue = line(op.own_side());
  const bool too_early = state() == endpoint_state::connecting && !recv;
  if (queue.has_place() && !queue.is_waited_for() && !too_early) {
    worker_->post_late(*this, op);
    return;
  }
  ++counters_.waited;
  op.set_phase(operation_base::phase::queued);
  queue.wait(op, home_->coarse_now());
  open_to_ = 0;
}

// The request needs no slot and no completion: on transports that support it, most complete in
// their post call.
[[gnu::always_inline]] inline void post_base::done_now() noexcept {
  endpoint_->count_put(total_);
  finish();
}

[[gnu::noinline]] void post_base::carry_out() noexcept {
  request_.segments = segments_.data();
  if (!endpoint_->pair()->post_now(request_)) return post_open_send();
  done_now();
}

// Whether the request may be posted directly, on this thread.
[[gnu::always_inline]] inline bool post_base::is_open() const noexcept {
  const endpoint_core& e = *endpoint_;
  return !failure_ && e.is_open_to(request_.op) && e.home()->on_owner_thread();
}

[[gnu::always_inline]] inline void post_base::post_open(side as) noexcept {
  endpoint_core& e = *endpoint_;
  if (e.has_place(as) && request_.segment_count <= e.granted().max_segments &&
      total_ <= e.caps().max_message) [[likely]] {
    e.worker()->post(e, *this, as);
  } else {
    start_with_care();
  }
}

[[gnu::noinline]] void post_base::post_open_send() noexcept { post_open(side::send); }
[[gnu::noinline]] void post_base::post_open_recv() noexcept { post_open(side::recv); }

[[gnu::noinline]] void post_base::put_now() noexcept {
  const bool is_done =
      endpoint_->pair()->put(segments_[0].addr, static_cast<std::uint32_t>(total_));
  if (!is_done) return post_open_send();
  done_now();
}

// Calls nothing itself: each branch saves the registers that it needs.
void post_base::start_send() noexcept {
  if (!is_open()) [[unlikely]]
    return start_with_care();
  if (!endpoint_->posts_now()) return post_open_send();
  const bool is_plain = request_.op == transport::opcode::send && request_.segment_count == 1 &&
                        aside_ == aside::nothing;
  is_plain ? put_now() : carry_out();
}

void post_base::start_recv() noexcept {
  if (!is_open()) [[unlikely]]
    return start_with_care();
  if (!endpoint_->hold_at_once(*this)) return post_open_recv();
}

void post_base::start_with_care() noexcept {
  endpoint_core& e = *endpoint_;
  const bool possible = !failure_ && e.worker() != nullptr && e.home()->on_owner_thread() &&
                        (is_recv() ? e.granted().shared == nullptr
                                   : e.caps().supports(e.granted().type, request_.op)) &&
                        (e.frames() == nullptr || !consumes_receive(request_.op)) &&
                        request_.segment_count <= e.granted().max_segments &&
                        total_ <= e.caps().max_message;
  if (!possible) {
    complete_failed(failure_ ? std::move(*failure_) : obstacle());
    return;
  }
  if (!is_recv() && e.take_fence()) request_.flags |= transport::post_flag::fence;
  e.post_or_queue(*this);
}

void endpoint_core::pump(side as) noexcept {
  request_line& queue = line(as);
  while (queue.is_waited_for() && queue.has_place()) {
    worker_->post_late(*this, queue.next(home_->coarse_now()));
  }
  if (state() == endpoint_state::closing && as == side::send) begin_close();
  refresh_open();
}

// Removes a receive from the list of posted ones.
[[gnu::always_inline]] inline void endpoint_core::on_recv_done(const slot& s,
                                                               const completion& c) noexcept {
  if (c.key != 0) [[unlikely]]
    invalidated(c.key);
  received_.posted.remove(s);
}

// Completes a request that was abandoned.
void worker_core::on_left_behind(slot& s, const completion& c) noexcept {
  endpoint_core& e = *s.endpoint;
  const auto as = s.is_recv ? post_base::side::recv : post_base::side::send;
  e.give_back(as);
  CORDMA_ASSERT(e.is_balanced());
  if (s.orphan) {
    e.orphan_done(s, c);
  } else {
    CORDMA_ASSERT_OP(s.pinned, <=, s.pins.size());
    for (std::uint8_t i = 0; i < s.pinned; ++i) release(*s.pins[i]);
    s.pinned = 0;
    s.lease.reset();
    free_slot(s);
  }
  e.pump(as);
}

[[gnu::always_inline]] inline void worker_core::finish_as(post_base::side as, slot& s,
                                                          const completion& c,
                                                          bool in_poll) noexcept {
  constexpr auto recv = post_base::side::recv;
  endpoint_core& e = *s.endpoint;
  post_base* const op = s.op;
  if (as == recv) e.on_recv_done(s, c);
  if (op == nullptr) [[unlikely]]
    return on_left_behind(s, c);
  op->slot_ = nullptr;
  if (op->aside_ != post_base::aside::nothing) [[unlikely]]
    take_aside(*op, index_of(s.id), c);
  free_slot(s);
  e.give_back(as);
  op->complete(as, e, c, in_poll);
  if (e.is_shut()) [[unlikely]]
    e.pump(as);
}

// Tests once whether the request was a send or a receive.
[[gnu::always_inline]] inline void worker_core::finish_request(slot& s, const completion& c,
                                                               bool in_poll) noexcept {
  if (s.is_recv) {
    finish_as(post_base::side::recv, s, c, in_poll);
  } else {
    finish_as(post_base::side::send, s, c, in_poll);
  }
}

void worker_core::complete(slot& s, const completion& c) noexcept { finish_request(s, c, false); }

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

// Dispatches by the type in the id. Inlined into look_at(); tests call it as a function.
[[gnu::always_inline, gnu::used]] inline void worker_core::on_completions(
    adapter_poller& via, std::span<const completion> all) noexcept {
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

// The request existed; its slot has been reused `age` times since.
void worker_core::on_stale(adapter_poller& via, std::uint32_t age) noexcept {
  age &= generation_mask;
  if (age == 0 || age > generation_mask / 2) return on_corrupt(via);
  ++stale_completions_;
}

// The request never existed.
void worker_core::on_corrupt(adapter_poller& via) noexcept {
  if (via.broken()) {
    ++stale_completions_;
    return;
  }
  ++corrupt_completions_;
  give_up(via);
}

// If a message stays in the transport, all later ones of the same sender stay. Returns the first
// that does not.
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
  if ((n | adapter_->arrived().size() | std::size_t{adapter_->has_events()}) != 0)
    return look_at(n, batch_.size(), progressed);
  if (careful_) [[unlikely]]
    tidy(true);
  return progressed ? 1 : 0;
}

// Polls with the worker's limit for this pass.
[[gnu::noinline]] std::size_t adapter_poller::poll_carefully() noexcept {
  bool progressed = false;
  const std::size_t most = owner_.share_of_limit(batch_.size());
  const std::size_t n = adapter_->poll(std::span(batch_).first(most), progressed);
  owner_.use_limit(n + adapter_->arrived().size());
  return look_at(n, most, progressed);
}

// A separate function, because an event is large.
[[gnu::noinline]] static void look_at_events(adapter_poller& via, worker_core& owner) noexcept {
  while (via.adapter().has_events()) owner.on_event(via, via.adapter().next_event());
}

// Processes the completions of a poll, its events and its messages.
[[gnu::noinline]] std::size_t adapter_poller::look_at(std::size_t n, std::size_t room,
                                                      bool progressed) noexcept {
  const std::size_t all = n + adapter_->arrived().size();
  if (adapter_->has_events()) {
    look_at_events(*this, owner_);
    progressed = true;
  }
  if (n != 0) {
    told_ = std::span(batch_).first(n);
    if (owner_.trace() != nullptr) [[unlikely]]
      owner_.trace_completions(*this, told_);
    // Requests posted meanwhile do not complete before the later completions of the batch.
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
  careful_ = !ending_.empty() || owner_.has_graves() || owner_.is_limited();
}

}  // namespace cordma::detail

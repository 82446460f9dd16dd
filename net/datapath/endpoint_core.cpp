#include <cordma/net/datapath/endpoint_core.hpp>

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/worker_core.hpp>

#include <atomic>
#include <utility>

namespace cordma::detail {

using transport::opcode;

endpoint_core::endpoint_core() = default;

endpoint_core::~endpoint_core() {
  unlink();  // before anything of it goes: a report may come at any time
  forget_windows();
  if (worker == nullptr) return;
  CORDMA_ASSERT_OP(inflight(), ==, 0U);
  CORDMA_ASSERT_OP(orphans, ==, 0U);
  CORDMA_ASSERT(first_recv == nullptr && first_kept == nullptr);
  CORDMA_ASSERT(waiting_sends.empty() && waiting_recvs.empty() && held_recvs.empty());
  CORDMA_ASSERT(state_waiters.empty() && resolvers.empty());
  worker->unreserve(reserved_slots);
  if (!counted) return;
  CORDMA_ASSERT_OP(worker->endpoint_count, >, 0U);
  --worker->endpoint_count;
}

void endpoint_core::adopt(worker_core& owner, std::unique_ptr<transport::queue_pair> p,
                          adapter_poller& made_with) {
  CORDMA_ASSERT(worker == nullptr && pair == nullptr);
  CORDMA_ASSERT(p != nullptr);
  worker = &owner;
  home = &owner.home();
  context = owner.shared_context();
  ++owner.endpoint_count;
  counted = true;
  pair = std::move(p);
  pair->set_user(this);
  via = &made_with;
  caps = &made_with.domain().caps();
  kind = static_cast<std::size_t>(caps->transport);
  key_place = transport::remote_keys::place_of(caps->transport);
  granted = pair->actual();
  send_credits = granted.send_depth;
  recv_credits = granted.recv_depth;
  // Nothing is in flight where this throws, or what follows.
  if (granted.shared != nullptr) {
    static_cast<completion_sink*>(granted.shared->user())->on_joined(*this);
  }
  CORDMA_ASSERT_OP(granted.send_depth, >=, frame_sends);
  granted.send_depth -= frame_sends;
  send_credits = granted.send_depth;
  // With a trace all is recorded: each message takes a receive then.
  holds_recvs = caps->plain_in_place && granted.shared == nullptr && owner.trace() == nullptr;
  if (holds_recvs) pair->set_in_place(this);
  worker->reserve(granted.send_depth + granted.recv_depth);
  reserved_slots = granted.send_depth + granted.recv_depth;
}

void endpoint_core::refresh_grant() noexcept {
  const std::uint32_t sends = granted.send_depth - send_credits;
  const std::uint32_t recvs = granted.recv_depth - recv_credits;
  granted = pair->actual();
  // What it grants now covers what is in flight.
  CORDMA_ASSERT_OP(granted.send_depth, >=, frame_sends + sends);
  CORDMA_ASSERT_OP(granted.recv_depth, >=, recvs);
  granted.send_depth -= frame_sends;
  send_credits = granted.send_depth - sends;
  recv_credits = granted.recv_depth - recvs;
}

post_base* endpoint_core::first_waiting_for_pool() noexcept {
  post_base* first = nullptr;
  waiting_recvs.for_each([&first](post_base& op) {
    if (first == nullptr && op.lease_) first = &op;
  });
  return first;
}

void endpoint_core::ring() noexcept {
  if (unrung == 0 || pair == nullptr) return;
  unrung = 0;
  ++counters.rings;
  pair->ring();
}

void endpoint_core::tell_posted() noexcept {
  const std::atomic_ref<std::uint64_t> word(*posted_word.as<std::uint64_t>().data());
  word.store(counters.recvs, std::memory_order_release);
}

// It touches no buffer any more, and reports nothing.
void endpoint_core::drop_pair() noexcept {
  if (pair != nullptr && via != nullptr) via->forget(*pair);
  pair.reset();
  if (peer != nullptr) peer->on_pair_gone();
  if (rail != nullptr) rail->on_pair_gone();
}

void endpoint_core::begin_close() noexcept {
  if (is_inherited()) return;
  if (!waiting_sends.empty() || pair == nullptr || (peer != nullptr && !peer->idle())) return;
  ring();
  if (peer != nullptr) peer->on_closing();
  pair->disconnect();
}

void endpoint_core::refresh_open() noexcept {
  const bool as_it_comes = state == endpoint_state::connected && !fence_next && orphans == 0 &&
                           waiting_sends.empty() && waiting_recvs.empty();
  constexpr std::uint32_t receives = 1U << static_cast<unsigned>(opcode::recv);
  open_to = 0;
  // With a trace each post takes the longer way, which records it: the short one has no branch for that.
  if (as_it_comes && worker->trace() == nullptr) {
    open_to = caps->operations[static_cast<std::size_t>(granted.type)] & ~receives;
    if (granted.shared == nullptr) open_to |= receives;
    if (peer != nullptr) open_to &= ~messages_bits;
  }
  posts_now = open_to != 0 && caps->posts_now && batches == 0;
  if (peer != nullptr) peer->settle();
}

void endpoint_core::set_state(endpoint_state s) noexcept {
  if (state == s) return;
  CORDMA_ASSERT_OP(state, >>, s);
  state = s;
  refresh_open();
  // Whoever waits for the end waits on; a list of its own, because a resumed one may wait again.
  state_waiters.for_each([s](state_operation& w) {
    if (w.kind_ == state_operation::kind::close && s != endpoint_state::closed) return;
    w.unlink();
    w.resolve(s);
  });
}

void endpoint_core::blame(failure why) noexcept {
  if (cause) return;
  *cause_storage = std::move(why);
  cause = cause_storage;
}

void endpoint_core::end(failure why) noexcept {
  blame(std::move(why));
  if (state == endpoint_state::closed) return;
  flush_waiting();
  if (early != nullptr) early->on_end();
  if (peer != nullptr) peer->on_end();
  set_state(endpoint_state::closed);
  if (rail != nullptr) rail->on_end();
}

void endpoint_core::flush_waiting() noexcept {
  while (!held_recvs.empty()) {
    post_base& op = held_recvs.pop_front();
    ++recv_credits;
    op.complete_failed(flushed(op.op_name()));
  }
  for (list<post_base>* waiting : {&waiting_sends, &waiting_recvs}) {
    while (!waiting->empty()) {
      post_base& op = waiting->pop_front();
      op.complete_failed(flushed(op.op_name()));
    }
  }
  while (!resolvers.empty()) resolvers.pop_front().fail(flushed("resolve"));
}

void endpoint_core::on_resolved(const transport::cm_event& event) noexcept {
  resolvers.for_each([&event](resolve_operation& op) {
    if (op.request_ != event.request) return;
    op.unlink();
    op.on_resolved(event);
  });
}

std::optional<failure> endpoint_core::why_not(const char* operation) const noexcept {
  if (state != endpoint_state::closed && state != endpoint_state::closing) return {};
  if (closed_here) return failure{errc::not_connected, "this side closed the connection"};
  return flushed(operation);
}

failure endpoint_core::flushed(const char* operation) const noexcept {
  failure why{errc::flushed};
  why.with_operation(operation).with_cause(cause);
  why.with_status(static_cast<std::uint16_t>(transport::wc_status::wr_flush_err), 0);
  return why;
}

// Nothing has been posted on it: no slot knows the one that goes.
void endpoint_core::take_over(endpoint_core& made) noexcept {
  if (made.state == endpoint_state::closed) {
    end(*made.cause);
    return;
  }
  CORDMA_ASSERT(pair == nullptr && made.pair != nullptr);
  CORDMA_ASSERT_OP(inflight(), ==, 0U);
  CORDMA_ASSERT_OP(made.inflight(), ==, made.frames_in_flight);
  CORDMA_ASSERT_OP(reserved_slots, ==, 0U);
  CORDMA_ASSERT(made.first_recv == nullptr && made.first_kept == nullptr);
  CORDMA_ASSERT(made.waiting_sends.empty() && made.waiting_recvs.empty());
  CORDMA_ASSERT(made.windows.empty());
  pair = std::move(made.pair);
  pair->set_user(this);
  if (pair->in_place() == &made) pair->set_in_place(this);
  via = made.via;
  caps = made.caps;
  kind = made.kind;
  key_place = made.key_place;
  plain_needs = made.plain_needs;
  holds_recvs = made.holds_recvs;
  shared = std::move(made.shared);
  if (shared != nullptr) shared->move_to(*this);
  peer = std::move(made.peer);
  if (peer != nullptr) peer->move_to(*this);
  frame_sends = made.frame_sends;
  frames_in_flight = std::exchange(made.frames_in_flight, 0);
  granted = made.granted;
  send_credits = made.send_credits;
  recv_credits = made.recv_credits;
  reserved_slots = std::exchange(made.reserved_slots, 0);
  counted = std::exchange(made.counted, false);
  reason = std::move(made.reason);
  peer_data = std::move(made.peer_data);
  if (!made.ending.linked()) return;
  made.ending.unlink();
  blame(*made.cause);
  via->end_later(*this);
}

// In their order, and checked again: now the limits are known.
void endpoint_core::start_waiting() noexcept {
  CORDMA_ASSERT_OP(state, ==, endpoint_state::connected);
  const bool fence = std::exchange(fence_next, false);
  list<post_base> first;
  for (list<post_base>* waiting : {&waiting_recvs, &waiting_sends}) {
    first.splice_back(*waiting);
    while (!first.empty()) first.pop_front().do_start();
  }
  fence_next = fence;
  refresh_open();
  if (early == nullptr) return;
  const std::unique_ptr<early_frames> messages = std::move(early);
  messages->start_all();
}

}  // namespace cordma::detail

#include <cordma/net/datapath/endpoint_core.hpp>

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/worker_core.hpp>

#include <atomic>
#include <utility>

namespace cordma::detail {

using transport::opcode;

endpoint_core::endpoint_core() = default;

endpoint_core::~endpoint_core() {
  unlink();  // before any member is destroyed: a report may run at any time
  forget_windows();
  if (worker_ == nullptr) return;
  CORDMA_ASSERT_OP(inflight(), ==, 0U);
  CORDMA_ASSERT_OP(received_.orphans, ==, 0U);
  CORDMA_ASSERT(received_.posted.empty() && received_.kept.empty());
  CORDMA_ASSERT(!sends_.is_waited_for() && !recvs_.is_waited_for() && held_.all.empty());
  CORDMA_ASSERT(!life_.is_waited_for() && resolvers_.empty());
  worker_->take_back(share_);
}

// ---- construction ----

void endpoint_core::adopt(worker_core& owner, std::unique_ptr<transport::queue_pair> p,
                          adapter_poller& made_with) {
  CORDMA_ASSERT(worker_ == nullptr && pair_ == nullptr);
  CORDMA_ASSERT(p != nullptr);
  worker_ = &owner;
  home_ = &owner.home();
  context_ = owner.shared_context();
  if (rail_ == nullptr) owner.count_endpoint(share_);
  pair_ = std::move(p);
  pair_->set_user(this);
  go_by(made_with.domain().caps());
  route_.via = &made_with;
  granted_ = pair_->actual();
  // If this or a later step throws, nothing is in flight.
  if (granted_.shared != nullptr) {
    static_cast<completion_sink*>(granted_.shared->user())->on_joined(*this);
  }
  grant(pair_->actual());
  // A trace records every message, so each message then takes a receive.
  if (route_.caps->plain_in_place && granted_.shared == nullptr && owner.trace() == nullptr) {
    held_.how = receiving::held;
    pair_->set_in_place(this);
  }
  owner.reserve(share_, granted_.send_depth + granted_.recv_depth);
}

void endpoint_core::go_by(const transport::capabilities& caps) noexcept {
  route_.caps = &caps;
  route_.kind = static_cast<std::size_t>(caps.transport);
  route_.key_place = transport::remote_keys::place_of(caps.transport);
}

void endpoint_core::grant(const transport::queue_pair_options& granted) noexcept {
  CORDMA_ASSERT_OP(granted.send_depth, >=, traffic_.sends);
  granted_ = granted;
  granted_.send_depth -= traffic_.sends;
  sends_.resize(granted_.send_depth);
  recvs_.resize(granted_.recv_depth);
}

void endpoint_core::serve(link_owner& rail, std::uint32_t sends) noexcept {
  rail_ = &rail;
  traffic_.sends = sends;
}

void endpoint_core::await_wiring(worker_core& owner, const transport::capabilities& until_then,
                                 const endpoint_options& asked) {
  CORDMA_ASSERT(worker_ == nullptr && pair_ == nullptr);
  CORDMA_ASSERT_OP(state(), ==, endpoint_state::connecting);
  worker_ = &owner;
  home_ = &owner.home();
  context_ = owner.shared_context();
  go_by(until_then);
  route_.plain_needs = post_base::aside::keys;
  granted_ = asked;
  granted_.send_depth = granted_.recv_depth = 0;  // no queue entries: everything waits
  told_.reason = "not connected yet";
}

void endpoint_core::on_wired(endpoint_core& made) noexcept {
  const bool closing = state() == endpoint_state::closing;
  take_over(made);
  if (state() == endpoint_state::closed) return;
  if (!closing) set_state(endpoint_state::connected);
  life_.stand_as(endpoint_state::connected);
  start_waiting();
  if (!closing || state() != endpoint_state::connected) return;
  life_.stand_as(endpoint_state::closing);
  refresh_open();
  begin_close();
}

// Nothing has been posted on `made`: no slot refers to its core.
void endpoint_core::take_over(endpoint_core& made) noexcept {
  if (made.state() == endpoint_state::closed) {
    end(*made.cause());
    return;
  }
  CORDMA_ASSERT(pair_ == nullptr && made.pair_ != nullptr);
  CORDMA_ASSERT_OP(inflight(), ==, 0U);
  CORDMA_ASSERT_OP(made.inflight(), ==, made.traffic_.in_flight);
  CORDMA_ASSERT_OP(share_.slots, ==, 0U);
  CORDMA_ASSERT(made.received_.posted.empty() && made.received_.kept.empty());
  CORDMA_ASSERT(!made.sends_.is_waited_for() && !made.recvs_.is_waited_for());
  CORDMA_ASSERT(made.windows_.empty());
  pair_ = std::move(made.pair_);
  pair_->set_user(this);
  if (pair_->in_place() == &made) pair_->set_in_place(this);
  route_ = made.route_;
  held_.how = made.held_.how;
  shared_ = std::move(made.shared_);
  if (shared_ != nullptr) shared_->move_to(*this);
  traffic_.now = std::move(made.traffic_.now);
  if (traffic_.now != nullptr) traffic_.now->move_to(*this);
  traffic_.sends = made.traffic_.sends;
  traffic_.in_flight = std::exchange(made.traffic_.in_flight, 0);
  granted_ = made.granted_;
  sends_.resize(granted_.send_depth);
  recvs_.resize(granted_.recv_depth);
  share_ = std::exchange(made.share_, {});
  told_ = std::move(made.told_);
  if (!made.ending_.linked()) return;
  made.ending_.unlink();
  blame(*made.cause());
  route_.via->end_later(*this);
}

// Starts the waiting requests in order. They are checked again, because now the limits are known.
void endpoint_core::start_waiting() noexcept {
  CORDMA_ASSERT_OP(state(), ==, endpoint_state::connected);
  const bool fence = std::exchange(fence_next_, false);
  list<post_base> first;
  for (request_line* const line : {&recvs_, &sends_}) {
    first.splice_back(line->waiting());
    while (!first.empty()) first.pop_front().do_start();
  }
  fence_next_ = fence;
  refresh_open();
  if (traffic_.early == nullptr) return;
  const std::unique_ptr<early_frames> messages = std::move(traffic_.early);
  messages->start_all();
}

void endpoint_core::carry(std::unique_ptr<endpoint_frames> frames, std::uint32_t sends) noexcept {
  traffic_.now = std::move(frames);
  traffic_.sends = sends;
}

void endpoint_core::add(window_core& w) noexcept {
  CORDMA_ASSERT(windows_.find([&w](const window_core& each) { return each.name() == w.name(); }) ==
                nullptr);
  windows_.push_back(w);
}

endpoint_counters endpoint_core::counters() const noexcept {
  endpoint_counters all = counters_;
  all.sends += counters_.puts;
  all.rings += counters_.puts;
  all.immediate += counters_.puts;
  return all;
}

// ---- requests ----

void endpoint_core::ring() noexcept {
  if (unrung_ == 0 || pair_ == nullptr) return;
  unrung_ = 0;
  ++counters_.rings;
  pair_->ring();
}

void endpoint_core::publish_receives(const MemoryRegion& word) noexcept {
  posted_word_ = word;
  tell_posted();
}

void endpoint_core::tell_posted() noexcept {
  const std::atomic_ref<std::uint64_t> word(*posted_word_.as<std::uint64_t>().data());
  word.store(counters_.recvs, std::memory_order_release);
}

void endpoint_core::refresh_open() noexcept {
  const bool as_it_comes = state() == endpoint_state::connected && !fence_next_ &&
                           received_.orphans == 0 && !sends_.is_waited_for() &&
                           !recvs_.is_waited_for();
  constexpr std::uint32_t receives = 1U << static_cast<unsigned>(opcode::recv);
  open_to_ = 0;
  // With a trace each post takes the slow path, which records it: the fast path has no branch for
  // that.
  if (as_it_comes && worker_->trace() == nullptr) {
    open_to_ = route_.caps->operations[static_cast<std::size_t>(granted_.type)] & ~receives;
    if (granted_.shared == nullptr) open_to_ |= receives;
    if (frames() != nullptr) open_to_ &= ~messages_bits;
  }
  posts_now_ = open_to_ != 0 && route_.caps->posts_now;
  if (frames() != nullptr) frames()->settle();
}

// ---- end ----

void endpoint_core::on_event(transport::cm_event event) noexcept {
  using type = transport::cm_event::type;
  if (event.what == type::last_receive) {
    if (shared_ != nullptr) shared_->on_last();
  } else if (event.what == type::disconnected) {
    blame(std::move(event.why));
    route_.via->end_later(*this);
  } else if (event.what == type::resolved) {
    on_resolved(event);
  } else if (event.what == type::established) {
    on_established(std::move(event.data));
  } else {
    if (event.what == type::rejected) event.why.with_operation("connect");
    if (connector_ != nullptr) {
      std::exchange(connector_, nullptr)->on_failed(std::move(event));
    } else {
      end(std::move(event.why));
    }
  }
}

void endpoint_core::on_established(std::vector<std::byte> data) noexcept {
  if (state() == endpoint_state::closed) return;  // it ended before this event was processed
  if (told_.peer_data.empty()) told_.peer_data = std::move(data);
  grant(pair_->actual());
  set_state(endpoint_state::connected);
  if (connector_ != nullptr) {
    std::exchange(connector_, nullptr)->on_established();
  } else {
    pump(side::send);
  }
  if (frames() != nullptr) frames()->on_connected();
}

void endpoint_core::on_resolved(const transport::cm_event& event) noexcept {
  resolvers_.for_each([&event](resolve_operation& op) {
    if (op.request_ != event.request) return;
    op.unlink();
    op.on_resolved(event);
  });
}

void endpoint_core::fail_connecting(const failure& why) noexcept {
  if (connector_ == nullptr) return;
  transport::cm_event failed;
  failed.what = transport::cm_event::type::failed;
  failed.why = why;
  std::exchange(connector_, nullptr)->on_failed(std::move(failed));
}

void endpoint_core::close() noexcept {
  const bool unwired = state() == endpoint_state::connecting && wiring_ != nullptr;
  if (state() == endpoint_state::connected || unwired) {
    life_.close_here();
    set_state(endpoint_state::closing);
    begin_close();
  } else if (state() == endpoint_state::connecting) {
    // No peer can execute anything or be notified.
    life_.close_here();
    CORDMA_ASSERT(pair_ != nullptr);
    pair_->abort();
    end({errc::not_connected, "closed before it was connected"});
  }
}

void endpoint_core::abort() noexcept {
  const bool unwired = wiring_ != nullptr;
  if (state() == endpoint_state::closed || (pair_ == nullptr && !unwired)) return;
  if (!home_->enter()) return;
  life_.close_here();
  if (!unwired) pair_->abort();
  end({errc::not_connected, "aborted by this side"});
  wiring_.reset();
}

// The queue pair accesses no buffer any more, and reports nothing.
void endpoint_core::drop_pair() noexcept {
  if (pair_ != nullptr && route_.via != nullptr) route_.via->forget(*pair_);
  pair_.reset();
  if (frames() != nullptr) frames()->on_pair_gone();
  if (rail_ != nullptr) rail_->on_pair_gone();
}

void endpoint_core::begin_close() noexcept {
  if (is_inherited()) return;
  const bool has_frames = frames() != nullptr;
  if (sends_.is_waited_for() || pair_ == nullptr || (has_frames && !frames()->idle())) return;
  ring();
  if (has_frames) frames()->on_closing();
  pair_->disconnect();
}

void endpoint_core::set_state(endpoint_state s) noexcept {
  if (state() == s) return;
  life_.become(s);
  refresh_open();
  life_.resume_waiters(s);
}

void endpoint_core::end(failure why) noexcept {
  blame(std::move(why));
  if (state() == endpoint_state::closed) return;
  flush_waiting();
  if (early() != nullptr) early()->on_end();
  if (frames() != nullptr) frames()->on_end();
  set_state(endpoint_state::closed);
  if (rail_ != nullptr) rail_->on_end();
}

void endpoint_core::flush_waiting() noexcept {
  while (!held_.all.empty()) {
    post_base& op = held_.all.pop_front();
    recvs_.give_back();
    op.complete_failed(flushed(op.op_name()));
  }
  for (request_line* const line : {&sends_, &recvs_}) {
    while (line->is_waited_for()) {
      post_base& op = line->waiting().pop_front();
      op.complete_failed(flushed(op.op_name()));
    }
  }
  while (!resolvers_.empty()) resolvers_.pop_front().fail(flushed("resolve"));
}

void endpoint_core::on_handle_gone() noexcept {
  CORDMA_ASSERT(connector_ == nullptr);
  handle_gone_ = true;
  handle_ = nullptr;
  if (shared_ != nullptr) shared_->forget();
  if (frames() != nullptr) frames()->on_handle_gone();
  while (!received_.kept.empty()) drop_first_kept();
  if (pair_ != nullptr && state() != endpoint_state::closed) pair_->abort();
  end({errc::not_connected, "the Endpoint was destroyed"});
  CORDMA_ASSERT_OP(state(), ==, endpoint_state::closed);
}

void endpoint_core::on_worker_gone(const failure& why) noexcept {
  if (connector_ != nullptr) connector_->on_worker_gone();
  end(why);
  drop_pair();
}

void endpoint_core::leave_worker() noexcept {
  worker_ = nullptr;
  home_ = nullptr;
  route_.via = nullptr;
}

void endpoint_core::leave_to_parent(const failure& why) noexcept {
  if (pair_ != nullptr && route_.via->kept()) static_cast<void>(pair_.release());
  end(why);
  drop_pair();
}

}  // namespace cordma::detail

#include <cordma/net/datapath/worker_core.hpp>

#include <cordma/net/datagram.hpp>
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/memory_window.hpp>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace cordma::detail {

using transport::completion;
using transport::opcode;

worker_core::worker_core(std::shared_ptr<context_core> context, reactor& home)
    : context_(std::move(context)),
      anchor_(std::make_shared<worker_anchor>(worker_anchor{this, context_.get()})),
      home_(home) {
  const result<void> usable = context_->usable();
  if (!usable) throw_error(usable.why());
  home_.start_tracing();
  trace_ = home_.trace();
  grow();
  open_adapters();
  std::vector<adapter_poller*> added;
  for (const auto* const list : {&adapters_, &rail_adapters_}) {
    for (const auto& a : *list) {
      const result<void> adding = home_.add(*a);
      if (adding) {
        added.push_back(a.get());
        continue;
      }
      for (adapter_poller* const before : added) home_.remove(*before);
      throw_error(adding.why());
    }
  }
  home_.add(section_);
}

// A transport that was not requested by name does not stop the others. Rails keep their indexes.
void worker_core::open_adapters() {
  for (const auto& d : context_->domains) {
    result<std::unique_ptr<transport::adapter>> a = d->open(home_);
    if (a) {
      adapters_.push_back(std::make_unique<adapter_poller>(*this, *d, std::move(*a)));
      continue;
    }
    missing_.emplace_back(d->caps().transport, a.why());
    if (!context_->by_default) throw_error(a.why());
  }
  if (adapters_.empty() && !missing_.empty()) throw_error(missing_.front().second);
  for (const auto& d : context_->rail_domains) {
    result<std::unique_ptr<transport::adapter>> a = d->open(home_);
    if (!a) throw_error(a.why());
    rail_adapters_.push_back(std::make_unique<adapter_poller>(*this, *d, std::move(*a)));
  }
}

std::string worker_core::left_out(const std::optional<transport::kind>& only) const {
  return detail::left_out(context_->missing, only) + detail::left_out(missing_, only);
}

worker_core::~worker_core() {
  enter_to_destroy();
  section_.unlink();
  for (const auto& a : adapters_) home_.remove(*a);
  for (const auto& a : rail_adapters_) home_.remove(*a);
  *anchor_ = {};
  while (!listeners_.empty()) {
    const std::size_t before = listeners_.size();
    listeners_.back()->on_worker_gone();
    CORDMA_ASSERT_OP(listeners_.size(), <, before);
  }
  drop_wirings();
  const failure gone{errc::shutdown, "the Worker was destroyed"};
  device_events_.shut_down(gone);
  endpoints_.for_each([&gone](endpoint_core& e) { e.on_worker_gone(gone); });
  graveyard_.for_each([](endpoint_core& e) { e.drop_pair(); });
  for (completion_sink* const s : sinks_) {
    if (s != nullptr) s->on_worker_gone();
  }
  for (const auto& c : chunks_) {
    for (slot& s : c->slots) {
      if (s.endpoint == nullptr) continue;
      if (s.op != nullptr) {
        CORDMA_ASSERT(s.op->slot_ == &s);
        s.op->slot_ = nullptr;
        s.op->complete_failed(s.endpoint->flushed(s.op->op_name()));
      }
      CORDMA_ASSERT_OP(s.pinned, <=, s.pins.size());
      for (std::uint8_t i = 0; i < s.pinned; ++i) release(*s.pins[i]);
    }
  }
  // The reactor may be destroyed right after this: objects that outlive it must not use it.
  while (!endpoints_.empty()) endpoints_.pop_front().leave_worker();
  while (!graveyard_.empty()) {
    endpoint_core* const e = &graveyard_.pop_front();
    e->leave_worker();
    delete e;
  }
}

void worker_core::add(request_acceptor& l) {
  CORDMA_ASSERT_OP(std::ranges::count(listeners_, &l), ==, 0);
  listeners_.push_back(&l);
}

void worker_core::remove(const request_acceptor& l) noexcept {
  const auto removed = std::erase(listeners_, &l);  // none if it could not be opened
  CORDMA_ASSERT_OP(removed, <=, 1U);
}

void worker_core::reserve(worker_share& share, std::uint32_t slots) {
  const std::size_t wanted = std::min<std::size_t>(reserved_slots_ + slots, most_reserved);
  while (slots_ < wanted) grow();
  reserved_slots_ += slots;
  share.slots = slots;
}

void worker_core::take_back(const worker_share& share) noexcept {
  CORDMA_ASSERT_OP(reserved_slots_, >=, share.slots);
  reserved_slots_ -= share.slots;
  if (!share.is_counted) return;
  CORDMA_ASSERT_OP(endpoint_count_, >, 0U);
  --endpoint_count_;
}

void worker_core::grow() {
  CORDMA_ASSERT_OP(slots_, ==, chunks_.size() * slots_per_chunk);
  auto made = std::make_unique<slot_chunk>();
  if (has_peers_) made->peers = std::make_unique<decltype(made->peers)::element_type>();
  growing_ = true;
  chunks_.push_back(std::move(made));  // nothing throws from here: ids are positions in the chunks
  for (std::uint32_t i = slots_per_chunk; i-- > 0;) {
    slot& s = chunks_.back()->slots[i];
    s.id = request_id(slots_ + i, 0);
    s.next = std::exchange(first_free_, &s);
  }
  slots_ += slots_per_chunk;
  growing_ = false;
}

// Allocates eight registered bytes for each slot, for the old values of atomics.
result<void> worker_core::prepare_words(std::uint32_t index) noexcept {
  slot_chunk& c = *chunks_[index / slots_per_chunk];
  if (c.words) return {};
  try {
    result<MemoryRegion> words = allocate(context_, slots_per_chunk * 8, access::local_write);
    if (!words) return words.why();
    CORDMA_ASSERT_OP(words->size(), >=, slots_per_chunk * sizeof(std::uint64_t));
    c.words = std::move(*words);
    return {};
  } catch (const std::bad_alloc&) {
    return errc::no_memory;
  }
}

void worker_core::make_peers() {
  for (const auto& c : chunks_) {
    if (c->peers == nullptr) c->peers = std::make_unique<decltype(c->peers)::element_type>();
  }
  has_peers_ = true;
}

// Prepares an operation's additional resource. The word of an atomic is added to the request when
// it is posted.
result<void> worker_core::set_aside(post_base& op, std::uint32_t index) noexcept {
  if (op.aside_ == post_base::aside::word) return prepare_words(index);
  if (op.aside_ == post_base::aside::window) return static_cast<bind_base&>(op).prepare();
  if (op.aside_ == post_base::aside::keys) op.find_keys();
  if (op.aside_ == post_base::aside::peer) {
    peer_of(index) = static_cast<datagram_base&>(op).peer_;
  }
  return {};
}

template <class Which>
void worker_core::end_all(Which which, const failure& why) noexcept {
  const auto end = [&](endpoint_core& e) {
    if (!which(e)) return;
    e.end(why);
    e.drop_pair();
    if (e.shared() != nullptr) e.shared()->on_last();
  };
  endpoints_.for_each(end);
  graveyard_.for_each(end);
  completion flushed;
  flushed.status = transport::wc_status::wr_flush_err;
  for (std::uint32_t i = 0; i < slots_; ++i) {
    slot& s = at(i);
    if (s.endpoint == nullptr || s.arrived || !which(*s.endpoint)) continue;
    CORDMA_ASSERT(s.op == nullptr || s.op->slot_ == &s);
    complete(s, flushed);
  }
  // Each posted request got one completion.
  const auto settled = [&](const endpoint_core& e) {
    if (!which(e)) return;
    CORDMA_ASSERT_OP(e.sends_in_flight(), ==, 0U);
    CORDMA_ASSERT_OP(e.recvs_in_flight(), ==, 0U);
  };
  endpoints_.for_each(settled);
  graveyard_.for_each(settled);
  endpoints_.for_each([&](endpoint_core& e) {
    if (which(e)) e.fail_connecting(why);
  });
}

void worker_core::give_up(adapter_poller& via) noexcept {
  via.set_broken();
  const failure why = via.why_broken();
  end_all([&via](const endpoint_core& e) { return e.via() == &via; }, why);
  for (request_acceptor* const l : listeners_) l->lose(via, why);
}

void worker_core::end_users_of(const transport::receive_queue& queue, const failure& why) noexcept {
  end_all([&queue](const endpoint_core& e) { return e.granted().shared == &queue; }, why);
}

void worker_core::add(completion_sink& s) {
  const auto free = std::ranges::find(sinks_, nullptr);
  s.count_as(static_cast<std::uint32_t>(free - sinks_.begin()));
  CORDMA_ASSERT_OP(s.number(), <=, generation_mask);
  if (free == sinks_.end()) {
    sinks_.push_back(&s);
  } else {
    *free = &s;
  }
}

void worker_core::remove(completion_sink& s) noexcept {
  CORDMA_ASSERT_OP(s.number(), <, sinks_.size());
  CORDMA_ASSERT(sinks_[s.number()] == &s);
  sinks_[s.number()] = nullptr;
}

bool worker_core::may_share(const endpoint_options& options, transport::kind over) const noexcept {
  if (options.shared == nullptr) return true;
  // A queue without a sink is refused by the transport.
  const auto* const sink = static_cast<const completion_sink*>(options.shared->user());
  return sink == nullptr || sink->kind() == static_cast<std::size_t>(over);
}

void worker_core::on_sink_completion(const adapter_poller& via, const completion& c) noexcept {
  const auto number = generation_of(c.id);
  const bool is_there = number < sinks_.size() && !via.broken();
  completion_sink* const s = is_there ? sinks_[number] : nullptr;
  if (s == nullptr || !s->on_completion(index_of(c.id), c)) ++stale_completions_;
}

void worker_core::detach(post_base& op) noexcept {
  CORDMA_ASSERT(op.slot_ != nullptr);
  slot& s = *std::exchange(op.slot_, nullptr);
  CORDMA_ASSERT(s.op == &op);
  CORDMA_ASSERT_OP(op.request_.segment_count, <=, s.pins.size());
  s.op = nullptr;
  s.pinned = 0;
  if (op.lease_) {
    s.lease = std::move(op.lease_);
    return;
  }
  if (op.aside_ == post_base::aside::window) {
    retain(*op.regions_[0]);
    s.pins[s.pinned++] = op.regions_[0];
    return;
  }
  for (std::uint16_t i = 0; i < op.request_.segment_count; ++i) {
    if (op.regions_[i] == nullptr) continue;
    retain(*op.regions_[i]);
    s.pins[s.pinned++] = op.regions_[i];
  }
}

void worker_core::bury(std::unique_ptr<endpoint_core> e) noexcept {
  CORDMA_ASSERT(e->worker() == this);
  e->on_handle_gone();
  if (e->inflight() == 0) {
    e->drop_pair();
    return;
  }
  e->unlink();
  graveyard_.push_back(*e.release());
  take_care();
}

void worker_core::take_care() noexcept {
  for (const auto* const all : {&adapters_, &rail_adapters_}) {
    for (const auto& via : *all) via->take_care();
  }
}

void worker_core::limit(std::size_t most) noexcept {
  may_complete_ = most;
  take_care();
}

void worker_core::sweep() noexcept {
  graveyard_.for_each([](endpoint_core& e) {
    CORDMA_ASSERT(e.handle_gone());
    if (e.inflight() == 0) delete &e;
  });
}

void worker_core::on_event(adapter_poller& via, transport::cm_event event) noexcept {
  using type = transport::cm_event::type;
  if (trace_ != nullptr) [[unlikely]]
    trace_event(event);
  if (event.what == type::connect_request) {
    CORDMA_ASSERT(event.from != nullptr && event.from->user != nullptr);
    static_cast<request_acceptor*>(event.from->user)->on_request(std::move(event));
    return;
  }
  if (event.what == type::listener_ended) {
    CORDMA_ASSERT(event.from != nullptr && event.from->user != nullptr);
    static_cast<request_acceptor*>(event.from->user)->lose(via, event.why);
    return;
  }
  if (event.what == type::device) {
    device_events_.push(event.about);
    return;
  }
  if (event.what == type::receives_low) {
    CORDMA_ASSERT(event.queue != nullptr && event.queue->user() != nullptr);
    static_cast<completion_sink*>(event.queue->user())->on_low();
    return;
  }
  CORDMA_ASSERT(event.pair != nullptr && event.pair->user() != nullptr);
  auto* const e = static_cast<endpoint_core*>(event.pair->user());
  CORDMA_ASSERT(e->pair() == event.pair);
  CORDMA_ASSERT(e->via() == &via);
  e->on_event(std::move(event));
}

result<void> worker_core::wake_for(transport::wake_reason reason) {
  std::string unable;
  for (const auto& via : adapters_) {
    const transport::capabilities& caps = via->domain().caps();
    if (caps.wakes_selectively || reason == transport::wake_reason::everything) continue;
    unable += (unable.empty() ? "" : " and ") + std::string(transport::name(caps.transport));
  }
  if (!unable.empty()) {
    return failure{errc::not_supported,
                   "every message wakes its receiver on " + unable +
                       ": only a Context of verbs alone can sleep through some of them"};
  }
  for (const auto& via : adapters_) {
    const result<void> told = via->adapter().wake_for(reason);
    if (!told) return told;
  }
  for (const auto& via : rail_adapters_) {
    const result<void> told = via->adapter().wake_for(reason);
    if (!told) return told;
  }
  home_.stir();  // a foreign loop waits on events armed for the other reason
  return {};
}

result<DatagramEndpoint> worker_core::datagram(endpoint_options options,
                                               std::optional<transport::kind> over) {
  options.type = transport::service::ud;
  std::string asked;
  for (const auto& via : adapters_) {
    const transport::capabilities& caps = via->domain().caps();
    if (over && *over != caps.transport) continue;
    asked += (asked.empty() ? "" : ", ") + std::string(transport::name(caps.transport));
    if (!caps.supports(options.type, opcode::send)) continue;
    make_peers();
    result<std::unique_ptr<endpoint_core>> e = create(options, *via);
    if (!e) return e.why();
    (*e)->set_state(endpoint_state::connected);
    return DatagramEndpoint(std::move(*e));
  }
  return failure{errc::not_supported,
                 asked.empty()
                     ? left_out(over) + "this Worker has no such transport"
                     : "no datagrams on " + asked + ": these transports carry connections only"};
}

result<std::unique_ptr<endpoint_core>> worker_core::create(const endpoint_options& options,
                                                           adapter_poller& via) {
  if (is_full()) return failure{errc::full, "the Worker's limit of endpoints is reached"};
  if (via.broken()) return via.why_broken();
  result<std::unique_ptr<transport::queue_pair>> pair = via.adapter().create(options);
  if (!pair) return pair.why();
  auto e = std::make_unique<endpoint_core>();
  e->adopt(*this, std::move(*pair), via);
  add(*e);
  return e;
}

std::vector<send_operation> worker_core::flush_all() {
  std::vector<send_operation> flushes;
  flushes.reserve(endpoint_count_);
  endpoints_.for_each([&flushes](endpoint_core& e) {
    if (e.state() != endpoint_state::connected || e.is_rail()) return;
    if (!e.caps().supports(e.granted().type, opcode::flush)) return;
    flushes.push_back(send_operation(e, opcode::flush).start());
  });
  return flushes;
}

void worker_core::drop_wirings() {
  std::vector<std::unique_ptr<connection_attempt>> all;
  endpoints_.for_each([&all](endpoint_core& e) {
    if (e.is_unwired()) all.push_back(e.take_wiring());
  });
}

// ---- in a child of fork() ----

// Changes only memory: coroutines that receive these ends never run, since their frames are
// destroyed next.
void worker_core::leave_to_parent() noexcept {
  if (std::exchange(left_to_parent_, true)) return;
  for (const auto* const list : {&adapters_, &rail_adapters_}) {
    for (const auto& a : *list) a->leave_to_parent();
  }
  for (request_acceptor* const l : listeners_) l->leave_to_parent();
  const failure why = made_before_fork();
  const auto leave = [&why](endpoint_core& e) { e.leave_to_parent(why); };
  endpoints_.for_each(leave);
  graveyard_.for_each(leave);
}

}  // namespace cordma::detail

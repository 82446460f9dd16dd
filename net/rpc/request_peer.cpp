// The requests of one connection: greetings, windows, and to whom what comes belongs.
#include <cordma/net/rpc/request_core.hpp>

#include <cordma/net/datapath/option_bounds.hpp>

#include <new>

namespace cordma::detail {

using protocol::request_header;
using protocol::request_kind;
using protocol::request_outcome;

namespace {

constexpr std::uint32_t most_pending = 1U << 20;

}  // namespace

failure breach_of_requests(const char* what) {
  return failure::of(errc::connection_aborted, {"the peer broke the protocol of requests: ", what});
}

void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept {
  request_peer* const peer = core.met_by(from);
  if (peer != nullptr) peer->on_message(std::move(message));
}

void on_requests_end(request_peer& peer) noexcept { peer.on_end(); }

bool is_idle(request_peer& peer) noexcept { return peer.is_idle(); }

// ---- outgoing_word ----

void outgoing_word::send(endpoint_core& to, const request_header& h, const Slice& data,
                         bool announced, void (*when_done)(void*) noexcept, void* with) noexcept {
  const std::size_t n = protocol::bytes_of(h);
  protocol::encode(h, header);
  told = when_done;
  context = with;
  const auto id = protocol::to_word(
      {.id = protocol::request_id_of_messages, .header = static_cast<std::uint16_t>(n)});
  op.emplace(to, protocol::frame_kind::am_eager, id, std::span(&data, 1),
             std::span<const std::byte>(header).first(n));
  op->set_own();
  if (announced) op->announce();
  op->start();
  if (op->done()) return told(context);
  op->observe(
      [](operation_base&, void* at) noexcept {
        const auto& self = *static_cast<outgoing_word*>(at);
        self.told(self.context);
      },
      this);
}

result<void> outgoing_word::take() noexcept {
  result<void> sent = op->take_result();
  op.reset();
  return sent;
}

bool went_out(const result<void>& sent) noexcept {
  switch (sent.code()) {
    case errc::ok:
    case errc::rejected:
    case errc::truncated:
    case errc::io_failed: return true;
    default: return false;
  }
}

failure cut_off() noexcept {
  return {errc::connection_reset, "the connection ended before the answer"};
}

// ---- request_core ----

request_core::request_core(Messages& of, const request_options& o)
    : messages(&of.core()), home(messages->home), options(o), tasks(*home) {
  const std::uint32_t credits = messages->options.credits;
  if (credits < 2) {
    throw_error({errc::invalid_value,
                 "message_options::credits is 1: requests need at least 2, for answers"});
  }
  require_within("request_options::window", o.window, 1, credits - 1);
  require_within("request_options::most_calls", o.most_calls, 1, most_pending);
  require_positive("request_options::hello_timeout", o.hello_timeout);
  if (o.most_bytes == 0) {
    throw_error({errc::invalid_value, "request_options::most_bytes is 0: it is at least 1"});
  }
  if (messages->requests != nullptr) {
    throw_error({errc::in_use, "there are Requests for these Messages already"});
  }
  if (!home->on_owner_thread()) {
    throw_error(home->wrong_thread("Requests may only be made on the thread of their Worker"));
  }
  messages->requests = this;
  for (const std::unique_ptr<frame_port>& port : messages->ports) {
    port->peers.for_each([this](peer_core& p) {
      request_peer* const peer = p.greeting ? met_by(p) : nullptr;
      if (peer != nullptr) peer->on_hello(*std::exchange(p.greeting, std::nullopt));
    });
  }
}

request_core::~request_core() {
  if (messages->anchor->worker != nullptr) messages->anchor->worker->enter_to_destroy();
  const failure gone{errc::shutdown, "its Requests are gone"};
  for (const auto& p : peers) {
    if (p->below != nullptr) p->fail(gone);
  }
  messages->requests = nullptr;
  messages->unwired.for_each([this](early_messages& e) { e.on_requests_gone(*this); });
  // What is on its way goes while the memory it is from is there for sure: with the handlers theirs goes.
  for (const auto& a : all_asked) {
    a->reading.reset();
    a->answer.reset();
    a->request.op.reset();
    a->withdrawal.op.reset();
    if (a->op == nullptr) continue;
    if (!a->outcome) a->outcome = gone;
    a->tell();
  }
  for (const auto& h : all_held) {
    h->writing.reset();
    h->word.op.reset();
    if (h->answerer == nullptr) continue;
    h->outcome = gone;
    h->tell_answerer();
  }
}

request_peer* request_core::peer_on(peer_core& below) noexcept {
  if (below.requests != nullptr) return below.requests;
  reap();
  try {
    peers.push_back(std::make_unique<request_peer>(*this, below));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  below.requests = peers.back().get();
  return below.requests;
}

request_peer* request_core::met_by(peer_core& below) noexcept {
  request_peer* const peer = peer_on(below);
  if (peer == nullptr) below.fail(errc::no_memory);
  return peer;
}

void request_core::reap() noexcept {
  std::erase_if(peers, [](const auto& p) { return p->is_over(); });
}

asked* request_core::take_asked() noexcept {
  if (free_asked == nullptr) {
    try {
      all_asked.push_back(std::make_unique<asked>());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    asked& made = *all_asked.back();
    made.core = this;
    made.index = static_cast<std::uint32_t>(all_asked.size() - 1);
    return &made;
  }
  asked* const a = free_asked;
  free_asked = a->next_free;
  return a;
}

void request_core::release(asked& a) noexcept {
  a.unlink();
  a.peer = nullptr;
  ++a.generation;
  a.keeps_request = MemoryRegion();
  a.keeps_room = MemoryRegion();
  a.outcome.reset();
  a.redirect.clear();
  a.next_free = std::exchange(free_asked, &a);
}

held_request* request_core::take_held() noexcept {
  if (free_held == nullptr) {
    try {
      all_held.push_back(std::make_unique<held_request>());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    all_held.back()->core = this;
    return all_held.back().get();
  }
  held_request* const h = free_held;
  free_held = h->next_free;
  return h;
}

void request_core::release(held_request& h) noexcept {
  h.unlink();
  h.peer = nullptr;
  h.message.reset();
  h.keeps = MemoryRegion();
  h.outcome.reset();
  h.unwanted.reset();
  if (h.deadline.pending()) home->remove(h.deadline);
  h.next_free = std::exchange(free_held, &h);
}

// ---- request_peer ----

request_peer::request_peer(request_core& of, peer_core& on)
    : core(&of), below(&on), window(static_cast<std::uint16_t>(of.options.window)) {}

bool request_peer::is_over() const noexcept {
  return below == nullptr && unanswered == 0 && held.empty() && calls.empty() && !word.busy();
}

// What the peer has asked, and nobody has answered yet, is not waited for. Messages are seen to below.
bool request_peer::is_idle() noexcept {
  const auto wanted = [](const asked& a) { return a.op != nullptr; };
  const auto half_said = [](const held_request& h) { return h.word_due; };
  return waiting.empty() && calls.find(wanted) == nullptr && held.find(half_said) == nullptr;
}

void request_peer::fail(failure why) noexcept {
  if (below != nullptr) below->fail(std::move(why));
}

bool request_peer::is_long(std::size_t header, std::uint64_t size) const noexcept {
  const bool fits = below != nullptr && below->theirs &&
                    protocol::head_bytes + header + size <= below->theirs->eager_bytes;
  return size > core->options.inline_max || !fits;
}

bool request_peer::is_announced(const request_call& op) const noexcept {
  const std::uint64_t size = op.request_.size();
  return size != 0 && (core->options.force_read || is_long(protocol::request_bytes, size));
}

bool request_peer::has_place(const request_call& op) const noexcept {
  if (!credits || credits->available() == 0) return false;
  if (is_announced(op) && announced >= std::max(below->theirs->offers / 2, 1U)) return false;
  if (op.how_ == request_call::manner::notify) return true;
  return unanswered < core->options.most_calls &&
         (bytes == 0 || bytes + op.request_.size() <= core->options.most_bytes);
}

void request_peer::start(request_call& op) noexcept {
  say_what_is_due();
  if (below == nullptr) return op.fail({errc::connection_reset, "the connection has just ended"});
  const bool at_once = waiting.empty() && has_place(op) &&
                       !(op.would_not_wait() && !below->sends_now(is_announced(op)));
  if (at_once) {
    asked* const a = core->take_asked();
    if (a == nullptr) return op.fail(errc::no_memory);
    return a->launch(*this, op);
  }
  op.set_phase(operation_base::phase::queued);
  waiting.push_back(op);
  if (!credits && !silence.pending()) {
    core->home->add(silence, after(core->home->now(), core->options.hello_timeout));
  }
}

void request_peer::pump() noexcept {
  if (std::exchange(pumping, true)) return;
  while (below != nullptr && !waiting.empty() && has_place(waiting.front())) {
    request_call& op = waiting.pop_front();
    asked* const a = core->take_asked();
    if (a == nullptr) {
      op.fail(errc::no_memory);
    } else {
      a->launch(*this, op);
    }
  }
  pumping = false;
  close_if_due();
}

void request_peer::close_if_due() noexcept {
  if (below != nullptr && endpoint().state == endpoint_state::closing) below->pump();
}

void request_peer::on_silent() noexcept {
  while (!waiting.empty()) {
    waiting.pop_front().fail({errc::not_supported, "the peer serves no requests: it said nothing"});
  }
  close_if_due();
}

void request_peer::say_what_is_due() noexcept {
  if (below == nullptr || word.busy()) return;
  request_header h{.kind = request_kind::given};
  if (!hello_said) {
    hello_said = true;
    h.kind = request_kind::hello;
  } else if (credits && window.has_to_say()) {
    ++core->counters.words_given;
  } else {
    return;
  }
  h.given = given();
  word.send(
      endpoint(), h, Slice(), false,
      [](void* at) noexcept {
        auto& self = *static_cast<request_peer*>(at);
        if (!went_out(self.word.take())) return self.window.unsay();
        self.say_what_is_due();
      },
      this);
}

void request_peer::on_unsent() noexcept {
  if (below == nullptr) return;
  window.unsay();
  say_what_is_due();
}

void request_peer::on_end() noexcept {
  const failure flushed = endpoint().flushed("call");
  failure reset = cut_off();
  reset.with_cause(endpoint().cause);
  below->requests = nullptr;
  below = nullptr;
  if (silence.pending()) core->home->remove(silence);
  while (!waiting.empty()) waiting.pop_front().fail(flushed);
  held.for_each(
      [](held_request& h) { h.withdraw(errc::connection_reset, request_outcome::canceled); });
  calls.for_each([&reset](asked& a) { a.end(reset); });
}

void request_peer::on_message(ActiveMessage message) noexcept {
  const result<request_header> h = protocol::decode_request(message.header());
  if (!h) return fail(h.why());
  if ((h->kind == request_kind::hello) == credits.has_value()) {
    return fail(breach_of_requests(credits ? "a second hello" : "it did not begin with a hello"));
  }
  const bool is_word = h->kind != request_kind::request && h->kind != request_kind::response;
  if (is_word && message.size() != 0) return fail(breach_of_requests("a word with data"));
  if (h->kind == request_kind::hello) return on_hello(*h);
  if (!credits->on_given(h->given)) return fail(breach_of_requests("more requests than it takes"));
  switch (h->kind) {
    case request_kind::request: on_request(*h, std::move(message)); break;
    case request_kind::response: on_response(*h, std::move(message)); break;
    case request_kind::cancel: on_cancel(h->id); break;
    default: break;
  }
  pump();
}

void request_peer::on_hello(const request_header& h) noexcept {
  if (h.given == 0 || h.given > protocol::most_credits) {
    return fail(breach_of_requests("a window outside its bounds"));
  }
  credits.emplace(h.given);
  if (silence.pending()) core->home->remove(silence);
  say_what_is_due();
  pump();
}

void request_peer::on_request(const request_header& h, ActiveMessage message) noexcept {
  if (!window.take()) return fail(breach_of_requests("more requests than its window"));
  held_request* const r = core->take_held();
  if (r == nullptr) return fail(errc::no_memory);
  r->begin(*this, h, std::move(message));
}

void request_peer::on_response(const request_header& h, ActiveMessage message) noexcept {
  const auto index = static_cast<std::uint32_t>(h.id);
  asked* const a = index < core->all_asked.size() ? core->all_asked[index].get() : nullptr;
  if (a == nullptr || a->peer != this || a->id() != h.id || a->answered) {
    return fail(breach_of_requests("an answer to what was not asked"));
  }
  a->on_response(h, std::move(message));
}

void request_peer::on_cancel(std::uint64_t id) noexcept {
  held_request* const h = held.find([id](const held_request& r) { return r.head.id == id; });
  if (h == nullptr) {
    ++core->counters.withdrawn_unknown;
  } else if (h->withdraw(errc::canceled, request_outcome::canceled)) {
    ++core->counters.withdrawn;
  } else {
    ++core->counters.withdrawn_late;
  }
}

}  // namespace cordma::detail

#include <cordma/net/rpc/request_core.hpp>

#include <cordma/net/datapath/option_bounds.hpp>

#include <new>
#include <utility>

namespace cordma::detail {

namespace {

constexpr std::uint32_t most_pending = 1U << 20;

}  // namespace

void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept {
  request_peer* const peer = core.met_by(from);
  if (peer != nullptr) peer->on_message(std::move(message));
}

void on_requests_end(request_peer& peer) noexcept { peer.on_end(); }

bool is_idle(request_peer& peer) noexcept { return peer.is_idle(); }

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
    CORDMA_ASSERT(p->below == nullptr && p->waiting.empty());
  }
  CORDMA_ASSERT(messages->requests == this);
  messages->requests = nullptr;
  messages->unwired.for_each([this](early_messages& e) { request_call::fail_early(e, *this); });
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
  CORDMA_ASSERT_OP(a->index, <, all_asked.size());
  free_asked = a->next_free;
  return a;
}

void request_core::release(asked& a) noexcept {
  CORDMA_ASSERT(a.op == nullptr && a.answered);
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
  CORDMA_ASSERT(!h.running && !h.held && h.answerer == nullptr);
  CORDMA_ASSERT_OP(h.at, !=, held_request::stage::open);
  h.unlink();
  h.peer = nullptr;
  h.message.reset();
  h.keeps = MemoryRegion();
  h.outcome.reset();
  h.unwanted.reset();
  if (h.deadline.pending()) home->remove(h.deadline);
  h.next_free = std::exchange(free_held, &h);
}

}  // namespace cordma::detail

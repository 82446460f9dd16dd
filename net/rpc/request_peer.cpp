// The requests of one connection: greetings, windows, and to whom what comes belongs.
#include <cordma/net/rpc/request_core.hpp>

#include <new>

namespace cordma::detail {

using protocol::request_header;
using protocol::request_kind;
using protocol::request_outcome;

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
  CORDMA_ASSERT(below != nullptr && below->requests == this);
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
  CORDMA_ASSERT(waiting.empty());
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

// The requests of one connection: hello messages, windows, and the dispatch of received messages.
#include <cordma/net/rpc/request_core.hpp>

#include <new>

namespace cordma::detail {

using protocol::request_header;
using protocol::request_kind;
using protocol::request_outcome;

request_peer::request_peer(request_core& of, peer_core& on)
    : core_(&of), below_(&on), window_(static_cast<std::uint16_t>(of.options().window)) {}

bool request_peer::is_over() const noexcept {
  return below_ == nullptr && unanswered_ == 0 && held_.empty() && calls_.empty() && !word_.busy();
}

// Unanswered requests of the peer do not count. Messages are handled by the layer below.
bool request_peer::is_idle() noexcept {
  const auto wanted = [](const asked& a) { return a.is_wanted(); };
  const auto half_said = [](const held_request& h) { return h.is_half_said(); };
  return waiting_.empty() && calls_.find(wanted) == nullptr && held_.find(half_said) == nullptr;
}

void request_peer::fail(failure why) noexcept {
  if (below_ != nullptr) below_->fail(std::move(why));
}

bool request_peer::is_long(std::size_t header, std::uint64_t size) const noexcept {
  const bool fits = below_ != nullptr && below_->theirs() &&
                    protocol::head_bytes + header + size <= below_->theirs()->eager_bytes;
  return size > core_->options().inline_max || !fits;
}

bool request_peer::is_announced(const request_call& op) const noexcept {
  const std::uint64_t size = op.request_.size();
  return size != 0 && (core_->options().force_read || is_long(protocol::request_bytes, size));
}

bool request_peer::has_place(const request_call& op) const noexcept {
  if (!credits_ || credits_->available() == 0) return false;
  if (is_announced(op) && announced_ >= std::max(below_->theirs()->offers / 2, 1U)) return false;
  if (op.how_ == request_call::manner::notify) return true;
  return unanswered_ < core_->options().most_calls &&
         (bytes_ == 0 || bytes_ + op.request_.size() <= core_->options().most_bytes);
}

void request_peer::start(request_call& op) noexcept {
  say_what_is_due();
  if (below_ == nullptr) return op.fail({errc::connection_reset, "the connection has just ended"});
  const bool at_once = waiting_.empty() && has_place(op) &&
                       !(op.would_not_wait() && !below_->sends_now(is_announced(op)));
  if (at_once) {
    asked* const a = core_->take_asked();
    if (a == nullptr) return op.fail(errc::no_memory);
    return a->launch(*this, op);
  }
  op.set_phase(operation_base::phase::queued);
  waiting_.push_back(op);
  if (!credits_ && !silence_.pending()) {
    core_->home().add(silence_, after(core_->home().now(), core_->options().hello_timeout));
  }
}

void request_peer::pump() noexcept {
  if (std::exchange(pumping_, true)) return;
  while (below_ != nullptr && !waiting_.empty() && has_place(waiting_.front())) {
    request_call& op = waiting_.pop_front();
    asked* const a = core_->take_asked();
    if (a == nullptr) {
      op.fail(errc::no_memory);
    } else {
      a->launch(*this, op);
    }
  }
  pumping_ = false;
  close_if_due();
}

void request_peer::close_if_due() noexcept {
  if (below_ != nullptr && endpoint().state() == endpoint_state::closing) below_->pump();
}

void request_peer::on_silent() noexcept {
  while (!waiting_.empty()) {
    waiting_.pop_front().fail(
        {errc::not_supported, "the peer serves no requests: it said nothing"});
  }
  close_if_due();
}

void request_peer::say_what_is_due() noexcept {
  if (below_ == nullptr || word_.busy()) return;
  request_header h{.kind = request_kind::given};
  if (!hello_said_) {
    hello_said_ = true;
    h.kind = request_kind::hello;
  } else if (credits_ && window_.has_to_say()) {
    ++core_->counters().words_given;
  } else {
    return;
  }
  h.given = given();
  word_.send(
      endpoint(), h, Slice(), false,
      [](void* at) noexcept {
        auto& self = *static_cast<request_peer*>(at);
        if (!went_out(self.word_.take())) return self.window_.unsay();
        self.say_what_is_due();
      },
      this);
}

void request_peer::on_unsent() noexcept {
  if (below_ == nullptr) return;
  window_.unsay();
  say_what_is_due();
}

void request_peer::on_end() noexcept {
  CORDMA_ASSERT(below_ != nullptr && below_->requests() == this);
  const failure flushed = endpoint().flushed("call");
  failure reset = cut_off();
  reset.with_cause(endpoint().cause());
  below_->carry(nullptr);
  below_ = nullptr;
  if (silence_.pending()) core_->home().remove(silence_);
  while (!waiting_.empty()) waiting_.pop_front().fail(flushed);
  held_.for_each(
      [](held_request& h) { h.withdraw(errc::connection_reset, request_outcome::canceled); });
  calls_.for_each([&reset](asked& a) { a.end(reset); });
  CORDMA_ASSERT(waiting_.empty());
}

void request_peer::on_message(ActiveMessage message) noexcept {
  const result<request_header> h = protocol::decode_request(message.header());
  if (!h) return fail(h.why());
  if ((h->kind == request_kind::hello) == credits_.has_value()) {
    return fail(breach_of_requests(credits_ ? "a second hello" : "it did not begin with a hello"));
  }
  const bool is_word = h->kind != request_kind::request && h->kind != request_kind::response;
  if (is_word && message.size() != 0) return fail(breach_of_requests("a word with data"));
  if (h->kind == request_kind::hello) return on_hello(*h);
  if (!credits_->on_given(h->given)) return fail(breach_of_requests("more requests than it takes"));
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
  credits_.emplace(h.given);
  if (silence_.pending()) core_->home().remove(silence_);
  say_what_is_due();
  pump();
}

void request_peer::on_request(const request_header& h, ActiveMessage message) noexcept {
  if (!window_.take()) return fail(breach_of_requests("more requests than its window"));
  held_request* const r = core_->take_held();
  if (r == nullptr) return fail(errc::no_memory);
  r->begin(*this, h, std::move(message));
}

void request_peer::on_response(const request_header& h, ActiveMessage message) noexcept {
  asked* const a = core_->asked_at(static_cast<std::uint32_t>(h.id));
  if (a == nullptr || !a->awaits(*this, h.id)) {
    return fail(breach_of_requests("an answer to what was not asked"));
  }
  a->on_response(h, std::move(message));
}

void request_peer::on_cancel(std::uint64_t id) noexcept {
  held_request* const h = held_.find([id](const held_request& r) { return r.head().id == id; });
  if (h == nullptr) {
    ++core_->counters().withdrawn_unknown;
  } else if (h->withdraw(errc::canceled, request_outcome::canceled)) {
    ++core_->counters().withdrawn;
  } else {
    ++core_->counters().withdrawn_late;
  }
}

}  // namespace cordma::detail

// The asking side of requests: from the call to its outcome, of which there is exactly one.
#include <cordma/net/rpc/request_core.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::detail {

using protocol::request_header;
using protocol::request_kind;
using protocol::request_outcome;

namespace {

// Rounded up: the peer does not give up first.
std::uint64_t microseconds_until(time_point when, time_point now) noexcept {
  if (when == never) return 0;
  const auto left = std::chrono::ceil<std::chrono::microseconds>(when - now).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(left, 1));
}

void keep(MemoryRegion& place, const Slice& s) noexcept {
  if (s.region() == nullptr) return;
  retain(*s.region());
  place = MemoryRegion(s.region());
}

failure too_late() { return {errc::timed_out, "no answer within its timeout"}; }

failure to_failure(const request_header& h, std::uint64_t room) {
  switch (h.outcome) {
    case request_outcome::truncated:
      return failure::of(errc::truncated,
                         {"a response of ", h.bytes, " bytes, the room has ", room});
    case request_outcome::no_handler: return {errc::not_found, "the peer serves no such method"};
    case request_outcome::failed: return {errc::rejected, "its handler failed at the peer"};
    case request_outcome::unanswered: return {errc::rejected, "its handler gave no answer"};
    case request_outcome::timed_out: return too_late();
    case request_outcome::redirected:
      return failure::of(errc::rejected, {"it is to be asked at ", h.address});
    default: return errc::canceled;
  }
}

}  // namespace

void asked::launch(request_peer& to, request_call& by) noexcept {
  peer = &to;
  op = &by;
  how = by.how_;
  by.asked_ = this;
  by.set_phase(operation_base::phase::posted);
  room = by.room_;
  room_bytes = room.size();
  bytes = by.request_.size();
  response = {};
  withdrawn = late = false;
  answered = how == request_call::manner::notify;
  to.calls.push_back(*this);
  ++to.unanswered;
  to.bytes += bytes;
  to.credits->take();

  endpoint_core& e = to.endpoint();
  const time_point now = core->home->now();
  request_header h{.kind = request_kind::request, .given = to.given(), .method = by.method_};
  h.id = id();
  const time_point until = by.alarm_.pending() ? by.alarm_.when() : never;
  h.microseconds_left = microseconds_until(until, now);
  if (how != request_call::manner::call) h.flags = protocol::request_flag::one_way;
  if (how == request_call::manner::notify_acked) h.flags |= protocol::request_flag::receipt;
  h.room_bytes = room_bytes;
  writable = false;
  if (room.size() != 0) {
    const region_core& region = *room.region();
    writable = has(region.range.rights, access::remote_write) && region.keys[e.kind].rkey != 0 &&
               has(e.granted.remote_access, access::remote_write);
    if (writable) {
      h.flags |= protocol::request_flag::writable;
      h.room_addr = reinterpret_cast<std::uintptr_t>(room.data());
      h.room_rkey = region.keys[e.kind].rkey;
    }
  }
  announced = to.is_announced(by);
  to.announced += announced ? 1 : 0;
  request.send(
      e, h, by.request_, announced, [](void* at) noexcept { static_cast<asked*>(at)->on_sent(); },
      this);
}

// What had left when the connection ended may be at the peer. Why it ended, a call learns with its end.
void asked::on_sent() noexcept {
  const bool left = request.op->left();
  const result<void> sent = request.take();
  const bool unsent = !went_out(sent);
  request_peer& to = *peer;
  if (unsent && to.below != nullptr) to.credits->put_back();
  const bool is_word = how == request_call::manner::notify;
  const bool cut = left && sent.code() == errc::flushed;
  const bool lost = !sent && (is_word || (unsent && !answered && !cut));
  if (lost && !outcome) {
    if (cut) {
      outcome = cut_off().with_cause(to.endpoint().cause);
    } else {
      outcome = late && sent.code() == errc::canceled ? too_late() : sent.why();
    }
    answered = true;
  }
  if (answered) {
    settle();
  } else if (late) {
    end_late();
  }
  if (unsent) to.on_unsent();
}

// Where nothing of it is touched any more: the answer is dropped when it comes.
void asked::end_late() noexcept {
  if (op == nullptr || answered || writable) return;
  if (request.busy() && request.op->reads_memory()) return;
  if (request.busy()) keep(keeps_request, op->request_);
  room = {};
  request_call& ended = *std::exchange(op, nullptr);
  ended.asked_ = nullptr;
  ended.fail(too_late());
  peer->close_if_due();
}

void asked::on_response(const request_header& h, ActiveMessage message) noexcept {
  const auto refuse = [this](const char* what) { peer->fail(breach_of_requests(what)); };
  const bool written = (h.flags & protocol::response_flag::written) != 0;
  const bool along = h.outcome == request_outcome::ok && !written;
  if (message.size() != (along ? h.bytes : 0)) return refuse("a response of another length");
  if (h.outcome == request_outcome::ok && h.bytes > room_bytes) {
    return refuse("a response longer than its room");
  }
  if (written && !writable) return refuse("a response written where there is no room");
  answered = true;
  if (op == nullptr) ++core->counters.late_responses;
  if (h.outcome != request_outcome::ok) {
    const bool by_deadline = late && h.outcome == request_outcome::canceled;
    outcome = by_deadline ? too_late() : to_failure(h, room_bytes);
    try {
      redirect = h.address;
    } catch (const std::bad_alloc&) {
      outcome = errc::no_memory;
    }
    return settle();
  }
  response = {.bytes = static_cast<std::size_t>(h.bytes), .written = written};
  request_counters& count = core->counters;
  if (written) ++count.responses_written;
  if (!along || op == nullptr) return settle();
  if (message.data().size() == message.size()) {
    ++count.responses_along;
    if (h.bytes != 0) std::memcpy(room.data(), message.data().data(), h.bytes);
    return settle();
  }
  ++count.responses_read;
  answer.emplace(std::move(message));
  reading.emplace(answer->read(room.first(response.bytes)));
  reading->start();
  if (reading->done()) return on_read();
  reading->observe([](operation_base&, void* at) noexcept { static_cast<asked*>(at)->on_read(); },
                   this);
}

void asked::on_read() noexcept {
  const result<TagReceived> got = reading->take_result();
  reading.reset();
  answer.reset();
  if (!got && !outcome) {
    outcome = got.code() == errc::flushed ? cut_off() : got.why();
  }
  settle();
}

void asked::withdraw() noexcept {
  if (answered || std::exchange(withdrawn, true)) return;
  if (request.busy() && request.op->state() == operation_base::phase::queued) {
    return request.op->cancel();
  }
  if (peer->below == nullptr) return;
  withdrawal.send(
      peer->endpoint(), {.kind = request_kind::cancel, .given = peer->given(), .id = id()}, Slice(),
      false,
      [](void* at) noexcept {
        auto& self = *static_cast<asked*>(at);
        request_peer& to = *self.peer;
        const result<void> sent = self.withdrawal.take();
        self.settle();
        if (!went_out(sent)) to.on_unsent();
      },
      this);
}

void asked::leave() noexcept {
  if (request.busy()) keep(keeps_request, op->request_);
  if (writable || reading) {
    keep(keeps_room, room);
  } else {
    room = {};
  }
  op = nullptr;
  request_peer& to = *peer;
  withdraw();
  to.close_if_due();
}

void asked::end(const failure& why) noexcept {
  const bool done = request.busy() && request.op->done();
  const result<void> sent = done ? request.op->take_result() : result<void>();
  const bool arrived = done && went_out(sent);
  const bool is_word = how == request_call::manner::notify;
  if (!outcome && (is_word ? request.busy() && !arrived : !answered)) {
    const bool never_left = done && !arrived && !request.op->left();
    outcome = never_left ? sent.why() : why;
  }
  answered = true;
  settle();
}

void asked::settle() noexcept {
  if (!answered || request.busy() || reading) return;
  if (op != nullptr) tell();
  if (withdrawal.busy() || peer == nullptr) return;
  request_peer& was = *peer;
  --was.unanswered;
  was.bytes -= bytes;
  was.announced -= announced ? 1 : 0;
  core->release(*this);
  was.pump();
}

void asked::tell() noexcept {
  request_call& ended = *std::exchange(op, nullptr);
  ended.asked_ = nullptr;
  ended.response_ = response;
  ended.redirect_.swap(redirect);
  if (outcome) {
    ended.fail(std::move(*outcome));
  } else {
    ended.succeed();
  }
}

// ---- request_call ----

request_call::request_call(request_core& core, endpoint_core& to, manner how, std::uint16_t method,
                           const Slice& request, const Slice& room, duration timeout) noexcept
    : operation_base(core.home),
      core_(&core),
      endpoint_(&to),
      how_(how),
      method_(method),
      request_(request),
      room_(room),
      timeout_(timeout),
      alarm_(*this) {}

request_call::request_call(request_call&& other) noexcept
    : operation_base(std::move(other)),
      core_(other.core_),
      endpoint_(other.endpoint_),
      asked_(std::exchange(other.asked_, nullptr)),
      how_(other.how_),
      method_(other.method_),
      request_(other.request_),
      room_(other.room_),
      timeout_(other.timeout_),
      alarm_(*this),
      response_(other.response_),
      redirect_(std::move(other.redirect_)),
      failure_(std::move(other.failure_)) {
  if (asked_ != nullptr) asked_->op = this;
  if (!other.alarm_.pending()) return;
  const time_point when = other.alarm_.when();
  home()->remove(other.alarm_);
  home()->add(alarm_, when);
}

request_call::~request_call() {
  if (state() == phase::queued && linked()) leave_queue();
  if (asked_ != nullptr) asked_->leave();
}

const char* request_call::op_name() const noexcept {
  switch (how_) {
    case manner::call: return "call";
    case manner::notify: return "notify";
    case manner::notify_acked: return "notify_acked";
  }
  return "";
}

void request_call::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation(op_name()));
  succeed();
}

void request_call::succeed() noexcept {
  if (alarm_.pending()) home()->remove(alarm_);
  finish();
}

std::optional<failure> request_call::obstacle() const {
  const endpoint_core& e = *endpoint_;
  if (e.worker == nullptr) return failure{errc::shutdown, "its Worker is gone"};
  if (e.is_plain()) return plain_messages();
  if (std::optional<failure> ended = e.why_not(op_name())) return ended;
  const message_core* const below = e.messages();
  if (below == nullptr) return failure{errc::shutdown, "its Messages are gone"};
  if (below != core_->messages) {
    return failure{errc::invalid_value, "the Endpoint is of other Messages than these Requests"};
  }
  const auto foreign = [&e](const Slice& s) {
    return s.size() != 0 && s.region()->context != e.context;
  };
  if (foreign(request_) || foreign(room_)) {
    return failure{errc::invalid_value, "a slice belongs to another Context"};
  }
  if (room_.size() != 0 && !has(room_.region()->range.rights, access::local_write)) {
    return failure{errc::invalid_value, "the room for the response needs access::local_write"};
  }
  if (request_.size() > core_->options.most_bytes) {
    return failure::of(errc::invalid_value,
                       {"a request of ", request_.size(),
                        " bytes: request_options::most_bytes are ", core_->options.most_bytes});
  }
  return {};
}

void request_call::do_start() noexcept {
  if (!home()->on_owner_thread()) {
    return fail(home()->wrong_thread("Requests may only be used on the thread of their Worker"));
  }
  if (std::optional<failure> why = obstacle()) return fail(std::move(*why));
  if (timeout_ < duration::zero()) return fail(too_late());
  if (timeout_ > duration::zero()) home()->add(alarm_, after(home()->now(), timeout_));
  if (endpoint_->early != nullptr) return endpoint_->early->start(*this);
  go();
}

void request_call::go() noexcept {
  request_peer* const peer = core_->peer_on(*endpoint_->peer);
  if (peer == nullptr) return fail(errc::no_memory);
  peer->start(*this);
}

void request_call::do_cancel() noexcept {
  if (asked_ != nullptr) return asked_->withdraw();
  leave_queue();
  fail(errc::canceled);
}

// Those behind it may have room for what they want.
void request_call::leave_queue() noexcept {
  unlink();
  peer_core* const below = endpoint_->peer.get();
  if (below != nullptr && below->requests != nullptr) below->requests->pump();
}

void request_call::on_deadline() noexcept {
  if (asked_ == nullptr) {
    leave_queue();
    return fail(too_late());
  }
  asked& a = *asked_;
  if (a.answered) return;
  a.late = true;
  a.withdraw();
  if (asked_ != nullptr) a.end_late();
}

}  // namespace cordma::detail

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
  CORDMA_ASSERT(peer == nullptr && op == nullptr && !outcome);
  CORDMA_ASSERT(!request.busy() && !withdrawal.busy() && !reading);
  CORDMA_ASSERT(by.asked_ == nullptr);
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
  CORDMA_ASSERT(ended.asked_ == this);
  ended.asked_ = nullptr;
  ended.fail(too_late());
  peer->close_if_due();
}

void asked::on_response(const request_header& h, ActiveMessage message) noexcept {
  CORDMA_ASSERT(peer != nullptr && !answered);
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
    CORDMA_ASSERT_OP(h.bytes, <=, room.size());
    if (h.bytes != 0) std::memcpy(room.data(), message.data().data(), h.bytes);
    return settle();
  }
  ++count.responses_read;
  CORDMA_ASSERT(!answer && !reading);
  CORDMA_ASSERT_OP(response.bytes, <=, room.size());
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
  CORDMA_ASSERT(op != nullptr && peer != nullptr);
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
  CORDMA_ASSERT_OP(was.unanswered, >, 0U);
  CORDMA_ASSERT_OP(was.bytes, >=, bytes);
  CORDMA_ASSERT_OP(was.announced, >=, announced ? 1U : 0U);
  --was.unanswered;
  was.bytes -= bytes;
  was.announced -= announced ? 1 : 0;
  core->release(*this);
  was.pump();
}

void asked::tell() noexcept {
  request_call& ended = *std::exchange(op, nullptr);
  CORDMA_ASSERT(ended.asked_ == this);
  ended.asked_ = nullptr;
  ended.response_ = response;
  ended.redirect_.swap(redirect);
  if (outcome) {
    ended.fail(std::move(*outcome));
  } else {
    ended.succeed();
  }
}

}  // namespace cordma::detail

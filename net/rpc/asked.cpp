// The calling side of requests: from the call to its outcome, of which there is exactly one.
#include <cordma/net/rpc/request_core.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::detail {

using protocol::request_header;
using protocol::request_kind;
using protocol::request_outcome;

namespace {

// Rounded up, so that the peer does not give up first.
std::uint64_t microseconds_until(time_point when, time_point now) noexcept {
  if (when == never) return 0;
  const auto left = std::chrono::ceil<std::chrono::microseconds>(when - now).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(left, 1));
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
  CORDMA_ASSERT(peer_ == nullptr && op_ == nullptr && !outcome_);
  CORDMA_ASSERT(!request_.busy() && !withdrawal_.busy() && !reading_);
  CORDMA_ASSERT(by.asked_ == nullptr);
  peer_ = &to;
  op_ = &by;
  how_ = by.how_;
  by.asked_ = this;
  by.set_phase(operation_base::phase::posted);
  room_ = by.room_;
  room_bytes_ = room_.size();
  bytes_ = by.request_.size();
  response_ = {};
  at_ = transport::checked_state(how_ == request_call::manner::notify ? stage::answered
                                                                      : stage::open);
  announced_ = to.is_announced(by);
  to.take_place(*this, bytes_, announced_);

  endpoint_core& e = to.endpoint();
  const time_point now = core_->home().now();
  request_header h{.kind = request_kind::request, .given = to.given(), .method = by.method_};
  h.id = id();
  const time_point until = by.alarm_.pending() ? by.alarm_.when() : never;
  h.microseconds_left = microseconds_until(until, now);
  if (how_ != request_call::manner::call) h.flags = protocol::request_flag::one_way;
  if (how_ == request_call::manner::notify_acked) h.flags |= protocol::request_flag::receipt;
  h.room_bytes = room_bytes_;
  writable_ = false;
  if (room_.size() != 0) {
    const region_core& region = *room_.region();
    writable_ = has(region.range.rights, access::remote_write) && region.keys[e.kind()].rkey != 0 &&
                has(e.granted().remote_access, access::remote_write);
    if (writable_) {
      h.flags |= protocol::request_flag::writable;
      h.room_addr = reinterpret_cast<std::uintptr_t>(room_.data());
      h.room_rkey = region.keys[e.kind()].rkey;
    }
  }
  request_.send(
      e, h, by.request_, announced_, [](void* at) noexcept { static_cast<asked*>(at)->on_sent(); },
      this);
}

// A request that was sent before the connection ended may have reached the peer. A call gets the
// cause from end().
void asked::on_sent() noexcept {
  const bool left = request_.left();
  const result<void> sent = request_.take();
  const bool unsent = !went_out(sent);
  request_peer& to = *peer_;
  if (unsent) to.put_back_credit();
  const bool is_word = how_ == request_call::manner::notify;
  const bool cut = left && sent.code() == errc::flushed;
  const bool lost = !sent && (is_word || (unsent && at_ != stage::answered && !cut));
  if (lost && !outcome_) {
    if (cut) {
      outcome_ = cut_off().with_cause(to.endpoint().cause());
    } else {
      outcome_ = at_ == stage::late && sent.code() == errc::canceled ? too_late() : sent.why();
    }
    at_.become(stage::answered);
  }
  if (at_ == stage::answered) {
    settle();
  } else if (at_ == stage::late) {
    end_late();
  }
  if (unsent) to.on_unsent();
}

// Ends the call at its deadline if its memory is no longer accessed; a later response is dropped.
void asked::end_late() noexcept {
  if (op_ == nullptr || at_ == stage::answered || writable_) return;
  if (request_.reads_memory()) return;
  if (request_.busy()) keep(keeps_request_, op_->request_);
  room_ = {};
  request_call& ended = *std::exchange(op_, nullptr);
  CORDMA_ASSERT(ended.asked_ == this);
  ended.asked_ = nullptr;
  ended.fail(too_late());
  peer_->close_if_due();
}

void asked::on_response(const request_header& h, ActiveMessage message) noexcept {
  CORDMA_ASSERT(peer_ != nullptr && at_ != stage::answered);
  const auto refuse = [this](const char* what) { peer_->fail(breach_of_requests(what)); };
  const bool written = (h.flags & protocol::response_flag::written) != 0;
  const bool along = h.outcome == request_outcome::ok && !written;
  if (message.size() != (along ? h.bytes : 0)) return refuse("a response of another length");
  if (h.outcome == request_outcome::ok && h.bytes > room_bytes_) {
    return refuse("a response longer than its room");
  }
  if (written && !writable_) return refuse("a response written where there is no room");
  if (op_ == nullptr) ++core_->counters().late_responses;
  if (h.outcome != request_outcome::ok) {
    const bool by_deadline = at_ == stage::late && h.outcome == request_outcome::canceled;
    at_.become(stage::answered);
    outcome_ = by_deadline ? too_late() : to_failure(h, room_bytes_);
    try {
      redirect_ = h.address;
    } catch (const std::bad_alloc&) {
      outcome_ = errc::no_memory;
    }
    return settle();
  }
  at_.become(stage::answered);
  response_ = {.bytes = static_cast<std::size_t>(h.bytes), .written = written};
  request_counters& count = core_->counters();
  if (written) ++count.responses_written;
  if (!along || op_ == nullptr) return settle();
  if (message.data().size() == message.size()) {
    ++count.responses_along;
    CORDMA_ASSERT_OP(h.bytes, <=, room_.size());
    if (h.bytes != 0) std::memcpy(room_.data(), message.data().data(), h.bytes);
    return settle();
  }
  ++count.responses_read;
  CORDMA_ASSERT(!answer_ && !reading_);
  CORDMA_ASSERT_OP(response_.bytes, <=, room_.size());
  answer_.emplace(std::move(message));
  reading_.emplace(answer_->read(room_.first(response_.bytes)));
  reading_->start();
  if (reading_->done()) return on_read();
  reading_->observe([](operation_base&, void* at) noexcept { static_cast<asked*>(at)->on_read(); },
                    this);
}

void asked::on_read() noexcept {
  const result<TagReceived> got = reading_->take_result();
  reading_.reset();
  answer_.reset();
  if (!got && !outcome_) {
    outcome_ = got.code() == errc::flushed ? cut_off() : got.why();
  }
  settle();
}

void asked::withdraw() noexcept {
  if (at_ != stage::open) return;
  at_.become(stage::withdrawn);
  say_withdrawn();
}

void asked::on_deadline() noexcept {
  if (at_ == stage::answered) return;
  const request_call* const by = op_;
  const bool is_news = at_ == stage::open;
  at_.become(stage::late);
  if (is_news) say_withdrawn();
  if (op_ == by) end_late();
}

void asked::say_withdrawn() noexcept {
  if (request_.cancel_if_queued() || !peer_->is_up()) return;
  withdrawal_.send(
      peer_->endpoint(), {.kind = request_kind::cancel, .given = peer_->given(), .id = id()},
      Slice(), false,
      [](void* at) noexcept {
        auto& self = *static_cast<asked*>(at);
        request_peer& to = *self.peer_;
        const result<void> sent = self.withdrawal_.take();
        self.settle();
        if (!went_out(sent)) to.on_unsent();
      },
      this);
}

void asked::leave() noexcept {
  CORDMA_ASSERT(op_ != nullptr && peer_ != nullptr);
  if (request_.busy()) keep(keeps_request_, op_->request_);
  if (writable_ || reading_) {
    keep(keeps_room_, room_);
  } else {
    room_ = {};
  }
  op_ = nullptr;
  request_peer& to = *peer_;
  withdraw();
  to.close_if_due();
}

void asked::end(const failure& why) noexcept {
  const bool done = request_.done();
  const result<void> sent = done ? request_.outcome() : result<void>();
  const bool arrived = done && went_out(sent);
  const bool is_word = how_ == request_call::manner::notify;
  if (!outcome_ && (is_word ? request_.busy() && !arrived : at_ != stage::answered)) {
    const bool never_left = done && !arrived && !request_.left();
    outcome_ = never_left ? sent.why() : why;
  }
  at_.become(stage::answered);
  settle();
}

void asked::settle() noexcept {
  if (at_ != stage::answered || request_.busy() || reading_) return;
  if (op_ != nullptr) tell();
  if (withdrawal_.busy() || peer_ == nullptr) return;
  CORDMA_ASSERT(op_ == nullptr);
  request_peer& was = *std::exchange(peer_, nullptr);
  was.leave_place(*this, bytes_, announced_);
  ++generation_;
  keeps_request_ = MemoryRegion();
  keeps_room_ = MemoryRegion();
  outcome_.reset();
  redirect_.clear();
  core_->release(*this);
  was.pump();
}

void asked::tell() noexcept {
  request_call& ended = *std::exchange(op_, nullptr);
  CORDMA_ASSERT(ended.asked_ == this);
  ended.asked_ = nullptr;
  ended.response_ = response_;
  ended.redirect_.swap(redirect_);
  if (outcome_) {
    ended.fail(std::move(*outcome_));
  } else {
    ended.succeed();
  }
}

void asked::drop(const failure& why) noexcept {
  reading_.reset();
  answer_.reset();
  request_.drop();
  withdrawal_.drop();
  if (op_ == nullptr) return;
  if (!outcome_) outcome_ = why;
  tell();
}

}  // namespace cordma::detail

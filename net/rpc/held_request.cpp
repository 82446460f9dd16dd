// The answering side of requests: from the arrival to the one response, and on to the handler's
// end.
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/rpc/request_core.hpp>

#include <cordma/net/datapath/posting.hpp>

#include <algorithm>
#include <new>

namespace cordma::detail {

using protocol::request_header;
using protocol::request_kind;
using protocol::request_outcome;

namespace {

constexpr std::uint64_t most_microseconds = std::uint64_t{1} << 50;  // 35 years; more means never

// Ends with the handler's task, however it ends.
class running_mark {
 public:
  explicit running_mark(held_request& h) noexcept : held_(h) {}
  running_mark(const running_mark&) = delete;
  running_mark& operator=(const running_mark&) = delete;
  ~running_mark() { held_.on_handler_ended(); }

 private:
  held_request& held_;
};

// Keeps the handler: replacing it does not destroy a running one.
task<void> run_handler(held_request& held, std::shared_ptr<const request_handler> handler) {
  const running_mark until_the_end(held);
  task<void> body;
  try {
    body = (*handler)(Request(held));
    co_await body;
  } catch (...) {
    held.on_handler_threw();
  }
}

}  // namespace

bool held_request::wants_word() const noexcept {
  return wants_response() || (head_.flags & protocol::request_flag::receipt) != 0;
}

void held_request::begin(request_peer& from, const request_header& h, ActiveMessage m) noexcept {
  CORDMA_ASSERT(peer_ == nullptr && !running_ && !held_);
  CORDMA_ASSERT(!word_.busy() && !writing_ && answerer_ == nullptr);
  CORDMA_ASSERT(!deadline_.pending() && !unwanted_.is_set());
  peer_ = &from;
  head_ = h;
  head_.address = {};
  size_ = m.size();
  const bool along = m.data().size() == size_;
  message_.emplace(std::move(m));
  reading_ = word_due_ = held_ = false;
  running_ = true;
  at_ = transport::checked_state(stage::open);
  why_ = errc::ok;
  until_ = never;
  from.hold(*this);
  request_counters& count = core_->counters();
  ++(along ? count.requests_along : count.requests_read);
  if (h.microseconds_left != 0 && h.microseconds_left < most_microseconds) {
    until_ = after(core_->home().now(), std::chrono::microseconds(h.microseconds_left));
    core_->home().add(deadline_, until_);
  }
  const std::shared_ptr<const request_handler>* const handler = core_->handler_of(h.method);
  if (handler == nullptr) {
    ++count.unserved;
    say(request_outcome::no_handler);
    return on_handler_ended();
  }
  try {
    core_->tasks().spawn(run_handler(*this, *handler));
  } catch (const std::bad_alloc&) {
    on_handler_threw();
    on_handler_ended();
  }
}

// ---- how it ends ----

void held_request::on_handler_threw() noexcept {
  ++core_->counters().handler_failures;
  if (at_ == stage::open) say(request_outcome::failed);
}

void held_request::on_handler_ended() noexcept {
  CORDMA_ASSERT(running_);
  running_ = false;
  if (at_ == stage::open && !wants_response()) {
    say(request_outcome::ok);
  } else if (at_ == stage::open && !held_) {
    say(request_outcome::unanswered);
  }
  release_if_done();
}

void held_request::on_handle_gone() noexcept {
  if (!core_->home().enter_to_destroy()) return;  // it belongs to the parent
  CORDMA_ASSERT(held_);
  held_ = false;
  if (at_ == stage::open && wants_response() && !running_) say(request_outcome::unanswered);
  release_if_done();
}

bool held_request::withdraw(errc because, request_outcome outcome_said) noexcept {
  if (at_ != stage::open) return false;
  say(outcome_said);
  at_.become(stage::unwanted);
  why_ = because;
  unwanted_.set();
  return true;
}

// Releases the caller's memory early.
void held_request::drop_unread() noexcept {
  if (!reading_ && message_ && message_->data().size() != size_) message_.reset();
}

void held_request::release_if_done() noexcept {
  if (running_ || held_ || word_.busy() || writing_ || peer_ == nullptr) return;
  CORDMA_ASSERT(answerer_ == nullptr);
  CORDMA_ASSERT_OP(at_, !=, stage::open);
  request_peer& was = *std::exchange(peer_, nullptr);
  message_.reset();
  keeps_ = MemoryRegion();
  outcome_.reset();
  unwanted_.reset();
  if (deadline_.pending()) core_->home().remove(deadline_);
  core_->release(*this);
  was.let_go(*this);
}

// ---- the answer ----

void held_request::say(request_outcome what, std::uint64_t bytes,
                       std::string_view address) noexcept {
  at_.become(stage::answered);
  if (deadline_.pending()) core_->home().remove(deadline_);
  drop_unread();
  if (!wants_word() || !peer_->is_up()) return;
  word_.send(
      peer_->endpoint(),
      {.kind = request_kind::response,
       .outcome = what,
       .given = peer_->given(),
       .id = head_.id,
       .bytes = bytes,
       .address = address},
      Slice(), false, [](void* of) noexcept { static_cast<held_request*>(of)->on_said(); }, this);
}

failure held_request::why_dropped() const {
  if (why_ == errc::ok) return {errc::bad_state, "it is answered, and was not read before"};
  return {why_, "nobody waits for the response any more"};
}

std::optional<failure> held_request::obstacle(const request_answer& by) const {
  if (at_ == stage::unwanted) return why_dropped();
  if (!wants_response()) return failure{errc::bad_state, "it wants no response"};
  if (at_ != stage::open) return failure{errc::bad_state, "it is answered"};
  if (!peer_->is_up()) return failure{errc::connection_reset, "the connection has ended"};
  const Slice& s = by.response_;
  const endpoint_core& e = peer_->endpoint();
  if (s.size() != 0 && s.region()->touched_in != e.context().get()) return not_of_requests(s, e);
  return {};
}

void held_request::respond(request_answer& by) noexcept {
  if (!core_->home().on_owner_thread()) {
    return by.fail(
        core_->home().wrong_thread("Requests may only be used on the thread of their Worker"));
  }
  if (by.failure_) return by.fail(std::move(*by.failure_));
  if (std::optional<failure> not_now = obstacle(by)) return by.fail(std::move(*not_now));
  const Slice response = by.response_;
  if (response.size() > head_.room_bytes && by.redirect_.empty()) {
    by.fail(failure::of(errc::truncated, {"a response of ", response.size(),
                                          " bytes, its room has ", head_.room_bytes}));
    return say(request_outcome::truncated, response.size());
  }
  by.set_phase(operation_base::phase::posted);
  CORDMA_ASSERT(answerer_ == nullptr);
  by.held_ = this;
  answerer_ = &by;
  if (!by.redirect_.empty()) {
    say(request_outcome::redirected, 0, by.redirect_);
    return settle();
  }
  at_.become(stage::answering);
  if (deadline_.pending()) core_->home().remove(deadline_);
  drop_unread();
  response_size_ = response.size();
  const bool is_long = peer_->is_long(protocol::response_bytes, response.size());
  // While this side closes, messages of the library are still sent, but writes are not.
  const bool writable = (head_.flags & protocol::request_flag::writable) != 0 &&
                        peer_->endpoint().state() == endpoint_state::connected;
  if (writable && response.size() != 0 && (is_long || core_->options().force_write)) {
    return write(response);
  }
  word_.send(
      peer_->endpoint(),
      {.kind = request_kind::response,
       .given = peer_->given(),
       .id = head_.id,
       .bytes = response.size()},
      response, response.size() != 0 && is_long,
      [](void* of) noexcept { static_cast<held_request*>(of)->on_said(); }, this);
}

void held_request::write(const Slice& response) noexcept {
  word_due_ = true;
  unwritten_ = response;
  write_piece();
}

// Writes as much as one request may carry. A response posted behind the last write also arrives
// behind it; if that write waits for a queue entry, the response waits for it.
void held_request::write_piece() noexcept {
  CORDMA_ASSERT(!writing_);
  CORDMA_ASSERT_OP(unwritten_.size(), >, 0U);
  CORDMA_ASSERT_OP(response_size_, <=, head_.room_bytes);
  endpoint_core& e = peer_->endpoint();
  const transport::remote_keys keys(e.caps().transport, head_.room_rkey);
  const std::uint64_t before = response_size_ - unwritten_.size();
  const Slice piece =
      unwritten_.first(std::min<std::uint64_t>(unwritten_.size(), e.caps().max_message));
  unwritten_ = unwritten_.part(piece.size(), unwritten_.size() - piece.size());
  writing_.emplace(e, transport::opcode::write);
  writing_->add(piece);
  writing_->target(RemoteSlice(head_.room_addr + before, piece.size(), keys));
  writing_->start();
  if (writing_->done()) return on_written();
  writing_->observe(
      [](operation_base&, void* of) noexcept { static_cast<held_request*>(of)->on_written(); },
      this);
  if (unwritten_.size() == 0 && writing_->state() == operation_base::phase::posted) say_written();
}

void held_request::say_written() noexcept {
  if (!std::exchange(word_due_, false) || !peer_->is_up()) return;
  word_.send(
      peer_->endpoint(),
      {.kind = request_kind::response,
       .flags = protocol::response_flag::written,
       .given = peer_->given(),
       .id = head_.id,
       .bytes = response_size_},
      Slice(), false, [](void* of) noexcept { static_cast<held_request*>(of)->on_said(); }, this);
}

void held_request::on_written() noexcept {
  const result<void> written = writing_->take_result();
  writing_.reset();
  if (written && unwritten_.size() != 0) return write_piece();
  if (written) {
    say_written();
    return settle();
  }
  outcome_ = written.why();
  // No response was started: the caller is notified of a failure.
  if (std::exchange(word_due_, false)) say(request_outcome::failed);
  settle();
}

void held_request::on_said() noexcept {
  const result<void> said = word_.take();
  if (!said && !outcome_) outcome_ = said.why();
  request_peer& to = *peer_;
  if (!went_out(said) && at_ == stage::answering && to.is_up()) {
    say(request_outcome::failed);
  } else {
    settle();
  }
  if (!went_out(said)) to.on_unsent();
}

void held_request::leave(const request_answer& by) noexcept {
  CORDMA_ASSERT(answerer_ == &by);
  answerer_ = nullptr;
  keep(keeps_, by.response_);
}

void held_request::drop(const failure& why) noexcept {
  writing_.reset();
  word_.drop();
  if (answerer_ == nullptr) return;
  outcome_ = why;
  tell_answerer();
}

void held_request::settle() noexcept {
  if (word_.busy() || writing_) return;
  if (at_ == stage::answering) at_.become(stage::answered);
  tell_answerer();
  keeps_ = MemoryRegion();
  request_peer* const to = peer_;
  release_if_done();
  if (to != nullptr) to->close_if_due();
}

void held_request::tell_answerer() noexcept {
  if (answerer_ == nullptr) return;
  request_answer& by = *std::exchange(answerer_, nullptr);
  CORDMA_ASSERT(by.held_ == this);
  by.held_ = nullptr;
  if (outcome_ && (outcome_->code() == errc::flushed || outcome_->code() == errc::not_connected)) {
    outcome_ = failure(errc::connection_reset, "the connection ended before the response");
  } else if (outcome_ && outcome_->code() == errc::rejected) {
    outcome_ = failure(errc::canceled, "nobody waits for the response any more");
  }
  if (outcome_) {
    by.fail(std::move(*outcome_));
  } else {
    by.finish();
  }
}

}  // namespace cordma::detail

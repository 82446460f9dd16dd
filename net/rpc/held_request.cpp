// The answering side of requests: from the arrival to the one answer, and on to the handler's end.
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

constexpr std::uint64_t most_microseconds = std::uint64_t{1} << 50;  // 35 years; beyond it: never

// However its task ends.
class running_mark {
 public:
  explicit running_mark(held_request& h) noexcept : held_(h) {}
  running_mark(const running_mark&) = delete;
  running_mark& operator=(const running_mark&) = delete;
  ~running_mark() { held_.on_handler_ended(); }

 private:
  held_request& held_;
};

// Keeps the handler: one that is set anew does not end what runs.
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

bool held_request::wants_response() const noexcept {
  return (head.flags & protocol::request_flag::one_way) == 0;
}

bool held_request::wants_word() const noexcept {
  return wants_response() || (head.flags & protocol::request_flag::receipt) != 0;
}

void held_request::begin(request_peer& from, const request_header& h, ActiveMessage m) noexcept {
  CORDMA_ASSERT(peer == nullptr && !running && !held);
  CORDMA_ASSERT(!word.busy() && !writing && answerer == nullptr);
  CORDMA_ASSERT(!deadline.pending() && !unwanted.is_set());
  peer = &from;
  head = h;
  head.address = {};
  size = m.size();
  const bool along = m.data().size() == size;
  message.emplace(std::move(m));
  reading = word_due = held = false;
  running = true;
  at = transport::checked_state(stage::open);
  why = errc::ok;
  until = never;
  from.held.push_back(*this);
  request_counters& count = core->counters;
  ++(along ? count.requests_along : count.requests_read);
  if (h.microseconds_left != 0 && h.microseconds_left < most_microseconds) {
    until = after(core->home->now(), std::chrono::microseconds(h.microseconds_left));
    core->home->add(deadline, until);
  }
  const auto found = core->handlers.find(h.method);
  if (found == core->handlers.end()) {
    ++count.unserved;
    say(request_outcome::no_handler);
    return on_handler_ended();
  }
  try {
    core->tasks.spawn(run_handler(*this, found->second));
  } catch (const std::bad_alloc&) {
    on_handler_threw();
    on_handler_ended();
  }
}

// ---- how it ends ----

void held_request::on_handler_threw() noexcept {
  ++core->counters.handler_failures;
  if (at == stage::open) say(request_outcome::failed);
}

void held_request::on_handler_ended() noexcept {
  CORDMA_ASSERT(running);
  running = false;
  if (at == stage::open && !wants_response()) {
    say(request_outcome::ok);
  } else if (at == stage::open && !held) {
    say(request_outcome::unanswered);
  }
  release_if_done();
}

void held_request::on_handle_gone() noexcept {
  CORDMA_ASSERT(held);
  held = false;
  if (at == stage::open && wants_response() && !running) say(request_outcome::unanswered);
  release_if_done();
}

bool held_request::withdraw(errc because, request_outcome outcome_said) noexcept {
  if (at != stage::open) return false;
  say(outcome_said);
  at.become(stage::unwanted);
  why = because;
  unwanted.set();
  return true;
}

// So that its caller has its memory back.
void held_request::drop_unread() noexcept {
  if (!reading && message && message->data().size() != size) message.reset();
}

void held_request::release_if_done() noexcept {
  if (running || held || word.busy() || writing || peer == nullptr) return;
  request_peer& was = *peer;
  core->release(*this);
  was.window.give_back();
  was.say_what_is_due();
}

// ---- the answer ----

void held_request::say(request_outcome what, std::uint64_t bytes,
                       std::string_view address) noexcept {
  at.become(stage::answered);
  if (deadline.pending()) core->home->remove(deadline);
  drop_unread();
  if (!wants_word() || peer->below == nullptr) return;
  word.send(
      peer->endpoint(),
      {.kind = request_kind::response,
       .outcome = what,
       .given = peer->given(),
       .id = head.id,
       .bytes = bytes,
       .address = address},
      Slice(), false, [](void* of) noexcept { static_cast<held_request*>(of)->on_said(); }, this);
}

std::optional<failure> held_request::obstacle(const request_answer& by) const {
  if (at == stage::unwanted) {
    return failure{why, "nobody waits for the response any more"};
  }
  if (!wants_response()) return failure{errc::bad_state, "it wants no response"};
  if (at != stage::open) return failure{errc::bad_state, "it is answered"};
  if (peer->below == nullptr) return failure{errc::connection_reset, "the connection has ended"};
  const Slice& s = by.response_;
  const endpoint_core& e = peer->endpoint();
  if (s.size() != 0 && s.region()->touched_in != e.context.get()) return not_of_requests(s, e);
  return {};
}

void held_request::respond(request_answer& by) noexcept {
  if (!core->home->on_owner_thread()) {
    return by.fail(
        core->home->wrong_thread("Requests may only be used on the thread of their Worker"));
  }
  if (by.failure_) return by.fail(std::move(*by.failure_));
  if (std::optional<failure> not_now = obstacle(by)) return by.fail(std::move(*not_now));
  const Slice response = by.response_;
  if (response.size() > head.room_bytes && by.redirect_.empty()) {
    by.fail(failure::of(errc::truncated, {"a response of ", response.size(),
                                          " bytes, its room has ", head.room_bytes}));
    return say(request_outcome::truncated, response.size());
  }
  by.set_phase(operation_base::phase::posted);
  CORDMA_ASSERT(answerer == nullptr);
  by.held_ = this;
  answerer = &by;
  if (!by.redirect_.empty()) {
    say(request_outcome::redirected, 0, by.redirect_);
    return settle();
  }
  at.become(stage::answering);
  if (deadline.pending()) core->home->remove(deadline);
  drop_unread();
  response_size = response.size();
  const bool is_long = peer->is_long(protocol::response_bytes, response.size());
  // While this side closes, messages of the library go out, and writes do not.
  const bool writable = (head.flags & protocol::request_flag::writable) != 0 &&
                        peer->endpoint().state == endpoint_state::connected;
  if (writable && response.size() != 0 && (is_long || core->options.force_write)) {
    return write(response);
  }
  word.send(
      peer->endpoint(),
      {.kind = request_kind::response,
       .given = peer->given(),
       .id = head.id,
       .bytes = response.size()},
      response, response.size() != 0 && is_long,
      [](void* of) noexcept { static_cast<held_request*>(of)->on_said(); }, this);
}

void held_request::write(const Slice& response) noexcept {
  word_due = true;
  unwritten = response;
  write_piece();
}

// As much as one request may carry. What is posted behind the last write is behind it at the peer, too; where that
// waits for a place in the queue, the word waits for it.
void held_request::write_piece() noexcept {
  CORDMA_ASSERT(!writing);
  CORDMA_ASSERT_OP(unwritten.size(), >, 0U);
  CORDMA_ASSERT_OP(response_size, <=, head.room_bytes);
  endpoint_core& e = peer->endpoint();
  const transport::remote_keys keys(e.caps->transport, head.room_rkey);
  const std::uint64_t before = response_size - unwritten.size();
  const Slice piece =
      unwritten.first(std::min<std::uint64_t>(unwritten.size(), e.caps->max_message));
  unwritten = unwritten.part(piece.size(), unwritten.size() - piece.size());
  writing.emplace(e, transport::opcode::write);
  writing->add(piece);
  writing->target(RemoteSlice(head.room_addr + before, piece.size(), keys));
  writing->start();
  if (writing->done()) return on_written();
  writing->observe(
      [](operation_base&, void* of) noexcept { static_cast<held_request*>(of)->on_written(); },
      this);
  if (unwritten.size() == 0 && writing->state() == operation_base::phase::posted) say_written();
}

void held_request::say_written() noexcept {
  if (!std::exchange(word_due, false) || peer->below == nullptr) return;
  word.send(
      peer->endpoint(),
      {.kind = request_kind::response,
       .flags = protocol::response_flag::written,
       .given = peer->given(),
       .id = head.id,
       .bytes = response_size},
      Slice(), false, [](void* of) noexcept { static_cast<held_request*>(of)->on_said(); }, this);
}

void held_request::on_written() noexcept {
  const result<void> written = writing->take_result();
  writing.reset();
  if (written && unwritten.size() != 0) return write_piece();
  if (written) {
    say_written();
    return settle();
  }
  outcome = written.why();
  // It never began: the caller hears that there is no response.
  if (std::exchange(word_due, false)) say(request_outcome::failed);
  settle();
}

void held_request::on_said() noexcept {
  const result<void> said = word.take();
  if (!said && !outcome) outcome = said.why();
  request_peer& to = *peer;
  if (!went_out(said) && at == stage::answering && to.below != nullptr) {
    say(request_outcome::failed);
  } else {
    settle();
  }
  if (!went_out(said)) to.on_unsent();
}

void held_request::settle() noexcept {
  if (word.busy() || writing) return;
  if (at == stage::answering) at.become(stage::answered);
  tell_answerer();
  keeps = MemoryRegion();
  request_peer* const to = peer;
  release_if_done();
  if (to != nullptr) to->close_if_due();
}

void held_request::tell_answerer() noexcept {
  if (answerer == nullptr) return;
  request_answer& by = *std::exchange(answerer, nullptr);
  CORDMA_ASSERT(by.held_ == this);
  by.held_ = nullptr;
  if (outcome && (outcome->code() == errc::flushed || outcome->code() == errc::not_connected)) {
    outcome = failure(errc::connection_reset, "the connection ended before the response");
  } else if (outcome && outcome->code() == errc::rejected) {
    outcome = failure(errc::canceled, "nobody waits for the response any more");
  }
  if (outcome) {
    by.fail(std::move(*outcome));
  } else {
    by.finish();
  }
}

}  // namespace cordma::detail

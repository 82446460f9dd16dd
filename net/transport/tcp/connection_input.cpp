// The receiving half of a connection: from bytes to frames, and from frames to their effects.
#include <sys/epoll.h>
#include <sys/uio.h>

#include <cerrno>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/word.hpp>
#include <new>

namespace cordma::transport::tcp {
namespace {

constexpr std::size_t most_direct = 1U << 20;  // bytes per system call, read to their destination
constexpr std::uint32_t large_payload = 16U
                                        << 10;  // bytes; large enough for a separate system call
constexpr std::size_t small_staging = 1024;  // bytes read to the staging buffer with large payloads

std::uint16_t low(std::uint32_t counter) noexcept { return static_cast<std::uint16_t>(counter); }

}  // namespace

void connection::on_ready(std::uint32_t events) noexcept {
  if (life_ == phase::connecting) return on_connected();
  if (life_ == phase::greeting) {
    try {
      return receive_hello();
    } catch (const std::bad_alloc&) {
      return starve();
    }
  }
  if ((events & EPOLLOUT) != 0 && output_.is_full()) unblock_output();
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0 || !socket_) return;
  if (receive() && socket_ && life_.was_open()) home_.found_active(*this);
}

bool connection::receive_staged() noexcept {
  drained_ = false;
  bool any = false;
  for (int i = 0; i < most_reads_per_poll && socket_ && !drained_; ++i) any = receive_once() || any;
  if (!socket_) drained_ = true;
  if (any) after_input();
  return any;
}

[[gnu::always_inline]] inline bool connection::receive_once() noexcept {
  const std::span<std::byte> staging = home_.staging();
  const std::size_t most = staging_limit(staging.size());
  if (in_.has_payload()) [[unlikely]]
    return receive_payload(staging.first(most));
  std::size_t staged = 0;
  const bool any = read_headers(staging.first(most), staged);
  feed(staging.first(staged));
  return any;
}

[[gnu::noinline]] bool connection::receive_payload(std::span<std::byte> staging) noexcept {
  std::size_t staged = 0;
  const bool any = read_payload(staging, staged);
  feed(staging.first(staged));
  return any;
}

std::size_t connection::staging_limit(std::size_t most) const noexcept {
  const bool is_large = in_.expected() >= large_payload;
  return is_large ? std::min(small_staging, most) : most;
}

bool connection::read_payload(std::span<std::byte> staging, std::size_t& staged) noexcept {
  CORDMA_ASSERT(!staging.empty());
  io_list<most_segments + 1> io;
  region_table::pin held;
  const std::size_t direct = aim(io, held);
  io.add(staging.data(), staging.size());
  const std::span<iovec> pieces = io.pieces();
  const ssize_t n = ::readv(socket_.get(), pieces.data(), static_cast<int>(pieces.size()));
  held = {};
  return took(n, io.bytes(), direct, staged);
}

// Accounts for a read of up to `asked` bytes that returned `n`; `direct` of them were read to their
// destination.
bool connection::took(ssize_t n, std::size_t asked, std::size_t direct,
                      std::size_t& staged) noexcept {
  if (n <= 0) return nothing_came(n);
  watch_.on_sign();
  const auto bytes = static_cast<std::size_t>(n);
  drained_ = bytes < asked;
  const std::size_t placed = std::min(bytes, direct);
  if (placed != 0) arrived(placed);
  staged = bytes - placed;
  return true;
}

// True at the end of the stream.
[[gnu::noinline]] bool connection::nothing_came(ssize_t n) noexcept {
  if (n == 0) {
    end_of_stream();
    return true;
  }
  if (errno == EINTR) return false;
  drained_ = true;
  if (errno != EAGAIN) end_of_stream();
  return false;
}

// The destination of the rest of the payload, if it can be read there directly. The region stays
// pinned while it is used.
std::size_t connection::aim(io_list<most_segments + 1>& io, region_table::pin& held) noexcept {
  if (!life_.carries()) return 0;
  const frame& f = in_.head();
  const std::uint32_t offset = in_.offset();
  const std::size_t n = std::min<std::size_t>(in_.left(), most_direct);
  switch (in_.into()) {
    case destination::receive: io.add(receives_.current_segments(), offset, n, 1); break;
    case destination::answer: io.add(sends_.answer_segments(), offset, n, 1); break;
    case destination::region:
      if (f.length == word_bytes) break;  // see place()
      held = target_.pin(f.rkey, f.remote_addr + offset, n, access::remote_write);
      if (held) io.add(held.data(), n);
      break;
    case destination::nowhere:
    case destination::none: break;
  }
  return io.bytes();
}

[[gnu::always_inline]] inline void connection::feed(std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty() && life_.carries()) {
    if (in_.has_payload()) {
      const std::size_t n = std::min<std::size_t>(in_.left(), bytes.size());
      place(bytes.first(n));
      bytes = bytes.subspan(n);
      continue;
    }
    std::size_t used = 0;
    const decoded d = in_.read_header(bytes, used);
    bytes = bytes.subspan(used);
    if (d.what == decoded::outcome::bad) return protocol_error(d.why);
    if (d.what != decoded::outcome::whole) continue;
    if (!counters_fit(d.value)) return protocol_error(impossible_counters);
    carry_out(d.value);
  }
}

void connection::place(std::span<const std::byte> bytes) noexcept {
  const frame& f = in_.head();
  const std::uint32_t offset = in_.offset();
  bool allowed = true;
  switch (in_.into()) {
    case destination::receive: scatter(receives_.current_segments(), offset, bytes); break;
    case destination::answer: scatter(sends_.answer_segments(), offset, bytes); break;
    case destination::region:
      if (f.length == word_bytes) {
        if (in_.add_to_word(bytes)) allowed = target_.store(f, in_.word());
      } else {
        const region_table::pin held =
            target_.pin(f.rkey, f.remote_addr + offset, bytes.size(), access::remote_write);
        allowed = static_cast<bool>(held);
        if (allowed) std::memcpy(held.data(), bytes.data(), bytes.size());
      }
      break;
    case destination::nowhere:
    case destination::none: break;
  }
  if (!allowed) return refuse({wc_status::rem_access_err, "wrote to memory that was deregistered"});
  arrived(bytes.size());
}

void connection::arrived(std::size_t bytes) noexcept {
  if (in_.advance(bytes)) payload_complete();
}

void connection::carry_out(const frame& f) noexcept {
  if (requests_ != peer_requests::carried_out) {
    const bool goes_on = is_request(f.type) || f.type == frame_type::put;
    if (requests_ == peer_requests::over && goes_on) {
      return protocol_error("goes on after its goodbye");
    }
    if (is_request(f.type)) return drop(f);
  }
  switch (f.type) {
    case frame_type::send:
    case frame_type::send_imm:
    case frame_type::send_invalidate: return on_message(f);
    case frame_type::write:
    case frame_type::write_imm: return on_write(f);
    case frame_type::read:
    case frame_type::fetch_add:
    case frame_type::compare_swap: return on_fetch(f);
    case frame_type::flush: acks_.hurry(); return acks_.carried_out(0);
    case frame_type::read_response:
    case frame_type::atomic_response: return on_answer(f);
    case frame_type::nak: return on_nak(f);
    case frame_type::update: return;
    case frame_type::probe: output_.add(frame_type::probe_answer); return;
    case frame_type::probe_answer: return on_probe_answer();
    case frame_type::not_ready: return on_not_ready();
    case frame_type::resumed: return on_resumed();
    case frame_type::goodbye: return on_goodbye();
    case frame_type::put: return on_put(f);
  }
}

// Both counters only grow, and never exceed the number of requests or receives.
[[gnu::always_inline]] inline bool connection::counters_fit(const frame& f) noexcept {
  if (!credits_.grant(f.credit)) return false;
  const auto acked = static_cast<std::uint16_t>(f.ack - low(sends_.acked()));
  return acked == 0 || on_acked(acked);
}

bool connection::on_counters(const frame& f) noexcept { return counters_fit(f); }

[[gnu::noinline]] bool connection::on_acked(std::uint16_t acked) noexcept {
  const std::uint32_t most = sends_.sent() - sends_.acked();
  // The last request counts only if it was sent completely.
  if (acked >= most && (acked > most || output_.has_part_of_request(sends_.sent() - 1))) {
    return false;
  }
  if (sends_.acknowledge(acked)) home_.mark(*this, work::completed);
  return true;
}

void connection::expect_payload(const frame& f, destination into) noexcept {
  in_.begin_payload(f, into);
  if (f.length == 0) payload_complete();
}

void connection::payload_complete() noexcept {
  const frame& f = in_.head();
  switch (in_.end_payload()) {
    case destination::receive:
      if (f.type == frame_type::send_invalidate && !target_.windows().invalidate(f.operand)) {
        receives_.current().status = wc_status::loc_access_err;
        receives_.finish();
        return refuse({wc_status::rem_access_err, "invalidates a key that is no window's of its"});
      }
      complete_receive(f);
      if (f.type != frame_type::put) acks_.carried_out(f.length);
      return;
    case destination::region:
      if (f.type == frame_type::write_imm) complete_receive(f);
      acks_.hurry();
      return acks_.carried_out(f.length);
    case destination::answer: return answer_complete();
    case destination::nowhere:
    case destination::none: return;
  }
}

void connection::answer_complete() noexcept {
  if (sends_.answered()) home_.mark(*this, work::completed);
}

void connection::complete_receive(const frame& f) noexcept {
  recv_slot& s = receives_.current();
  s.status = wc_status::success;
  s.byte_len = f.length;
  s.has_imm = has_imm(f.type);
  s.imm = f.imm;
  s.invalidated = f.type == frame_type::send_invalidate ? f.operand : 0;
  s.op = f.type == frame_type::write_imm ? opcode::recv_write_imm : opcode::recv;
  receives_.finish();
  if (!share_) return home_.mark(*this, work::completed);
  share_.finish(completion_of(s));
  receives_.take();
}

// Takes a shared receive for the message that has none.
bool connection::borrow() noexcept {
  if (!share_) return false;
  CORDMA_ASSERT_OP(receives_.outstanding(), ==, 0U);
  const recv_request* const lent = share_.lend(*this);
  if (lent != nullptr) store(*lent);
  return lent != nullptr;
}

// For the message that waits in the input, or that was refused; a refused one is still at the peer.
void connection::turn_came() noexcept {
  if (turn_ != receive_turn::none) {
    turn_.become(receive_turn::came);
    return home_.mark(*this, work::pending);
  }
  if (!borrow()) return;
  output_.add(frame_type::update);
  home_.mark(*this, work::due);
}

void connection::drop(const frame& f) noexcept {
  if (has_payload(f.type)) expect_payload(f, destination::nowhere);
}

void connection::no_receive(const frame& f) noexcept {
  if (!share_) return protocol_error("sends more than was granted");
  requests_.become(peer_requests::dropped);
  output_.add(frame_type::not_ready);
  drop(f);
}

// Requests that were sent and not carried out are sent again, as if for the first time.
void connection::on_not_ready() noexcept {
  const std::uint32_t refused = sends_.acked();
  const bool might = credits_.are_shared() && !credits_.ran_out() && refused != sends_.sent();
  if (!might || !takes_receive(sends_[refused].op)) {
    return protocol_error("has no receive for nothing");
  }
  credits_.run_out(sends_.send_again());
  output_.add(frame_type::resumed);
}

void connection::on_resumed() noexcept {
  if (requests_ != peer_requests::dropped) return protocol_error("resumes what was not refused");
  requests_.become(peer_requests::carried_out);
}

void connection::on_message(const frame& f) noexcept {
  if (!has_receive()) return no_receive(f);
  recv_slot& s = receives_.current();
  const bool fits = f.length <= s.length;
  if (fits && s.status == wc_status::success) return expect_payload(f, destination::receive);
  // As on a NIC: the receive fails, and the sender receives the status of the failure.
  if (!fits) s.status = wc_status::loc_len_err;
  receives_.finish();
  const refusal r =
      fits ? refusal{wc_status::rem_op_err, "sent into a receive whose memory is not registered"}
           : refusal{wc_status::rem_inv_req_err, "sent a message longer than the receive posted"};
  if (f.type != frame_type::put) return refuse(r);
  break_off(peer_failure(r));  // a put has no number for an answer
}

// Called only after has_receive(): see take_frame().
void connection::on_put(const frame& f) noexcept {
  const bool may = input_ && requests_ == peer_requests::carried_out;
  if (!may) return protocol_error("puts a message where it may not");
  on_message(f);
}

void connection::on_write(const frame& f) noexcept {
  const refusal r = target_.write(f);
  if (r.status != wc_status::success) return refuse(r);
  if (f.type == frame_type::write_imm && !has_receive()) return no_receive(f);
  expect_payload(f, destination::region);
}

// Handles a read or an atomic.
void connection::on_fetch(const frame& f) noexcept {
  if (target_.answers().size() >= options_.read_depth) {
    return protocol_error("reads more than was agreed");
  }
  const std::uint16_t number = low(acks_.executed());
  const refusal r = is_atomic(f.type) ? target_.atomic(f, number) : target_.read(f, number);
  if (r.status != wc_status::success) return refuse(r);
  acks_.carried_out(0);
}

void connection::on_answer(const frame& f) noexcept {
  const std::uint32_t next = sends_.find_unanswered();
  if (next == sends_.sent() || low(next) != f.request) {
    return protocol_error("answers nothing asked");
  }
  // Requests are carried out in order, and a frame counts those before its answer: see stamp().
  if (static_cast<std::int32_t>(sends_.acked() - next) <= 0) {
    return protocol_error("answers what it has not begun");
  }
  const send_slot& s = sends_[next];
  const bool read = f.type == frame_type::read_response;
  if (read != (s.op == opcode::read) || (read && f.length != s.head.length)) {
    return protocol_error("answers something else than was asked");
  }
  if (read) return expect_payload(f, destination::answer);
  const segment& word = *sends_.storage(next);
  CORDMA_ASSERT_OP(word.length, >=, word_bytes);  // see fill_slot()
  const bool any = sends_.answered();
  std::memcpy(word.addr, &f.operand, word_bytes);
  if (any) home_.mark(*this, work::completed);
}

void connection::on_nak(const frame& f) noexcept {
  if (sends_.done() == sends_.sent() || low(sends_.done()) != f.request) {
    return protocol_error("refuses nothing asked");
  }
  fail_request(f.status);
}

void connection::on_probe_answer() noexcept {
  if (!probe_.waits()) return protocol_error("answers no question");
  probe_.answered();
  if (credits_.has_unused() || probe_.request() != sends_.sent()) return;
  if (options_.rnr_retry >= probe_.for_ever) return;  // the probe only checked if the peer is alive
  if (probe_.refused(options_.rnr_retry)) {
    return probe_.rest(home_.home(), options_.rnr_timer);
  }
  // The request fails in its order: reads before it may still be in flight.
  sends_[sends_.sent()].status = wc_status::rnr_retry_exc_err;
}

void connection::on_goodbye() noexcept {
  requests_.become(peer_requests::over);
  failure why = failure::of(errc::not_connected, {"the connection was closed by ", peer_});
  if (life_ == phase::goodbye_sent) return break_off(std::move(why));
  if (life_ == phase::open) finish_with(std::move(why));
}

void connection::finish_with(failure why) noexcept {
  life_.finish(std::move(why));
  withdraw();
  probe_.stop(home_.home());
}

// The request being carried out breaks a rule: notifies its sender, and puts both ends in error.
void connection::refuse(const refusal& r) noexcept {
  in_.end_payload();
  target_.refuse(r.status, low(acks_.executed()));
  finish_with(peer_failure(r));
}

failure connection::peer_failure(const refusal& r) const noexcept {
  failure why = failure::of(to_errc(r.status), {peer_, " ", r.what});
  why.with_status(static_cast<std::uint16_t>(r.status), 0);
  return why;
}

void connection::protocol_error(const char* what) noexcept {
  break_off(failure::of(
      errc::connection_reset,
      {"the connection to ", peer_, " was broken off: it breaks the protocol (", what, ")"}));
}

void connection::end_of_stream() noexcept {
  if (life_ == phase::draining) return close_socket();
  if (life_ == phase::finishing) return break_off(life_.take_cause());
  if (life_ == phase::goodbye_sent || requests_ == peer_requests::over) {
    return break_off(
        failure::of(errc::not_connected, {"the connection to ", peer_, " was closed"}));
  }
  break_off(peer_is_gone());
}

bool connection::tend(urgency u) noexcept {
  if (!life_.sends()) return true;
  transmit();
  const bool credit = credit_due();
  if (!acks_.due() && !credit) return true;
  const bool can_wait = acks_.can_wait(receives_, credit);
  if (u == urgency::when_idle && can_wait) return false;
  output_.add(frame_type::update);
  transmit();
  return true;
}

}  // namespace cordma::transport::tcp

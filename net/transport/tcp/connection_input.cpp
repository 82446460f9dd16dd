// The receiving half of a connection: bytes to frames, frames to what they ask for.
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/word.hpp>
#include <new>

namespace cordma::transport::tcp {
namespace {

constexpr std::size_t most_direct = 1U << 20;       // bytes per system call, straight into place
constexpr std::uint32_t large_payload = 16U << 10;  // bytes; worth a system call of its own
constexpr std::size_t small_staging = 1024;         // bytes taken along when payloads are large
constexpr std::uint32_t unacked_requests = 32;      // acknowledged at once beyond these
constexpr std::uint32_t unacked_bytes = 512U << 10;
constexpr std::uint32_t patience = 4;         // idle polls until a message is acknowledged
constexpr std::uint32_t patience_prompt = 1;  // ... where nothing will be sent back anyway

std::uint16_t low(std::uint32_t counter) noexcept { return static_cast<std::uint16_t>(counter); }

}  // namespace

void connection::on_ready(std::uint32_t events) noexcept {
  if (phase_ == phase::connecting) return on_connected();
  if (phase_ == phase::greeting) {
    try {
      return receive_hello();
    } catch (const std::bad_alloc&) {
      return starve();
    }
  }
  if ((events & EPOLLOUT) != 0 && output_blocked_) unblock_output();
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0 || !socket_) return;
  if (receive() && socket_ && established_) home_.found_active(*this);
}

bool connection::receive() noexcept {
  if (input_) return receive_input();
  drained_ = false;
  bool any = false;
  for (int i = 0; i < most_reads_per_poll && socket_ && !drained_; ++i) any = receive_once() || any;
  if (!socket_) drained_ = true;
  if (any) after_input();
  return any;
}

bool connection::receive_once() noexcept {
  const std::span<std::byte> staging = home_.staging().first(staging_limit(home_.staging().size()));
  std::size_t staged = 0;
  const bool any = read_some(staging, staged);
  feed(staging.first(staged));
  return any;
}

std::size_t connection::staging_limit(std::size_t most) const noexcept {
  const bool is_large = std::max(in_.left, last_payload_) >= large_payload;
  return is_large ? std::min(small_staging, most) : most;
}

bool connection::read_some(std::span<std::byte> staging, std::size_t& staged) noexcept {
  CORDMA_ASSERT(!staging.empty());
  io_list<16> io;
  region_table::pin held;
  const std::size_t direct = aim(io, held);
  io.add(staging.data(), staging.size());
  const ssize_t n = io.count == 1
                        ? ::recv(socket_.get(), staging.data(), staging.size(), 0)
                        : ::readv(socket_.get(), io.at.data(), static_cast<int>(io.count));
  held = {};
  if (n < 0) {
    if (errno == EINTR) return false;
    drained_ = true;
    if (errno != EAGAIN) end_of_stream();
    return false;
  }
  if (n == 0) {
    end_of_stream();
    return true;
  }
  ++activity_;
  const auto bytes = static_cast<std::size_t>(n);
  drained_ = bytes < io.bytes;
  const std::size_t placed = std::min(bytes, direct);
  if (placed != 0) arrived(placed);
  staged = bytes - placed;
  return true;
}

// Where the rest of the payload goes without a detour. The region stays pinned while it is used.
std::size_t connection::aim(io_list<16>& io, region_table::pin& held) noexcept {
  if (in_.into == destination::none || !carrying()) return 0;
  const std::size_t n = std::min<std::size_t>(in_.left, most_direct);
  switch (in_.into) {
    case destination::receive: io.add(receives_.segments(receives_.done), in_.offset, n, 1); break;
    case destination::answer: io.add(sends_.segments(sends_.next_answer), in_.offset, n, 1); break;
    case destination::region:
      if (in_.head.length == word_bytes) break;  // see place()
      held = pin_target(in_.head.rkey, in_.head.remote_addr + in_.offset, n, access::remote_write);
      if (held) io.add(held.data(), n);
      break;
    case destination::nowhere:
    case destination::none: break;
  }
  return io.bytes;
}

void connection::feed(std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty() && carrying()) {
    if (in_.into != destination::none) {
      const std::size_t n = std::min<std::size_t>(in_.left, bytes.size());
      place(bytes.first(n));
      bytes = bytes.subspan(n);
    } else {
      bytes = bytes.subspan(take_header(bytes));
    }
  }
}

void connection::place(std::span<const std::byte> bytes) noexcept {
  switch (in_.into) {
    case destination::receive:
      scatter(receives_.segments(receives_.done), in_.offset, bytes);
      break;
    case destination::answer:
      scatter(sends_.segments(sends_.next_answer), in_.offset, bytes);
      break;
    case destination::region: {
      if (in_.head.length == word_bytes) return place_word(bytes);
      const region_table::pin held = pin_target(in_.head.rkey, in_.head.remote_addr + in_.offset,
                                                bytes.size(), access::remote_write);
      if (!held) return refuse(wc_status::rem_access_err, "wrote to memory that was deregistered");
      std::memcpy(held.data(), bytes.data(), bytes.size());
      break;
    }
    case destination::nowhere:
    case destination::none: break;
  }
  arrived(bytes.size());
}

// A word is put into place whole, in however many pieces it comes.
void connection::place_word(std::span<const std::byte> bytes) noexcept {
  std::memcpy(&in_.pieces[in_.offset], bytes.data(), bytes.size());
  if (bytes.size() == in_.left) {
    const region_table::pin held =
        pin_target(in_.head.rkey, in_.head.remote_addr, word_bytes, access::remote_write);
    if (!held) return refuse(wc_status::rem_access_err, "wrote to memory that was deregistered");
    std::uint64_t value = 0;
    std::memcpy(&value, in_.pieces.data(), word_bytes);
    if (is_word(held.data(), word_bytes)) {
      store_word(held.data(), value);
    } else {
      std::memcpy(held.data(), &value, word_bytes);
    }
  }
  arrived(bytes.size());
}

void connection::arrived(std::size_t bytes) noexcept {
  in_.offset += static_cast<std::uint32_t>(bytes);
  in_.left -= static_cast<std::uint32_t>(bytes);
  if (in_.left == 0) payload_complete();
}

// Returns the bytes used, which may end in the middle of a header.
std::size_t connection::take_header(std::span<const std::byte> bytes) noexcept {
  if (in_.saved == 0) {
    const decoded d = decode(bytes);
    if (d.what == decoded::outcome::bad) return protocol_error(d.why), bytes.size();
    if (d.what == decoded::outcome::whole) return on_frame(d.value), d.size;
    std::memcpy(in_.pieces.data(), bytes.data(), bytes.size());
    in_.saved = bytes.size();
    return bytes.size();
  }
  const decoded before = decode({in_.pieces.data(), in_.saved});
  const std::size_t n = std::min(before.size - in_.saved, bytes.size());
  std::memcpy(&in_.pieces[in_.saved], bytes.data(), n);
  in_.saved += n;
  const decoded d = decode({in_.pieces.data(), in_.saved});
  if (d.what == decoded::outcome::bad) return protocol_error(d.why), n;
  if (d.what == decoded::outcome::whole) {
    in_.saved = 0;
    on_frame(d.value);
  }
  return n;
}

void connection::on_frame(const frame& f) noexcept {
  if (!on_counters(f)) return protocol_error(impossible_counters);
  carry_out(f);
}

void connection::carry_out(const frame& f) noexcept {
  const bool goes_on = is_request(f.type) || f.type == frame_type::put;
  if (peer_said_goodbye_ && goes_on) return protocol_error("goes on after its goodbye");
  if (refusing_ && is_request(f.type)) return drop(f);
  switch (f.type) {
    case frame_type::send:
    case frame_type::send_imm:
    case frame_type::send_invalidate: return on_message(f);
    case frame_type::write:
    case frame_type::write_imm: return on_write(f);
    case frame_type::read: return on_read(f);
    case frame_type::fetch_add:
    case frame_type::compare_swap: return on_atomic(f);
    case frame_type::flush: prompt_ = true; return carried_out(0);
    case frame_type::read_response:
    case frame_type::atomic_response: return on_answer(f);
    case frame_type::nak: return on_nak(f);
    case frame_type::update: return;
    case frame_type::probe: probe_answer_due_ = true; return;
    case frame_type::probe_answer: return on_probe_answer();
    case frame_type::not_ready: return on_not_ready();
    case frame_type::resumed: return on_resumed();
    case frame_type::goodbye: return on_goodbye();
    case frame_type::put: return on_put(f);
  }
}

// Both counters only grow, and never beyond what is there to be counted.
bool connection::on_counters(const frame& f) noexcept {
  const bool sending =
      partial_.what == outgoing::kind::request && partial_.number + 1 == sends_.sent;
  const std::uint32_t could = sends_.sent - sends_.acked - (sending ? 1 : 0);
  const auto acked = static_cast<std::uint16_t>(f.ack - low(sends_.acked));
  const auto granted = static_cast<std::uint16_t>(f.credit - low(credits_));
  // Of a peer that promises none, fewer than were used: those on their way have yet to be counted.
  const auto unused = static_cast<std::int32_t>(credits_ - credits_used_ + granted);
  if (acked > could || unused > static_cast<std::int32_t>(peer_recv_depth_)) return false;
  sends_.acked += acked;
  credits_ += granted;
  if (acked == 0) return true;
  if (!awaits_ack_of_message()) last_message_ = sends_.acked;
  if (sends_.settle()) home_.mark(*this, work::completed);
  return true;
}

void connection::expect_payload(const frame& f, destination into) noexcept {
  in_.head = f;
  in_.into = into;
  in_.left = f.length;
  in_.offset = 0;
  last_payload_ = f.length;
  if (f.length == 0) payload_complete();
}

void connection::payload_complete() noexcept {
  const destination into = std::exchange(in_.into, destination::none);
  const frame& f = in_.head;
  switch (into) {
    case destination::receive:
      if (f.type == frame_type::send_invalidate && !windows_.invalidate(f.operand)) {
        receives_[receives_.done++].status = wc_status::loc_access_err;
        return refuse(wc_status::rem_access_err, "invalidates a key that is no window's of its");
      }
      complete_receive(f);
      if (f.type != frame_type::put) carried_out(f.length);
      return;
    case destination::region:
      if (f.type == frame_type::write_imm) complete_receive(f);
      prompt_ = true;
      return carried_out(f.length);
    case destination::answer:
      sends_[sends_.next_answer].answered = true;
      ++sends_.next_answer;
      --sends_.reads;
      if (sends_.settle()) home_.mark(*this, work::completed);
      return;
    case destination::nowhere:
    case destination::none: return;
  }
}

void connection::carried_out(std::uint32_t bytes) noexcept {
  ++executed_;
  bytes_unacked_ += bytes;
}

void connection::complete_receive(const frame& f) noexcept {
  recv_slot& s = receives_[receives_.done];
  s.status = wc_status::success;
  s.byte_len = f.length;
  s.has_imm = has_imm(f.type);
  s.imm = f.imm;
  s.invalidated = f.type == frame_type::send_invalidate ? f.operand : 0;
  s.op = f.type == frame_type::write_imm ? opcode::recv_write_imm : opcode::recv;
  ++receives_.done;
  if (shared_ == nullptr) return home_.mark(*this, work::completed);
  shared_->finish(completion_of(s));
  last_finished_ = shared_->finished();
  receives_.taken = receives_.done;
}

// A shared receive for the message that has none.
bool connection::borrow() noexcept {
  if (shared_ == nullptr) return false;
  CORDMA_ASSERT_OP(receives_.posted, ==, receives_.taken);
  const recv_request* const lent = shared_->lend(*this);
  if (lent != nullptr) store(*lent);
  return lent != nullptr;
}

// For the message that waits in the input, or that was refused; the peer has that still.
void connection::turn_came() noexcept {
  if (turn_ != turn::none) {
    turn_ = turn::came;
    return home_.mark(*this, work::pending);
  }
  if (!borrow()) return;
  update_due_ = true;
  home_.mark(*this, work::due);
}

void connection::drop(const frame& f) noexcept {
  if (has_payload(f.type)) expect_payload(f, destination::nowhere);
}

void connection::no_receive(const frame& f) noexcept {
  if (shared_ == nullptr) return protocol_error("sends more than was granted");
  refusing_ = not_ready_due_ = true;
  drop(f);
}

// What was sent and not carried out is to be sent again, as if it never had been.
void connection::on_not_ready() noexcept {
  const std::uint32_t refused = sends_.acked;
  if (!peer_shares_ || held_ || refused == sends_.sent || !takes_receive(sends_[refused].op)) {
    return protocol_error("has no receive for nothing");
  }
  for (std::uint32_t i = refused; i != sends_.sent; ++i) {
    if (takes_receive(sends_[i].op)) --credits_used_;
    if (!wants_answer(sends_[i].op)) continue;
    CORDMA_ASSERT_OP(sends_.reads, >, 0U);
    --sends_.reads;
  }
  sends_.sent = refused;
  sends_.check();
  held_ = resumed_due_ = true;
}

void connection::on_resumed() noexcept {
  if (!refusing_) return protocol_error("resumes what was not refused");
  refusing_ = false;
}

void connection::on_message(const frame& f) noexcept {
  if (!has_receive()) return no_receive(f);
  recv_slot& s = receives_[receives_.done];
  const bool fits = f.length <= s.length;
  if (fits && s.status == wc_status::success) return expect_payload(f, destination::receive);
  // As a NIC has it: the receive fails, and the sender learns what kind of failure it was.
  if (!fits) s.status = wc_status::loc_len_err;
  ++receives_.done;
  const wc_status status = fits ? wc_status::rem_op_err : wc_status::rem_inv_req_err;
  const char* const what = fits ? "sent into a receive whose memory is not registered"
                                : "sent a message longer than the receive posted";
  if (f.type != frame_type::put) return refuse(status, what);
  // It has no number to be answered by.
  failure why = failure::of(to_errc(status), {peer_, " ", what});
  why.with_status(static_cast<std::uint16_t>(status), 0);
  break_off(std::move(why));
}

// It is not carried out before has_receive(): see take_frame().
void connection::on_put(const frame& f) noexcept {
  if (!input_ || refusing_) return protocol_error("puts a message where it may not");
  on_message(f);
}

void connection::on_write(const frame& f) noexcept {
  const bool allowed = has(options_.remote_access, access::remote_write) &&
                       pin_target(f.rkey, f.remote_addr, f.length, access::remote_write);
  if (f.length != 0 && !allowed) {
    return refuse(wc_status::rem_access_err, "wrote to memory it has no right to write to");
  }
  if (f.type == frame_type::write_imm && !has_receive()) return no_receive(f);
  expect_payload(f, destination::region);
}

void connection::on_read(const frame& f) noexcept {
  if (answers_.size() >= options_.read_depth) return protocol_error("reads more than was agreed");
  const bool allowed = has(options_.remote_access, access::remote_read) &&
                       pin_target(f.rkey, f.remote_addr, f.length, access::remote_read);
  if (f.length != 0 && !allowed) {
    return refuse(wc_status::rem_access_err, "read memory it has no right to read");
  }
  answers_.push(answer{.what = answer::kind::read,
                       .status = wc_status::success,
                       .request = low(executed_),
                       .length = f.length,
                       .addr = f.remote_addr,
                       .rkey = f.rkey,
                       .value = 0});
  carried_out(0);
}

void connection::on_atomic(const frame& f) noexcept {
  if (answers_.size() >= options_.read_depth) return protocol_error("reads more than was agreed");
  if (f.remote_addr % sizeof(std::uint64_t) != 0) {
    return refuse(wc_status::rem_inv_req_err, "asked for an atomic on a misaligned address");
  }
  const region_table::pin held =
      pin_target(f.rkey, f.remote_addr, sizeof(std::uint64_t), access::remote_atomic);
  if (!held || !has(options_.remote_access, access::remote_atomic)) {
    return refuse(wc_status::rem_access_err, "asked for an atomic it has no right to");
  }
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(held.data()));
  std::uint64_t old = f.operand;
  if (f.type == frame_type::fetch_add) {
    old = word.fetch_add(f.operand);
  } else {
    word.compare_exchange_strong(old, f.swap);
  }
  answers_.push(answer{.what = answer::kind::atomic,
                       .status = wc_status::success,
                       .request = low(executed_),
                       .length = sizeof(std::uint64_t),
                       .addr = 0,
                       .rkey = 0,
                       .value = old});
  carried_out(0);
}

void connection::on_answer(const frame& f) noexcept {
  std::uint32_t& next = sends_.next_answer;
  // Where nothing wanted an answer for long, it stands at slots that have been used again since.
  if (static_cast<std::int32_t>(sends_.done - next) > 0) next = sends_.done;
  while (next != sends_.sent && !wants_answer(sends_[next].op)) ++next;
  if (next == sends_.sent || low(next) != f.request) return protocol_error("answers nothing asked");
  // Requests are carried out in order, and a frame counts those before its answer: see stamp().
  if (static_cast<std::int32_t>(sends_.acked - next) <= 0) {
    return protocol_error("answers what it has not begun");
  }
  const send_slot& s = sends_[next];
  const bool read = f.type == frame_type::read_response;
  if (read != (s.op == opcode::read) || (read && f.length != s.length)) {
    return protocol_error("answers something else than was asked");
  }
  if (read) return expect_payload(f, destination::answer);
  std::array<std::byte, sizeof(std::uint64_t)> old;
  std::memcpy(old.data(), &f.operand, sizeof old);
  scatter(sends_.segments(next), 0, old);
  in_.into = destination::answer;
  payload_complete();
}

void connection::on_nak(const frame& f) noexcept {
  if (sends_.done == sends_.sent || low(sends_.done) != f.request) {
    return protocol_error("refuses nothing asked");
  }
  fail_request(f.status);
}

void connection::on_probe_answer() noexcept {
  if (rnr_ != rnr::asked) return protocol_error("answers no question");
  rnr_ = rnr::idle;
  if (credits_ != credits_used_ || asked_for_ != sends_.sent) return;
  if (options_.rnr_retry >= 7) return;  // asked only whether it is alive
  if (++refusals_ > options_.rnr_retry) {
    // Fails in its turn: reads before it may still be under way.
    sends_[sends_.sent].status = wc_status::rnr_retry_exc_err;
    return;
  }
  rnr_ = rnr::resting;
  home_.home().add(rnr_timer_, after(home_.home().now(), options_.rnr_timer));
}

void connection::on_goodbye() noexcept {
  peer_said_goodbye_ = true;
  failure why = failure::of(errc::not_connected, {"the connection was closed by ", peer_});
  if (phase_ == phase::goodbye_sent) return break_off(std::move(why));
  if (phase_ == phase::open) finish_with(std::move(why));
}

void connection::finish_with(failure why) noexcept {
  finish_why_ = std::move(why);
  if (phase_ != phase::finishing) phase_.become(phase::finishing);
  withdraw();
  home_.home().remove(rnr_timer_);
}

// The request being carried out breaks a rule: its sender is told, and both ends are in error.
void connection::refuse(wc_status status, const char* what) noexcept {
  in_.into = destination::none;
  answers_.push(answer{.what = answer::kind::nak,
                       .status = status,
                       .request = low(executed_),
                       .length = 0,
                       .addr = 0,
                       .rkey = 0,
                       .value = 0});
  failure why = failure::of(to_errc(status), {peer_, " ", what});
  why.with_status(static_cast<std::uint16_t>(status), 0);
  finish_with(std::move(why));
}

void connection::protocol_error(const char* what) noexcept {
  break_off(failure::of(
      errc::connection_reset,
      {"the connection to ", peer_, " was broken off: it breaks the protocol (", what, ")"}));
}

void connection::end_of_stream() noexcept {
  if (phase_ == phase::draining) return close_socket();
  if (phase_ == phase::finishing) return break_off(std::move(finish_why_));
  if (phase_ == phase::goodbye_sent || peer_said_goodbye_) {
    return break_off(
        failure::of(errc::not_connected, {"the connection to ", peer_, " was closed"}));
  }
  break_off(reset_by_peer("the peer is gone"));
}

bool connection::credit_due() const noexcept {
  if (shared_ != nullptr) return false;
  const std::uint32_t untold = receives_.posted - told_credit_;
  const std::uint32_t known = told_credit_ - receives_.done;
  // With two receives posted and one of them known the peer is not held up: in a ping-pong the next
  // message takes the news along, and a frame of its own would double the system calls.
  return untold != 0 && known <= (receives_.posted - receives_.done - 1) / 2;
}

void connection::after_input() noexcept {
  idle_polls_ = 0;
  if (failed_) return;
  if (anything_to_send()) transmit();
  if (executed_ != told_ack_ || credit_due()) home_.mark(*this, work::due);
}

bool connection::tend(urgency u) noexcept {
  if (failed_ || !(carrying() || phase_ == phase::finishing)) return true;
  if (anything_to_send()) transmit();
  const bool ack = executed_ != told_ack_;
  const bool credit = credit_due();
  if (!ack && !credit) return true;
  ++idle_polls_;
  const bool starving = told_credit_ == receives_.done;
  const bool many = executed_ - told_ack_ >= unacked_requests || bytes_unacked_ >= unacked_bytes;
  const std::uint32_t wait = prompt_ || (credit && starving) ? patience_prompt : patience;
  if (u == urgency::when_idle && !many && idle_polls_ <= wait) return false;
  update_due_ = true;
  transmit();
  return true;
}

}  // namespace cordma::transport::tcp

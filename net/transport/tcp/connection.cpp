#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/connection_handshake.hpp>
#include <cordma/net/transport/word.hpp>

namespace cordma::transport::tcp {
namespace {

// Decimal digits, short enough to need no allocation.
std::string milliseconds(duration d) noexcept {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace

connection::connection(tcp_adapter& home, const queue_pair_options& granted)
    : home_(home),
      events_room_(home.events(), event_queue::events_of(granted)),
      options_(granted),
      socket_(home.sockets(), *this),
      sends_(granted.send_depth, granted.max_segments, granted.inline_bytes),
      output_(granted.shared != nullptr ? output::puts::yes : output::puts::no),
      share_(*this, granted.shared),
      receives_(granted.recv_depth, share_.max_segments(granted.max_segments), 0),
      target_(home.regions(), granted),
      input_(share_ ? input_buffer::kept::yes : input_buffer::kept::no) {
  share_.enter();
  home_.enlist();
}

connection::~connection() {
  close_socket();
  const std::uint32_t lent = receives_.outstanding();
  if (share_) share_.leave(*this, lent, lent != 0 ? receives_.untaken().id : 0);
  home_.drop_events(*this);
  home_.forget(*this);
}

std::string connection::local_address() const {
  return socket_ ? local_of(socket_.get()).text() : std::string();
}

result<std::uint32_t> connection::make_window(const window_range& range) {
  if (life_.failed()) return errc::not_connected;
  return target_.windows().make(range);
}

posted connection::post_recv(const recv_request& r, completion&) noexcept {
  CORDMA_REQUIRE(!share_);
  CORDMA_REQUIRE_OP(receives_.outstanding(), <, receives_.capacity());
  store(r);
  if (life_.failed()) {
    receives_.flush();
    home_.mark(*this, work::completed);
  } else if (life_.carries() && credit_due()) {
    home_.mark(*this, work::due);
  }
  return posted::pending;
}

void connection::store(const recv_request& r) noexcept {
  const std::uint32_t number = receives_.posted();
  CORDMA_REQUIRE_OP(r.segment_count, <=, receives_.segments_per_slot());
  const segment_list list{r.segments, r.segment_count};
  segment* stored = receives_.storage(number);
  std::uint64_t bytes = 0;
  bool known = true;
  for (const segment& part : list) {
    *stored++ = part;
    bytes += part.length;
    known = known && is_known(part, access::local_write);
  }
  receives_[number] =
      recv_slot{.id = r.id,
                .length = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX)),
                .byte_len = 0,
                .imm = 0,
                .segment_count = r.segment_count,
                .op = opcode::recv,
                .status = known ? wc_status::success : wc_status::loc_prot_err,
                .has_imm = false,
                .invalidated = 0};
  receives_.post();
}

completion connection::completion_of(const send_slot& s) noexcept {
  const bool done = s.status == wc_status::success;
  return {.id = s.id,
          .byte_len = s.op == opcode::read && done ? s.head.length : 0,
          .status = s.status,
          .op = s.op,
          .key = s.op == opcode::bind && done ? s.head.rkey : 0};
}

completion connection::completion_of(const recv_slot& s) noexcept {
  return {.id = s.id,
          .byte_len = s.byte_len,
          .imm = s.imm,
          .status = s.status,
          .op = s.op,
          .has_imm = s.has_imm,
          .key = s.invalidated,
          .from = share_ ? this : nullptr};
}

std::size_t connection::take(std::span<completion> out) noexcept {
  if (life_.failed()) [[unlikely]]
    return take_last(out);
  std::size_t n = 0;
  for (; n < out.size() && sends_.has_done(); ++n, sends_.take()) {
    out[n] = completion_of(sends_.first_done());
  }
  for (; n < out.size() && receives_.has_done(); ++n, receives_.take()) {
    out[n] = completion_of(receives_.untaken());
  }
  return n;
}

// Completions of a failed connection: those that were flushed in this poll are returned by the next
// one.
std::size_t connection::take_last(std::span<completion> out) noexcept {
  std::size_t n = 0;
  const bool hold = life_.failed_in(home_.running_poll());
  for (; n < out.size() && sends_.has_done(); ++n, sends_.take()) {
    const send_slot& s = sends_.first_done();
    if (hold && s.status == wc_status::wr_flush_err) break;
    out[n] = completion_of(s);
  }
  for (; n < out.size() && receives_.has_done(); ++n, receives_.take()) {
    const recv_slot& s = receives_.untaken();
    if (hold && s.status == wc_status::wr_flush_err) break;
    out[n] = completion_of(s);
  }
  if (share_ && life_.was_open() && receives_.outstanding() == 0) share_.end();
  return n;
}

void connection::disconnect() noexcept {
  switch (life_) {
    case phase::open:
      life_.become(phase::closing);
      sends_.close();
      transmit();
      return;
    case phase::idle:
    case phase::expecting:
    case phase::connecting:
    case phase::greeting:
      never_came_up(
          failure::of(errc::not_connected, {"closed by this side before it was connected"}));
      return;
    default: return;
  }
}

void connection::abort() noexcept {
  if (life_.failed()) return close_socket();
  if (!life_.was_open()) return disconnect();
  socket_.reset_connection();
  break_off(
      failure::of(errc::connection_reset, {"the connection to ", peer_, " was aborted here"}));
}

void connection::close_socket() noexcept {
  if (life_ == phase::dead) return;
  home_.add_waiting(output_.become(output_state::free));
  home_.active().remove(*this);
  socket_.close();
  life_.become(phase::dead);
}

failure connection::peer_is_gone() const noexcept {
  return failure::of(errc::connection_reset,
                     {"the connection to ", peer_, " broke: the peer is gone"});
}

void connection::enter_error(failure why) noexcept {
  if (life_.failed()) return;
  life_.fail_in(home_.running_poll());
  if (life_.was_open()) home_.report(*this, cm_event::type::disconnected, std::move(why));
  withdraw();
  sends_.flush();
  receives_.flush();
  CORDMA_ASSERT_OP(sends_.done(), ==, sends_.posted());
  CORDMA_ASSERT_OP(receives_.done(), ==, receives_.posted());
  output_.drop_partial();
  probe_.stop(home_.home());
  home_.mark(*this, work::completed);
}

void connection::break_off(failure why) noexcept {
  enter_error(std::move(why));
  close_socket();
}

void connection::fail_request(wc_status status) noexcept {
  const opcode op = sends_.first_undone().op;
  failure why = failure::of(to_errc(status), {name(op), " to ", peer_, " failed"});
  why.with_status(static_cast<std::uint16_t>(status), 0);
  sends_.fail_first(status);
  break_off(std::move(why));
}

void connection::never_came_up(failure why, std::vector<std::byte> data) noexcept {
  if (life_.failed()) return;
  CORDMA_ASSERT(!life_.was_open());
  const bool rejected = why.code() == errc::rejected;
  home_.report(*this, rejected ? cm_event::type::rejected : cm_event::type::failed, std::move(why),
               std::move(data));
  watch_.stop(home_.home());
  break_off(errc::not_connected);
  CORDMA_ASSERT(life_ == phase::dead);
  handshake_.reset();
}

void connection::starve() noexcept {
  never_came_up(failure::of(errc::no_memory, {"no memory is left to connect to ", peer_,
                                              ": free some, or raise the memory limit"}));
}

// Called after every transmission, and if nothing may be sent. The peer is watched as long as it
// owes something, even if only a receive.
void connection::watch_if_owed() noexcept {
  if (!owes_something() || !socket_) return;
  watch_.start(home_.home(), options_.peer_timeout / 2);
}

bool connection::owes_something() const noexcept {
  return !sends_.all_done() || output_.has_part_of_put() || life_ == phase::goodbye_sent ||
         life_ == phase::finishing || life_ == phase::draining;
}

void connection::on_watch() noexcept {
  if (handshake_ != nullptr && handshake_->was_broken_off()) {
    return never_came_up(handshake_->why());
  }
  if (life_ == phase::connecting || life_ == phase::greeting || life_ == phase::expecting) {
    const std::string ms = milliseconds(options_.connect_timeout);
    const char* const advice = life_ == phase::connecting
                                   ? ": check the address and firewalls"
                                   : ": its service is busy, or has no file descriptor left";
    never_came_up(failure::of(
        errc::timed_out, {peer_, " did not answer within ", ms, " ms (connect_timeout)", advice}));
    return;
  }
  if (life_ == phase::draining) return close_socket();
  const unsigned silent_periods = watch_.end_period();
  if (silent_periods >= 2) {
    const std::string ms = milliseconds(options_.peer_timeout);
    if (life_ == phase::finishing) return break_off(life_.take_cause());
    break_off(failure::of(errc::connection_reset, {peer_, " has not answered for ", ms,
                                                   " ms (peer_timeout) and is taken for dead"}));
    return;
  }
  if (!owes_something()) return;
  watch_.go_on(home_.home(), options_.peer_timeout / 2);
  if (silent_periods == 0) return;
  // A peer that owes only a receive owes no response: this probes if it has one.
  probe_.ask_for_life();
  transmit();
  watch_.overlook();
}

}  // namespace cordma::transport::tcp

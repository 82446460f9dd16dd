#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/connection_handshake.hpp>

namespace cordma::transport::tcp {
namespace {

// In digits, without memory.
class milliseconds_text {
 public:
  explicit milliseconds_text(duration d) noexcept
      : end_(std::to_chars(digits_.begin(), digits_.end(),
                           std::chrono::duration_cast<std::chrono::milliseconds>(d).count())
                 .ptr) {}
  [[nodiscard]] std::string_view text() const noexcept { return {digits_.begin(), end_}; }

 private:
  std::array<char, 24> digits_;
  const char* end_;
};

reporting_receive_queue* queue_of(const queue_pair_options& o) noexcept {
  return static_cast<reporting_receive_queue*>(o.shared);
}

}  // namespace

connection::connection(tcp_adapter& home, const queue_pair_options& granted)
    : home_(home),
      events_room_(home.events(), event_queue::events_of(granted)),
      options_(granted),
      shared_(queue_of(granted)),
      socket_(home.sockets(), *this),
      sends_(granted.send_depth, granted.max_segments, granted.inline_bytes),
      receives_(granted.recv_depth,
                shared_ != nullptr ? shared_->max_segments() : granted.max_segments, 0),
      answers_(granted.read_depth),
      windows_(home.regions()),
      rest_(shared_ != nullptr ? new std::byte[most_put] : nullptr),
      input_(shared_ != nullptr ? input_buffer::kept::yes : input_buffer::kept::no),
      watch_timer_(*this, [](timer& t) noexcept { static_cast<timed&>(t).owner->on_watch(); }),
      rnr_timer_(*this, [](timer& t) noexcept {
        connection& self = *static_cast<timed&>(t).owner;
        self.rnr_ = rnr::idle;
        self.transmit();
      }) {
  if (shared_ != nullptr) shared_->enter();
  home_.enlist();
}

connection::~connection() {
  close_socket();
  if (shared_ != nullptr) {
    shared_->withdraw(*this);
    CORDMA_ASSERT_OP(receives_.posted - receives_.taken, <=, 1U);
    if (receives_.taken != receives_.posted) {
      shared_->finish({.id = receives_[receives_.taken].id,
                       .status = wc_status::wr_flush_err,
                       .op = opcode::recv});
    }
    shared_->leave(*this);
  }
  home_.drop_events(this, nullptr);
  home_.forget(*this);
}

std::string connection::local_address() const {
  return socket_ ? local_of(socket_.get()).text() : std::string();
}

result<std::uint32_t> connection::make_window(const window_range& range) {
  if (failed_) return errc::not_connected;
  return windows_.make(range);
}

region_table::pin connection::pin_target(std::uint64_t rkey, std::uint64_t addr,
                                         std::uint64_t length, access wanted) noexcept {
  return home_.regions().resolve(rkey, addr, length, wanted, windows_.owner());
}

wc_status connection::check_local(segment_list list, access wanted, std::uint8_t flags) noexcept {
  for (const segment& s : list) {
    if (s.length == 0) continue;
    if ((flags & post_flag::inline_data) != 0) continue;
    const memory_range* const r = home_.regions().local(s.lkey);
    if (r == nullptr || !has(r->rights, wanted)) return wc_status::loc_prot_err;
    const auto start = reinterpret_cast<std::uintptr_t>(r->addr);
    const auto at = reinterpret_cast<std::uintptr_t>(s.addr);
    if (at < start || s.length > r->length || at - start > r->length - s.length) {
      return wc_status::loc_prot_err;
    }
  }
  return wc_status::success;
}

wc_status connection::check_request(const send_slot& s, segment_list list) noexcept {
  const std::uint64_t bytes = total(list);
  if (bytes > most_message) return wc_status::loc_len_err;
  const bool atomic = s.op == opcode::fetch_add || s.op == opcode::compare_swap;
  if (atomic && (list.empty() || list.front().length < sizeof(std::uint64_t))) {
    return wc_status::loc_len_err;
  }
  return check_local(list, wants_answer(s.op) ? access::local_write : access::local_read, s.flags);
}

posted connection::post_send(const send_request& r, completion&) noexcept {
  const std::uint32_t number = sends_.posted;
  CORDMA_REQUIRE_OP(number - sends_.taken, <, sends_.capacity());
  CORDMA_REQUIRE_OP(r.segment_count, <=, sends_.segments_per_slot());
  CORDMA_REQUIRE(r.op != opcode::recv && r.op != opcode::recv_write_imm);
  send_slot& s = sends_[number];
  const segment_list list{r.segments, r.segment_count};
  segment* const stored = sends_.storage(number);
  std::copy(list.begin(), list.end(), stored);
  s = send_slot{.id = r.id,
                .remote_addr = r.remote_addr,
                .rkey = r.rkey,
                .operand = r.operand,
                .swap = r.swap,
                .length = 0,
                .imm = r.imm,
                .op = r.op,
                .flags = r.flags,
                .segment_count = r.segment_count,
                .status = wc_status::success,
                .answered = false};
  if (r.op == opcode::bind) s.rkey = windows_.key(static_cast<std::uint32_t>(r.operand));
  s.status = check_request(s, list);
  s.length = static_cast<std::uint32_t>(total(list));
  if (s.op == opcode::fetch_add || s.op == opcode::compare_swap) s.length = sizeof(std::uint64_t);
  CORDMA_REQUIRE((r.flags & post_flag::inline_data) == 0 || s.length <= sends_.inline_bytes());
  ++sends_.posted;
  if (failed_) {
    s.status = wc_status::wr_flush_err;
    sends_.flush();
    home_.mark(*this, work::completed);
    return posted::pending;
  }
  if ((r.flags & post_flag::more) == 0) transmit();
  const bool left_whole = sends_.sent - number == 1 &&
                          !(partial_.what == outgoing::kind::request && partial_.number == number);
  // What may have to be sent again is kept.
  const bool kept = !left_whole || peer_shares_;
  if ((r.flags & post_flag::inline_data) != 0 && kept && !failed_) {
    std::byte* const copy = sends_.inline_storage(number);
    gather(list, {copy, s.length});
    stored[0] = segment{copy, s.length, 0};
    s.segment_count = 1;
  }
  return posted::pending;
}

posted connection::post_recv(const recv_request& r, completion&) noexcept {
  CORDMA_REQUIRE(shared_ == nullptr);
  CORDMA_REQUIRE_OP(receives_.posted - receives_.taken, <, receives_.capacity());
  store(r);
  if (failed_) {
    receives_.flush();
    home_.mark(*this, work::completed);
  } else if (carrying() && credit_due()) {
    home_.mark(*this, work::due);
  }
  return posted::pending;
}

void connection::store(const recv_request& r) noexcept {
  const std::uint32_t number = receives_.posted;
  CORDMA_REQUIRE_OP(r.segment_count, <=, receives_.segments_per_slot());
  const segment_list list{r.segments, r.segment_count};
  std::copy(list.begin(), list.end(), receives_.storage(number));
  const std::uint64_t bytes = std::min<std::uint64_t>(total(list), UINT32_MAX);
  receives_[number] = recv_slot{.id = r.id,
                                .length = static_cast<std::uint32_t>(bytes),
                                .byte_len = 0,
                                .imm = 0,
                                .segment_count = r.segment_count,
                                .op = opcode::recv,
                                .status = check_local(list, access::local_write, 0),
                                .has_imm = false,
                                .invalidated = 0};
  ++receives_.posted;
}

completion connection::completion_of(const recv_slot& s) noexcept {
  return {.id = s.id,
          .byte_len = s.byte_len,
          .imm = s.imm,
          .status = s.status,
          .op = s.op,
          .has_imm = s.has_imm,
          .key = s.invalidated,
          .from = shared_ != nullptr ? this : nullptr};
}

std::size_t connection::take(std::span<completion> out) noexcept {
  std::size_t n = 0;
  const bool hold = failed_ && held_in_poll_ == home_.running_poll();
  for (; n < out.size() && sends_.taken != sends_.done; ++n, ++sends_.taken) {
    const send_slot& s = sends_[sends_.taken];
    if (hold && s.status == wc_status::wr_flush_err) break;
    const bool done = s.status == wc_status::success;
    out[n] = completion{.id = s.id,
                        .byte_len = s.op == opcode::read && done ? s.length : 0,
                        .status = s.status,
                        .op = s.op,
                        .key = s.op == opcode::bind && done ? s.rkey : 0};
  }
  for (; n < out.size() && receives_.taken != receives_.done; ++n, ++receives_.taken) {
    const recv_slot& s = receives_[receives_.taken];
    if (hold && s.status == wc_status::wr_flush_err) break;
    out[n] = completion_of(s);
  }
  const bool ended = failed_ && established_ && receives_.taken == receives_.posted;
  if (shared_ != nullptr && ended) shared_->end(last_taken_);
  return n;
}

void connection::disconnect() noexcept {
  switch (phase_) {
    case phase::open:
      phase_.become(phase::closing);
      last_request_ = sends_.posted;
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
  if (failed_) return close_socket();
  if (!established_) return disconnect();
  socket_.reset_connection();
  break_off(
      failure::of(errc::connection_reset, {"the connection to ", peer_, " was aborted here"}));
}

void connection::close_socket() noexcept {
  if (phase_ == phase::dead) return;
  if (waiting_) home_.add_waiting(-1);
  waiting_ = output_blocked_ = false;
  home_.active().remove(*this);
  socket_.close();
  phase_.become(phase::dead);
}

failure connection::reset_by_peer(const char* how) const noexcept {
  return failure::of(errc::connection_reset, {"the connection to ", peer_, " broke: ", how});
}

void connection::enter_error(failure why) noexcept {
  if (failed_) return;
  failed_ = true;
  held_in_poll_ = home_.running_poll() != 0 ? home_.running_poll() : UINT64_MAX;
  if (established_) {
    cm_event e;
    e.what = cm_event::type::disconnected;
    e.pair = this;
    e.why = std::move(why);
    home_.report(std::move(e));
  }
  withdraw();
  sends_.flush();
  receives_.flush();
  CORDMA_ASSERT_OP(sends_.done, ==, sends_.posted);
  CORDMA_ASSERT_OP(receives_.done, ==, receives_.posted);
  partial_.what = outgoing::kind::none;
  home_.home().remove(rnr_timer_);
  home_.mark(*this, work::completed);
}

void connection::break_off(failure why) noexcept {
  enter_error(std::move(why));
  close_socket();
}

void connection::fail_request(wc_status status) noexcept {
  sends_.check();
  const std::uint32_t first = sends_.done;
  CORDMA_ASSERT_OP(first, !=, sends_.posted);
  CORDMA_ASSERT(status != wc_status::success);
  const opcode op = sends_[first].op;
  failure why = failure::of(to_errc(status), {name(op), " to ", peer_, " failed"});
  why.with_status(static_cast<std::uint16_t>(status), 0);
  sends_[first].status = status;
  ++sends_.done;
  sends_.acked = sends_.done;
  break_off(std::move(why));
}

void connection::never_came_up(failure why, std::vector<std::byte> data) noexcept {
  if (failed_) return;
  CORDMA_ASSERT(!established_);
  cm_event e;
  e.what = why.code() == errc::rejected ? cm_event::type::rejected : cm_event::type::failed;
  e.pair = this;
  e.why = std::move(why);
  e.data = std::move(data);
  home_.report(std::move(e));
  home_.home().remove(watch_timer_);
  break_off(errc::not_connected);
  CORDMA_ASSERT_OP(phase_, ==, phase::dead);
  handshake_.reset();
}

void connection::starve() noexcept {
  never_came_up(failure::of(errc::no_memory, {"no memory is left to connect to ", peer_,
                                              ": free some, or raise the memory limit"}));
}

// Called after every transmission, and where nothing may leave: as long as the peer owes something,
// be it a receive, it is watched.
void connection::watch_peer() noexcept {
  if (!owes_something() || !socket_ || watch_timer_.pending()) return;
  silent_periods_ = 0;
  activity_seen_ = activity_;
  home_.home().add(watch_timer_, after(home_.home().now(), options_.peer_timeout / 2));
}

bool connection::owes_something() const noexcept {
  return sends_.done != sends_.posted || partial_.what == outgoing::kind::put ||
         phase_ == phase::goodbye_sent || phase_ == phase::finishing || phase_ == phase::draining;
}

void connection::on_watch() noexcept {
  if (handshake_ != nullptr && handshake_->pause > handshake::first_pause) {
    return never_came_up(handshake_->last);
  }
  if (phase_ == phase::connecting || phase_ == phase::greeting || phase_ == phase::expecting) {
    const milliseconds_text ms(options_.connect_timeout);
    const char* const advice = phase_ == phase::connecting
                                   ? ": check the address and firewalls"
                                   : ": its service is busy, or has no file descriptor left";
    never_came_up(failure::of(errc::timed_out, {peer_, " did not answer within ", ms.text(),
                                                " ms (connect_timeout)", advice}));
    return;
  }
  if (phase_ == phase::draining) return close_socket();
  if (activity_ != activity_seen_) {
    silent_periods_ = 0;
    activity_seen_ = activity_;
  } else if (++silent_periods_ >= 2) {
    const milliseconds_text ms(options_.peer_timeout);
    if (phase_ == phase::finishing) return break_off(std::move(finish_why_));
    break_off(failure::of(errc::connection_reset, {peer_, " has not answered for ", ms.text(),
                                                   " ms (peer_timeout) and is taken for dead"}));
    return;
  }
  if (!owes_something()) return;
  home_.home().add(watch_timer_, after(home_.home().now(), options_.peer_timeout / 2));
  if (silent_periods_ == 0) return;
  // A peer that is only asked for a receive owes no answer: it is asked whether it has one.
  question_due_ = true;
  transmit();
  activity_seen_ = activity_;
}

}  // namespace cordma::transport::tcp

// The sending half of a connection: selects the next frames, and accounts for those sent.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/single_frame.hpp>
#include <cordma/net/transport/word.hpp>

namespace cordma::transport::tcp {
namespace {

constexpr std::size_t most_frames = 8;        // per system call
constexpr std::size_t most_pieces = 64;       // iovec entries per system call
constexpr std::size_t most_bytes = 1U << 20;  // per system call
constexpr int most_writes = 8;                // system calls per transmit()
// A header and the longest list of segments must fit behind the present entries.
constexpr std::size_t room_for_frame = 16;
static_assert(most_segments + 2 <= room_for_frame && room_for_frame < most_pieces);
static_assert(copied_below <= most_bytes && single_frame::most_payload <= most_bytes);

}  // namespace

// Frames for one system call, and the state of the connection once all of them are sent.
class out_batch {
 public:
  out_batch(const send_queue& sends, std::uint32_t next_answer, std::uint32_t credits_used) noexcept
      : next_request_(sends.sent()),
        next_answer_(next_answer),
        reads_(sends.reads()),
        credits_used_(credits_used) {}
  [[nodiscard]] std::uint32_t next_request() const noexcept { return next_request_; }
  [[nodiscard]] std::uint32_t next_answer() const noexcept { return next_answer_; }
  [[nodiscard]] std::uint32_t reads() const noexcept { return reads_; }
  [[nodiscard]] std::uint32_t credits_used() const noexcept { return credits_used_; }
  [[nodiscard]] std::span<outgoing> frames() noexcept { return {frames_.data(), count_}; }
  [[nodiscard]] std::size_t bytes() const noexcept { return io_.bytes(); }
  [[nodiscard]] bool has_room() const noexcept {
    return !full_ && count_ < most_frames && io_.room() > room_for_frame &&
           io_.bytes() < most_bytes;
  }

  [[nodiscard]] outgoing& next(outgoing::kind what, const frame& head) noexcept {
    const std::uint32_t number = what == outgoing::kind::request  ? next_request_
                                 : what == outgoing::kind::answer ? next_answer_
                                                                  : 0;
    return frames_[count_++] = outgoing(what, number, head);
  }
  void request_begins(opcode op) noexcept {
    ++next_request_;
    if (takes_receive(op)) ++credits_used_;
    if (wants_answer(op)) ++reads_;
  }
  void answer_begins() noexcept { ++next_answer_; }
  void add(const std::byte* at, std::size_t length) noexcept { io_.add(at, length); }
  void add(segment_list list, std::uint64_t offset, std::size_t length) noexcept {
    io_.add(list, offset, length, 1);
  }
  // Adds memory of a region, pinned until everything is written. False if it may not be read any
  // more.
  [[nodiscard]] bool add(region_table::pin held, std::size_t length) noexcept {
    if (!held) return false;
    io_.add(held.data(), length);
    pins_[pinned_++] = std::move(held);
    return true;
  }
  // `before`: bytes of the frames in front of it. Nothing may follow an incomplete frame.
  void end(outgoing& f, std::size_t before) noexcept {
    f.offered = io_.bytes() - before;
    full_ = f.sent + f.offered < f.size();
  }

  [[nodiscard]] ssize_t write(int fd) noexcept {
    if (io_.bytes() <= copied_below) {
      std::array<std::byte, copied_below> flat;
      std::size_t n = 0;
      for (const iovec& piece : io_.pieces()) {
        std::memcpy(&flat[n], piece.iov_base, piece.iov_len);
        n += piece.iov_len;
      }
      return ::send(fd, flat.data(), n, MSG_NOSIGNAL);
    }
    msghdr m{};
    m.msg_iov = io_.pieces().data();
    m.msg_iovlen = io_.pieces().size();
    return ::sendmsg(fd, &m, MSG_NOSIGNAL);
  }

 private:
  io_list<most_pieces> io_;
  std::array<outgoing, most_frames> frames_;
  std::size_t count_ = 0;  // number of new frames
  bool full_ = false;
  std::array<region_table::pin, most_frames + 1> pins_;
  std::size_t pinned_ = 0;
  std::uint32_t next_request_;
  std::uint32_t next_answer_;
  std::uint32_t reads_;
  std::uint32_t credits_used_;
};

bool connection::anything_to_send() const noexcept {
  return !output_.empty() || !sends_.all_sent() || !target_.answers().empty() ||
         life_ == phase::closing || life_ == phase::finishing;
}

void connection::send_batches() noexcept {
  for (int i = 0; i < most_writes; ++i) {
    if (!anything_to_send()) return;
    out_batch b(sends_, target_.answers().begin(), credits_.used());
    plan(b);
    if (life_.failed()) return;
    if (b.bytes() == 0) return watch_peer();
    const ssize_t n = b.write(socket_.get());
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return block_output();
      return break_off(peer_is_gone());
    }
    watch_.on_sign();
    const bool whole = static_cast<std::size_t>(n) == b.bytes();
    commit(b, static_cast<std::size_t>(n));
    watch_peer();
    if (!whole) return block_output();
  }
  home_.mark(*this, work::due);
}

void connection::block_output() noexcept {
  if (output_.is_full() || !socket_) return;
  CORDMA_ASSERT(!life_.failed());
  const int change = output_.become(output_state::full);
  if (change != 0) {
    home_.add_waiting(change);
    const result<void> following = follow();
    if (!following) return break_off(following.why());
  }
  watch_peer();
}

void connection::unblock_output() noexcept {
  home_.add_waiting(output_.become(output_state::awaited));
  transmit();
  if (output_.is_full() || !output_.is_awaited() || !socket_) return;
  home_.add_waiting(output_.become(output_state::free));
  static_cast<void>(follow());  // watches fewer events than before: that cannot fail
}

result<void> connection::follow() noexcept {
  if (!socket_) return {};
  const bool reads = turn_ != receive_turn::awaited;
  const std::uint32_t input = reads ? std::uint32_t{EPOLLIN} : 0;
  if (output_.is_awaited()) return socket_.watch(std::uint32_t{EPOLLOUT} | input);
  if (reads && !home_.tries(*this)) return socket_.watch(input);
  socket_.unwatch();
  return {};
}

void connection::plan(out_batch& b) noexcept {
  if (output_.has_partial()) {
    outgoing& rest = output_.partial();
    if (rest.what == outgoing::kind::answer) b.answer_begins();
    add_payload(b, rest);
  }
  while (b.has_room() && !life_.failed()) {
    const bool answered = plan_answer(b);
    const bool requested = b.has_room() && plan_request(b);
    if (!answered && !requested) break;
  }
  if (b.bytes() == 0 && !life_.failed()) plan_control(b);
}

bool connection::plan_request(out_batch& b) noexcept {
  const std::uint32_t number = b.next_request();
  if (!startable(number, b.credits_used(), b.reads())) {
    // A request that is itself invalid fails in its order, once everything before it is done.
    const bool wrong = number != sends_.posted() && sends_[number].status != wc_status::success;
    if (wrong && sends_.done() == number && life_ != phase::finishing) {
      fail_request(sends_[number].status);
    }
    return false;
  }
  const send_slot& s = sends_[number];
  outgoing& f = b.next(outgoing::kind::request, stamped(s.head));
  b.request_begins(s.op);
  add_payload(b, f);
  return true;
}

bool connection::plan_answer(out_batch& b) noexcept {
  answer_queue& answers = target_.answers();
  if (b.next_answer() == answers.end()) return false;
  // The memory may have been deregistered since it was requested.
  region_table::pin held;
  if (!target_.begin_answer(b.next_answer(), held)) finish_with(lost_source());
  outgoing& f = b.next(outgoing::kind::answer, stamped(head_of(answers[b.next_answer()])));
  b.answer_begins();
  add_payload(b, f);
  return true;
}

void connection::plan_control(out_batch& b) noexcept {
  frame head;
  const bool all_done = life_ == phase::finishing || sends_.done() == sends_.closed_at();
  const bool leaving = life_ == phase::closing || life_ == phase::finishing;
  if (leaving && all_done) {
    head.type = frame_type::goodbye;
  } else if (output_.has(frame_type::not_ready)) {
    head.type = frame_type::not_ready;
  } else if (output_.has(frame_type::resumed)) {
    head.type = frame_type::resumed;
  } else if (output_.has(frame_type::probe_answer)) {
    head.type = frame_type::probe_answer;
  } else if (probe_.may_ask(options_.rnr_retry) && lacks_receive()) {
    head.type = frame_type::probe;
  } else if (output_.has(frame_type::update)) {
    head.type = frame_type::update;
  } else {
    return;
  }
  add_payload(b, b.next(outgoing::kind::control, stamped(head)));
}

// True if the next request waits only for a receive of the peer.
bool connection::lacks_receive() noexcept {
  if (!life_.carries() || sends_.all_sent()) return false;
  if (life_ != phase::open && sends_.sent() == sends_.closed_at()) return false;
  const send_slot& s = sends_[sends_.sent()];
  return takes_receive(s.op) && s.status == wc_status::success && !credits_.allow(credits_.used());
}

// Adds the rest of the frame's header and payload, as far as it fits.
void connection::add_payload(out_batch& b, outgoing& f) noexcept {
  const std::size_t before = b.bytes();
  if (f.sent < f.header_bytes) {
    b.add(&f.header[f.sent], f.header_bytes - static_cast<std::size_t>(f.sent));
  }
  const std::uint64_t offset = f.sent > f.header_bytes ? f.sent - f.header_bytes : 0;
  const std::size_t left = std::min<std::size_t>(f.payload - offset, most_bytes);
  if (left != 0 && f.what == outgoing::kind::request) {
    b.add(sends_.segments(f.number), offset, left);
  } else if (left != 0 && f.what == outgoing::kind::put) {
    b.add(output_.put_payload() + offset, left);
  } else if (left != 0) {
    const answer& a = target_.answers()[f.number];
    if (a.length == word_bytes) {
      b.add(reinterpret_cast<const std::byte*>(&a.value) + offset, left);
    } else if (!b.add(target_.pin(a.rkey, a.addr + offset, left, access::remote_read), left)) {
      // Within a frame there is no position for a nak, and wrong bytes must not be sent.
      return break_off(lost_source());
    }
  }
  b.end(f, before);
}

failure connection::lost_source() const noexcept {
  return failure::of(errc::remote_access, {"memory was deregistered while ", peer_, " read it"});
}

void connection::commit(out_batch& b, std::size_t written) noexcept {
  if (output_.has_partial()) {
    outgoing& rest = output_.partial();
    const std::size_t n = std::min(written, rest.offered);
    written -= n;
    rest.sent += n;
    if (rest.sent < rest.size()) return;
    output_.drop_partial();
    finished(rest.type);
    if (life_.failed()) return;
  }
  for (outgoing& f : b.frames()) {
    const std::size_t n = std::min(written, f.offered);
    if (n == 0) return;
    written -= n;
    told();
    if (f.what == outgoing::kind::request) request_began(f.number, sends_[f.number].op);
    f.sent = n;
    if (f.sent < f.size()) return output_.keep(f);
    finished(f.type);
    if (life_.failed()) return;
  }
}

void connection::finished(frame_type type) noexcept {
  if (is_answer(type)) {
    target_.answers().pop();
    if (type == frame_type::nak) finish();
    return;
  }
  switch (type) {
    case frame_type::probe: probe_.asked(sends_.sent()); return;
    case frame_type::probe_answer:
    case frame_type::not_ready:
    case frame_type::resumed: output_.remove(type); return;
    case frame_type::goodbye:
      if (life_ == phase::finishing) return finish();
      life_.become(phase::goodbye_sent);
      if (requests_ == peer_requests::over) {
        break_off(failure::of(errc::not_connected, {"the connection to ", peer_, " was closed"}));
      }
      return;
    default: return;
  }
}

// The last frame was sent. The socket stays open until the peer has received it: closing a socket
// with unread input would discard the frame.
void connection::finish() noexcept {
  enter_error(life_.take_cause());
  ::shutdown(socket_.get(), SHUT_WR);
  life_.become(phase::draining);
  watch_peer();
}

}  // namespace cordma::transport::tcp

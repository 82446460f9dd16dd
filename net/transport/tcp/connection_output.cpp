// The sending half of a connection: which frame is next, and what became of it.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/word.hpp>

namespace cordma::transport::tcp {
namespace {

constexpr std::size_t most_frames = 8;        // per system call
constexpr std::size_t most_pieces = 64;       // iovec entries per system call
constexpr std::size_t most_bytes = 1U << 20;  // per system call
constexpr std::size_t copied_below = 1024;    // bytes; one copy is cheaper than an iovec
constexpr int most_writes = 8;                // system calls per transmit()
// A header and the longest list of segments must fit behind what is there.
constexpr std::size_t room_for_frame = 16;
static_assert(room_for_frame < most_pieces && copied_below <= most_bytes);

}  // namespace

struct out_batch {
  io_list<most_pieces> io;
  std::array<outgoing, most_frames> frames;
  std::size_t count = 0;   // of frames, all new ones
  bool continues = false;  // the rest of the partial frame goes first
  bool full = false;       // nothing may follow: a frame is not in it as a whole
  std::array<region_table::pin, most_frames + 1> pins;
  std::size_t pinned = 0;
  // Where the connection stands once all frames have been sent.
  std::uint32_t next_request = 0;
  std::uint32_t next_answer = 0;
  std::uint32_t reads = 0;
  std::uint32_t credits_used = 0;

  [[nodiscard]] bool has_room() const noexcept {
    return !full && count < most_frames && io.room() > room_for_frame && io.bytes < most_bytes;
  }
  [[nodiscard]] outgoing& next() noexcept {
    outgoing& f = frames[count];
    f.sent = 0;
    f.number = 0;
    f.payload = 0;
    return f;
  }
  [[nodiscard]] ssize_t write(int fd) noexcept {
    if (io.bytes <= copied_below) {
      std::array<std::byte, copied_below> flat;
      std::size_t n = 0;
      for (std::size_t i = 0; i < io.count; ++i) {
        std::memcpy(&flat[n], io.at[i].iov_base, io.at[i].iov_len);
        n += io.at[i].iov_len;
      }
      return ::send(fd, flat.data(), n, MSG_NOSIGNAL);
    }
    msghdr m{};
    m.msg_iov = io.at.data();
    m.msg_iovlen = io.count;
    return ::sendmsg(fd, &m, MSG_NOSIGNAL);
  }
};

bool connection::anything_to_send() const noexcept {
  return partial_.what != outgoing::kind::none || sends_.sent != sends_.posted ||
         !answers_.empty() || update_due_ || probe_answer_due_ || not_ready_due_ ||
         phase_ == phase::closing || phase_ == phase::finishing;
}

void connection::transmit() noexcept {
  if (output_blocked_ || !(carrying() || phase_ == phase::finishing)) return;
  for (int i = 0; i < most_writes; ++i) {
    if (!anything_to_send()) return;
    out_batch b;
    plan(b);
    if (failed_) return;
    if (b.io.bytes == 0) return watch_peer();
    const ssize_t n = b.write(socket_.get());
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return block_output();
      return break_off(reset_by_peer("the peer is gone"));
    }
    ++activity_;
    const bool whole = static_cast<std::size_t>(n) == b.io.bytes;
    commit(b, static_cast<std::size_t>(n));
    watch_peer();
    if (!whole) return block_output();
  }
  home_.mark(*this, work::due);
}

// Nothing waits in front of it, and it cannot be dropped behind a message that finds no receive.
bool connection::may_put(std::uint32_t bytes) const noexcept {
  return phase_ == phase::open && peer_shares_ && rest_ != nullptr &&
         bytes <= most_put - sizeof(message_head) && !awaits_ack_of_message() && !output_blocked_ &&
         !anything_to_send();
}

bool connection::put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept {
  if (!may_put(bytes)) return false;
  CORDMA_ASSERT(!held_ && !resumed_due_);  // or a message would await its acknowledgement
  outgoing f;
  f.what = outgoing::kind::put;
  f.payload = static_cast<std::uint32_t>(sizeof head) + bytes;
  frame header;
  header.type = frame_type::put;
  header.length = f.payload;
  stamp(f, header);
  std::array<iovec, 3> io{iovec{f.header.data(), f.header_bytes}, iovec{&head, sizeof head},
                          iovec{const_cast<std::byte*>(data), bytes}};
  msghdr m{};
  m.msg_iov = io.data();
  m.msg_iovlen = io.size();
  const ssize_t n = ::sendmsg(socket_.get(), &m, MSG_NOSIGNAL);
  if (n <= 0) return false;  // post_send() waits for room, or says why there will be none
  ++activity_;
  told();
  f.sent = static_cast<std::uint64_t>(n);
  if (f.sent != f.size()) keep_rest(f, head, data);
  return true;
}

// From here on it is as a request of which a part was sent, but that its bytes are not its sender's.
void connection::keep_rest(const outgoing& f, message_head head, const std::byte* data) noexcept {
  CORDMA_ASSERT_OP(f.sent, <, f.size());
  CORDMA_ASSERT_OP(f.payload, <=, most_put);
  CORDMA_ASSERT(partial_.what == outgoing::kind::none);
  std::memcpy(rest_.get(), &head, sizeof head);
  const std::size_t in_front = f.header_bytes + sizeof head;
  const std::size_t gone = f.sent > in_front ? static_cast<std::size_t>(f.sent) - in_front : 0;
  const std::size_t bytes = f.payload - sizeof head;
  if (gone < bytes) std::memcpy(&rest_[sizeof head + gone], data + gone, bytes - gone);
  partial_ = f;
  block_output();
}

void connection::block_output() noexcept {
  if (output_blocked_ || !socket_) return;
  CORDMA_ASSERT(!failed_);
  output_blocked_ = true;
  if (!waiting_) {
    waiting_ = true;
    home_.add_waiting(1);
    const result<void> following = follow();
    if (!following) return break_off(following.why());
  }
  watch_peer();
}

void connection::unblock_output() noexcept {
  output_blocked_ = false;
  transmit();
  if (output_blocked_ || !waiting_ || !socket_) return;
  waiting_ = false;
  home_.add_waiting(-1);
  static_cast<void>(follow());  // asks for less than before: that cannot fail
}

result<void> connection::follow() noexcept {
  if (!socket_) return {};
  const bool reads = turn_ != turn::awaited;
  if (waiting_)
    return socket_.watch(std::uint32_t{EPOLLOUT} | (reads ? std::uint32_t{EPOLLIN} : 0));
  if (reads && !home_.tries(*this)) return socket_.watch(EPOLLIN);
  socket_.unwatch();
  return {};
}

void connection::plan(out_batch& b) noexcept {
  b.next_request = sends_.sent;
  b.next_answer = answers_.begin;
  b.reads = sends_.reads;
  b.credits_used = credits_used_;
  if (partial_.what != outgoing::kind::none) {
    b.continues = true;
    if (partial_.what == outgoing::kind::answer) ++b.next_answer;
    add_payload(b, partial_);
  }
  while (b.has_room() && !failed_) {
    const bool answered = plan_answer(b);
    const bool requested = b.has_room() && plan_request(b);
    if (!answered && !requested) break;
  }
  if (b.io.bytes == 0 && !failed_) plan_control(b);
}

void connection::stamp(outgoing& f, frame& head) const noexcept {
  head.ack = static_cast<std::uint16_t>(executed_);
  head.credit = static_cast<std::uint16_t>(receives_.posted);
  f.type = head.type;
  f.header_bytes = static_cast<std::uint8_t>(encode(head, f.header));
}

bool connection::startable(std::uint32_t number, const out_batch& b) const noexcept {
  if (number == sends_.posted || phase_ == phase::finishing || resumed_due_) return false;
  if (phase_ != phase::open && number == last_request_) return false;
  auto& queue = const_cast<send_queue&>(sends_);
  const send_slot& s = queue[number];
  if (s.status != wc_status::success) return false;
  if (takes_receive(s.op) && credits_ == b.credits_used && needs_credit()) return false;
  if (wants_answer(s.op) && b.reads >= options_.read_depth) return false;
  return (s.flags & post_flag::fence) == 0 || b.reads == 0;
}

bool connection::plan_request(out_batch& b) noexcept {
  const std::uint32_t number = b.next_request;
  if (!startable(number, b)) {
    // A request that is wrong in itself fails in its turn, once everything before it is done.
    const bool wrong = number != sends_.posted && sends_[number].status != wc_status::success;
    if (wrong && sends_.done == number && phase_ != phase::finishing) {
      fail_request(sends_[number].status);
    }
    return false;
  }
  const send_slot& s = sends_[number];
  outgoing& f = b.next();
  f.what = outgoing::kind::request;
  f.number = number;
  frame head;
  head.type = to_frame_type(s.op);
  head.length = s.length;
  if (has_imm(head.type)) head.imm = s.imm;
  head.remote_addr = s.remote_addr;
  head.rkey = s.rkey;
  head.operand = head.type == frame_type::send_invalidate ? s.rkey : s.operand;
  head.swap = s.swap;
  stamp(f, head);
  if (has_payload(head.type)) f.payload = s.length;
  ++b.next_request;
  if (takes_receive(s.op)) ++b.credits_used;
  if (wants_answer(s.op)) ++b.reads;
  add_payload(b, f);
  ++b.count;
  return true;
}

// False where it may not be read any more. A word is taken whole, in however many pieces it goes.
bool connection::look_at_source(answer& a) noexcept {
  const region_table::pin held = pin_target(a.rkey, a.addr, a.length, access::remote_read);
  if (!held) return false;
  if (is_word(held.data(), a.length)) {
    a.value = load_word(held.data());
  } else if (a.length == word_bytes) {
    std::memcpy(&a.value, held.data(), word_bytes);
  }
  return true;
}

bool connection::plan_answer(out_batch& b) noexcept {
  if (b.next_answer == answers_.end) return false;
  answer& a = answers_[b.next_answer];
  if (a.what == answer::kind::read && a.length != 0 && !look_at_source(a)) {
    // Deregistered since it was asked for.
    a.what = answer::kind::nak;
    a.status = wc_status::rem_access_err;
    answers_.end = b.next_answer + 1;
    finish_with(
        failure::of(errc::remote_access, {"memory was deregistered while ", peer_, " read it"}));
  }
  outgoing& f = b.next();
  f.what = outgoing::kind::answer;
  f.number = b.next_answer;
  frame head;
  head.request = a.request;
  switch (a.what) {
    case answer::kind::read:
      head.type = frame_type::read_response;
      head.length = f.payload = a.length;
      break;
    case answer::kind::atomic:
      head.type = frame_type::atomic_response;
      head.operand = a.value;
      break;
    case answer::kind::nak:
      head.type = frame_type::nak;
      head.status = a.status;
      break;
  }
  stamp(f, head);
  ++b.next_answer;
  add_payload(b, f);
  ++b.count;
  return true;
}

void connection::plan_control(out_batch& b) noexcept {
  frame head;
  const bool all_done = phase_ == phase::finishing || sends_.done == last_request_;
  const bool leaving = phase_ == phase::closing || phase_ == phase::finishing;
  const bool stalled = rnr_ == rnr::idle && (options_.rnr_retry < 7 || question_due_) &&
                       carrying() && sends_.sent != sends_.posted &&
                       takes_receive(sends_[sends_.sent].op) &&
                       sends_[sends_.sent].status == wc_status::success &&
                       credits_ == credits_used_ && needs_credit();
  if (leaving && all_done) {
    head.type = frame_type::goodbye;
  } else if (not_ready_due_) {
    head.type = frame_type::not_ready;
  } else if (resumed_due_) {
    head.type = frame_type::resumed;
  } else if (probe_answer_due_) {
    head.type = frame_type::probe_answer;
  } else if (stalled && !(phase_ != phase::open && sends_.sent == last_request_)) {
    head.type = frame_type::probe;
  } else if (update_due_) {
    head.type = frame_type::update;
  } else {
    return;
  }
  outgoing& f = b.next();
  f.what = outgoing::kind::control;
  stamp(f, head);
  add_payload(b, f);
  ++b.count;
}

// What is left of the frame's header and payload, as far as it fits.
void connection::add_payload(out_batch& b, outgoing& f) noexcept {
  const std::size_t before = b.io.bytes;
  if (f.sent < f.header_bytes) {
    b.io.add(&f.header[f.sent], f.header_bytes - static_cast<std::size_t>(f.sent));
  }
  const std::uint64_t offset = f.sent > f.header_bytes ? f.sent - f.header_bytes : 0;
  const std::size_t left = std::min<std::size_t>(f.payload - offset, most_bytes);
  if (left != 0 && f.what == outgoing::kind::request) {
    b.io.add(sends_.segments(f.number), offset, left, 1);
  } else if (left != 0 && f.what == outgoing::kind::put) {
    b.io.add(&rest_[static_cast<std::size_t>(offset)], left);
  } else if (left != 0 && answers_[f.number].length == word_bytes) {
    b.io.add(reinterpret_cast<const std::byte*>(&answers_[f.number].value) + offset, left);
  } else if (left != 0) {
    const answer& a = answers_[f.number];
    b.pins[b.pinned] = pin_target(a.rkey, a.addr + offset, left, access::remote_read);
    if (!b.pins[b.pinned]) {
      // In the middle of a frame there is no place for a nak, and wrong bytes are no way out.
      return break_off(
          failure::of(errc::remote_access, {"memory was deregistered while ", peer_, " read it"}));
    }
    b.io.add(b.pins[b.pinned++].data(), left);
  }
  f.offered = b.io.bytes - before;
  b.full = f.sent + f.offered < f.size();
}

void connection::commit(out_batch& b, std::size_t written) noexcept {
  const std::size_t first = b.continues ? 0 : 1;
  for (std::size_t i = first; i < b.count + 1; ++i) {
    outgoing& f = i == 0 ? partial_ : b.frames[i - 1];
    const std::size_t n = std::min(written, f.offered);
    written -= n;
    if (n == 0) return;
    if (f.sent == 0) began(f);
    f.sent += n;
    if (f.sent < f.size()) {
      if (i != 0) partial_ = f;
      return;
    }
    if (i == 0) {
      partial_.what = outgoing::kind::none;
      const outgoing whole = partial_;
      finished(whole);
    } else {
      finished(f);
    }
    if (phase_ == phase::draining || phase_ == phase::dead) return;
  }
}

// A frame's header leaves, as stamp() made it.
void connection::told() noexcept {
  told_ack_ = executed_;
  told_credit_ = receives_.posted;
  bytes_unacked_ = 0;
  prompt_ = false;
  update_due_ = false;
}

void connection::began(const outgoing& f) noexcept {
  told();
  if (f.what != outgoing::kind::request) return;
  const send_slot& s = sends_[f.number];
  sends_.sent = f.number + 1;
  if (wants_answer(s.op)) ++sends_.reads;
  if (!takes_receive(s.op)) return;
  ++credits_used_;
  last_message_ = f.number + 1;
  held_ = false;
  refusals_ = 0;
}

void connection::finished(const outgoing& f) noexcept {
  if (is_answer(f.type)) {
    ++answers_.begin;
    if (f.type == frame_type::nak) finish();
    return;
  }
  switch (f.type) {
    case frame_type::probe:
      rnr_ = rnr::asked;
      question_due_ = false;
      asked_for_ = sends_.sent;
      return;
    case frame_type::probe_answer: probe_answer_due_ = false; return;
    case frame_type::not_ready: not_ready_due_ = false; return;
    case frame_type::resumed: resumed_due_ = false; return;
    case frame_type::goodbye:
      if (phase_ == phase::finishing) return finish();
      phase_.become(phase::goodbye_sent);
      if (peer_said_goodbye_) {
        break_off(failure::of(errc::not_connected, {"the connection to ", peer_, " was closed"}));
      }
      return;
    default: return;
  }
}

// The last frame has left. The socket stays until the peer has seen it: closing a socket with
// unread input would take the frame back.
void connection::finish() noexcept {
  enter_error(std::move(finish_why_));
  ::shutdown(socket_.get(), SHUT_WR);
  phase_.become(phase::draining);
  watch_peer();
}

}  // namespace cordma::transport::tcp

// Frames that are sent singly: nothing waits in front of them, and nothing with them. All others
// are sent in batches, see connection_output.cpp.
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/single_frame.hpp>
#include <cordma/net/transport/word.hpp>

namespace cordma::transport::tcp {

[[gnu::always_inline]] inline send_slot& connection::fill_slot(std::uint32_t number,
                                                               const send_request& r) noexcept {
  const request_rule& rule = request_rules[static_cast<std::size_t>(r.op)];
  const bool is_inline = (r.flags & post_flag::inline_data) != 0;
  segment* stored = sends_.storage(number);
  std::uint64_t bytes = 0;
  bool known = true;
  for (const segment& part : segment_list{r.segments, r.segment_count}) {
    *stored++ = part;
    bytes += part.length;
    if (!is_inline) known = known && is_known(part, rule.wanted);
  }
  const bool too_short =
      rule.is_atomic && (r.segment_count == 0 || r.segments->length < word_bytes);
  send_slot& s = sends_[number];
  s.head = {
      .type = rule.type,
      .length = rule.is_atomic ? std::uint32_t{word_bytes} : static_cast<std::uint32_t>(bytes),
      .imm = rule.has_imm ? r.imm : 0,
      .remote_addr = r.remote_addr,
      .rkey = r.rkey,
      .operand = r.operand,
      .swap = r.swap};
  s.id = r.id;
  s.op = r.op;
  s.flags = r.flags;
  s.segment_count = r.segment_count;
  s.status = known ? wc_status::success : wc_status::loc_prot_err;
  s.answered = false;
  if (bytes > most_message || too_short) [[unlikely]]
    s.status = wc_status::loc_len_err;
  if (r.op >= opcode::bind) [[unlikely]]
    name_window(s, r);
  return s;
}

// Sets the window key, for the two operations that have one.
[[gnu::noinline]] void connection::name_window(send_slot& s, const send_request& r) noexcept {
  if (r.op == opcode::send_invalidate) {
    s.head.operand = r.rkey;
  } else {
    s.head.rkey = target_.windows().key(static_cast<std::uint32_t>(r.operand));
  }
}

posted connection::post_send(const send_request& r, completion&) noexcept {
  const std::uint32_t number = sends_.posted();
  CORDMA_REQUIRE_OP(sends_.outstanding(), <, sends_.capacity());
  CORDMA_REQUIRE_OP(r.segment_count, <=, sends_.segments_per_slot());
  CORDMA_REQUIRE(r.op != opcode::recv && r.op != opcode::recv_write_imm);
  const send_slot& s = fill_slot(number, r);
  sends_.post();
  const bool alone = (r.flags & (post_flag::more | post_flag::inline_data)) == 0 &&
                     life_ == phase::open && output_.is_clear() && sends_.sent() == number &&
                     target_.answers().empty();
  if (!alone) [[unlikely]] {
    post_behind(number);
  } else if (!send_alone(number, s)) [[unlikely]] {
    send_batches();
  }
  return posted::pending;
}

// Queues a request that may not be sent at once, or that must be kept.
[[gnu::noinline]] void connection::post_behind(std::uint32_t number) noexcept {
  send_slot& s = sends_[number];
  const bool is_inline = (s.flags & post_flag::inline_data) != 0;
  CORDMA_REQUIRE(!is_inline || s.head.length <= sends_.inline_bytes());
  if (life_.failed()) {
    s.status = wc_status::wr_flush_err;
    sends_.flush();
    return home_.mark(*this, work::completed);
  }
  if ((s.flags & post_flag::more) == 0) transmit();
  if (is_inline && !life_.failed()) keep_inline(number);
}

// The caller's bytes are valid only during the call: copies those that were not sent, or may have
// to be sent again.
[[gnu::noinline]] void connection::keep_inline(std::uint32_t number) noexcept {
  const bool left_whole = sends_.sent() - number == 1 && !output_.has_part_of_request(number);
  if (left_whole && !credits_.are_shared()) return;
  send_slot& s = sends_[number];
  std::byte* const copy = sends_.inline_storage(number);
  gather(sends_.segments(number), {copy, s.head.length});
  *sends_.storage(number) = segment{copy, s.head.length, 0};
  s.segment_count = 1;
}

[[gnu::noinline]] void connection::send_waiting() noexcept {
  if (life_ == phase::open && output_.is_clear()) {
    if (send_single()) return;
  } else if (output_.is_full() || !life_.sends()) {
    return;
  }
  send_batches();
}

// True: nothing waits any more, except the rest that a full socket did not accept. False: nothing
// was sent. REQUIRES that the connection is open and its output clear.
[[gnu::always_inline]] inline bool connection::send_single() noexcept {
  const std::uint32_t requests = sends_.posted() - sends_.sent();
  switch (requests + target_.answers().size()) {
    case 0: return single_update();
    case 1: return requests != 0 ? single_request() : single_answer();
    default: return false;
  }
}

bool connection::startable(std::uint32_t number, std::uint32_t credits_used,
                           std::uint32_t reads) noexcept {
  if (number == sends_.posted() || life_ == phase::finishing) return false;
  if (output_.has(frame_type::resumed)) return false;
  if (life_ != phase::open && number == sends_.closed_at()) return false;
  return may_begin(sends_[number], credits_used, reads);
}

[[gnu::always_inline]] inline bool connection::may_begin(const send_slot& s,
                                                         std::uint32_t credits_used,
                                                         std::uint32_t reads) const noexcept {
  if (s.status != wc_status::success) return false;
  if (takes_receive(s.op) && !credits_.allow(credits_used)) return false;
  if (wants_answer(s.op) && reads >= options_.read_depth) return false;
  return (s.flags & post_flag::fence) == 0 || reads == 0;
}

// Sends the only waiting request. REQUIRES the same as send_single().
[[gnu::always_inline]] inline bool connection::send_alone(std::uint32_t number,
                                                          const send_slot& s) noexcept {
  if (!may_begin(s, credits_.used(), sends_.reads()) || !single_frame::fits(s.head)) return false;
  single_frame f(s.head, acks_.executed(), receives_.posted());
  const int fd = socket_.get();
  if (!(f.is_bare() ? f.write(fd) : f.write(fd, sends_.segments(number)))) return false;
  request_began(number, s.op);
  left(f, outgoing::kind::request, number);
  watch_peer();
  return true;
}

[[gnu::noinline]] bool connection::single_request() noexcept {
  const std::uint32_t number = sends_.sent();
  return send_alone(number, sends_[number]);
}

[[gnu::always_inline]] inline bool connection::single_answer() noexcept {
  answer_queue& answers = target_.answers();
  const std::uint32_t number = answers.begin();
  answer& a = answers[number];
  const frame head = head_of(a);
  if (a.type == frame_type::nak || !single_frame::fits(head)) return false;
  region_table::pin held;
  if (!target_.begin_answer(number, held)) {
    finish_with(lost_source());
    return false;
  }
  std::byte* const word = reinterpret_cast<std::byte*>(&a.value);
  const segment payload{a.length == word_bytes ? word : held.data(), a.length, 0};
  single_frame f(head, acks_.executed(), receives_.posted());
  if (!f.write(socket_.get(), {&payload, 1})) return false;
  left(f, outgoing::kind::answer, number);
  if (f.is_whole()) answers.pop();
  return true;
}

[[gnu::noinline]] bool connection::single_update() noexcept {
  single_frame f({.type = frame_type::update}, acks_.executed(), receives_.posted());
  if (!f.write(socket_.get())) return false;
  left(f, outgoing::kind::control, 0);
  return true;
}

// Bytes that the socket did not accept wait like the rest of any frame.
[[gnu::always_inline]] inline void connection::left(const single_frame& f, outgoing::kind what,
                                                    std::uint32_t number) noexcept {
  watch_.on_sign();
  told();
  if (!f.is_whole()) [[unlikely]]
    keep_rest(f.rest(what, number));
}

[[gnu::noinline]] void connection::keep_rest(const outgoing& f) noexcept {
  output_.keep(f);
  block_output();
}

// True if nothing waits in front of a put, and it cannot be dropped behind a message that finds no
// receive.
[[gnu::always_inline]] inline bool connection::may_put(std::uint32_t bytes) const noexcept {
  return life_ == phase::open && output_.is_free() && sends_.all_sent() &&
         target_.answers().empty() && credits_.are_shared() && output_.holds_puts() &&
         bytes <= most_put - sizeof(message_head) && !sends_.awaits_ack_of_message();
}

bool connection::put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept {
  if (!may_put(bytes)) return false;
  CORDMA_ASSERT(!credits_.ran_out());  // or a message would await its acknowledgement
  CORDMA_ASSERT(!output_.has(frame_type::resumed));
  frame header{.type = frame_type::put};
  header.length = static_cast<std::uint32_t>(sizeof head) + bytes;
  single_frame f(header, acks_.executed(), receives_.posted());
  // post_send() waits for space, or reports why there will be none.
  if (!f.write(socket_.get(), head, data)) return false;
  watch_.on_sign();
  told();
  if (!f.is_whole()) [[unlikely]] {
    output_.keep_put(f.rest(outgoing::kind::put, 0), head, data);
    block_output();
  }
  return true;
}

}  // namespace cordma::transport::tcp

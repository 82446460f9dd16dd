// Frames that leave alone: nothing waits in front of them, and nothing with them. All others leave in batches, see
// connection_output.cpp.
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/single_frame.hpp>
#include <cordma/net/transport/word.hpp>

namespace cordma::transport::tcp {

void connection::transmit() noexcept {
  if (output_.is_full() || !life_.sends() || send_single()) return;
  send_batches();
}

// True: nothing waits any more, but for what a full socket holds up. False: nothing has left.
bool connection::send_single() noexcept {
  if (life_ != phase::open || !output_.is_clear()) return false;
  const std::uint32_t requests = sends_.posted() - sends_.sent();
  switch (requests + target_.answers().size()) {
    case 0: return !output_.has(frame_type::update) || single_update();
    case 1: return requests != 0 ? single_request() : single_answer();
    default: return false;
  }
}

bool connection::startable(std::uint32_t number, std::uint32_t credits_used,
                           std::uint32_t reads) noexcept {
  if (number == sends_.posted() || life_ == phase::finishing) return false;
  if (output_.has(frame_type::resumed)) return false;
  if (life_ != phase::open && number == sends_.closed_at()) return false;
  const send_slot& s = sends_[number];
  if (s.status != wc_status::success) return false;
  if (takes_receive(s.op) && !credits_.allow(credits_used)) return false;
  if (wants_answer(s.op) && reads >= options_.read_depth) return false;
  return (s.flags & post_flag::fence) == 0 || reads == 0;
}

bool connection::single_request() noexcept {
  const std::uint32_t number = sends_.sent();
  if (!startable(number, credits_.used(), sends_.reads())) return false;
  const frame head = stamped(head_of(sends_[number]));
  if (!single_frame::fits(head)) return false;
  single_frame f(head);
  if (!f.write(socket_.get(), sends_.segments(number))) return false;
  request_began(number);
  left(f, outgoing::kind::request, number);
  watch_peer();
  return true;
}

bool connection::single_answer() noexcept {
  answer_queue& answers = target_.answers();
  const std::uint32_t number = answers.begin();
  answer& a = answers[number];
  const frame head = head_of(a);
  if (a.what == answer::kind::nak || !single_frame::fits(head)) return false;
  region_table::pin held;
  if (!target_.begin_answer(number, held)) {
    finish_with(lost_source());
    return false;
  }
  std::byte* const word = reinterpret_cast<std::byte*>(&a.value);
  const segment payload{a.length == word_bytes ? word : held.data(), a.length, 0};
  single_frame f(stamped(head));
  if (!f.write(socket_.get(), {&payload, 1})) return false;
  left(f, outgoing::kind::answer, number);
  if (f.is_whole()) answers.pop();
  return true;
}

bool connection::single_update() noexcept {
  single_frame f(stamped({.type = frame_type::update}));
  if (!f.write(socket_.get(), {})) return false;
  left(f, outgoing::kind::control, 0);
  return true;
}

// A frame's header leaves, as stamped() made it.
void connection::told() noexcept {
  acks_.told(receives_.posted());
  output_.remove(frame_type::update);
}

void connection::request_began(std::uint32_t number) noexcept {
  sends_.begin(number);
  if (!takes_receive(sends_[number].op)) return;
  credits_.use();
  probe_.message_left();
}

// What the socket has not taken waits as the rest of any frame does.
void connection::left(const single_frame& f, outgoing::kind what, std::uint32_t number) noexcept {
  watch_.on_sign();
  told();
  if (f.is_whole()) return;
  output_.keep(f.rest(what, number));
  block_output();
}

// Nothing waits in front of it, and it cannot be dropped behind a message that finds no receive.
bool connection::may_put(std::uint32_t bytes) const noexcept {
  return life_ == phase::open && credits_.are_shared() && output_.holds_puts() &&
         bytes <= most_put - sizeof(message_head) && !sends_.awaits_ack_of_message() &&
         !output_.is_full() && !anything_to_send();
}

bool connection::put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept {
  if (!may_put(bytes)) return false;
  CORDMA_ASSERT(!credits_.ran_out());  // or a message would await its acknowledgement
  CORDMA_ASSERT(!output_.has(frame_type::resumed));
  frame header{.type = frame_type::put};
  header.length = static_cast<std::uint32_t>(sizeof head) + bytes;
  const std::array<segment, 2> payload{segment{reinterpret_cast<std::byte*>(&head), sizeof head, 0},
                                       segment{const_cast<std::byte*>(data), bytes, 0}};
  single_frame f(stamped(header));
  // post_send() waits for room, or says why there will be none.
  if (!f.write(socket_.get(), payload)) return false;
  watch_.on_sign();
  told();
  if (!f.is_whole()) {
    output_.keep_put(f.rest(outgoing::kind::put, 0), head, data);
    block_output();
  }
  return true;
}

}  // namespace cordma::transport::tcp

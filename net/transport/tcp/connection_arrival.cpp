// The input of a connection whose receives are shared: messages are handed out where they lie, and one that was put
// waits there for its receive.
#include <cordma/net/transport/tcp/connection.hpp>

namespace cordma::transport::tcp {

// What lies in the input first, then the socket: until there is something to be looked at, or to wait for.
bool connection::receive_input() noexcept {
  if (handed_out_) return true;
  if (turn_ == turn::awaited) return false;
  if (turn_ == turn::came && !stop_waiting()) return true;
  bool any = false;
  intake last = take_input(any);
  if (last == intake::hungry) drained_ = false;
  for (int i = 0; i < most_reads_per_poll && last == intake::hungry && socket_ && !drained_; ++i) {
    any = fill_input() || any;
    last = take_input(any);
  }
  if (!socket_) drained_ = true;
  if (last == intake::later) home_.mark(*this, work::pending);
  if (last == intake::waits) await_receive();
  if (any) after_input();
  return any;
}

bool connection::fill_input() noexcept {
  CORDMA_ASSERT(!handed_out_);
  if (!carrying()) input_.clear();
  const std::span<std::byte> room = input_.room();
  std::size_t staged = 0;
  const bool any = read_some(room.first(staging_limit(room.size())), staged);
  input_.add(staged);
  return any;
}

// Hungry: all that is whole was used.
connection::intake connection::take_input(bool& any) noexcept {
  while (!input_.empty() && carrying()) {
    const std::span<const std::byte> bytes = input_.unused();
    if (in_.into != destination::none) {
      CORDMA_ASSERT(!handed_out_);
      const std::size_t n = std::min<std::size_t>(in_.left, bytes.size());
      input_.use(n);
      place(bytes.first(n));
      any = true;
      continue;
    }
    const decoded d = decode(bytes);
    if (d.what == decoded::outcome::partial) break;
    const bool bad = d.what == decoded::outcome::bad;
    const intake done = bad ? fail_input(d.why) : take_frame(d.value, d.size);
    if (done == intake::used) {
      any = true;
      continue;
    }
    if (done == intake::hungry) break;
    return handed_out_ ? intake::handed : done;
  }
  if (handed_out_) return intake::handed;
  if (in_.into == destination::none) by_receive_ = false;
  return intake::hungry;
}

// The frame in front, of which the header is whole.
connection::intake connection::take_frame(const frame& f, std::size_t header_bytes) noexcept {
  const bool is_plain = f.type == frame_type::put || f.type == frame_type::send;
  const std::size_t size = header_bytes + f.length;
  if (is_plain && size <= input_buffer::capacity) {
    last_payload_ = f.length;
    if (input_.unused().size() < size) return intake::hungry;
    if (takes_in_place() && !refusing_ && !peer_said_goodbye_) return hand_out(f, size);
  }
  // What was handed out before has to be looked at before anything else happens.
  if (handed_out_) return intake::handed;
  if (!input_.is_seen() && !on_counters(f)) return fail_input(impossible_counters);
  input_.see(header_bytes);
  const bool in_turn = !refusing_ && !peer_said_goodbye_;
  if (f.type == frame_type::put && in_turn && !has_receive()) return intake::waits;
  input_.use(header_bytes);
  carry_out(f);
  return intake::used;
}

// A message that lies here whole.
connection::intake connection::hand_out(const frame& f, std::size_t size) noexcept {
  // One that took a receive is handed out first.
  const bool in_order = shared_->handed() >= last_finished_;
  if (!in_order || !home_.has_place()) return intake::later;
  if (!input_.is_seen() && !on_counters(f)) return fail_input(impossible_counters);
  input_.see(size);
  home_.add_arrived(*this, input_.unused().subspan(plain_header, f.length));
  input_.use(size);
  handed_out_ = true;
  return intake::used;
}

// Behind messages that were handed out, it fails once those were looked at.
connection::intake connection::fail_input(const char* why) noexcept {
  if (handed_out_) return intake::handed;
  protocol_error(why);
  return intake::used;
}

void connection::looked_at(const arrived_message& m) noexcept {
  CORDMA_ASSERT(handed_out_);
  if (!carrying()) return;
  const std::byte* const header = m.data - plain_header;
  if (m.stays) {
    if (!by_receive_) input_.go_back_to(header);
    by_receive_ = true;
    return;
  }
  CORDMA_REQUIRE(!by_receive_);  // what came behind one that stays does so as well
  if (static_cast<frame_type>(header[frame_at::type]) == frame_type::send) carried_out(m.bytes);
}

void connection::released() noexcept {
  handed_out_ = false;
  if (!carrying()) return;
  if (!input_.empty()) home_.mark(*this, work::pending);
  after_input();
}

// Nothing is read meanwhile: what comes is behind the message that waits.
void connection::await_receive() noexcept {
  CORDMA_ASSERT(turn_ == turn::none && linked());
  turn_ = turn::awaited;
  static_cast<void>(follow());  // asks for less than before: that cannot fail
}

// False: the socket cannot be watched any more, and the connection has ended.
bool connection::stop_waiting() noexcept {
  turn_ = turn::none;
  const result<void> following = follow();
  if (!following) break_off(following.why());
  return following.ok();
}

// No receive is wanted any more.
void connection::withdraw() noexcept {
  if (shared_ == nullptr) return;
  shared_->withdraw(*this);
  if (turn_ == turn::none) return;
  turn_ = turn::none;
  static_cast<void>(
      follow());  // all that is lost is word of the peer's end, for which a timer waits as well
}

}  // namespace cordma::transport::tcp

// The input of a connection with shared receives: messages are passed to the caller without a copy,
// and a put message waits in the input for its receive.
#include <cordma/net/transport/tcp/connection.hpp>

namespace cordma::transport::tcp {

// Processes the input first, then the socket, until a message must be examined or must wait for a
// receive.
bool connection::receive_input() noexcept {
  if (are_looked_at(arrivals_)) return true;
  if (turn_ == receive_turn::awaited) return false;
  if (turn_ == receive_turn::came && !stop_waiting()) return true;
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
  CORDMA_ASSERT(!are_looked_at(arrivals_));
  if (!life_.carries()) input_.clear();
  const std::span<std::byte> room = input_.room();
  std::size_t staged = 0;
  const std::span<std::byte> staging = room.first(staging_limit(room.size()));
  const bool any =
      in_.has_payload() ? read_payload(staging, staged) : read_headers(staging, staged);
  input_.add(staged);
  return any;
}

// Returns `hungry` when all complete frames were used.
connection::intake connection::take_input(bool& any) noexcept {
  while (!input_.empty() && life_.carries()) {
    const std::span<const std::byte> bytes = input_.unused();
    if (in_.has_payload()) {
      CORDMA_ASSERT(!are_looked_at(arrivals_));
      const std::size_t n = std::min<std::size_t>(in_.left(), bytes.size());
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
    return are_looked_at(arrivals_) ? intake::handed : done;
  }
  if (are_looked_at(arrivals_)) return intake::handed;
  if (!in_.has_payload() && arrivals_ == arrival_state::by_receive) {
    arrivals_.become(arrival_state::possible);
  }
  return intake::hungry;
}

// The first frame of the input; its header is complete.
connection::intake connection::take_frame(const frame& f, std::size_t header_bytes) noexcept {
  const bool is_plain = f.type == frame_type::put || f.type == frame_type::send;
  const std::size_t size = header_bytes + f.length;
  if (is_plain && size <= input_buffer::capacity) {
    in_.expect(f.length);
    if (input_.unused().size() < size) return intake::hungry;
    if (takes_in_place()) return hand_out(f, size);
  }
  // Messages already passed to the caller must be examined before anything else happens.
  if (are_looked_at(arrivals_)) return intake::handed;
  if (!input_.is_seen() && !on_counters(f)) return fail_input(impossible_counters);
  input_.see(header_bytes);
  const bool in_turn = requests_ == peer_requests::carried_out;
  if (f.type == frame_type::put && in_turn && !has_receive()) return intake::waits;
  input_.use(header_bytes);
  carry_out(f);
  return intake::used;
}

// Passes a complete message in the input to the caller.
connection::intake connection::hand_out(const frame& f, std::size_t size) noexcept {
  // A message that took a receive is passed to the caller first.
  if (!share_.all_handed_out() || !home_.has_place()) return intake::later;
  if (!input_.is_seen() && !on_counters(f)) return fail_input(impossible_counters);
  input_.see(size);
  home_.add_arrived(*this, input_.unused().subspan(plain_header, f.length));
  input_.use(size);
  if (arrivals_ == arrival_state::possible) arrivals_.become(arrival_state::under_way);
  return intake::used;
}

// After messages that were passed to the caller, it fails once those were examined.
connection::intake connection::fail_input(const char* why) noexcept {
  if (are_looked_at(arrivals_)) return intake::handed;
  protocol_error(why);
  return intake::used;
}

void connection::looked_at(const arrived_message& m) noexcept {
  CORDMA_ASSERT(are_looked_at(arrivals_));
  if (!life_.carries()) return;
  const std::byte* const header = m.data - plain_header;
  if (m.stays) {
    if (arrivals_ == arrival_state::stopping) return;
    input_.go_back_to(header);
    arrivals_.become(arrival_state::stopping);
    return;
  }
  // Messages behind one that stays stay as well.
  CORDMA_REQUIRE(arrivals_ == arrival_state::under_way);
  if (static_cast<frame_type>(header[frame_at::type]) == frame_type::send) {
    acks_.carried_out(m.bytes);
  }
}

void connection::released() noexcept {
  arrivals_.become(arrivals_ == arrival_state::stopping ? arrival_state::by_receive
                                                        : arrival_state::possible);
  if (!life_.carries()) return;
  if (!input_.empty()) home_.mark(*this, work::pending);
  after_input();
}

// Suspends reading: later input is behind the waiting message.
void connection::await_receive() noexcept {
  CORDMA_ASSERT(linked());
  turn_.become(receive_turn::awaited);
  static_cast<void>(follow());  // watches fewer events than before: that cannot fail
}

// False if the socket can no longer be watched; the connection has then ended.
bool connection::stop_waiting() noexcept {
  turn_.become(receive_turn::none);
  const result<void> following = follow();
  if (!following) break_off(following.why());
  return following.ok();
}

// Cancels the wait for a receive.
void connection::withdraw() noexcept {
  share_.withdraw(*this);
  if (turn_ == receive_turn::none) return;
  turn_.become(receive_turn::none);
  // A failure loses only the notification of the peer's end, for which a timer waits as well.
  static_cast<void>(follow());
}

}  // namespace cordma::transport::tcp

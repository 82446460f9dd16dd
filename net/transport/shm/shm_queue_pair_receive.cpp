#include <arpa/inet.h>
#include <sys/uio.h>

#include <cerrno>
#include <charconv>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {
namespace {

constexpr std::size_t most_taken_per_poll = 64;            // messages
constexpr std::uint64_t most_fetched_per_poll = 1U << 20;  // bytes

}  // namespace

[[gnu::always_inline]] inline void shm_queue_pair::deliver(const cell_header& h, std::uint64_t id,
                                                           const segment* to, std::size_t count,
                                                           completion& out) noexcept {
  if (count == 1) {
    copy_bytes(to[0].addr, reader_.payload(), h.length);
  } else {
    segment_cursor(to, count).scatter(reader_.payload(), h.length);
  }
  out.id = id;
  out.byte_len = h.length;
  out.vendor_err = 0;
  out.status = wc_status::success;
  out.op = opcode::recv;
  out.has_imm = h.what == message::send_imm;
  out.imm = out.has_imm ? ntohl(h.imm) : 0;
  out.from = taker();
  reader_.take(cells_for(h.length));
}

[[gnu::always_inline]] inline void shm_queue_pair::store(const recv_request& request) noexcept {
  recv_entry& r = recvs_[recv_tail_++ & recv_mask_];
  r.id = request.id;
  r.count = request.segment_count;
  auto* const own = const_cast<segment*>(r.segments);
  for (std::size_t i = 0; i < r.count; ++i) own[i] = request.segments[i];
  r.capacity = total_bytes(own, r.count);
  r.permitted = domain_.permits(own, r.count, true);
}

posted shm_queue_pair::post_recv(const recv_request& request, completion& now) noexcept {
  CORDMA_REQUIRE_OP(recv_tail_ - recv_head_, <, options_.recv_depth);
  CORDMA_REQUIRE_OP(request.segment_count, <=, options_.max_segments);
  if (rnr_waiting_) [[unlikely]] {
    home_.home().remove(rnr_timer_);
    rnr_waiting_ = false;
  }
  if (receives_empty() && plain_ && reader_.ready() && !home_.handing_out && !lent_ &&
      take_at_once(request, now)) {
    by_receive_ = false;
    return posted::done;
  }
  store(request);
  return posted::pending;
}

// A shared receive for the message that has none.
bool shm_queue_pair::borrow() noexcept {
  if (shared_ == nullptr) return false;
  CORDMA_ASSERT(receives_empty());
  const recv_request* const lent = shared_->lend(*this);
  if (lent == nullptr) return false;
  if (rnr_waiting_) home_.home().remove(rnr_timer_);
  rnr_waiting_ = false;
  store(*lent);
  return true;
}

void shm_queue_pair::turn_came() noexcept {
  if (!turn_.linked()) home_.call(turn_);
}

// What it has taken comes back: nobody asks this queue pair any more.
void shm_queue_pair::leave_shared() noexcept {
  shared_->withdraw(*this);
  CORDMA_ASSERT_OP(recv_tail_ - recv_head_, <=, 1U);
  if (!receives_empty()) {
    shared_->finish(
        {.id = first_receive().id, .status = wc_status::wr_flush_err, .op = opcode::recv});
  }
  shared_->leave(*this);
}

// Into a receive that need not be stored: the oldest message waits for it.
bool shm_queue_pair::take_at_once(const recv_request& r, completion& out) noexcept {
  const cell_header h = reader_.header();
  if (h.what > message::send_imm || h.flags != 0 || in_partial_ ||
      h.length > reader_.most_payload() || h.length > total_bytes(r.segments, r.segment_count) ||
      !domain_.permits(r.segments, r.segment_count, true)) {
    return false;
  }
  deliver(h, r.id, r.segments, r.segment_count, out);
  // Nobody may poll after this for long, and the sender may be waiting for it to be taken.
  if (!reader_.ready()) tell();
  return true;
}

void shm_queue_pair::put_back(const arrived_message& m) noexcept {
  by_receive_ = true;
  if (m.data == nullptr) {
    in_place = nullptr;
  } else if (state_ == state::up) {
    reader_.step_back(cells_for(m.bytes));
  }
}

// REQUIRES room, and that it is up.
std::size_t shm_queue_pair::take_in_place(std::span<arrived_message> out,
                                          std::size_t have) noexcept {
  for (; have != out.size() && reader_.ready(); ++have) {
    const cell_header h = reader_.header();
    if (!is_whole(h)) return lent_ || !needs_receive(h, out[have]) ? have : have + 1;
    lend(h, out[have]);
  }
  return have;
}

bool shm_queue_pair::needs_receive(cell_header h, arrived_message& m) noexcept {
  if (h.what > message::write_imm) return false;  // poll() sees to it
  by_receive_ = true;
  if (shared_ != nullptr) return false;
  m = {.from = this, .stays = true};
  return true;
}

std::size_t shm_queue_pair::receive(std::span<completion> out, bool& progressed) noexcept {
  if (lent_) return 0;  // what is behind those waits until they are looked at
  std::size_t n = 0;
  const std::size_t most = std::min(out.size(), most_taken_per_poll);
  for (std::size_t taken = 0; n < most && taken < most_taken_per_poll; ++taken) {
    if (fetch_.active) [[unlikely]] {
      progressed = true;
      if (!fetch_some(out[n])) break;
      ++n;
      continue;
    }
    if (!reader_.ready()) break;
    if (receives_empty() && has_whole()) break;
    const taking t = take(reader_.header(), out[n]);
    if (t == taking::blocked) break;
    progressed = true;
    if (t == taking::delivered) ++n;
  }
  if (reader_.untold() && state_ == state::up) {
    if (n < most) {
      tell();
    } else {
      plain_ = false;  // the next poll does
    }
  }
  if (by_receive_ && shared_ != nullptr) {
    by_receive_ = fetch_.active || in_partial_ || !receives_empty() || reader_.ready();
  }
  return n;
}

shm_queue_pair::taking shm_queue_pair::take(const cell_header& h, completion& out) noexcept {
  switch (h.what) {
    case message::send:
    case message::send_imm: return take_send(h, out);
    case message::fetch:
    case message::fetch_imm: return start_fetch(h);
    case message::write_imm: return take_write_imm(h, out);
    case message::serve: serve(h); return taking::consumed;
    case message::bye:
      reader_.take(1);
      heard_bye_ = true;
      fail(failure::of(errc::not_connected, {peer_text(), " closed the connection"}));
      return taking::blocked;
  }
  malformed("a message of an unknown kind");
  return taking::blocked;
}

shm_queue_pair::taking shm_queue_pair::take_send(const cell_header& h, completion& out) noexcept {
  if (receives_empty() && !borrow()) return no_receive();
  recv_entry& r = first_receive();
  if (h.flags != 0 || in_partial_) [[unlikely]]
    return take_fragment(h, out);
  if (h.length > r.capacity || !r.permitted || h.length > reader_.most_payload()) [[unlikely]] {
    if (h.length > reader_.most_payload()) {
      malformed("a message longer than the ring");
    } else if (!r.permitted) {
      not_allowed(r, reader_.position());
    } else {
      too_long(r, reader_.position());
    }
    return taking::blocked;
  }
  deliver(h, r.id, r.segments, r.count, out);
  ++recv_head_;
  return taking::delivered;
}

shm_queue_pair::taking shm_queue_pair::take_fragment(const cell_header& h,
                                                     completion& out) noexcept {
  recv_entry& r = first_receive();
  const bool first = (h.flags & message_flag::continued) == 0;
  if (first == in_partial_ || h.length > reader_.most_payload()) {
    malformed("fragments out of order");
    return taking::blocked;
  }
  if (!r.permitted) {
    not_allowed(r, reader_.position());
    return taking::blocked;
  }
  CORDMA_ASSERT_OP(partial_, <=, r.capacity);
  if (h.length > r.capacity - partial_) {
    too_long(r, reader_.position());
    return taking::blocked;
  }
  segment_cursor(r.segments, r.count, partial_).scatter(reader_.payload(), h.length);
  partial_ += h.length;
  in_partial_ = (h.flags & message_flag::continues) != 0;
  reader_.take(cells_for(h.length));
  if (in_partial_) return taking::consumed;
  out = completion{};
  out.id = r.id;
  out.from = taker();
  out.byte_len = static_cast<std::uint32_t>(std::exchange(partial_, 0));
  out.op = opcode::recv;
  out.has_imm = h.what == message::send_imm;
  out.imm = out.has_imm ? ntohl(h.imm) : 0;
  ++recv_head_;
  return taking::delivered;
}

shm_queue_pair::taking shm_queue_pair::take_write_imm(const cell_header& h,
                                                      completion& out) noexcept {
  if (receives_empty() && !borrow()) return no_receive();
  out = completion{};
  out.id = first_receive().id;
  out.from = taker();
  out.byte_len = h.length;
  out.op = opcode::recv_write_imm;
  out.has_imm = true;
  out.imm = ntohl(h.imm);
  ++recv_head_;
  reader_.take(1);
  return taking::delivered;
}

shm_queue_pair::taking shm_queue_pair::start_fetch(const cell_header& h) noexcept {
  if (receives_empty() && !borrow()) return no_receive();
  if (h.pieces == 0 || h.pieces > most_segments || h.length != h.pieces * sizeof(piece) ||
      in_partial_) {
    malformed("a descriptor of the wrong size");
    return taking::blocked;
  }
  fetch_state& f = fetch_;
  std::memcpy(f.pieces.data(), reader_.payload(), h.length);
  f.count = h.pieces;
  f.index = 0;
  f.in_piece = f.offset = f.total = 0;
  f.position = reader_.position();
  f.has_imm = h.what == message::fetch_imm;
  f.imm = f.has_imm ? ntohl(h.imm) : 0;
  const std::uint64_t most = domain_.caps().max_message;
  for (std::uint32_t i = 0; i < f.count; ++i) {
    if (f.pieces[i].length > most || (f.total += f.pieces[i].length) > most) {
      malformed("a message longer than any may be");
      return taking::blocked;
    }
  }
  recv_entry& r = first_receive();
  if (!r.permitted) {
    not_allowed(r, f.position);
    return taking::blocked;
  }
  if (f.total > r.capacity) {
    too_long(r, f.position);
    return taking::blocked;
  }
  f.active = true;
  plain_ = false;
  reader_.take(cells_for(h.length));
  return taking::consumed;
}

// True: the message is complete, `out` is its completion.
bool shm_queue_pair::fetch_some(completion& out) noexcept {
  fetch_state& f = fetch_;
  recv_entry& r = first_receive();
  std::uint64_t budget = most_fetched_per_poll;
  while (f.index < f.count && budget != 0) {
    const piece& p = f.pieces[f.index];
    const std::uint64_t bytes = std::min(p.length - f.in_piece, budget);
    if (bytes != 0 && !fetch_piece(p, bytes, r)) return false;
    f.in_piece += bytes;
    f.offset += bytes;
    budget -= bytes;
    if (f.in_piece == p.length) {
      ++f.index;
      f.in_piece = 0;
    }
  }
  if (f.index < f.count) {
    hold_up();
    return false;
  }
  CORDMA_ASSERT_OP(f.offset, ==, f.total);
  // A sender that failed meanwhile has its buffers back: what was copied may be anything.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (peer_withdrew()) {
    lose_peer(failure::of(errc::connection_reset, {peer_text(), " withdrew a message in flight"}));
    finish_dying();
    return false;
  }
  out = completion{};
  out.id = r.id;
  out.from = taker();
  out.byte_len = static_cast<std::uint32_t>(f.total);
  out.op = opcode::recv;
  out.has_imm = f.has_imm;
  out.imm = f.imm;
  ++recv_head_;
  f.active = false;
  in_control().fetched.store(++fetches_done_, std::memory_order_release);
  wake_waiter();
  settle();
  return true;
}

bool shm_queue_pair::fetch_piece(const piece& p, std::uint64_t bytes, recv_entry& r) noexcept {
  fetch_state& f = fetch_;
  const std::uint64_t from = p.where + f.in_piece;
  segment_cursor to(r.segments, r.count, f.offset);
  if (p.lkey != 0) {
    remote_region* region = offers_.find(offer_key(p.lkey, p.epoch));
    if (region == nullptr) {  // the offer was sent before the message: it waits in the socket
      on_ready(0);
      if (state_ != state::up) return false;
      region = offers_.find(offer_key(p.lkey, p.epoch));
    }
    if (region == nullptr || !region->covers(from, bytes)) {
      malformed("a message from memory that was never offered");
      return false;
    }
    if (step_in(*region)) {
      const bool mapped = region->bytes_at != nullptr;
      if (mapped) to.scatter(region->bytes_at + from, bytes);
      const bool copied = mapped || read_from_peer(region->unmapped_at + from, bytes, to);
      step_out();
      return copied;
    }
    step_out();
    lose_peer(failure::of(errc::connection_reset,
                          {peer_text(), " deregistered the memory of a message in flight"}));
    finish_dying();
    return false;
  }
  if (!can_read_peer_) {
    malformed("a message from memory that cannot be reached");
    return false;
  }
  return read_from_peer(from, bytes, to);
}

bool shm_queue_pair::read_from_peer(std::uint64_t from, std::uint64_t bytes,
                                    segment_cursor& to) noexcept {
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(from)), bytes};
  while (remote.iov_len != 0) {
    const std::span<std::byte> part = to.next(remote.iov_len);
    iovec local{part.data(), part.size()};
    iovec source{remote.iov_base, part.size()};
    const ssize_t n = ::process_vm_readv(peer_.who.pid, &local, 1, &source, 1, 0);
    if (n != static_cast<ssize_t>(part.size())) {
      const int why = n < 0 ? errno : 0;
      lose_peer(failure::of(errc::connection_reset, {"reading a message of ", peer_text(),
                                                     " failed: it ended, or freed the buffer"})
                    .with_errno(why));
      finish_dying();
      return false;
    }
    remote.iov_base = static_cast<std::byte*>(remote.iov_base) + part.size();
    remote.iov_len -= part.size();
  }
  return true;
}

// Tells the sender that this side looked, and that it is not the message's turn yet.
void shm_queue_pair::hold_up() noexcept {
  std::atomic<std::uint64_t>& looks = in_control().held_up;
  looks.store(looks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

shm_queue_pair::taking shm_queue_pair::no_receive() noexcept {
  hold_up();
  if (rnr_waiting_ || peer_.rnr_retry >= 7) return taking::blocked;
  rnr_waiting_ = true;
  const auto wait = duration(static_cast<duration::rep>(peer_.rnr_timer_ns)) * peer_.rnr_retry;
  home_.home().add(rnr_timer_, after(home_.home().now(), wait));
  return taking::blocked;
}

void shm_queue_pair::on_rnr_timeout() noexcept {
  rnr_waiting_ = false;
  if (state_ != state::up || !receives_empty() || !reader_.ready()) return;
  if (shared_ != nullptr && shared_->lends_to(*this)) return;  // its turn has come
  fail_and_tell(failure(errc::remote_not_ready,
                        "no receive was posted in time for a message: post receives earlier, or "
                        "raise rnr_retry"),
                wc_status::rnr_retry_exc_err, reader_.position());
}

void shm_queue_pair::too_long(recv_entry& r, std::uint64_t position) noexcept {
  std::array<char, 24> bytes;
  const char* const end = std::to_chars(bytes.begin(), bytes.end(), r.capacity).ptr;
  fail_and_tell(
      failure::of(errc::truncated, {"a message is longer than the receive of ",
                                    std::string_view(bytes.begin(), end), " bytes posted for it"}),
      wc_status::rem_inv_req_err, position, wc_status::loc_len_err);
}

void shm_queue_pair::not_allowed(recv_entry&, std::uint64_t position) noexcept {
  fail_and_tell(
      failure(errc::not_permitted, "a receive names memory that is not registered for local_write"),
      wc_status::rem_op_err, position, wc_status::loc_prot_err);
}

void shm_queue_pair::tell() noexcept {
  if (!reader_.untold() || lent_) return;
  reader_.tell();
  wake_waiter();
}

}  // namespace cordma::transport::shm

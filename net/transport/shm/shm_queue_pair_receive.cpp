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

posted shm_queue_pair::post_recv(const recv_request& request, completion& now) noexcept {
  CORDMA_REQUIRE_OP(receives_.size(), <, options_.recv_depth);
  CORDMA_REQUIRE_OP(request.segment_count, <=, options_.max_segments);
  if (rnr_timer_.pending()) [[unlikely]]
    home_.home().remove(rnr_timer_);
  if (receives_.empty() && plain_ && reader_.ready() && !home_.handing_out() && !lent_ &&
      take_at_once(request, now)) {
    by_receive_ = false;
    return posted::done;
  }
  receives_.store(request, domain_);
  return posted::pending;
}

// Obtains a shared receive for a message that has none.
bool shm_queue_pair::borrow() noexcept {
  CORDMA_ASSERT(receives_.empty());
  const recv_request* const lent = share_.lend(*this);
  if (lent == nullptr) return false;
  home_.home().remove(rnr_timer_);
  receives_.store(*lent, domain_);
  return true;
}

void shm_queue_pair::turn_came() noexcept {
  if (!turn_.linked()) home_.call(turn_);
}

// Copies into a receive that need not be stored: the oldest message waits for it.
bool shm_queue_pair::take_at_once(const recv_request& r, completion& out) noexcept {
  const cell_header h = reader_.header();
  if (h.what > message::send_imm || h.flags != 0 || arriving_.is_in_fragments() ||
      h.length > reader_.most_payload() || h.length > total_bytes(r.segments, r.segment_count) ||
      !domain_.permits(r.segments, r.segment_count, true)) {
    return false;
  }
  deliver(h, r.id, r.segments, r.segment_count, out);
  // There may be no poll for a long time, and the sender may be waiting for this progress.
  if (!reader_.ready()) tell();
  return true;
}

void shm_queue_pair::put_back(const arrived_message& m) noexcept {
  by_receive_ = true;
  if (m.data == nullptr) {
    set_in_place(nullptr);
  } else if (is_up()) {
    reader_.step_back(cells_for(m.bytes));
  }
}

// REQUIRES free space in `out`, and that the pair is up.
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
  if (h.what > message::write_imm) return false;  // poll() handles it
  by_receive_ = true;
  if (share_) return false;
  m = {.from = this, .stays = true};
  return true;
}

std::size_t shm_queue_pair::receive(std::span<completion> out, bool& progressed) noexcept {
  if (lent_) return 0;  // later messages wait until the lent ones are read
  std::size_t n = 0;
  const std::size_t most = std::min(out.size(), most_taken_per_poll);
  for (std::size_t taken = 0; n < most && taken < most_taken_per_poll; ++taken) {
    if (arriving_.is_fetched()) [[unlikely]] {
      progressed = true;
      if (!fetch_some(out[n])) break;
      ++n;
      continue;
    }
    if (!reader_.ready()) break;
    if (receives_.empty() && has_whole()) break;
    const taking t = take(reader_.header(), out[n]);
    if (t == taking::blocked) break;
    progressed = true;
    if (t == taking::delivered) ++n;
  }
  if (reader_.untold() && is_up()) {
    if (n < most) {
      tell();
    } else {
      plain_ = false;  // the next poll publishes
    }
  }
  if (by_receive_ && share_) {
    by_receive_ = arriving_.is_fetched() || arriving_.is_in_fragments() || !receives_.empty() ||
                  reader_.ready();
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
      fail(failure::of(errc::not_connected, {peer_text(), " closed the connection"}));
      return taking::blocked;
  }
  malformed("a message of an unknown kind");
  return taking::blocked;
}

shm_queue_pair::taking shm_queue_pair::take_send(const cell_header& h, completion& out) noexcept {
  if (receives_.empty() && !borrow()) return no_receive();
  recv_entry& r = receives_.first();
  if (h.flags != 0 || arriving_.is_in_fragments()) [[unlikely]]
    return take_fragment(h, out);
  if (h.length > r.capacity || !r.permitted || h.length > reader_.most_payload()) [[unlikely]] {
    if (h.length > reader_.most_payload()) {
      malformed("a message longer than the ring");
    } else if (!r.permitted) {
      not_allowed(reader_.position());
    } else {
      too_long(r, reader_.position());
    }
    return taking::blocked;
  }
  deliver(h, r.id, r.segments, r.count, out);
  receives_.pop();
  return taking::delivered;
}

shm_queue_pair::taking shm_queue_pair::take_fragment(const cell_header& h,
                                                     completion& out) noexcept {
  recv_entry& r = receives_.first();
  const bool first = (h.flags & message_flag::continued) == 0;
  if (first == arriving_.is_in_fragments() || h.length > reader_.most_payload()) {
    malformed("fragments out of order");
    return taking::blocked;
  }
  if (!r.permitted) {
    not_allowed(reader_.position());
    return taking::blocked;
  }
  CORDMA_ASSERT_OP(arriving_.bytes(), <=, r.capacity);
  if (h.length > r.capacity - arriving_.bytes()) {
    too_long(r, reader_.position());
    return taking::blocked;
  }
  segment_cursor(r.segments, r.count, arriving_.bytes()).scatter(reader_.payload(), h.length);
  const std::uint64_t bytes = arriving_.add_fragment(h);
  reader_.take(cells_for(h.length));
  if (arriving_.is_in_fragments()) return taking::consumed;
  complete(h, bytes, out);
  return taking::delivered;
}

shm_queue_pair::taking shm_queue_pair::take_write_imm(const cell_header& h,
                                                      completion& out) noexcept {
  if (receives_.empty() && !borrow()) return no_receive();
  complete(h, h.length, out);
  reader_.take(1);
  return taking::delivered;
}

void shm_queue_pair::complete(const cell_header& h, std::uint64_t bytes, completion& out) noexcept {
  const bool is_write = h.what == message::write_imm;
  out = completion{};
  out.id = receives_.first().id;
  out.from = taker();
  out.byte_len = static_cast<std::uint32_t>(bytes);
  out.op = is_write ? opcode::recv_write_imm : opcode::recv;
  out.has_imm = is_write || h.what == message::send_imm || h.what == message::fetch_imm;
  out.imm = out.has_imm ? ntohl(h.imm) : 0;
  receives_.pop();
}

shm_queue_pair::taking shm_queue_pair::start_fetch(const cell_header& h) noexcept {
  if (receives_.empty() && !borrow()) return no_receive();
  if (h.pieces == 0 || h.pieces > most_segments || h.length != h.pieces * sizeof(piece) ||
      arriving_.is_in_fragments()) {
    malformed("a descriptor of the wrong size");
    return taking::blocked;
  }
  if (!arriving_.describe(h, reader_.payload(), domain_.caps().max_message)) {
    malformed("a message longer than any may be");
    return taking::blocked;
  }
  recv_entry& r = receives_.first();
  if (!r.permitted) {
    not_allowed(reader_.position());
    return taking::blocked;
  }
  if (arriving_.total() > r.capacity) {
    too_long(r, reader_.position());
    return taking::blocked;
  }
  arriving_.fetch();
  plain_ = false;
  reader_.take(cells_for(h.length));
  return taking::consumed;
}

// True: the message is complete, `out` is its completion.
bool shm_queue_pair::fetch_some(completion& out) noexcept {
  std::uint64_t budget = most_fetched_per_poll;
  while (!arriving_.is_whole() && budget != 0) {
    const std::uint64_t bytes = std::min(arriving_.left(), budget);
    if (bytes != 0 && !fetch_piece(bytes)) return false;
    arriving_.add(bytes);
    budget -= bytes;
  }
  if (!arriving_.is_whole()) {
    hold_up();
    return false;
  }
  // A sender that failed meanwhile may reuse its buffers: the copied bytes may be wrong.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (peer_withdrew()) {
    lose_peer_now(
        failure::of(errc::connection_reset, {peer_text(), " withdrew a message in flight"}));
    return false;
  }
  complete(arriving_.descriptor(), arriving_.finish(), out);
  count_up(in_control().fetched);
  wake_waiter();
  settle();
  return true;
}

bool shm_queue_pair::fetch_piece(std::uint64_t bytes) noexcept {
  const piece& p = arriving_.next();
  const recv_entry& r = receives_.first();
  const std::uint64_t from = arriving_.where();
  segment_cursor to(r.segments, r.count, arriving_.bytes());
  if (p.lkey != 0) {
    remote_memory& offers = talk_.offers();
    remote_region* region = offers.find(offer_key(p.lkey, p.epoch));
    if (region == nullptr) {  // the offer was sent before the message: it is still in the socket
      on_ready(0);
      if (!is_up()) return false;
      region = offers.find(offer_key(p.lkey, p.epoch));
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
    lose_peer_now(failure::of(errc::connection_reset,
                              {peer_text(), " deregistered the memory of a message in flight"}));
    return false;
  }
  if (!peer_.is_readable) {
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
      lose_peer_now(failure::of(errc::connection_reset, {"reading a message of ", peer_text(),
                                                         " failed: it ended, or freed the buffer"})
                        .with_errno(why));
      return false;
    }
    remote.iov_base = static_cast<std::byte*>(remote.iov_base) + part.size();
    remote.iov_len -= part.size();
  }
  return true;
}

// Shows the sender that this side looked, and that the message has to wait.
void shm_queue_pair::hold_up() noexcept { count_up(in_control().held_up); }

shm_queue_pair::taking shm_queue_pair::no_receive() noexcept {
  hold_up();
  if (rnr_timer_.pending() || peer_.rnr_retry >= 7) return taking::blocked;
  const auto wait = duration(static_cast<duration::rep>(peer_.rnr_timer_ns)) * peer_.rnr_retry;
  home_.home().add(rnr_timer_, after(home_.home().now(), wait));
  return taking::blocked;
}

void shm_queue_pair::on_rnr_timeout() noexcept {
  if (!is_up() || !receives_.empty() || !reader_.ready()) return;
  if (share_.lends_to(*this)) return;  // a receive is available to it now
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

void shm_queue_pair::not_allowed(std::uint64_t position) noexcept {
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

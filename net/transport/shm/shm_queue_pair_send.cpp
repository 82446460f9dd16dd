#include <arpa/inet.h>
#include <unistd.h>

#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {
namespace {

// Fills the completion directly. A copy of a completion made elsewhere would be read in larger
// pieces than it was written in, before those stores have left the store buffer.
void succeed(completion& c, const send_request& r) noexcept {
  c = completion{};
  c.id = r.id;
  c.op = r.op;
}

bool carries_imm(opcode op) noexcept { return op == opcode::send_imm || op == opcode::write_imm; }

std::uint32_t wire_imm(const send_request& r) noexcept {
  return carries_imm(r.op) ? htonl(r.imm) : 0;
}

}  // namespace

// REQUIRES free space in the ring.
[[gnu::always_inline]] inline void shm_queue_pair::write_eager(const send_request& r,
                                                               std::uint64_t total) noexcept {
  std::byte* const to = writer_.payload();
  if (r.segment_count == 1) {
    copy_bytes(to, r.segments[0].addr, total);
  } else {
    segment_cursor(r.segments, r.segment_count).gather(to, total);
  }
  const bool more = (r.flags & post_flag::more) != 0;
  writer_.write(r.op == opcode::send ? message::send : message::send_imm, 0, 0, wire_imm(r),
                static_cast<std::uint32_t>(total), cells_for(total), more);
  published(more);
}

// The same as access_now(), for one segment of at most one piece. This is by far the most frequent
// case: an eight-byte write must not cost much more than its store. False: not such a case, or
// refused.
[[gnu::always_inline]] inline bool shm_queue_pair::access_one(const send_request& r) noexcept {
  const bool reads = r.op == opcode::read;
  if (r.segment_count != 1 || !(reads || r.op == opcode::write)) return false;
  const remote_region* const region = regions_.find(r.rkey);
  const segment& local = r.segments[0];
  if (region == nullptr || region->bytes_at == nullptr || local.length > access_piece ||
      !has(region->rights, reads ? access::remote_read : access::remote_write) ||
      !region->covers(r.remote_addr, local.length)) {
    return false;
  }
  std::byte* const at = region->bytes_at + (r.remote_addr - region->addr);
  const bool valid = step_in(*region);
  if (valid) {
    copy_bytes(reads ? local.addr : at, reads ? at : local.addr, local.length);
  }
  step_out();
  return valid;
}

bool shm_queue_pair::post_now(send_request& request) noexcept {
  const bool is_free = plain_ && !home_.handing_out();
  if (!is_free) [[unlikely]]
    return carry_out(request, request.operand);
  return request.op == opcode::flush ? all_taken() : access_now(request);
}

[[gnu::noinline]] bool shm_queue_pair::access_now(send_request& request) noexcept {
  return access_one(request) || carry_out(request, request.operand);
}

// `old`: receives the word's previous value for an atomic.
[[gnu::noinline]] bool shm_queue_pair::carry_out(const send_request& request,
                                                 std::uint64_t& old) noexcept {
  if (!open_ || !sends_.empty() || home_.handing_out()) return false;
  if (request.op == opcode::flush) return all_taken();
  const bool is_atomic = request.op == opcode::fetch_add || request.op == opcode::compare_swap;
  const std::uint64_t total = total_bytes(request.segments, request.segment_count);
  if (request.segment_count > options_.max_segments || total > domain_.caps().max_message)
    return false;
  if (request.op <= opcode::send_imm) {
    if (total > eager_ || !writer_.room(cells_for(total))) return false;
    write_eager(request, total);
    return true;
  }
  if (total == 0 && !is_atomic) return false;
  remote_region* const region = regions_.find(request.rkey);
  if (region == nullptr || region->bytes_at == nullptr) return false;
  if (is_atomic) return atomic_now(request, *region, old);
  if (request.op == opcode::write_imm) return write_and_tell(request, total, *region);
  return access_now(request, total, *region) == wc_status::success;
}

posted shm_queue_pair::post_send(const send_request& request, completion& now) noexcept {
  std::uint64_t old = 0;
  const bool has_word = request.op == opcode::fetch_add || request.op == opcode::compare_swap;
  const bool is_permitted =
      (request.flags & post_flag::inline_data) != 0 ||
      domain_.permits(request.segments, request.segment_count, request.op == opcode::read);
  if (has_word || !is_permitted || !carry_out(request, old)) return post_slowly(request, now);
  succeed(now, request);
  if (request.op > opcode::send_imm) {
    now.byte_len = static_cast<std::uint32_t>(total_bytes(request.segments, request.segment_count));
  }
  return posted::done;
}

// One word is a separate case, so that it is copied without a call.
bool shm_queue_pair::put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept {
  if (bytes != sizeof(std::uint64_t) || !plain_ || !writer_.put(&head, data, sizeof(std::uint64_t)))
      [[unlikely]] {
    return put_headed(head, data, bytes);
  }
  wake_peer();
  return true;
}

// A separate function, so that the head stays in registers in the case of one word.
[[gnu::noinline]] bool shm_queue_pair::put_headed(message_head head, const std::byte* data,
                                                  std::uint32_t bytes) noexcept {
  return put_any(&head, data, bytes);
}

bool shm_queue_pair::put(const std::byte* data, std::uint32_t bytes) noexcept {
  if (bytes != sizeof(std::uint64_t) || !plain_ ||
      !writer_.put(nullptr, data, sizeof(std::uint64_t))) [[unlikely]] {
    return put_any(nullptr, data, bytes);
  }
  wake_peer();
  return true;
}

[[gnu::noinline]] bool shm_queue_pair::put_any(const message_head* head, const std::byte* data,
                                               std::uint32_t bytes) noexcept {
  const std::uint64_t total = bytes + (head != nullptr ? sizeof *head : 0);
  if (!open_ || !sends_.empty() || total > eager_ || !writer_.room(cells_for(total)) ||
      !writer_.put(head, data, bytes)) {
    return false;
  }
  wake_peer();
  return true;
}

// True if the peer has consumed all sent messages; then all writes are visible in its memory.
[[gnu::noinline]] bool shm_queue_pair::all_taken() noexcept {
  show_withheld();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return writer_.taken() >= writer_.position();
}

posted shm_queue_pair::post_slowly(const send_request& request, completion& now) noexcept {
  CORDMA_REQUIRE_OP(sends_.size(), <, options_.send_depth);
  CORDMA_REQUIRE_OP(request.segment_count, <=, options_.max_segments);
  CORDMA_REQUIRE(domain_.caps().supports(service::rc, request.op));
  send_entry& e = sends_.post(request);
  plain_ = false;
  if (open_) {
    advance();
    if (state_ == state::open && sends_.size() == 1 && e.at == stage::finished &&
        !home_.handing_out()) {
      sends_.retire();
      settle();
      succeed(now, e.request);
      now.byte_len = static_cast<std::uint32_t>(e.total);
      return posted::done;
    }
  }
  watch_peer();
  return posted::pending;
}

void shm_queue_pair::ring() noexcept {
  sends_.end_batch();
  show_withheld();
}

void shm_queue_pair::show_withheld() noexcept {
  if (!writer_.withholds()) return;
  writer_.release();
  wake_peer();
}

// Carries out the requests that can be carried out now, in order.
void shm_queue_pair::advance() noexcept {
  while (is_up() && !sends_.all_executed() && !ending_.stops_at(sends_.executed())) {
    if (!execute(sends_.next())) break;
    sends_.execute();
  }
  if (is_up()) settle();
}

// True: the entry has left the stage `waiting`.
bool shm_queue_pair::execute(send_entry& e) noexcept {
  switch (e.request.op) {
    case opcode::send:
    case opcode::send_imm: return execute_send(e);
    case opcode::flush:
      e.at = all_taken() ? stage::finished : stage::flush;
      e.goal = writer_.position();
      return true;
    default: return execute_access(e);
  }
}

bool shm_queue_pair::execute_send(send_entry& e) noexcept {
  const send_request& r = e.request;
  const bool is_inline = (r.flags & post_flag::inline_data) != 0;
  if (e.total > domain_.caps().max_message) {
    fail_entry(e, wc_status::loc_len_err, "a message is longer than max_message");
    return true;
  }
  if (!is_inline && !domain_.permits(r.segments, r.segment_count, false)) {
    fail_entry(e, wc_status::loc_prot_err, "a send names memory that is not registered");
    return true;
  }
  if (e.offset == 0) {
    if (e.total <= eager_) {
      if (!writer_.room(cells_for(e.total))) return blocked_for_room();
      e.position = writer_.position();
      write_eager(r, e.total);
      e.at = stage::finished;
      return true;
    }
    bool impossible = is_inline;
    if (!is_inline) {
      const bool moved = execute_fetch(e, impossible);
      if (!impossible) return moved;
    }
  }
  return execute_fragments(e);
}

// Sends through the ring, piece by piece: for memory that the receiver cannot reach.
bool shm_queue_pair::execute_fragments(send_entry& e) noexcept {
  const send_request& r = e.request;
  while (e.offset < e.total) {
    const std::uint64_t bytes = std::min(e.total - e.offset, eager_);
    if (!writer_.room(cells_for(bytes))) return blocked_for_room();
    if (e.offset == 0) e.position = writer_.position();
    segment_cursor(r.segments, r.segment_count, e.offset).gather(writer_.payload(), bytes);
    const bool last = e.offset + bytes == e.total;
    unsigned flags = e.offset == 0 ? 0U : message_flag::continued;
    if (!last) flags |= message_flag::continues;
    e.offset += bytes;
    writer_.write(r.op == opcode::send ? message::send : message::send_imm,
                  static_cast<std::uint8_t>(flags), 0, wire_imm(r),
                  static_cast<std::uint32_t>(bytes), cells_for(bytes), false);
    wake_peer();
  }
  CORDMA_ASSERT_OP(e.offset, ==, e.total);
  e.at = stage::finished;
  return true;
}

// Writes a descriptor to the ring; the receiver copies from our memory. `impossible`: the receiver
// cannot reach some of it.
bool shm_queue_pair::execute_fetch(send_entry& e, bool& impossible) noexcept {
  const send_request& r = e.request;
  std::array<piece, most_segments> pieces;
  std::uint32_t count = 0;
  CORDMA_ASSERT_OP(r.segment_count, <=, pieces.size());
  for (std::size_t i = 0; i < r.segment_count; ++i) {
    const segment& s = r.segments[i];
    if (s.length == 0) continue;
    const memory_range* const registered = domain_.regions().local(s.lkey);
    CORDMA_ASSERT(registered != nullptr);
    const memory_range& range = *registered;
    bool blocked = false;
    if (range.shared_fd >= 0 && offer(s.lkey, range, blocked)) {
      pieces[count++] = {s.lkey, talk_.last_epoch(),
                         static_cast<std::uint64_t>(s.addr - range.addr), s.length};
    } else if (blocked) {
      return false;
    } else if (peer_.reads_us) {
      pieces[count++] = {0, 0, reinterpret_cast<std::uintptr_t>(s.addr), s.length};
    } else {
      impossible = true;
      return false;
    }
  }
  const std::uint64_t bytes = count * sizeof(piece);
  if (!writer_.room(cells_for(bytes))) return blocked_for_room();
  e.position = writer_.position();
  std::memcpy(writer_.payload(), pieces.data(), bytes);
  const bool more = (r.flags & post_flag::more) != 0;
  writer_.write(r.op == opcode::send ? message::fetch : message::fetch_imm, 0,
                static_cast<std::uint16_t>(count), wire_imm(r), static_cast<std::uint32_t>(bytes),
                cells_for(bytes), more);
  published(more);
  CORDMA_ASSERT_OP(count, >, 0U);
  e.goal = sends_.next_fetch();
  e.at = stage::fetch;
  return true;
}

// In the order of the posts, as a NIC does.
std::size_t shm_queue_pair::retire(std::span<completion> out) noexcept {
  if (!sends_.any_executed()) return 0;
  const std::uint64_t fetched = out_control().fetched.load(std::memory_order_acquire);
  if (!sends_.on_fetched(fetched)) {
    malformed("more messages fetched than were sent");
    return 0;
  }
  std::size_t n = 0;
  for (; n < out.size() && sends_.any_executed(); sends_.retire()) {
    const send_entry& e = sends_.oldest();
    if (!is_done(e, fetched)) break;
    succeed(out[n], e.request);
    out[n++].byte_len = static_cast<std::uint32_t>(e.total);
  }
  return n;
}

bool shm_queue_pair::is_done(const send_entry& e, std::uint64_t fetched) noexcept {
  if (e.at == stage::fetch) return fetched >= e.goal;
  return e.at == stage::finished || (e.at == stage::flush && writer_.taken() >= e.goal);
}

// Requests that the peer has completed are done, even if the connection ended afterwards.
void shm_queue_pair::finish_taken() noexcept {
  std::uint64_t fetched = out_control().fetched.load(std::memory_order_acquire);
  if (!sends_.on_fetched(fetched)) fetched = 0;
  for (std::uint32_t i = sends_.retired(); i != sends_.executed(); ++i) {
    if (is_done(sends_[i], fetched)) sends_[i].at = stage::finished;
  }
}

void shm_queue_pair::fail_entry(send_entry& e, wc_status status, const char* why) noexcept {
  e.status = status;
  fail_and_tell(failure(to_errc(status), why), wc_status::wr_flush_err, no_position);
}

bool shm_queue_pair::blocked_for_room() noexcept {
  show_withheld();  // otherwise the peer could not free space
  if (writer_.broken()) malformed("impossible progress");
  return false;
}

void shm_queue_pair::wake_sleeper() noexcept {
  // Pairs with arm(): either the peer sees the published message, or we see its nap.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t nap = peer_page_->nap.load(std::memory_order_relaxed);
  if (nap == 0 || nap == peer_.last_nap) return;
  peer_.last_nap = nap;
  ring_doorbell();
}

void shm_queue_pair::ring_doorbell() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(peer_.doorbell.get(), &one, sizeof one);
}

// Called after a change of one of the consumer's counters.
void shm_queue_pair::wake_waiter() noexcept {
  if (peer_page_->may_sleep.load(std::memory_order_relaxed) == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (in_control().waiting.load(std::memory_order_relaxed) != 0) wake_sleeper();
}

void shm_queue_pair::set_waiting(bool waits) noexcept {
  std::atomic<std::uint32_t>& said = out_control().waiting;
  const std::uint32_t now = waits ? 1 : 0;
  if (said.load(std::memory_order_relaxed) != now) said.store(now, std::memory_order_relaxed);
}

}  // namespace cordma::transport::shm

#include <arpa/inet.h>
#include <sys/uio.h>

#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {
namespace {

bool is_atomic(opcode op) noexcept { return op == opcode::fetch_add || op == opcode::compare_swap; }

access wanted(opcode op) noexcept {
  if (is_atomic(op)) return access::remote_atomic;
  return op == opcode::read ? access::remote_read : access::remote_write;
}

std::uint64_t run_atomic(std::byte* at, bool add, std::uint64_t operand,
                         std::uint64_t swap) noexcept {
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(at));
  if (add) return word.fetch_add(operand, std::memory_order_acq_rel);
  std::uint64_t expected = operand;
  word.compare_exchange_strong(expected, swap, std::memory_order_acq_rel);
  return expected;
}

}  // namespace

wc_status shm_queue_pair::check_access(const send_request& r, std::uint64_t total,
                                       const remote_region& region) const noexcept {
  if (is_atomic(r.op)) {
    if (total < 8 || r.segments[0].length < 8) return wc_status::loc_len_err;
    if (r.remote_addr % 8 != 0) return wc_status::rem_inv_req_err;
    total = 8;
  }
  if (!has(region.rights, wanted(r.op)) || !region.covers(r.remote_addr, total)) {
    return wc_status::rem_access_err;
  }
  const bool is_inline = (r.flags & post_flag::inline_data) != 0;
  const bool changes = r.op == opcode::read || is_atomic(r.op);
  if (!is_inline && !domain_.permits(r.segments, r.segment_count, changes)) {
    return changes ? wc_status::loc_access_err : wc_status::loc_prot_err;
  }
  return wc_status::success;
}

// False: refused. REQUIRES a mapped region.
bool shm_queue_pair::atomic_now(const send_request& r, remote_region& region,
                                std::uint64_t& old) noexcept {
  constexpr std::uint64_t bytes = 8;
  std::byte* const at = region.bytes_at + (r.remote_addr - region.addr);
  if (r.remote_addr % bytes != 0 || !has(region.rights, access::remote_atomic) ||
      !region.covers(r.remote_addr, bytes) || reinterpret_cast<std::uintptr_t>(at) % bytes != 0) {
    return false;
  }
  const bool valid = step_in(region);
  if (valid) old = run_atomic(at, r.op == opcode::fetch_add, r.operand, r.swap);
  step_out();
  return valid;
}

// REQUIRES a mapped region.
wc_status shm_queue_pair::access_now(const send_request& r, std::uint64_t total,
                                     remote_region& region) noexcept {
  const wc_status allowed = check_access(r, total, region);
  if (allowed != wc_status::success) return allowed;
  if (is_atomic(r.op)) {
    std::uint64_t old = 0;
    if (!atomic_now(r, region, old)) return wc_status::rem_access_err;
    std::memcpy(r.segments[0].addr, &old, sizeof old);
    return wc_status::success;
  }
  std::byte* at = region.bytes_at + (r.remote_addr - region.addr);
  segment_cursor local(r.segments, r.segment_count);
  while (total != 0) {
    const std::uint64_t bytes = std::min(total, access_piece);
    const bool valid = step_in(region);
    if (valid && r.op == opcode::read) {
      local.scatter(at, bytes);
    } else if (valid) {
      local.gather(at, bytes);
    }
    step_out();
    if (!valid) return wc_status::rem_access_err;
    at += bytes;
    total -= bytes;
  }
  return wc_status::success;
}

bool shm_queue_pair::execute_access(send_entry& e) noexcept {
  const send_request& r = e.request;
  // Accesses no memory, needs no right.
  if (e.total == 0 && !is_atomic(r.op)) return finish_access(e);
  if (r.op == opcode::write_imm && !writer_.room(1)) return blocked_for_room();
  if (is_atomic(r.op) && r.remote_addr % 8 != 0) {
    fail_entry(e, wc_status::rem_inv_req_err, "an atomic's address is not a multiple of 8");
    return true;
  }
  remote_region* const region = regions_.find(r.rkey);
  if (region == nullptr) {
    ask(r.rkey);
    return false;
  }
  wc_status status = check_access(r, e.total, *region);
  if (status == wc_status::success) {
    if (region->bytes_at != nullptr) {
      status = access_now(r, e.total, *region);
    } else {
      bool impossible = is_atomic(r.op) || !peer_.is_readable || e.offset != 0 ||
                        service_.is_pending() || (r.flags & post_flag::inline_data) != 0;
      if (!impossible) {
        const bool valid = step_in(*region);
        if (valid) status = copy_through_kernel(r, e.total, impossible);
        step_out();
        if (!valid) status = wc_status::rem_access_err;
      }
      if (impossible) return execute_served(e);
    }
  }
  if (status == wc_status::rem_access_err && peer_withdrew()) {
    lose_peer(failure::of(errc::connection_reset, {peer_text(), " ended the connection"}));
    return false;
  }
  if (status != wc_status::success) {
    fail_entry(e, status,
               status == wc_status::rem_access_err
                   ? "an access was refused: the key is unknown or was deregistered, "
                     "the range is out of bounds, or a right is missing"
                   : "an access names local memory that does not allow it");
    return true;
  }
  return finish_access(e);
}

// Called after the memory access. False: the ring has no space for the message that follows it.
bool shm_queue_pair::finish_access(send_entry& e) noexcept {
  if (e.request.op == opcode::write_imm) {
    if (!writer_.room(1)) return blocked_for_room();
    e.position = writer_.position();
    tell_written(e.request, e.total);
  }
  e.at = stage::finished;
  return true;
}

// Sends the message that follows a write. REQUIRES free space.
void shm_queue_pair::tell_written(const send_request& r, std::uint64_t total) noexcept {
  const bool more = (r.flags & post_flag::more) != 0;
  writer_.write(message::write_imm, 0, 0, htonl(r.imm), static_cast<std::uint32_t>(total), 1, more);
  published(more);
}

// Handles one segment of at most one piece, as most writes are. False: not such a case, or refused.
// REQUIRES a mapped region.
bool shm_queue_pair::write_and_tell(const send_request& r, std::uint64_t total,
                                    const remote_region& region) noexcept {
  if (r.segment_count != 1 || total > access_piece || !has(region.rights, access::remote_write) ||
      !region.covers(r.remote_addr, total) || !writer_.room(1)) {
    return false;
  }
  const bool valid = step_in(region);
  if (valid) {
    copy_bytes(region.bytes_at + (r.remote_addr - region.addr), r.segments[0].addr, total);
  }
  step_out();
  if (valid) tell_written(r, total);
  return valid;
}

// The kernel copies between the memory of both sides, by address. REQUIRES a right to it.
wc_status shm_queue_pair::copy_through_kernel(const send_request& r, std::uint64_t total,
                                              bool& impossible) noexcept {
  std::array<iovec, most_segments> local;
  CORDMA_ASSERT_OP(r.segment_count, <=, local.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < r.segment_count; ++i) {
    if (r.segments[i].length == 0) continue;
    local[count++] = {r.segments[i].addr, r.segments[i].length};
  }
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(r.remote_addr)), total};
  const ssize_t n = r.op == opcode::read
                        ? ::process_vm_readv(peer_.who.pid, local.data(), count, &remote, 1, 0)
                        : ::process_vm_writev(peer_.who.pid, local.data(), count, &remote, 1, 0);
  if (n == static_cast<ssize_t>(total)) return wc_status::success;
  impossible = true;  // the owner does it itself, or reports the reason
  return wc_status::success;
}

result<peer_view> shm_queue_pair::view(std::uint64_t rkey, std::uint64_t addr,
                                       std::uint64_t length) {
  const remote_region* const region = regions_.find(rkey);
  if (region == nullptr) {
    return failure{errc::bad_state, "nothing of this memory was read or written yet: do so first"};
  }
  if (!region->valid() || !has(region->rights, access::remote_read) ||
      !region->covers(addr, length)) {
    return failure{errc::remote_access,
                   "the memory was deregistered, is not to be read, or the range is out of bounds"};
  }
  if (region->bytes_at == nullptr) {
    return failure{errc::not_supported,
                   "only memory of Context::allocate() can be mapped by peers"};
  }
  return peer_view{.mapping = region->mapping,
                   .bytes = {region->bytes_at + (addr - region->addr), length}};
}

void shm_queue_pair::ask(std::uint64_t rkey) noexcept {
  if (talk_.awaits_answer(rkey)) return;
  auto p = make_packet<region_packet>(packet::region_request);
  p.rkey = rkey;
  const transfer t = say(p);
  // The next poll tries again; otherwise the end of the socket ends it.
  if (t != transfer::done) return;
  talk_.ask(rkey);
  home_.expect(1);
}

// Requests the owner, piece by piece, to access its memory for us.
bool shm_queue_pair::execute_served(send_entry& e) noexcept {
  const send_request& r = e.request;
  const service_slot& slot = *memory_.slot[0];
  if (service_.is_pending()) {
    const std::uint64_t served = out_control().served.load(std::memory_order_acquire);
    if (served < service_.requests()) return false;
    const std::uint64_t bytes = service_.finish();
    if (served > service_.requests()) {
      malformed("more accesses answered than were asked for");
      return true;
    }
    const std::uint32_t status = slot.status;
    if (status != 0) {
      fail_entry(
          e, status < wc_status_count ? static_cast<wc_status>(status) : wc_status::bad_resp_err,
          "an access was refused by the owner of the memory");
      return true;
    }
    if (r.op == opcode::read) {
      segment_cursor(r.segments, r.segment_count, e.offset).scatter(slot.data, bytes);
    }
    if (is_atomic(r.op)) {
      const std::uint64_t old = slot.old_value;
      std::memcpy(r.segments[0].addr, &old, sizeof old);
    }
    e.offset += bytes;
    CORDMA_ASSERT_OP(e.offset, <=, e.total);
  }
  if (e.offset != 0 && (e.offset >= e.total || is_atomic(r.op))) return finish_access(e);
  return send_service_request(e);
}

// False: waits for the response, or for free space.
bool shm_queue_pair::send_service_request(send_entry& e) noexcept {
  const send_request& r = e.request;
  service_request q{};
  const bool writes = r.op == opcode::write || r.op == opcode::write_imm;
  q.what = writes                      ? service_kind::write
           : r.op == opcode::read      ? service_kind::read
           : r.op == opcode::fetch_add ? service_kind::fetch_add
                                       : service_kind::compare_swap;
  const std::uint64_t room = (writer_.most_payload() + sizeof(cell_header)) / 4 - 64 - sizeof q;
  const std::uint64_t most = writes ? room : sizeof(service_slot::data);
  const std::uint64_t bytes =
      is_atomic(r.op) ? 8 : std::min<std::uint64_t>(e.total - e.offset, most);
  const std::uint64_t payload = sizeof q + (writes ? bytes : 0);
  if (!writer_.room(cells_for(payload))) return blocked_for_room();
  q.length = static_cast<std::uint32_t>(bytes);
  q.rkey = r.rkey;
  q.addr = r.remote_addr + e.offset;
  q.operand = r.operand;
  q.swap = r.swap;
  std::memcpy(writer_.payload(), &q, sizeof q);
  if (writes) {
    segment_cursor(r.segments, r.segment_count, e.offset)
        .gather(writer_.payload() + sizeof q, bytes);
  }
  writer_.write(message::serve, 0, 0, 0, static_cast<std::uint32_t>(payload), cells_for(payload),
                false);
  wake_peer();
  service_.request(bytes);
  return false;
}

// The owner's half of execute_served().
void shm_queue_pair::serve(const cell_header& h) noexcept {
  service_request q{};
  if (h.length < sizeof q || h.length > reader_.most_payload()) {
    malformed("an access request of the wrong size");
    return;
  }
  std::memcpy(&q, reader_.payload(), sizeof q);
  service_slot& slot = *memory_.slot[1];
  const bool writes = q.what == service_kind::write;
  const bool reads = q.what == service_kind::read;
  const bool changes = q.what == service_kind::fetch_add || q.what == service_kind::compare_swap;
  if ((!writes && !reads && !changes) || (writes && q.length != h.length - sizeof q) ||
      (reads && q.length > sizeof slot.data) || (changes && q.length != 8)) {
    malformed("an access request that contradicts itself");
    return;
  }
  const access right = writes  ? access::remote_write
                       : reads ? access::remote_read
                               : access::remote_atomic;
  wc_status status = wc_status::success;
  if (changes && q.addr % 8 != 0) {
    status = wc_status::rem_inv_req_err;
  } else if (!has(options_.remote_access, right)) {
    status = wc_status::rem_access_err;
  } else if (const auto held = domain_.regions().resolve(q.rkey, q.addr, q.length, right)) {
    if (writes) {
      std::memcpy(held.data(), reader_.payload() + sizeof q, q.length);
    } else if (reads) {
      std::memcpy(slot.data, held.data(), q.length);
    } else {
      slot.old_value =
          run_atomic(held.data(), q.what == service_kind::fetch_add, q.operand, q.swap);
    }
  } else {
    status = wc_status::rem_access_err;
  }
  slot.status = static_cast<std::uint32_t>(status);
  reader_.take(cells_for(h.length));
  count_up(in_control().served);
  wake_waiter();
}

}  // namespace cordma::transport::shm

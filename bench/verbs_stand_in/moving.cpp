// Carries out requests: moves their bytes, in order.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "parts.hpp"

namespace stand_in {
namespace {

struct alias {
  std::uint64_t seen = 0;
  std::size_t length = 0;
  std::byte* at = nullptr;
};

std::vector<alias>& aliases() {
  static std::vector<alias> all;
  return all;
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "stand-in device: %s\n", what);
  std::abort();
}

// The checks of an RDMA device on memory, except for access rights.
void check(std::uint32_t key, std::uint64_t address, std::uint64_t length) {
  const auto at = regions().find(key);
  if (at == regions().end()) give_up("a key that names no memory");
  const auto start = reinterpret_cast<std::uintptr_t>(at->second.addr);
  const bool inside = address >= start && length <= at->second.length &&
                      address - start <= at->second.length - length;
  if (!inside) give_up("a key that names other memory");
}

std::uint64_t bytes_of(const request& r) noexcept {
  std::uint64_t total = 0;
  for (const ibv_sge& s : r.segments) total += s.length;
  return total;
}

std::deque<receive>& receives_of(queue_pair& q) noexcept {
  return q.shared != nullptr ? q.shared->receives : q.receives;
}

void complete_send(queue_pair& q, const request& r, ibv_wc_opcode what, std::uint32_t bytes) {
  if ((r.wr.send_flags & IBV_SEND_SIGNALED) == 0) return;
  of(q.native.send_cq).complete(r.wr.wr_id, what, bytes, q.native);
}

// Removes the next receive of `to`. REQUIRES that one exists.
receive take(queue_pair& to) {
  receive next = std::move(receives_of(to).front());
  receives_of(to).pop_front();
  return next;
}

void tell_receiver(queue_pair& to, const receive& got, ibv_wc_opcode what, std::uint64_t bytes,
                   const request& r, bool has_imm) {
  completion_queue& q = of(to.native.recv_cq);
  ibv_wc& wc = q.complete(got.id, what, static_cast<std::uint32_t>(bytes), to.native);
  if (!has_imm) return;
  wc.wc_flags = IBV_WC_WITH_IMM;
  wc.imm_data = r.wr.imm_data;
}

void carry_message(queue_pair& from, queue_pair& to, const request& r) {
  const receive got = take(to);
  const std::vector<std::byte> bytes = gather(r);
  std::size_t room = 0;
  for (const ibv_sge& s : got.into) {
    check(s.lkey, s.addr, s.length);
    room += s.length;
  }
  if (bytes.size() > room) give_up("a message longer than its receive");
  scatter(bytes, got.into);
  tell_receiver(to, got, IBV_WC_RECV, bytes.size(), r, r.wr.opcode == IBV_WR_SEND_WITH_IMM);
  complete_send(from, r, IBV_WC_SEND, 0);
}

void carry_write(queue_pair& from, queue_pair& to, const request& r) {
  const std::vector<std::byte> bytes = gather(r);
  const std::uint64_t at = r.wr.wr.rdma.remote_addr;
  if (!bytes.empty()) {
    check(r.wr.wr.rdma.rkey, at, bytes.size());
    std::memcpy(reach(at), bytes.data(), bytes.size());
  }
  if (r.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    const receive got = take(to);
    tell_receiver(to, got, IBV_WC_RECV_RDMA_WITH_IMM, bytes.size(), r, true);
  }
  complete_send(from, r, IBV_WC_RDMA_WRITE, 0);
}

void carry_read(queue_pair& from, const request& r) {
  const std::uint64_t total = bytes_of(r);
  if (total != 0) {
    check(r.wr.wr.rdma.rkey, r.wr.wr.rdma.remote_addr, total);
    const std::byte* const at = reach(r.wr.wr.rdma.remote_addr);
    scatter({at, at + total}, r.segments);
  }
  complete_send(from, r, IBV_WC_RDMA_READ, static_cast<std::uint32_t>(total));
}

void carry_atomic(queue_pair& from, const request& r) {
  const auto& a = r.wr.wr.atomic;
  constexpr std::size_t word = sizeof(std::uint64_t);
  check(a.rkey, a.remote_addr, word);
  const bool adds = r.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  std::uint64_t old = 0;
  std::memcpy(&old, reach(a.remote_addr), word);
  const std::uint64_t swapped = old == a.compare_add ? a.swap : old;
  const std::uint64_t now = adds ? old + a.compare_add : swapped;
  std::memcpy(reach(a.remote_addr), &now, word);
  std::memcpy(reach(r.segments.front().addr), &old, word);
  complete_send(from, r, adds ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP, word);
}

// False if the request waits for its receive.
bool carry(queue_pair& from, queue_pair& to, const request& r) {
  switch (r.wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      if (receives_of(to).empty()) return false;
      carry_message(from, to, r);
      return true;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      if (receives_of(to).empty()) return false;
      carry_write(from, to, r);
      return true;
    case IBV_WR_RDMA_WRITE: carry_write(from, to, r); return true;
    case IBV_WR_RDMA_READ: carry_read(from, r); return true;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_CMP_AND_SWP: carry_atomic(from, r); return true;
    default: give_up("a request of a kind that it does not have");
  }
}

void flush(queue_pair& q) {
  const auto cut = [&q](ibv_cq* at, std::uint64_t id) {
    of(at).complete(id, IBV_WC_SEND, 0, q.native).status = IBV_WC_WR_FLUSH_ERR;
  };
  for (const request& r : q.requests) cut(q.native.send_cq, r.wr.wr_id);
  for (const receive& r : q.receives) cut(q.native.recv_cq, r.id);
  q.requests.clear();
  q.receives.clear();
}

void carry_on(queue_pair& from) {
  if (from.failed) return flush(from);
  while (!from.requests.empty()) {
    const auto to = pairs().find(from.peer);
    if (to == pairs().end() || to->second->failed) return;
    if (!carry(from, *to->second, from.requests.front())) return;
    from.requests.pop_front();
  }
}

void carry_on_all() {
  for (const auto& [number, pair] : pairs()) carry_on(*pair);
}

}  // namespace

void add_alias(std::span<const std::byte> seen, std::byte* at) {
  aliases().push_back({reinterpret_cast<std::uintptr_t>(seen.data()), seen.size(), at});
}

void remove_alias(std::span<const std::byte> seen) noexcept {
  std::erase_if(aliases(), [seen](const alias& a) {
    return a.seen == reinterpret_cast<std::uintptr_t>(seen.data());
  });
}

std::byte* reach(std::uint64_t address) noexcept {
  for (const alias& a : aliases()) {
    if (address >= a.seen && address - a.seen < a.length) return a.at + (address - a.seen);
  }
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

receive to_receive(const ibv_recv_wr& wr) {
  return {.id = wr.wr_id, .into = {wr.sg_list, wr.sg_list + wr.num_sge}};
}

request to_request(const ibv_send_wr& wr) {
  request r{.wr = wr, .segments = {wr.sg_list, wr.sg_list + wr.num_sge}, .carried = {}};
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) return r;
  for (const ibv_sge& s : r.segments) {
    const auto* const at =
        reinterpret_cast<const std::byte*>(s.addr);  // NOLINT(performance-no-int-to-ptr)
    r.carried.insert(r.carried.end(), at, at + s.length);
  }
  return r;
}

std::vector<std::byte> gather(const request& r) {
  if ((r.wr.send_flags & IBV_SEND_INLINE) != 0) return r.carried;
  std::vector<std::byte> bytes;
  bytes.reserve(bytes_of(r));
  for (const ibv_sge& s : r.segments) {
    if (s.length == 0) continue;
    check(s.lkey, s.addr, s.length);
    const std::byte* const at = reach(s.addr);
    bytes.insert(bytes.end(), at, at + s.length);
  }
  return bytes;
}

void scatter(const std::vector<std::byte>& bytes, const std::vector<ibv_sge>& to) noexcept {
  std::size_t done = 0;
  for (const ibv_sge& s : to) {
    const std::size_t n = std::min<std::size_t>(s.length, bytes.size() - done);
    if (n == 0) continue;
    std::memcpy(reach(s.addr), bytes.data() + done, n);
    done += n;
  }
}

int send_moved(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** /*bad*/) {
  for (; wr != nullptr; wr = wr->next) of(qp).requests.push_back(to_request(*wr));
  carry_on(of(qp));
  return 0;
}

int receive_moved(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** /*bad*/) {
  for (; wr != nullptr; wr = wr->next) of(qp).receives.push_back(to_receive(*wr));
  carry_on_all();
  return 0;
}

int receive_shared(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** /*bad*/) {
  for (; wr != nullptr; wr = wr->next) of(srq).receives.push_back(to_receive(*wr));
  carry_on_all();
  return 0;
}

void modify_moved(queue_pair& qp, const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_DEST_QPN) != 0) qp.peer = attr.dest_qp_num;
  if ((mask & IBV_QP_STATE) == 0) return;
  qp.failed = attr.qp_state == IBV_QPS_ERR;
  carry_on_all();
}

}  // namespace stand_in

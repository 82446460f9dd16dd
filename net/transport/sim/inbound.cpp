#include <cordma/net/transport/sim/inbound.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <cstring>

namespace cordma::transport::sim {

inbound::outcome inbound::take(const packet& p) noexcept {
  const outcome o = p.kind == packet_kind::send ? take_send(p) : take_write(p);
  if (o == outcome::done) open_ = !p.last;
  return o;
}

inbound::outcome inbound::take_send(const packet& p) noexcept {
  if (!pair_.has_receive()) return outcome::not_ready;
  const recv_entry& e = pair_.recvs().front();
  if (p.first) {
    if (!covered(pair_.home().regions(), e.segments, access::local_write)) return outcome::unusable;
    filled_ = 0;
  }
  CORDMA_ASSERT_OP(filled_, <=, e.capacity);
  if (p.length > e.capacity - filled_) return outcome::too_long;
  scatter(e.segments, filled_, p.payload, p.length);
  filled_ += p.length;
  if (!p.last) return outcome::done;
  const bool invalidates = p.op == opcode::send_invalidate;
  if (invalidates && !pair_.windows().invalidate(p.rkey)) return outcome::bad_key;
  pair_.complete_recv(wc_status::success, p, filled_);
  return outcome::done;
}

inbound::outcome inbound::take_write(const packet& p) noexcept {
  // As on verbs: a write of zero bytes touches no memory, and needs no access right.
  if (p.total != 0) {
    if (!has(pair_.options().remote_access, access::remote_write)) return outcome::access;
    if (p.first && !pair_.pin_target(p, p.total, access::remote_write)) return outcome::access;
    const region_table::pin target = pair_.pin_target(p, p.length, access::remote_write);
    if (!target) return outcome::access;
    if (p.last && p.has_imm && !pair_.has_receive()) return outcome::not_ready;
    std::memcpy(target.data(), p.payload, p.length);
  } else if (p.has_imm && !pair_.has_receive()) {
    return outcome::not_ready;
  }
  if (p.last && p.has_imm) pair_.complete_recv(wc_status::success, p, p.total);
  return outcome::done;
}

}  // namespace cordma::transport::sim

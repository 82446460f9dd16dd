#include <cordma/net/transport/sim/rc_responder.hpp>
#include <cordma/net/transport/sim/sim_adapter.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace cordma::transport::sim {

void rc_responder::start(std::uint64_t first_psn, std::uint32_t resources) {
  expected_ = first_psn;
  atomics_.assign(std::max(resources, 1U), {});
}

void rc_responder::on_request(const packet& p) noexcept {
  if (p.psn < settled()) return again(p);
  if (failed_ != nak_code::none) return nak(failed_);
  if (p.psn < expected_) return lies_here(p);
  // Every answer acknowledges all before it: answers wait until the messages in place are examined.
  if (p.psn == expected_ && (here_.empty() || goes_in_place(p))) {
    nak_sent_ = false;
    return execute(p);
  }
  if (nak_sent_) return;
  nak_sent_ = true;
  ++pair_.net().counters().sequence_naks;
  if (here_.whole() == 0) nak(nak_code::sequence);
}

void rc_responder::execute(const packet& p) noexcept {
  switch (p.kind) {
    case packet_kind::send:
    case packet_kind::write: return on_message(p);
    case packet_kind::read_request: return on_read(p);
    case packet_kind::atomic_request: return on_atomic(p);
    default:  // flush: everything before it has been executed
      ++expected_;
      return ack();
  }
}

// A repeated packet: the answer was lost, or the network duplicated the packet.
void rc_responder::again(const packet& p) noexcept {
  ++pair_.net().counters().duplicates;
  if (p.kind == packet_kind::read_request) return on_read(p);
  if (p.kind != packet_kind::atomic_request) return ack();
  for (const result_of_atomic& r : atomics_) {
    if (!r.valid || r.psn != p.psn) continue;
    ++pair_.net().counters().replayed_atomics;
    return answer_atomic(r.psn, r.value);
  }
}

// ---- messages in place ----

// REQUIRES that it is the next packet in order.
bool rc_responder::goes_in_place(const packet& p) const noexcept {
  if (here_.open()) return true;
  return pair_.in_place() != nullptr && pair_.options().shared != nullptr && !keeps_ &&
         !in_.open() && p.kind == packet_kind::send && p.op == opcode::send &&
         p.total <= arrivals::most_bytes;
}

// A repeated packet of a message that was not examined. If messages wait for receives, the first
// one is offered again.
void rc_responder::lies_here(const packet& p) noexcept {
  ++pair_.net().counters().duplicates;
  if (!keeps_) return ack();
  if (p.psn != settled()) return;
  nak_sent_ = false;
  offer();
}

void rc_responder::looked_at(std::size_t taken, std::size_t stay) noexcept {
  CORDMA_ASSERT(!keeps_);
  for (; taken != 0; --taken) here_.pop();
  if (stay != 0) {
    CORDMA_ASSERT_OP(here_.whole(), >=, stay);
    keeps_ = true;
    pair_.owner().withdraw(pair_);
  }
  if (!pair_.may_send()) return;  // no peer waits for an answer, and no message gets a receive
  if (keeps_) return offer();
  answer();
}

// Messages that stay take receives, as if they arrived now.
void rc_responder::offer() noexcept {
  CORDMA_ASSERT(keeps_ && !in_.open());
  while (here_.whole() != 0) {
    const inbound::outcome o = in_.take(here_.front());
    if (o != inbound::outcome::done) return not_taken(o, here_.front());
    here_.pop();
  }
  keeps_ = false;
  answer();
}

// Acknowledges everything that was examined or took its receive; sends a NAK for packets dropped
// meanwhile.
void rc_responder::answer() noexcept {
  if (nak_sent_ && here_.whole() == 0) return nak(nak_code::sequence);
  ack();
}

// ---- requests ----

void rc_responder::on_message(const packet& p) noexcept {
  if (goes_in_place(p)) {
    ++expected_;
    here_.add(p);
    if (p.last && !keeps_) pair_.owner().push(pair_);
    return;
  }
  const inbound::outcome o = in_.take(p);
  if (o != inbound::outcome::done) return not_taken(o, p);
  ++expected_;
  if (p.ack_requested) ack();
}

void rc_responder::not_taken(inbound::outcome outcome, const packet& p) noexcept {
  switch (outcome) {
    case inbound::outcome::done: return;
    case inbound::outcome::not_ready:
      ++pair_.net().counters().rnr_naks;
      nak_sent_ = true;  // later packets are dropped until this one arrives again
      return nak(nak_code::not_ready);
    case inbound::outcome::access:
      return refuse(nak_code::access, {errc::connection_reset, "a write of the peer was refused"});
    case inbound::outcome::too_long: {
      pair_.complete_recv(wc_status::loc_len_err, p, 0);
      failure why{errc::truncated, "a message was longer than the receive posted for it"};
      why.with_status(static_cast<std::uint16_t>(wc_status::loc_len_err), 0);
      return refuse(nak_code::invalid, std::move(why));
    }
    case inbound::outcome::bad_key: {
      pair_.complete_recv(wc_status::loc_access_err, p, 0);
      failure why{errc::not_permitted, "the peer invalidates a key that is no window's of its"};
      why.with_status(static_cast<std::uint16_t>(wc_status::loc_access_err), 0);
      return refuse(nak_code::access, std::move(why));
    }
    case inbound::outcome::unusable: {
      pair_.complete_recv(wc_status::loc_prot_err, p, 0);
      failure why{errc::not_permitted, "a receive names memory that may not be written"};
      why.with_status(static_cast<std::uint16_t>(wc_status::loc_prot_err), 0);
      return refuse(nak_code::operation, std::move(why));
    }
  }
}

// Reads change nothing, so a repeated read is executed again. It may request more than before: the
// pieces of a long read are divided anew after a loss.
void rc_responder::on_read(const packet& p) noexcept {
  region_table::pin source;
  if (p.total != 0) {
    if (has(pair_.options().remote_access, access::remote_read)) {
      source = pair_.pin_target(p, p.total, access::remote_read);
    }
    if (!source) {
      // its memory was deregistered: the peer will send a new request
      if (p.psn < expected_) return;
      return refuse(nak_code::access, {errc::connection_reset, "a read of the peer was refused"});
    }
  }
  expected_ = std::max(expected_, p.psn + p.count);
  const std::uint64_t mtu = pair_.mtu();
  for (std::uint32_t i = 0; i < p.count; ++i) {
    packet& r = pair_.new_packet(packet_kind::read_response);
    r.psn = p.psn + i;
    r.length = static_cast<std::uint32_t>(std::min(mtu, p.total - i * mtu));
    if (r.length != 0) std::memcpy(r.payload, source.data() + i * mtu, r.length);
    pair_.net().transmit(r);
  }
}

void rc_responder::on_atomic(const packet& p) noexcept {
  if (p.remote_addr % sizeof(std::uint64_t) != 0) {
    return refuse(nak_code::invalid,
                  {errc::connection_reset, "an atomic of the peer was not aligned"});
  }
  region_table::pin target;
  if (has(pair_.options().remote_access, access::remote_atomic)) {
    target = pair_.pin_target(p, sizeof(std::uint64_t), access::remote_atomic);
  }
  if (!target) {
    return refuse(nak_code::access, {errc::connection_reset, "an atomic of the peer was refused"});
  }
  std::atomic_ref<std::uint64_t> word(
      *reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(p.remote_addr)));
  std::uint64_t old = p.operand;
  if (p.op == opcode::fetch_add) {
    old = word.fetch_add(p.operand);
  } else {
    word.compare_exchange_strong(old, p.swap);
  }
  CORDMA_ASSERT_OP(next_atomic_, <, atomics_.size());
  atomics_[next_atomic_] = {.psn = p.psn, .value = old, .valid = true};
  next_atomic_ = (next_atomic_ + 1) % atomics_.size();
  ++expected_;
  answer_atomic(p.psn, old);
}

void rc_responder::ack() noexcept {
  packet& p = pair_.new_packet(packet_kind::ack);
  p.psn = settled() - 1;
  pair_.net().transmit(p);
}

void rc_responder::nak(nak_code code) noexcept {
  packet& p = pair_.new_packet(packet_kind::nak);
  p.nak = code;
  p.psn = settled();
  pair_.net().transmit(p);
}

void rc_responder::answer_atomic(std::uint64_t psn, std::uint64_t value) noexcept {
  packet& p = pair_.new_packet(packet_kind::atomic_response);
  p.psn = psn;
  p.operand = value;
  pair_.net().transmit(p);
}

// Ends this side too. The peer is notified by the NAK, which is repeated for each of its requests.
void rc_responder::refuse(nak_code code, failure why) noexcept {
  CORDMA_ASSERT_OP(failed_, ==, nak_code::none);
  failed_ = code;
  nak(code);
  pair_.fail(std::move(why), farewell::silent);
}

}  // namespace cordma::transport::sim

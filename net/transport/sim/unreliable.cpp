#include <cordma/net/transport/sim/sim_pair.hpp>
#include <cordma/net/transport/sim/unreliable.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {

datagram_peer encode(const datagram_address& a, std::uint32_t number, std::uint32_t qkey) noexcept {
  datagram_peer p;
  const std::array<std::uint32_t, 3> words{a.is_group ? 1U : 0U, a.host_or_group, a.instance};
  std::memcpy(p.address.data(), words.data(), sizeof words);
  static_assert(sizeof words <= sizeof p.address);
  p.address_length = sizeof words;
  p.queue_pair = number;
  p.qkey = qkey;
  return p;
}

datagram_address decode(const datagram_peer& p) noexcept {
  std::array<std::uint32_t, 3> words{};
  std::memcpy(words.data(), p.address.data(), sizeof words);
  return {.is_group = words[0] == 1, .host_or_group = words[1], .instance = words[2]};
}

void unreliable::start(std::uint64_t first_psn, std::uint64_t expected) noexcept {
  next_psn_ = first_psn;
  expected_ = expected;
}

// ---- sending ----

void unreliable::pump() noexcept {
  send_queue& q = pair_.sends();
  const time_point now = pair_.net().now();
  while (pair_.may_send()) {
    if (q.completed() < cursor_) {  // one request at a time is being sent
      const send_entry& e = q.front();
      if (e.departure > now) break;
      if (e.doom == wc_status::success || pair_.options().type == service::ud) {
        // A datagram port survives failures of its requests: it serves many peers.
        pair_.complete_send(e.doom);
      } else {
        pair_.fail_send(e.doom, "failed at this side");
      }
    } else if (cursor_ < pair_.send_limit()) {
      send_entry& e = q.at(cursor_++);
      e.departure = now;
      if (e.doom == wc_status::success) e.doom = begin(e);
      if (e.doom != wc_status::success) continue;
      if (pair_.options().type == service::ud) {
        send_datagram(e);
      } else {
        send_message(e);
      }
    } else {
      break;
    }
  }
  if (!pair_.may_send()) return;
  const bool waits = q.completed() < cursor_;
  pair_.set_alarm(sim_pair::alarm::departure, waits ? q.front().departure : never);
}

wc_status unreliable::begin(send_entry& e) noexcept {
  if (pair_.options().type == service::ud && e.length > pair_.mtu()) return wc_status::loc_len_err;
  return pair_.inspect(e);
}

void unreliable::send_message(send_entry& e) noexcept {
  const std::uint64_t mtu = pair_.mtu();
  const bool write = e.request.op == opcode::write || e.request.op == opcode::write_imm;
  const bool imm = e.request.op == opcode::send_imm || e.request.op == opcode::write_imm;
  std::uint64_t offset = 0;
  do {
    packet& p = pair_.new_packet(write ? packet_kind::write : packet_kind::send);
    p.op = e.request.op;
    p.psn = next_psn_++;
    p.length = static_cast<std::uint32_t>(std::min(mtu, e.length - offset));
    gather(e.segments, offset, p.payload, p.length);
    p.first = offset == 0;
    p.last = offset + p.length == e.length;
    p.total = e.length;
    p.remote_addr = e.request.remote_addr + offset;
    p.rkey = e.request.rkey;
    p.imm = e.request.imm;
    p.has_imm = p.last && imm;
    offset += p.length;
    e.departure = std::max(e.departure, pair_.net().transmit(p));
  } while (offset < e.length);
  CORDMA_ASSERT_OP(offset, ==, e.length);
}

void unreliable::send_datagram(send_entry& e) noexcept {
  const datagram_address to = decode(e.to);
  fabric& net = pair_.net();
  packet& p = pair_.new_packet(packet_kind::datagram);
  p.op = e.request.op;
  CORDMA_ASSERT_OP(e.length, <=, pair_.mtu());
  p.length = static_cast<std::uint32_t>(e.length);
  gather(e.segments, 0, p.payload, p.length);
  p.qkey = e.to.qkey;
  p.imm = e.request.imm;
  p.has_imm = e.request.op == opcode::send_imm;
  p.first = p.last = true;
  if (to.is_group && to.host_or_group < net.group_count()) {
    e.departure = net.transmit_to_group(p, to.host_or_group);
  } else if (!to.is_group && to.host_or_group < net.host_count()) {
    p.to = {to.host_or_group, to.instance, e.to.queue_pair};
    e.departure = net.transmit(p);
  } else {
    ++net.counters().stray;
    net.give(p);
  }
}

// ---- receiving ----

// The message in progress, or the one this packet belongs to, will not be delivered.
void unreliable::lose() noexcept {
  if (!skipping_) ++pair_.net().counters().uc_dropped;
  skipping_ = true;
  in_.drop();
}

void unreliable::on_message(const packet& p) noexcept {
  if (p.psn < expected_) {  // a copy, or overtaken: its message is lost already
    ++pair_.net().counters().duplicates;
    return;
  }
  if (p.psn > expected_ && in_.open()) lose();
  expected_ = p.psn + 1;
  if (p.first) {
    skipping_ = false;
  } else if (!in_.open()) {
    lose();
  }
  if (!skipping_ && in_.take(p) != inbound::outcome::done) lose();
}

void unreliable::on_datagram(const packet& p) noexcept {
  fabric& net = pair_.net();
  if (p.qkey != pair_.options().qkey) {
    ++net.counters().ud_wrong_qkey;
    return;
  }
  if (p.length > pair_.mtu()) {
    ++net.counters().ud_too_long;
    return;
  }
  if (pair_.recvs().empty() || p.length > pair_.recvs().front().capacity) {
    ++net.counters().ud_no_receive;
    return;
  }
  const recv_entry& e = pair_.recvs().front();
  if (!covered(pair_.home().regions(), e.segments, access::local_write)) {
    pair_.complete_recv(wc_status::loc_prot_err, p, 0);
    return;
  }
  scatter(e.segments, 0, p.payload, p.length);
  if (e.from != nullptr) {
    *e.from =
        encode({.host_or_group = p.from.host, .instance = p.from.instance}, p.from.number, p.qkey);
  }
  pair_.complete_recv(wc_status::success, p, p.length);
}

}  // namespace cordma::transport::sim

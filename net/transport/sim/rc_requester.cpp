#include <cordma/net/transport/sim/rc_requester.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {
namespace {

bool is_atomic(opcode op) noexcept { return op == opcode::fetch_add || op == opcode::compare_swap; }
// Answered with data; the others get an ack, which may cover several requests.
bool is_answered(opcode op) noexcept { return op == opcode::read || is_atomic(op); }

packet_kind kind_of(opcode op) noexcept {
  switch (op) {
    case opcode::write:
    case opcode::write_imm: return packet_kind::write;
    case opcode::read: return packet_kind::read_request;
    case opcode::fetch_add:
    case opcode::compare_swap: return packet_kind::atomic_request;
    case opcode::bind:  // done on this side; the flush makes it complete in order
    case opcode::flush: return packet_kind::flush_request;
    default: return packet_kind::send;
  }
}

wc_status status_of(nak_code code) noexcept {
  switch (code) {
    case nak_code::access: return wc_status::rem_access_err;
    case nak_code::invalid: return wc_status::rem_inv_req_err;
    default: return wc_status::rem_op_err;
  }
}

}  // namespace

void rc_requester::start(std::uint64_t first_psn) noexcept { una_ = high_ = assigned_ = first_psn; }

// ---- sending ----

void rc_requester::pump() noexcept {
  while (pair_.may_send() && !rnr_waiting_ && cursor_ < pair_.send_limit()) {
    send_entry& e = pair_.sends().at(cursor_);
    if (!e.admitted && !admit(e)) break;
    const std::uint64_t psn = e.first_psn + packet_;
    if (psn - una_ >= window || !emit(e, psn)) break;
    if (packet_ == e.packets) {
      ++cursor_;
      packet_ = 0;
    }
  }
  rearm();
}

// True if the request may begin: it is first in order, its fence is open, a read fits the limit.
bool rc_requester::admit(send_entry& e) noexcept {
  if (e.doom == wc_status::success) e.doom = pair_.inspect(e);
  if (e.doom != wc_status::success) {
    // Requests posted before it are carried out first, so that completions keep their order.
    if (cursor_ == pair_.sends().completed()) pair_.fail_send(e.doom, "failed at this side");
    return false;
  }
  if ((e.request.flags & post_flag::fence) != 0 && reads_ != 0) return false;
  if (is_answered(e.request.op)) {
    if (reads_ >= pair_.options().read_depth) return false;
    ++reads_;
  }
  const std::uint32_t mtu = pair_.mtu();
  const bool one = is_atomic(e.request.op) || e.length == 0;
  e.packets = one ? 1 : static_cast<std::uint32_t>((e.length + mtu - 1) / mtu);
  CORDMA_ASSERT_OP(assigned_, >=, high_);
  e.first_psn = assigned_;
  assigned_ += e.packets;
  e.admitted = true;
  return true;
}

bool rc_requester::emit(send_entry& e, std::uint64_t psn) noexcept {
  packet& p = pair_.new_packet(kind_of(e.request.op));
  p.op = e.request.op;
  p.psn = psn;
  p.rkey = e.request.rkey;
  p.ack_requested = true;
  std::uint32_t takes = 1;
  if (p.kind == packet_kind::read_request) {
    if (!fill_read(e, p, psn)) return false;
    takes = p.count;
  } else if (p.kind == packet_kind::atomic_request) {
    p.remote_addr = e.request.remote_addr;
    p.operand = e.request.operand;
    p.swap = e.request.swap;
  } else if (p.kind != packet_kind::flush_request) {
    fill_message(e, p);
  }
  const bool again = psn < high_;
  const bool idle = !waiting();
  const time_point now = pair_.net().now();
  departure_ = std::max(departure_, pair_.net().transmit(p));
  if (again) {
    ++pair_.net().counters().retransmitted;
  } else {
    new_departure_ = departure_;
  }
  if (idle) heard_ = now;  // silence counts from the first request
  high_ = std::max(high_, psn + takes);
  packet_ += takes;
  CORDMA_ASSERT_OP(packet_, <=, e.packets);
  CORDMA_ASSERT_OP(high_ - una_, <=, window);
  CORDMA_ASSERT_OP(high_, <=, assigned_);
  if (retry_at_ == never) restart_timer();
  return true;
}

void rc_requester::fill_message(send_entry& e, packet& p) noexcept {
  const std::uint32_t mtu = pair_.mtu();
  const std::uint64_t offset = std::uint64_t{packet_} * mtu;
  p.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, e.length - offset));
  gather(e.segments, offset, p.payload, p.length);
  p.first = packet_ == 0;
  p.last = packet_ + 1 == e.packets;
  p.ack_requested = p.last || p.psn % ack_every == 0;
  p.total = e.length;
  p.remote_addr = e.request.remote_addr + offset;
  p.imm = e.request.imm;
  p.has_imm = p.last && (e.request.op == opcode::send_imm || e.request.op == opcode::write_imm);
}

// A long read is requested piece by piece, so that the responses fit the window.
bool rc_requester::fill_read(send_entry& e, packet& p, std::uint64_t psn) noexcept {
  const std::uint64_t left = e.packets - packet_;
  const std::uint64_t room = una_ + window - psn;
  if (room < std::min(left, window / 2)) {
    pair_.net().give(p);
    return false;
  }
  const std::uint64_t offset = std::uint64_t{packet_} * pair_.mtu();
  p.count = static_cast<std::uint32_t>(std::min(left, room));
  p.total = std::min<std::uint64_t>(std::uint64_t{p.count} * pair_.mtu(), e.length - offset);
  p.remote_addr = e.request.remote_addr + offset;
  return true;
}

// ---- answers ----

void rc_requester::on_answer(const packet& p) noexcept {
  heard_ = pair_.net().now();
  if (p.kind == packet_kind::ack) {
    if (!acknowledge_until(std::min(p.psn + 1, high_))) missing();
  } else if (p.kind == packet_kind::nak) {
    on_nak(p.nak, p.psn);
  } else {
    on_data(p);
  }
  pump();
}

// Everything before `psn` was carried out. False if the data of an earlier read or atomic is
// missing: it was lost, because answers arrive in order.
bool rc_requester::acknowledge_until(std::uint64_t psn) noexcept {
  while (una_ < psn) {
    const send_entry& e = pair_.sends().front();
    if (is_answered(e.request.op)) return false;
    advance(std::min(psn, e.first_psn + e.packets));
  }
  return true;
}

// The oldest request has its answers up to `to`.
void rc_requester::advance(std::uint64_t to) noexcept {
  send_queue& q = pair_.sends();
  CORDMA_ASSERT(!q.empty());
  const send_entry& e = q.front();
  CORDMA_ASSERT_OP(to, >, una_);
  CORDMA_ASSERT_OP(to, <=, e.first_psn + e.packets);
  una_ = to;
  asked_again_ = no_psn;
  rnr_tries_ = 0;
  backoff_ = 0;
  if (una_ == e.first_psn + e.packets) {
    CORDMA_ASSERT_OP(reads_, >=, is_answered(e.request.op) ? 1U : 0U);
    if (is_answered(e.request.op)) --reads_;
    pair_.complete_send(wc_status::success);
    if (cursor_ < q.completed()) {
      cursor_ = q.completed();
      packet_ = 0;
    }
  } else if (cursor_ == q.completed()) {
    packet_ = std::max(packet_, static_cast<std::uint32_t>(una_ - e.first_psn));
  }
  restart_timer();
}

// The answer to una_ was lost, or the request was.
void rc_requester::missing() noexcept {
  if (asked_again_ == una_) return;
  asked_again_ = una_;
  go_back();
}

void rc_requester::go_back() noexcept {
  send_queue& q = pair_.sends();
  CORDMA_ASSERT_OP(una_, >=, q.front().first_psn);
  cursor_ = q.completed();
  packet_ = static_cast<std::uint32_t>(una_ - q.front().first_psn);
  retry_at_ = never;
}

void rc_requester::on_nak(nak_code code, std::uint64_t psn) noexcept {
  if (psn < una_ || psn >= high_) return;  // answered since
  if (!acknowledge_until(psn)) return missing();
  if (code == nak_code::sequence) return missing();
  if (code == nak_code::not_ready) return on_not_ready();
  pair_.fail_send(status_of(code), "refused by the peer");
}

void rc_requester::on_last_nak(nak_code code, std::uint64_t psn) noexcept {
  if (code == nak_code::none || psn < una_ || psn >= high_ || !acknowledge_until(psn)) return;
  pair_.fail_send(status_of(code), "refused by the peer");
}

void rc_requester::on_not_ready() noexcept {
  if (rnr_waiting_) return;
  const queue_pair_options& o = pair_.options();
  if (o.rnr_retry != rnr_for_ever && rnr_tries_ >= o.rnr_retry) {
    return pair_.fail_send(wc_status::rnr_retry_exc_err, "the peer posted no receive in time");
  }
  ++rnr_tries_;
  rnr_waiting_ = true;
  rnr_until_ = pair_.net().now() + std::max(o.rnr_timer, duration(std::chrono::microseconds(1)));
  go_back();
}

void rc_requester::on_data(const packet& p) noexcept {
  if (p.psn < una_ || p.psn >= high_) return;
  if (!acknowledge_until(p.psn)) return missing();
  const send_entry& e = pair_.sends().front();
  if (p.kind == packet_kind::read_response) {
    if (e.request.op != opcode::read) return;
    scatter(e.segments, (p.psn - e.first_psn) * pair_.mtu(), p.payload, p.length);
  } else {
    if (!is_atomic(e.request.op)) return;
    std::memcpy(e.segments[0].addr, &p.operand, sizeof p.operand);
  }
  advance(p.psn + 1);
}

// ---- time ----

void rc_requester::restart_timer() noexcept {
  if (!waiting()) {
    retry_at_ = never;
    return;
  }
  const duration patience = pair_.options().peer_timeout;
  const duration trip = pair_.net().round_trip(pair_.id().host, pair_.peer().host);
  duration wait = std::max(patience / first_wait_share, 2 * trip);
  const duration longest = std::max(patience / longest_wait_share, wait);
  for (unsigned i = 0; i < backoff_ && wait < longest; ++i) wait = std::min(wait * 2, longest);
  retry_at_ = std::max(pair_.net().now(), departure_) + wait;
}

time_point rc_requester::patience_ends() const noexcept {
  return std::max(heard_, new_departure_) + pair_.options().peer_timeout;
}

void rc_requester::rearm() noexcept {
  if (!pair_.may_send()) return;
  time_point next = never;
  if (rnr_waiting_) {
    next = rnr_until_;
  } else if (waiting()) {
    next = std::min(retry_at_, patience_ends());
  }
  pair_.set_alarm(sim_pair::alarm::retransmit, next);
}

void rc_requester::on_alarm() noexcept {
  const time_point now = pair_.net().now();
  if (rnr_waiting_) {
    if (now >= rnr_until_) rnr_waiting_ = false;
    return pump();
  }
  if (!waiting()) return;
  if (now >= patience_ends()) {
    return pair_.fail_send(wc_status::retry_exc_err, "the peer does not answer");
  }
  if (now >= retry_at_) {
    ++pair_.net().counters().timeouts;
    ++backoff_;
    asked_again_ = una_;
    go_back();
  }
  pump();
}

}  // namespace cordma::transport::sim

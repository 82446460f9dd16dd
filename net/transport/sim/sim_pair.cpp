#include <cordma/net/transport/sim/sim_adapter.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <cstring>

namespace cordma::transport::sim {
namespace {

constexpr duration least_patience = std::chrono::microseconds(100);
constexpr duration most_patience = std::chrono::hours(24 * 365);
constexpr std::uint64_t psn_mask = 0xFFFFFF;

queue_pair_options bounded(queue_pair_options o) noexcept {
  o.peer_timeout = std::clamp(o.peer_timeout, least_patience, most_patience);
  o.connect_timeout = std::clamp(o.connect_timeout, least_patience, most_patience);
  o.remote_access = normalized(o.remote_access);
  return o;
}

}  // namespace

sim_pair::sim_pair(sim_adapter& owner, const queue_pair_options& options)
    : owner_(owner),
      host_(owner.share_host()),
      options_(bounded(options)),
      mtu_(owner.share_host()->mtu()),
      first_psn_(host_->net().chance().next() & psn_mask),
      shared_(static_cast<software_receive_queue*>(options_.shared)),
      sends_(options_),
      recvs_(shared_ != nullptr ? 1 : options_.recv_depth,
             shared_ != nullptr ? shared_->max_segments() : options_.max_segments),
      windows_(host_->regions()) {
  id_ = host_->id(host_->add(*this));
  owner_.add(*this);
  if (shared_ != nullptr) shared_->enter();
  local_port_ = client_port(id_.number);
  if (options_.type == service::ud) {
    state_.become(state::connected);
    unreliable_.start(first_psn_, 0);
  }
}

sim_pair::~sim_pair() {
  const bool known = state_ != state::idle && state_ != state::connecting;
  if (known && peer_.number != 0 && !goodbye_said_ && host_->alive()) {
    handshake last{.graceful = disconnect_called_, .nak = responder_.failed()};
    last.nak_psn = responder_.settled();
    host_->say_goodbye(id_, peer_, last, options_.peer_timeout);
  }
  for (std::uint32_t g = 0; g < net().group_count(); ++g) std::erase(net().members(g), id_);
  host_->remove(id_.number);
  while (!sends_.empty()) end_send();
  if (shared_ != nullptr) {
    while (!recvs_.empty()) complete_recv(wc_status::wr_flush_err, packet{}, 0);
    shared_->leave();
  }
  owner_.remove(*this);
}

std::string sim_pair::local_address() const {
  return host_->name() + ":" + std::to_string(local_port_);
}

std::string sim_pair::peer_name() const {
  return host_->net().at(peer_.host).name() + ":" + std::to_string(peer_port_);
}

std::string sim_pair::peer_address() const { return peer_port_ == 0 ? std::string() : peer_name(); }

// ---- posting ----

posted sim_pair::post_send(const send_request& request, completion&) noexcept {
  CORDMA_REQUIRE(host_->caps().supports(options_.type, request.op));
  send_entry& e = sends_.push(request);
  if (request.op == opcode::bind) {
    e.request.rkey = windows_.key(static_cast<std::uint32_t>(request.operand));
  }
  doom(e);
  if (state_ == state::error) {
    flush();
  } else {
    pump();
  }
  return posted::pending;
}

posted sim_pair::post_recv(const recv_request& request, completion&) noexcept {
  CORDMA_REQUIRE(shared_ == nullptr);
  recvs_.push(request);
  if (state_ == state::error) flush();
  return posted::pending;
}

bool sim_pair::put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept {
  if (state_ != state::connected || !sends_.has_room_for_put()) return false;
  if (bytes > most_mtu - sizeof head) return false;
  if (net().chance().chance(net().options().refused_puts)) {
    ++net().faults().refused_puts;
    return false;
  }
  packet& copy = net().take_packet();
  copy.length = static_cast<std::uint32_t>(sizeof head + bytes);
  std::memcpy(copy.payload, &head, sizeof head);
  if (bytes != 0) std::memcpy(copy.payload + sizeof head, data, bytes);
  doom(sends_.put(copy));
  pump();
  return true;
}

arrived_message sim_pair::hand_out() noexcept {
  const packet& m = responder_.hand_out();
  return {.from = this, .data = m.payload, .bytes = m.length};
}

bool sim_pair::borrow() noexcept {
  const recv_request* const lent = shared_ != nullptr ? shared_->lend() : nullptr;
  if (lent != nullptr) recvs_.push(*lent);
  return lent != nullptr;
}

result<std::uint32_t> sim_pair::make_window(const window_range& range) {
  if (options_.type != service::rc) return errc::not_supported;
  if (state_ == state::error) return errc::not_connected;
  const result<void> charged = host_->charge();
  if (!charged) return charged.why();
  return windows_.make(range);
}

// Dooms the request if it is the one to fail.
void sim_pair::doom(send_entry& e) noexcept {
  if (requests_left_ != 0 && --requests_left_ == 0) e.doom = request_status_;
  host_->charge_request(e.doom);
  if (e.doom != wc_status::success) ++net().faults().failed_requests;
}

wc_status sim_pair::inspect(const send_entry& e) noexcept {
  const opcode op = e.request.op;
  if (e.length > host_->caps().max_message) return wc_status::loc_len_err;
  const bool atomic = op == opcode::fetch_add || op == opcode::compare_swap;
  if (atomic && (e.segments.empty() || e.segments[0].length < sizeof(std::uint64_t))) {
    return wc_status::loc_len_err;
  }
  if ((e.request.flags & post_flag::inline_data) != 0) return wc_status::success;
  const access right = atomic || op == opcode::read ? access::local_write : access::local_read;
  return covered(host_->regions(), e.segments, right) ? wc_status::success
                                                      : wc_status::loc_prot_err;
}

void sim_pair::pump() noexcept {
  if (options_.type == service::rc) {
    requester_.pump();
  } else {
    unreliable_.pump();
  }
}

packet& sim_pair::new_packet(packet_kind kind) noexcept {
  packet& p = net().take_packet();
  p.kind = kind;
  p.from = id_;
  p.to = peer_;
  return p;
}

// ---- completing ----

// The oldest request. A put has no completion.
void sim_pair::complete_send(wc_status status) noexcept {
  if (sends_.front().copy == nullptr) report_send(sends_.front(), status);
  end_send();
  if (state_ == state::closing && sends_.completed() == close_at_) finish_closing();
}

void sim_pair::end_send() noexcept {
  packet* const copy = sends_.front().copy;
  sends_.pop();
  if (copy != nullptr) net().give(*copy);
}

void sim_pair::report_send(const send_entry& e, wc_status status) noexcept {
  completion c;
  c.id = e.request.id;
  c.byte_len = static_cast<std::uint32_t>(e.length);
  c.status = status;
  c.op = e.request.op;
  if (c.op == opcode::bind && status == wc_status::success) c.key = e.request.rkey;
  owner_.push(id_.number, c, nullptr);
}

void sim_pair::complete_recv(wc_status status, const packet& last, std::uint64_t bytes) noexcept {
  completion c;
  c.id = recvs_.front().id;
  c.byte_len = static_cast<std::uint32_t>(bytes);
  c.status = status;
  c.op = last.kind == packet_kind::write ? opcode::recv_write_imm : opcode::recv;
  c.has_imm = last.has_imm;
  c.imm = last.imm;
  const bool invalidated = last.op == opcode::send_invalidate && status == wc_status::success;
  if (invalidated) c.key = last.rkey;
  if (shared_ != nullptr) c.from = this;
  recvs_.pop();
  owner_.push(id_.number, c, shared_);
}

void sim_pair::fail_send(wc_status status, std::string message) noexcept {
  const opcode op = sends_.front().request.op;
  complete_send(status);
  failure why{to_errc(status), std::string(name(op)) + ": " + message};
  why.with_status(static_cast<std::uint16_t>(status), 0);
  fail(std::move(why), farewell::reset);
}

void sim_pair::fail(failure why, farewell tell) noexcept {
  if (state_ == state::error) return;
  const bool never_up =
      state_ == state::connecting || state_ == state::accepting || state_ == state::attaching;
  state_.become(state::error);
  for (alarm_clock& a : alarms_) a.deadline = never;
  cm_event e;
  e.what = never_up ? cm_event::type::failed : cm_event::type::disconnected;
  e.pair = this;
  e.peer = peer_address();
  e.why = std::move(why);
  owner_.push(std::move(e));
  flush();
  if (shared_ != nullptr && !never_up) {
    cm_event last;
    last.what = cm_event::type::last_receive;
    last.pair = this;
    owner_.push(std::move(last));
  }
  if (tell != farewell::silent && peer_.number != 0 && !goodbye_said_) {
    goodbye_said_ = true;
    host_->say_goodbye(id_, peer_, {.graceful = tell == farewell::graceful}, options_.peer_timeout);
  }
}

void sim_pair::flush() noexcept {
  CORDMA_ASSERT(state_ == state::error);
  while (!sends_.empty()) complete_send(wc_status::wr_flush_err);
  while (!recvs_.empty()) complete_recv(wc_status::wr_flush_err, packet{}, 0);
}

// ---- ending ----

void sim_pair::disconnect() noexcept {
  if (disconnect_called_ || state_ == state::error) return;
  disconnect_called_ = true;
  if (state_ != state::connected) {
    return fail({errc::not_connected, "closed by this side before it was connected"},
                farewell::graceful);
  }
  state_.become(state::closing);
  close_at_ = sends_.posted();
  if (sends_.completed() == close_at_) finish_closing();
}

// Everything posted before disconnect() has been carried out.
void sim_pair::finish_closing() noexcept {
  CORDMA_ASSERT_OP(sends_.completed(), ==, close_at_);
  if (peer_.number == 0)
    return fail({errc::not_connected, "closed by this side"}, farewell::silent);
  if (goodbye_said_) return;
  goodbye_said_ = true;
  if (bye_waits_) {  // both sides closed at once, and the peer has finished already
    host_->send_control(packet_kind::bye_ack, id_, peer_, {});
    return fail({errc::not_connected, "closed by both sides"}, farewell::silent);
  }
  // The rest of the goodbye takes a round trip; packets that the peer sent before it still arrive.
  host_->say_goodbye(id_, peer_, {.graceful = true}, options_.peer_timeout);
}

void sim_pair::on_goodbye_done() noexcept {
  if (state_ == state::closing)
    fail({errc::not_connected, "closed by this side"}, farewell::silent);
}

void sim_pair::abort() noexcept {
  fail({errc::connection_reset, "aborted by this side"}, farewell::reset);
}

// ---- input from the network ----

void sim_pair::receive(const packet& p) noexcept {
  if (p.kind == packet_kind::datagram) {
    if (options_.type == service::ud && may_send()) unreliable_.on_datagram(p);
    return;
  }
  if (p.from != peer_) {
    ++net().counters().stray;
    return;
  }
  // A packet of the client proves that it is connected: its confirmation was lost or overtaken.
  if (state_ == state::accepting || state_ == state::attaching) went_up({});
  const bool answers_still = state_ == state::error && responder_.failed() != nak_code::none;
  if (options_.type == service::uc) {
    if (may_send() && is_request(p.kind)) unreliable_.on_message(p);
  } else if (is_request(p.kind)) {
    if (may_send() || answers_still) responder_.on_request(p);
  } else if (may_send()) {
    requester_.on_answer(p);
  }
}

// ---- alarms ----

// At most one entry of the heap per alarm, as long as deadlines only move away: an early alarm goes
// off, detects that, and is scheduled again. So no entry is ever removed from the heap.
void sim_pair::set_alarm(alarm which, time_point when) noexcept {
  alarm_clock& a = alarms_[static_cast<std::size_t>(which)];
  a.deadline = when;
  if (when == never || a.queued <= when) return;
  a.queued = when;
  net().schedule(when, id_, static_cast<std::uint8_t>(which), ++a.token);
}

void sim_pair::on_alarm(std::uint8_t which, std::uint64_t token) noexcept {
  CORDMA_REQUIRE_OP(which, <, alarms_.size());
  alarm_clock& a = alarms_[which];
  CORDMA_ASSERT_OP(token, <=, a.token);
  if (token != a.token) return;
  a.queued = never;
  const time_point due = a.deadline;
  if (due == never) return;
  if (due > net().now()) return set_alarm(static_cast<alarm>(which), due);
  a.deadline = never;
  switch (static_cast<alarm>(which)) {
    case alarm::retransmit: return requester_.on_alarm();
    case alarm::departure: return unreliable_.pump();
    case alarm::handshake: return on_handshake_alarm();
    case alarm::silence: return on_silence_alarm();
  }
}

// A keepalive that is free while all is well: the clock runs only if the network cannot deliver
// packets of the peer.
void sim_pair::watch_for_silence() noexcept {
  if (!may_send() || peer_.number == 0) return;
  const time_point since = net().silent_since(id_, peer_);
  if (since == never) return;
  const time_point end =
      std::max(since, net().now() - options_.peer_timeout) + options_.peer_timeout;
  set_alarm(alarm::silence, since == time_point::min() ? net().now() + options_.peer_timeout : end);
}

void sim_pair::on_silence_alarm() noexcept {
  if (!may_send()) return;
  const time_point since = net().silent_since(id_, peer_);
  if (since == never) return;
  if (since != time_point::min() && net().now() - since < options_.peer_timeout) {
    return watch_for_silence();
  }
  if (!sends_.empty() && options_.type == service::rc) {
    return fail_send(wc_status::retry_exc_err, peer_name() + " does not answer");
  }
  fail({errc::connection_reset, peer_name() + " does not answer"}, farewell::reset);
}

}  // namespace cordma::transport::sim

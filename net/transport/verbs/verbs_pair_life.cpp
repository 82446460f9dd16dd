// The life of a queue pair from establishment to destruction: errors, closing, probing.
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/datagram_room.hpp>
#include <cordma/net/transport/verbs/port_directory.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>
#include <cordma/net/transport/verbs/verbs_receive_queue.hpp>

#include <algorithm>
#include <new>

namespace cordma::transport::verbs {
namespace {

// Longest time for a device to return the requests of a queue pair in error, before the queue pair
// is destroyed.
constexpr duration flush_patience = std::chrono::milliseconds(500);
constexpr int looks_at_arrivals = 4;  // per peer_timeout
constexpr duration first_repeat = std::chrono::milliseconds(20);
constexpr duration longest_repeat = std::chrono::milliseconds(500);

}  // namespace

verbs_pair::~verbs_pair() {
  if (waits_for_word(phase_)) home_.add_waiting(-1);
  datagrams_.directory.reset();
  if (terms_.to_control != nullptr) home_.let_go(*terms_.to_control);
  home_.drop_list(*this);
  home_.drop_events(this, nullptr);
  CORDMA_ASSERT_OP(sends_.outstanding(), <=, options_.send_depth);
  CORDMA_ASSERT_OP(sends_.posted() - sends_.done(), <=, sends_.outstanding());
  if (place_) home_.pairs().leave(*this, *place_, number_);
  leave_groups();
  windows_.clear();
  const bool taken_over = shared_.from != nullptr && let_go();
  take_off();
  id_.reset();
  if (taken_over) return;
  if (queue_ == nullptr) return;
  home_.drain(queue_);
  home_.release(queue_, completions());
}

std::string verbs_pair::local_address() const {
  return id_ != nullptr ? to_text(rdma_get_local_addr(id_.get())) : std::string();
}

result<queue_pair_state> verbs_pair::device_state() const {
  static_assert(static_cast<int>(queue_pair_state::reset) == IBV_QPS_RESET);
  static_assert(static_cast<int>(queue_pair_state::init) == IBV_QPS_INIT);
  static_assert(static_cast<int>(queue_pair_state::rtr) == IBV_QPS_RTR);
  static_assert(static_cast<int>(queue_pair_state::sqd) == IBV_QPS_SQD);
  static_assert(static_cast<int>(queue_pair_state::sqe) == IBV_QPS_SQE);
  static_assert(static_cast<int>(queue_pair_state::rts) == IBV_QPS_RTS);
  static_assert(static_cast<int>(queue_pair_state::error) == IBV_QPS_ERR);
  if (native_.pair == nullptr)
    return failure{errc::not_connected, "the queue pair was taken off the device"};
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  const int code = ibv_query_qp(native_.pair.get(), &attr, IBV_QP_STATE, &init);
  if (code != 0) return failure::from_os(code, "asking for the state of a queue pair");
  return static_cast<queue_pair_state>(attr.qp_state);
}

failure verbs_pair::reset(const char* how) const noexcept {
  return failure::of(errc::connection_reset, {"the connection to ", peer_, " broke: ", how});
}

void verbs_pair::fail_request(wc_status status, opcode op, std::uint32_t vendor_err) noexcept {
  if (has_failed()) return;
  if (status == wc_status::wr_flush_err) {
    return enter_error(reset("the device put it into error"));
  }
  const errc code = to_errc(status);
  failure why = op == opcode::recv
                    ? failure::of(code, {"a message from ", peer_, " could not be received"})
                    : failure::of(code, {transport::name(op), " to ", peer_, " failed"});
  why.with_status(static_cast<std::uint16_t>(status), vendor_err);
  enter_error(std::move(why));
}

void verbs_pair::device_removed() noexcept {
  constexpr const char* how = "the RDMA device was removed";
  enter_error(carrying() && !datagrams() ? reset(how) : failure::of(errc::unreachable, {how}));
}

// From here on no request is carried out. The device flushes the requests that it has; if it does
// not, revoke() ends them.
void verbs_pair::enter_error(failure why) noexcept {
  if (has_failed()) return;
  // Reports that the connection will not be established.
  if (!carrying() && !datagrams()) {
    return never_came_up(cm_event::type::failed, std::move(why), {});
  }
  die();
  tell(events_.end, cm_event::type::disconnected, std::move(why), {});
  if (native_.pair != nullptr) set_error_state();
  // Notifies the peer at once, even if goodbye was sent.
  if (id_ != nullptr) {
    rdma_disconnect(id_.get());
  } else if (!datagrams() && !watch_.said_goodbye()) {
    say(word::unknown);
  }
  await_flushes();
}

void verbs_pair::die() noexcept {
  move_to(phase::dead);
  home_.home().remove(repeat_);
  home_.home().remove(timer_);
  datagrams_.directory.reset();
  if (!home_.has_list(*this)) return;
  const post_list& l = home_.list_for(*this);
  CORDMA_ASSERT_OP(l.count, <=, sends_.posted() - sends_.done());
  for (std::uint32_t i = 0; i < l.count; ++i) sends_[l.first + i].on_device = false;
  home_.drop_list(*this);
}

void verbs_pair::await_flushes() noexcept {
  settle();
  if (outstanding()) home_.home().add(timer_, home_.home().now() + flush_patience);
}

void verbs_pair::set_error_state() noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  static_cast<void>(ibv_modify_qp(native_.pair.get(), &attr, IBV_QP_STATE));
}

// Another thread may read events of the queue pair until it is destroyed; afterwards its number may
// be reused.
void verbs_pair::take_off() noexcept {
  if (native_.pair == nullptr) return;
  native_.pair.reset();
  home_.drop_told(number_);
}

// Removes the queue pair from the device: afterwards no buffer is accessed, and requests that have
// not completed are flushed.
void verbs_pair::revoke() noexcept {
  leave_groups();
  windows_.clear();
  if (shared_.from != nullptr) home_.drain(shared_.from->completions());
  take_off();
  if (queue_ != nullptr) home_.drain(queue_);
  last_receive();
  for (std::uint32_t i = sends_.done(); i != sends_.posted(); ++i) sends_[i].on_device = false;
  for (std::uint32_t i = 0; i < receives_.depth(); ++i) {
    if (receives_[i].on_device) finish(i, {.status = wc_status::wr_flush_err, .op = opcode::recv});
  }
  settle();
  CORDMA_ASSERT_OP(sends_.done(), ==, sends_.posted());
  CORDMA_ASSERT(receives_.idle());
}

void verbs_pair::never_came_up(cm_event::type what, failure why,
                               std::span<const std::byte> data) noexcept {
  if (has_failed()) return;
  std::vector<std::byte> said;
  try {
    said.assign(data.begin(), data.end());
  } catch (const std::bad_alloc&) {
    said.clear();  // the event is reported without the peer's data
  }
  tell(events_.end, what, std::move(why), std::move(said));
  die();
  handshake_.reset();
  if (native_.pair != nullptr) set_error_state();
  await_flushes();
  id_.reset();
  if (!awaits_last()) revoke();
}

// The events of establishment and end are always reported, if necessary without the peer's name.
void verbs_pair::tell(event_place& place, cm_event::type what, failure why,
                      std::vector<std::byte> data) noexcept {
  cm_event e;
  e.what = what;
  e.pair = this;
  e.why = std::move(why);
  e.data = std::move(data);
  try {
    e.peer = peer_;
  } catch (const std::bad_alloc&) {
    e.peer.clear();
  }
  home_.push_event(place, std::move(e));
}

// The client is connected, although its last handshake message (RTU) has not arrived.
void verbs_pair::came_up_by_sign() noexcept {
  if (id_ != nullptr) rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
  came_up({});
}

void verbs_pair::came_up(std::vector<std::byte> data) noexcept {
  move_to(phase::open);
  // Only if the peer can be probed: this shows whether the last messages were carried out.
  if (puts() && has(terms_.theirs.rights, right_to_ask())) puts_.open(options_.inline_bytes);
  handshake_.reset();
  home_.home().remove(timer_);
  home_.home().remove(repeat_);
  tell(events_.up, cm_event::type::established, errc::ok, std::move(data));
  watch_peer();
}

void verbs_pair::abort() noexcept {
  if (!carrying() && !has_failed() && !datagrams()) return disconnect();
  enter_error(
      failure::of(errc::connection_reset, {"the connection to ", peer_, " was aborted here"}));
  if (!awaits_last()) revoke();
}

void verbs_pair::disconnect() noexcept {
  switch (phase_) {
    case phase::open:
      move_to(phase::closing);
      ring();
      return advance_close();
    case phase::idle:
    case phase::resolving:
    case phase::requesting:
    case phase::accepting:
    case phase::attaching:
      return never_came_up(
          cm_event::type::failed,
          failure{errc::not_connected, "closed by this side before it was connected"}, {});
    default: return;
  }
}

void verbs_pair::advance_close() noexcept {
  if (phase_ != phase::closing || !sends_.idle()) return;
  if (!puts_.idle()) return await_puts();
  const failure closed =
      failure::of(errc::not_connected, {"the connection to ", peer_, " was closed here"});
  if (datagrams()) return enter_error({errc::not_connected, "this side closed the port"});
  if (terms_.to_control == nullptr) return enter_error(closed);
  move_to(phase::goodbye_sent);
  home_.home().remove(repeat_);
  repeat_after_ = first_repeat;
  home_.home().add(timer_, after(home_.home().now(), options_.peer_timeout));
  say_goodbye();
  if (watch_.said_goodbye()) enter_error(closed);
}

// The last puts requested no completion: the completion of the probe covers them.
void verbs_pair::await_puts() noexcept {
  if (!watch_.is_probing()) probe();
  if (!watch_.is_probing()) enter_error(reset("the RDMA device did not take a request"));
}

void verbs_pair::say_goodbye() noexcept {
  say(word::goodbye);
  home_.home().add(repeat_, home_.home().now() + repeat_after_);
  repeat_after_ = std::min(repeat_after_ * 2, longest_repeat);
}

void verbs_pair::say(word what, std::uint16_t count) noexcept {
  control_port* const port = home_.control_there_is();
  if (terms_.to_control == nullptr || port == nullptr) return;
  const control_message m{.what = what,
                          .count = count,
                          .to_pair = terms_.peer,
                          .from_pair = number_,
                          .to_token = terms_.peer_token,
                          .from_token = terms_.own ? terms_.own->token : 0};
  port->send(m, terms_.to_control->native.get(), terms_.theirs.control_pair);
}

bool verbs_pair::has_peer_at(const datagram_address& where, std::uint32_t port) const noexcept {
  if (port != terms_.theirs.control_pair) return false;
  return terms_.path.is_global != 0 ? where.gid == to_bytes(terms_.path.grh.dgid)
                                    : where.lid == terms_.path.dlid;
}

void verbs_pair::on_word(const control_message& m) noexcept {
  const bool from_peer = m.from_pair == terms_.peer && m.from_token == terms_.peer_token &&
                         m.to_token == (terms_.own ? terms_.own->token : 0);
  if (!from_peer) return;
  switch (m.what) {
    case word::attach:
      // Answered each time: the previous answer may be lost.
      if (phase_ == phase::attaching || carrying()) say(word::attached);
      if (phase_ == phase::attaching) came_up({});
      return;
    case word::attached:
      if (phase_ == phase::attaching || phase_ == phase::accepting) came_up_by_sign();
      return;
    case word::unknown:
      if (phase_ == phase::attaching) {
        return never_came_up(
            cm_event::type::failed,
            failure::of(errc::connection_aborted,
                        {peer_,
                         " does not know this descriptor: it is of another queue pair, or the "
                         "peer was restarted"}),
            {});
      }
      if (carrying() && id_ == nullptr) enter_error(reset("the peer ended it"));
      return;
    case word::sent: return watch_.arrivals().on_told(m.count);
    case word::heard:
      if (phase_ != phase::goodbye_sent) return;
      break;
    case word::goodbye: break;
  }
  const failure closed = failure::of(errc::not_connected, {"the connection was closed by ", peer_});
  watch_.on_goodbye();
  switch (phase_) {
    case phase::accepting: came_up({}); [[fallthrough]];
    case phase::open: say(word::heard); return enter_error(closed);
    case phase::goodbye_sent: return enter_error(closed);
    case phase::dead: return say(word::heard);
    default: return;
  }
}

void verbs_pair::on_async(ibv_event_type what) noexcept {
  switch (what) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      // The completion with the precise reason is usually available already.
      if (queue_ != nullptr) home_.drain(queue_);
      enter_error(reset(ibv_event_type_str(what)));
      return;
    case IBV_EVENT_COMM_EST:
      if (phase_ == phase::accepting) came_up_by_sign();
      return;
    case IBV_EVENT_QP_LAST_WQE_REACHED: last_receive(); return settle();
    default: return;
  }
}

void verbs_pair::on_timer() noexcept {
  // Too short to allocate.
  const auto ms = [](duration d) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
  };
  switch (phase_) {
    case phase::dead: return revoke();
    case phase::goodbye_sent:
      return enter_error(failure::of(
          errc::not_connected,
          {"the connection to ", peer_, " was closed here; no answer to the goodbye within ",
           ms(options_.peer_timeout), " ms"}));
    default: break;
  }
  never_came_up(cm_event::type::failed,
                failure::of(errc::timed_out, {peer_, " did not answer within ",
                                              ms(options_.connect_timeout), " ms"}),
                {});
}

void verbs_pair::on_repeat() noexcept {
  switch (phase_) {
    case phase::goodbye_sent: return say_goodbye();
    case phase::accepting:
    case phase::attaching:
      say(word::attach);
      home_.home().add(repeat_, home_.home().now() + repeat_after_);
      repeat_after_ = std::min(repeat_after_ * 2, longest_repeat);
      return;
    case phase::open: {
      const bool silent = watch_.is_silent() && sends_.idle() && !watch_.is_probing();
      if (options_.type == service::uc) {
        watch_arrivals();
      } else if (silent) {
        probe();
      }
      return watch_peer();
    }
    default: return;
  }
}

// An idle connection does not notice a lost peer, so the peer's NIC is probed once in a while. A
// message may arrive right after a look, so only the second look after it finds silence.
void verbs_pair::watch_peer() noexcept {
  if (has_failed() || datagrams()) return;
  watch_.look();
  const bool uc = options_.type == service::uc;
  const duration until_look = uc ? options_.peer_timeout / looks_at_arrivals : watch_.silence() / 2;
  home_.home().add(repeat_, after(home_.home().now(), until_look));
}

// Each side of a UC connection sends the other its count of messages, and checks whether any
// message arrives.
void verbs_pair::watch_arrivals() noexcept {
  const arrival_watch::word_of_sent own = watch_.arrivals().to_tell();
  if (own.news) say(word::sent, own.sent);
  if (!home_.owner().hardware().is_soft_roce()) return;
  home_.drain(queue_);
  if (has_failed() || !watch_.arrivals().is_over(!receives_.idle())) return;
  enter_error(
      reset("the peer sends over UC, and nothing arrives. Soft-RoCE drops everything once a packet "
            "of a longer write was lost: write at most path_mtu bytes, or send; and every write "
            "whose key is wrong"));
}

void verbs_pair::probe() noexcept {
  const bool may_read = has(terms_.theirs.rights, access::remote_read);
  const bool may_write = has(terms_.theirs.rights, access::remote_write);
  if (!may_read && !may_write) return;
  ibv_send_wr wr{};
  wr.wr_id = names_.other(work::probe, 0);
  wr.opcode = has(terms_.theirs.rights, right_to_ask()) ? opcode_to_ask()
              : may_read                                ? IBV_WR_RDMA_READ
                                                        : IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (native_.sends.post(&wr).code != 0) return;
  watch_.on_probe();
  puts_.ask();
}

}  // namespace cordma::transport::verbs

#include <cordma/net/transport/verbs/pair.hpp>

#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/datagram_room.hpp>
#include <cordma/net/transport/verbs/port_directory.hpp>
#include <cordma/net/transport/verbs/receive_queue.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace cordma::transport::verbs {
namespace {

static_assert(static_cast<int>(wc_status::wr_flush_err) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(wc_status::rem_access_err) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(wc_status::rnr_retry_exc_err) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(wc_status::tm_rndv_incomplete) == IBV_WC_TM_RNDV_INCOMPLETE);

wc_status to_status(ibv_wc_status s) noexcept {
  const auto number = static_cast<std::size_t>(s);
  return number < wc_status_count ? static_cast<wc_status>(number) : wc_status::general_err;
}

ibv_wr_opcode to_opcode(opcode op) noexcept {
  switch (op) {
    case opcode::send: return IBV_WR_SEND;
    case opcode::send_imm: return IBV_WR_SEND_WITH_IMM;
    case opcode::write: return IBV_WR_RDMA_WRITE;
    case opcode::write_imm: return IBV_WR_RDMA_WRITE_WITH_IMM;
    case opcode::read: return IBV_WR_RDMA_READ;
    case opcode::fetch_add: return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case opcode::compare_swap: return IBV_WR_ATOMIC_CMP_AND_SWP;
    // A read of nothing: it needs no key, and its answer comes behind everything before it.
    case opcode::flush: return IBV_WR_RDMA_READ;
    case opcode::send_invalidate: return IBV_WR_SEND_WITH_INV;
    case opcode::bind: return IBV_WR_BIND_MW;
    case opcode::recv:
    case opcode::recv_write_imm: break;
  }
  return IBV_WR_SEND;
}

unsigned marks(std::uint8_t flags, service type) noexcept {
  unsigned bits = 0;
  if ((flags & post_flag::fence) != 0 && type == service::rc) bits |= IBV_SEND_FENCE;
  if ((flags & post_flag::solicited) != 0) bits |= IBV_SEND_SOLICITED;
  return bits;
}

bool sends_payload(opcode op) noexcept {
  return op <= opcode::write_imm || op == opcode::send_invalidate;
}

// Keys of RDMA devices have 32 bits. One that has more is none of theirs, and must not be cut down to one.
std::uint32_t to_rkey(std::uint64_t rkey) noexcept {
  return rkey <= UINT32_MAX ? static_cast<std::uint32_t>(rkey) : 0;
}

access right_for(opcode op) noexcept {
  switch (op) {
    case opcode::write:
    case opcode::write_imm: return access::remote_write;
    case opcode::read: return access::remote_read;
    case opcode::fetch_add:
    case opcode::compare_swap: return access::remote_atomic;
    default: return access::local_read;
  }
}

}  // namespace

verbs_pair::verbs_pair(verbs_adapter& home, const queue_pair_options& granted)
    : home_(home),
      options_(granted),
      sends_(granted.send_depth),
      receives_(granted.recv_depth),
      timer_(*this, [](timer& t) noexcept { static_cast<timed&>(t).owner->on_timer(); }),
      repeat_(*this, [](timer& t) noexcept { static_cast<timed&>(t).owner->on_repeat(); }) {}

result<void> verbs_pair::make() {
  const verbs_domain& domain = home_.owner();
  if (options_.shared != nullptr) {
    verbs_receive_queue* const from = home_.find(options_.shared);
    if (from == nullptr) {
      return failure{errc::invalid_value, "`shared` is a receive queue of another Worker"};
    }
    shared_ = from;
    shared_->enter();
  }
  result<ibv_cq*> queue = home_.promise(options_.send_depth + options_.recv_depth + 1);
  if (!queue) return queue.why();
  queue_ = *queue;
  place_ = home_.enter(*this);
  placed_ = true;
  ibv_qp_init_attr init{};
  init.qp_context = &home_;
  init.send_cq = init.recv_cq = queue_;
  if (shared_ != nullptr) {
    init.recv_cq = shared_->completions();
    init.srq = shared_->native();
  }
  init.cap.max_send_wr = options_.send_depth + 1;  // one for probing
  init.cap.max_recv_wr = options_.recv_depth;
  init.cap.max_send_sge = options_.max_segments;
  init.cap.max_recv_sge = options_.max_segments + (datagrams() ? datagram_extra : 0U);
  init.cap.max_inline_data = options_.inline_bytes;
  init.qp_type = datagrams() ? IBV_QPT_UD : options_.type == service::uc ? IBV_QPT_UC : IBV_QPT_RC;
  made_pair made = make_queue_pair(domain.hardware(), domain.pd(), init);
  if (made.pair == nullptr) {
    return failure::from_os(errno, "making a queue pair on " + domain.hardware().name);
  }
  qp_ = std::move(made.pair);
  requests_ = made.sends;
  number_ = qp_->qp_num;
  home_.name(number_, *this);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = domain.hardware().pkey_index;
  attr.port_num = domain.hardware().port;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (datagrams()) {
    attr.qkey = options_.qkey;
    mask |= IBV_QP_QKEY;
  } else {
    const bool rc = options_.type == service::rc;
    unsigned flags = 0;
    if (has(options_.remote_access, access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
    if (rc && has(options_.remote_access, access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
    if (rc && has(options_.remote_access, access::remote_atomic)) {
      flags |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    attr.qp_access_flags = flags;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  const int code = ibv_modify_qp(qp_.get(), &attr, mask);
  if (code != 0)
    return failure::from_os(code, "preparing a queue pair on " + domain.hardware().name);
  return {};
}

result<std::uint32_t> verbs_pair::make_window(const window_range& range) {
  if (options_.type != service::rc) return errc::not_supported;
  if (failed_) return errc::not_connected;
  try {
    return windows_.make(home_.owner(), range);
  } catch (const std::bad_alloc&) {
    return errc::no_memory;
  }
}

// ---- posting ----

bool verbs_pair::fill(ibv_send_wr& wr, ibv_sge* sges, const send_request& r,
                      std::uint32_t number) noexcept {
  wr = ibv_send_wr{};
  wr.wr_id = pack({.what = work::send,
                   .generation = place_.generation,
                   .place = place_.index,
                   .number = number});
  if (r.op == opcode::bind) [[unlikely]] {
    wr.send_flags |= IBV_SEND_SIGNALED;
    return windows_.bind(sends_[number].length, wr);
  }
  wr.opcode = to_opcode(r.op);
  wr.sg_list = sges;
  std::uint64_t total = 0;
  if (r.op != opcode::flush) {
    wr.num_sge = r.segment_count;
    for (std::size_t i = 0; i < r.segment_count; ++i) {
      sges[i] = to_sge(r.segments[i]);
      total += r.segments[i].length;
    }
  }
  send_slot& slot = sends_[number];
  slot.length = static_cast<std::uint32_t>(total);
  if (options_.type == service::uc && r.op <= opcode::write_imm && r.op != opcode::write) {
    watch_.on_send(total, mtu_bytes(mtu_));
  }
  if ((r.flags & (post_flag::fence | post_flag::solicited)) != 0) [[unlikely]]
    wr.send_flags |= marks(r.flags, options_.type);
  const bool small = sends_payload(r.op) && total != 0 && total <= options_.inline_bytes;
  CORDMA_REQUIRE((r.flags & post_flag::inline_data) == 0 || total == 0 || small);
  if (small) wr.send_flags |= IBV_SEND_INLINE;
  if (r.op == opcode::send_imm || r.op == opcode::write_imm) wr.imm_data = htonl(r.imm);
  if (r.op == opcode::send_invalidate) {
    wr.invalidate_rkey = to_rkey(r.rkey);
  } else if (r.op == opcode::fetch_add || r.op == opcode::compare_swap) {
    wr.num_sge = 1;
    sges[0].length = slot.length = sizeof(std::uint64_t);
    wr.wr.atomic.remote_addr = r.remote_addr;
    wr.wr.atomic.rkey = to_rkey(r.rkey);
    wr.wr.atomic.compare_add = r.operand;
    wr.wr.atomic.swap = r.swap;
  } else if (datagrams()) {
    datagram_address to;
    if (!decode(*r.to, to)) return false;
    wr.wr.ud.ah = home_.handle_to(to);
    wr.wr.ud.remote_qpn = to.group ? group_pair : r.to->queue_pair;
    wr.wr.ud.remote_qkey = r.to->qkey;
    return wr.wr.ud.ah != nullptr;
  } else {
    wr.wr.rdma.remote_addr = r.op == opcode::flush ? 0 : r.remote_addr;
    wr.wr.rdma.rkey = r.op == opcode::flush ? 0 : to_rkey(r.rkey);
  }
  return true;
}

posted verbs_pair::post_send(const send_request& r, completion&) noexcept {
  const std::uint32_t number = sends_.posted;
  CORDMA_REQUIRE_OP(number - sends_.taken, <, options_.send_depth);
  CORDMA_REQUIRE_OP(r.segment_count, <=, options_.max_segments);
  CORDMA_REQUIRE(r.op != opcode::recv && r.op != opcode::recv_write_imm);
  ++activity_;
  const std::uint64_t window = r.op == opcode::bind ? r.operand : 0;
  sends_[number] = send_slot{.id = r.id,
                             .length = static_cast<std::uint32_t>(window),
                             .vendor_err = 0,
                             .op = r.op,
                             .status = wc_status::success,
                             .on_device = false};
  ++sends_.posted;
  const bool by_counting = r.op == opcode::flush && !has(theirs_.rights, access::remote_read);
  if (failed_ || by_counting) {
    if (!failed_) ring();  // what is before it has to end some time
    settle();
    return posted::pending;
  }
  post_list& l = home_.list_for(*this);
  if (l.count == 0) l.first = number;
  ibv_sge* const sges = &l.segments[l.count * most_segments];
  if (!fill(l.requests[l.count], sges, r, number)) {
    // No way to that peer. Its turn comes when those before it are done.
    if (l.count == 0)
      home_.drop_list(*this);
    else
      post(l);
    sends_[number].status = wc_status::loc_qp_op_err;
    settle();
    return posted::pending;
  }
  sends_[number].on_device = true;
  ++l.count;
  const bool more = (r.flags & post_flag::more) != 0 && (r.flags & post_flag::inline_data) == 0;
  if (!more || l.count == post_list_length) post(l);
  return posted::pending;
}

void verbs_pair::post(post_list& l) noexcept {
  const std::size_t count = l.count;
  for (std::size_t i = 0; i + 1 < count; ++i) l.requests[i].next = &l.requests[i + 1];
  l.requests[count - 1].next = nullptr;
  // The completion of the last one stands for all of the list: they end in order.
  l.requests[count - 1].send_flags |= IBV_SEND_SIGNALED;
  home_.drop_list(*this);
  const post_outcome outcome = requests_.post(l.requests.data());
  if (outcome.code != 0) [[unlikely]]
    refused(l, outcome);
}

// Those ahead of the one that was refused are on the device. Where it is not known which one it was, each
// of them is told so.
void verbs_pair::refused(const post_list& l, const post_outcome& outcome) noexcept {
  const bool together = outcome.refused == nullptr;
  const std::size_t bad =
      together ? 0 : static_cast<std::size_t>(outcome.refused - l.requests.data());
  for (std::size_t i = bad; i < l.count; ++i) {
    send_slot& slot = sends_[l.first + static_cast<std::uint32_t>(i)];
    slot.on_device = false;
    if (together || i == bad) slot.status = wc_status::general_err;
  }
  enter_error(
      failure{errc::driver, "the RDMA device did not take a request"}.with_errno(outcome.code));
}

void verbs_pair::ring() noexcept {
  if (home_.has_list(*this)) post(home_.list_for(*this));
}

posted verbs_pair::post_recv(const recv_request& r, completion&) noexcept {
  CORDMA_REQUIRE(!receives_.full());
  CORDMA_REQUIRE_OP(r.segment_count, <=, options_.max_segments);
  const std::uint32_t place = receives_.reserve();
  receives_[place] = recv_slot{.id = r.id,
                               .byte_len = 0,
                               .imm = 0,
                               .vendor_err = 0,
                               .op = opcode::recv,
                               .status = wc_status::success,
                               .has_imm = false,
                               .on_device = false,
                               .invalidated = 0};
  if (failed_) {
    finish(place, wc_status::wr_flush_err);
    return posted::pending;
  }
  receives_[place].on_device = true;
  int code = 0;
  if (datagrams()) {
    room_->keep(place, r);
    code = post_datagram(place);
  } else {
    receive_request request(r, {.what = work::receive,
                                .generation = place_.generation,
                                .place = place_.index,
                                .number = place});
    ibv_recv_wr* bad = nullptr;
    code = ibv_post_recv(qp_.get(), &request.wr, &bad);
  }
  if (code != 0) [[unlikely]] {
    finish(place, wc_status::general_err);
    enter_error(failure{errc::driver, "the RDMA device did not take a receive"}.with_errno(code));
  }
  return posted::pending;
}

// ---- completions ----

void verbs_pair::on_completion(const work_id& id, const ibv_wc& wc) noexcept {
  ++activity_;
  switch (id.what) {
    case work::send: return on_send(id.number, wc);
    case work::receive:
    case work::datagram_receive: return on_receive(id.number, wc);
    default: break;
  }
  probing_ = false;
  if (wc.status != IBV_WC_SUCCESS) enter_error(reset("it does not answer any more"));
}

// What the device says, in the words that hold for all transports. A queue pair refuses what the
// connection has no right to as an invalid request. A receive fails as one whose message would invalidate
// what it must not. Soft-RoCE has words of its own for a message that
// is longer than its receive.
wc_status verbs_pair::told(opcode op, wc_status status) const noexcept {
  const bool bad_key = op == opcode::recv && status == wc_status::rem_inv_req_err;
  if (bad_key) return wc_status::loc_access_err;
  if (status == wc_status::rem_inv_req_err && !has(theirs_.rights, right_for(op))) {
    return wc_status::rem_access_err;
  }
  if (!home_.owner().hardware().is_soft_roce()) return status;
  if (op == opcode::recv && status == wc_status::loc_qp_op_err) return wc_status::loc_len_err;
  const bool send = op == opcode::send || op == opcode::send_imm;
  return send && status == wc_status::rem_op_err ? wc_status::rem_inv_req_err : status;
}

void verbs_pair::on_send(std::uint32_t number, const ibv_wc& wc) noexcept {
  const std::uint32_t ahead = (number - sends_.done) & twenty_bits;
  if (ahead >= sends_.posted - sends_.done) {
    return enter_error({errc::driver, "the device completed a request that was never posted"});
  }
  // Those before it asked for no completion of their own: having none, they succeeded.
  for (std::uint32_t i = 0; i < ahead; ++i) {
    sends_[sends_.done++].on_device = false;
  }
  send_slot& slot = sends_[sends_.done++];
  slot.on_device = false;
  slot.status = told(slot.op, to_status(wc.status));
  if (slot.status != wc_status::success) {
    slot.vendor_err = wc.vendor_err;
    if (!datagrams()) fail_request(slot.status, slot.op, wc.vendor_err);
  }
  settle();
  if (phase_ == phase::closing) advance_close();
}

wc_status verbs_pair::begin_receive(const ibv_wc& wc) noexcept {
  if (phase_ == phase::accepting && wc.status == IBV_WC_SUCCESS) {
    // Faster than the client's last word, and as good.
    rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
    came_up({});
  }
  return told(opcode::recv, to_status(wc.status));
}

void verbs_pair::on_receive(std::uint32_t place, const ibv_wc& wc) noexcept {
  if (place >= receives_.depth() || !receives_[place].on_device) {
    return enter_error({errc::driver, "the device completed a receive that was never posted"});
  }
  recv_slot& slot = receives_[place];
  const wc_status status = begin_receive(wc);
  if (status == wc_status::success) {
    watch_.on_arrival();
    if (datagrams() && !take_datagram(place, wc)) return;
    if (!datagrams()) slot.byte_len = wc.byte_len;
    slot.op = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? opcode::recv_write_imm : opcode::recv;
    slot.has_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    slot.imm = slot.has_imm ? ntohl(wc.imm_data) : 0;
    slot.invalidated = invalidated_by(wc, home_.owner().hardware());
  } else {
    slot.vendor_err = wc.vendor_err;
  }
  finish(place, status);
  if (status != wc_status::success) fail_request(status, opcode::recv, wc.vendor_err);
}

void verbs_pair::finish(std::uint32_t place, wc_status status) noexcept {
  receives_[place].on_device = false;
  receives_[place].status = status;
  receives_.finish(place);
  settle();
}

// What the device does not know of ends when everything before it has.
void verbs_pair::settle() noexcept {
  while (!sends_.idle() && !sends_[sends_.done].on_device) {
    send_slot& slot = sends_[sends_.done++];
    if (failed_ && slot.status == wc_status::success) slot.status = wc_status::wr_flush_err;
  }
  if (has_completions()) home_.mark_completed(completed_link_);
  if (failed_ && !outstanding() && phase_ == phase::dead) home_.home().remove(timer_);
}

std::size_t verbs_pair::take(std::span<completion> out) noexcept {
  std::size_t n = 0;
  for (; n < out.size() && sends_.taken != sends_.done; ++n, ++sends_.taken) {
    const send_slot& s = sends_[sends_.taken];
    const bool read = s.op == opcode::read && s.status == wc_status::success;
    out[n] = completion{.id = s.id,
                        .byte_len = read ? s.length : 0,
                        .vendor_err = s.vendor_err,
                        .status = s.status,
                        .op = s.op};
    if (s.op == opcode::bind) [[unlikely]]
      out[n].key = windows_.bound(s.length, s.status);
  }
  for (; n < out.size() && receives_.any_finished(); ++n) {
    const recv_slot& s = receives_.take();
    out[n] = completion{.id = s.id,
                        .byte_len = s.byte_len,
                        .imm = s.imm,
                        .vendor_err = s.vendor_err,
                        .status = s.status,
                        .op = s.op,
                        .has_imm = s.has_imm,
                        .key = s.invalidated};
  }
  return n;
}

}  // namespace cordma::transport::verbs

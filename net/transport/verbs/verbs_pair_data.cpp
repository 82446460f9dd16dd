// From a request to the device, and from its completion back. All code that every message passes
// through is in this file, so that the compiler can inline across it.
#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/datagram_room.hpp>
#include <cordma/net/transport/verbs/port_directory.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>
#include <cordma/net/transport/verbs/verbs_receive_queue.hpp>

#include <arpa/inet.h>

namespace cordma::transport::verbs {
namespace {

static_assert(static_cast<int>(wc_status::wr_flush_err) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<int>(wc_status::rem_access_err) == IBV_WC_REM_ACCESS_ERR);
static_assert(static_cast<int>(wc_status::rnr_retry_exc_err) == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(static_cast<int>(wc_status::tm_rndv_incomplete) == IBV_WC_TM_RNDV_INCOMPLETE);
static_assert(static_cast<int>(wc_status::success) == IBV_WC_SUCCESS);
static_assert(static_cast<int>(wc_status::loc_len_err) == IBV_WC_LOC_LEN_ERR);
static_assert(static_cast<int>(wc_status::loc_qp_op_err) == IBV_WC_LOC_QP_OP_ERR);
static_assert(static_cast<int>(wc_status::loc_prot_err) == IBV_WC_LOC_PROT_ERR);
static_assert(static_cast<int>(wc_status::mw_bind_err) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<int>(wc_status::bad_resp_err) == IBV_WC_BAD_RESP_ERR);
static_assert(static_cast<int>(wc_status::loc_access_err) == IBV_WC_LOC_ACCESS_ERR);
static_assert(static_cast<int>(wc_status::rem_inv_req_err) == IBV_WC_REM_INV_REQ_ERR);
static_assert(static_cast<int>(wc_status::rem_op_err) == IBV_WC_REM_OP_ERR);
static_assert(static_cast<int>(wc_status::retry_exc_err) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(wc_status::rem_abort_err) == IBV_WC_REM_ABORT_ERR);
static_assert(static_cast<int>(wc_status::fatal_err) == IBV_WC_FATAL_ERR);
static_assert(static_cast<int>(wc_status::general_err) == IBV_WC_GENERAL_ERR);

wc_status to_status(ibv_wc_status s) noexcept {
  const auto number = static_cast<std::size_t>(s);
  return number < wc_status_count ? static_cast<wc_status>(number) : wc_status::general_err;
}

constexpr std::uint32_t bit(opcode op) noexcept { return 1U << static_cast<unsigned>(op); }
constexpr bool is_among(std::uint32_t set, opcode op) noexcept { return (set & bit(op)) != 0; }

// The operations that send_queue::post_one() supports.
constexpr std::uint32_t plain_ops = bit(opcode::send) | bit(opcode::send_imm) | bit(opcode::write) |
                                    bit(opcode::write_imm) | bit(opcode::read);
constexpr std::uint32_t with_payload = bit(opcode::send) | bit(opcode::send_imm) |
                                       bit(opcode::write) | bit(opcode::write_imm) |
                                       bit(opcode::send_invalidate);
unsigned marks(std::uint8_t flags, service type) noexcept {
  unsigned bits = 0;
  if ((flags & post_flag::fence) != 0 && type == service::rc) bits |= IBV_SEND_FENCE;
  if ((flags & post_flag::solicited) != 0) bits |= IBV_SEND_SOLICITED;
  return bits;
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

failure not_taken(std::string_view what, int code) noexcept {
  return failure::of(errc::driver, {what,
                                    ": connect again; if that goes on, ask for smaller depths and "
                                    "see the kernel's log"})
      .with_errno(code);
}

failure never_posted(std::string_view what) noexcept {
  return failure::of(errc::driver, {"the device completed ", what, " that was never posted"});
}

// The kind of an arrived message.
opcode kind_of(const ibv_wc& wc) noexcept {
  return wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? opcode::recv_write_imm : opcode::recv;
}

std::uint64_t bytes_of(const send_request& r) noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < r.segment_count; ++i) total += r.segments[i].length;
  return total;
}

}  // namespace

// ---- the path of requests and completions ----

void verbs_pair::move_to(phase p) noexcept {
  const int waited = waits_for_word(phase_) ? 1 : 0;
  phase_.become(p);
  home_.add_waiting((waits_for_word(p) ? 1 : 0) - waited);
  puts_.close();  // came_up() opens them
  choose_usual();
}

// From `closing` on, the end of a request may be awaited; before `open`, a receive may establish
// the connection. No request overtakes a list that waits for its doorbell.
void verbs_pair::choose_usual() noexcept {
  const bool loses_nothing = options_.type == service::rc;
  const bool direct = loses_nothing && !has_failed() && !home_.has_list(*this);
  names_.choose({.ops = direct ? plain_ops : 0,
                 .sends = phase_ < phase::closing && !sends_.has_special(),
                 .receives = loses_nothing && phase_ == phase::open});
}

// ---- posting ----

// Returns the IBV_SEND_* flags of a fast-path request without flags. `total`: the bytes of its
// segments.
[[gnu::always_inline]] inline unsigned verbs_pair::usual_marks(const send_request& r,
                                                               std::uint64_t total,
                                                               send_slot& slot) noexcept {
  if (r.op == opcode::read) {
    slot.byte_len = static_cast<std::uint32_t>(total);
    return IBV_SEND_SIGNALED;
  }
  // Zero bytes are not sent inline.
  const unsigned carried = total - 1 < options_.inline_bytes ? unsigned{IBV_SEND_INLINE} : 0U;
  return IBV_SEND_SIGNALED | carried;
}

// Fills any request. False: there is no path to that peer, or no such window.
bool verbs_pair::fill(ibv_send_wr& wr, ibv_sge* sges, const send_request& r,
                      std::uint32_t number) noexcept {
  send_slot& slot = sends_[number];
  std::copy_n(as_sges(r.segments), r.segment_count, sges);  // the request may wait for its doorbell
  const std::uint64_t total = bytes_of(r);
  // The CPU copies inline data.
  const bool carried = (usual_marks(r, total, slot) & IBV_SEND_INLINE) != 0 &&
                       is_among(with_payload, r.op) && (r.flags & post_flag::device_memory) == 0;
  describe(wr, r, sges, names_.send(number),
           (carried ? unsigned{IBV_SEND_INLINE} : 0U) | marks(r.flags, options_.type));
  CORDMA_REQUIRE((r.flags & post_flag::inline_data) == 0 || total == 0 || carried);
  return fill_special(wr, r, total, slot);
}

// A read of zero bytes is answered once all requests before it are in the peer's memory. Soft-RoCE
// breaks the connection if the read is repeated; there a write is acknowledged no sooner.
access verbs_pair::right_to_ask() const noexcept {
  return home_.owner().hardware().is_soft_roce() ? access::remote_write : access::remote_read;
}

ibv_wr_opcode verbs_pair::opcode_to_ask() const noexcept {
  return right_to_ask() == access::remote_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
}

// Fills the parts that differ from most requests.
bool verbs_pair::fill_special(ibv_send_wr& wr, const send_request& r, std::uint64_t total,
                              send_slot& slot) noexcept {
  CORDMA_REQUIRE(r.op != opcode::recv && r.op != opcode::recv_write_imm);
  switch (r.op) {
    case opcode::bind:
      slot.window = static_cast<std::uint32_t>(r.operand);
      wr.send_flags |= IBV_SEND_SIGNALED;
      note_special();
      return windows_.bind(slot.window, wr);
    case opcode::flush:
      wr.opcode = opcode_to_ask();
      wr.num_sge = 0;
      wr.wr.rdma = {};
      return true;
    case opcode::send_invalidate: wr.invalidate_rkey = to_rkey(r.rkey); return true;
    case opcode::fetch_add:
    case opcode::compare_swap:
      wr.num_sge = 1;
      wr.sg_list->length = sizeof(std::uint64_t);
      wr.wr.atomic = {.remote_addr = r.remote_addr,
                      .compare_add = r.operand,
                      .swap = r.swap,
                      .rkey = to_rkey(r.rkey)};
      return true;
    default: break;
  }
  if (options_.type == service::uc && r.op != opcode::write) {
    watch_.arrivals().on_send(total, mtu_bytes(terms_.mtu));
  }
  if (!datagrams()) return true;
  datagram_address to;
  if (!decode(*r.to, to)) return false;
  wr.wr.ud = {.ah = handle_to(to),
              .remote_qpn = to.group ? group_pair : r.to->queue_pair,
              .remote_qkey = r.to->qkey};
  return wr.wr.ud.ah != nullptr;
}

posted verbs_pair::post_send(const send_request& r, completion&) noexcept {
  const std::uint32_t number = sends_.posted();
  CORDMA_REQUIRE_OP(sends_.outstanding(), <, options_.send_depth);
  CORDMA_REQUIRE_OP(r.segment_count, <=, options_.max_segments);
  send_slot& slot = sends_[number];
  slot.id = r.id;
  slot.byte_len = slot.vendor_err = 0;
  slot.op = r.op;
  slot.status = wc_status::success;
  slot.on_device = true;
  sends_.post();
  if (r.flags != 0 || !names_.takes(r.op)) [[unlikely]]
    return post_unusual(r);
  if (r.segment_count != 1) [[unlikely]]
    return post_gathered(r);
  return post_usual(r, r.segments->length, number, slot);
}

// Posts one request directly, with inline data. Keeps no record of it; nothing completes.
bool verbs_pair::put(message_head head, const std::byte* data, std::uint32_t bytes) noexcept {
  if (!puts_.can_take(bytes) || !names_.takes_any()) [[unlikely]]
    return false;
  std::array<ibv_sge, put_segments> pieces{
      {{reinterpret_cast<std::uintptr_t>(&head), sizeof head, 0},
       {reinterpret_cast<std::uintptr_t>(data), bytes, 0}}};
  ibv_send_wr wr;
  wr.wr_id = names_.put(puts_.next());
  wr.next = nullptr;
  wr.sg_list = pieces.data();
  wr.num_sge = bytes != 0 ? 2 : 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED;
  if (puts_.next_completes()) wr.send_flags |= IBV_SEND_SIGNALED;
  if (native_.sends.post(&wr).code != 0) [[unlikely]]
    return false;  // post_send() fails in the same way and reports it
  puts_.take();
  return true;
}

// Posts the last numbered request if it has not exactly one segment: the loop would take registers
// from the common case.
posted verbs_pair::post_gathered(const send_request& r) noexcept {
  const std::uint32_t number = sends_.posted() - 1;
  return post_usual(r, bytes_of(r), number, sends_[number]);
}

[[gnu::always_inline]] inline posted verbs_pair::post_usual(const send_request& r,
                                                            std::uint64_t total,
                                                            std::uint32_t number,
                                                            send_slot& slot) noexcept {
  const post_outcome outcome =
      native_.sends.post_one(r, names_.send(number), usual_marks(r, total, slot));
  if (outcome.code != 0) [[unlikely]]
    refused(sends_.posted() - 1, 1, 0, outcome.refused != nullptr, outcome.code);
  return posted::pending;
}

// Posts the last numbered request.
posted verbs_pair::post_unusual(const send_request& r) noexcept {
  const std::uint32_t number = sends_.posted() - 1;
  const bool by_counting = r.op == opcode::flush && !has(terms_.theirs.rights, right_to_ask());
  if (has_failed() || by_counting) {
    if (!has_failed()) ring();  // the requests before it must end at some time
    park(sends_[number]);
    return posted::pending;
  }
  post_list& l = home_.list_for(*this);
  if (l.count == 0) l.first = number;
  if (!fill(l.requests[l.count], &l.segments[l.count * most_segments], r, number)) {
    // No path to that peer.
    if (l.count == 0) {
      drop_list();
    } else {
      post(l);
    }
    sends_[number].status = wc_status::loc_qp_op_err;
    park(sends_[number]);
    return posted::pending;
  }
  ++l.count;
  const bool more = (r.flags & (post_flag::more | post_flag::inline_data)) == post_flag::more;
  if (!more || l.count == post_list_length) {
    post(l);
  } else {
    choose_usual();  // no request overtakes the list
  }
  return posted::pending;
}

// The request is not posted to the device: it ends after the requests before it.
void verbs_pair::park(send_slot& slot) noexcept {
  slot.on_device = false;
  note_special();
  settle();
}

void verbs_pair::post(post_list& l) noexcept {
  const std::size_t count = l.count;
  for (std::size_t i = 0; i + 1 < count; ++i) l.requests[i].next = &l.requests[i + 1];
  // The completion of the last request covers the complete list: they end in order.
  l.requests[count - 1].send_flags |= IBV_SEND_SIGNALED;
  drop_list();
  const post_outcome outcome = native_.sends.post(l.requests.data());
  if (outcome.code == 0) [[likely]]
    return;
  const bool known = outcome.refused != nullptr;
  const auto ahead = known ? outcome.refused - l.requests.data() : 0;
  refused(l.first, count, static_cast<std::size_t>(ahead), known, outcome.code);
}

// The requests before `bad` are on the device. If it is not known which one failed, all of them get
// the error.
void verbs_pair::refused(std::uint32_t first, std::size_t count, std::size_t bad, bool known,
                         int code) noexcept {
  CORDMA_REQUIRE_OP(bad, <, count);
  for (std::size_t i = bad; i < count; ++i) {
    send_slot& slot = sends_[first + static_cast<std::uint32_t>(i)];
    slot.on_device = false;
    if (!known || i == bad) slot.status = wc_status::general_err;
  }
  enter_error(not_taken("the RDMA device did not take a request", code));
}

void verbs_pair::drop_list() noexcept {
  home_.drop_list(*this);
  choose_usual();
}

void verbs_pair::ring() noexcept {
  if (home_.has_list(*this)) post(home_.list_for(*this));
}

posted verbs_pair::post_recv(const recv_request& r, completion&) noexcept {
  CORDMA_REQUIRE(!receives_.full());
  CORDMA_REQUIRE_OP(r.segment_count, <=, options_.max_segments);
  const std::uint32_t place = receives_.reserve();
  recv_slot& slot = receives_[place];
  slot.id = r.id;
  slot.on_device = true;
  if (!names_.takes_any()) [[unlikely]]
    return post_unusual_recv(r, place);
  if (const int code = to_device(r, place); code != 0) [[unlikely]]
    refused_receive(place, code);
  return posted::pending;
}

// For a connection that failed, or has a service other than rc.
posted verbs_pair::post_unusual_recv(const recv_request& r, std::uint32_t place) noexcept {
  int code = 0;
  if (has_failed()) {
    finish(place, {.status = wc_status::wr_flush_err, .op = opcode::recv});
  } else if (datagrams()) {
    datagrams_.room->keep(place, r);
    code = post_datagram(place);
  } else {
    code = to_device(r, place);
  }
  if (code != 0) refused_receive(place, code);
  return posted::pending;
}

[[gnu::always_inline]] inline int verbs_pair::to_device(const recv_request& r,
                                                        std::uint32_t place) noexcept {
  ibv_recv_wr wr = to_wr(r, names_.receive(place));
  ibv_recv_wr* bad;  // can only be this receive
  return ibv_post_recv(native_.pair.get(), &wr, &bad);
}

void verbs_pair::refused_receive(std::uint32_t place, int code) noexcept {
  finish(place, {.status = wc_status::general_err, .op = opcode::recv});
  enter_error(not_taken("the RDMA device did not take a receive", code));
}

// ---- completions of a queue pair ----

// Translates a device status to the common meaning of all transports. A queue pair refuses an
// access without a right on the connection as an invalid request. A receive fails if its message
// would invalidate a key that it must not. Soft-RoCE has other codes for a message longer than its
// receive.
wc_status verbs_pair::told(opcode op, wc_status status) const noexcept {
  const bool bad_key = op == opcode::recv && status == wc_status::rem_inv_req_err;
  if (bad_key) return wc_status::loc_access_err;
  if (status == wc_status::rem_inv_req_err && !has(terms_.theirs.rights, right_for(op))) {
    return wc_status::rem_access_err;
  }
  if (!home_.owner().hardware().is_soft_roce()) return status;
  if (op == opcode::recv && status == wc_status::loc_qp_op_err) return wc_status::loc_len_err;
  const bool send = op == opcode::send || op == opcode::send_imm;
  return send && status == wc_status::rem_op_err ? wc_status::rem_inv_req_err : status;
}

wc_status verbs_pair::begin_receive(const ibv_wc& wc) noexcept {
  const bool coming_up = phase_ == phase::accepting || phase_ == phase::attaching;
  if (coming_up && wc.status == IBV_WC_SUCCESS) {
    // It overtook the last handshake message, and confirms the connection as well.
    came_up_by_sign();
  }
  return told(opcode::recv, to_status(wc.status));
}

completion verbs_pair::outcome_of(const send_slot& s) noexcept {
  completion c{.id = s.id,
               .byte_len = s.byte_len,
               .vendor_err = s.vendor_err,
               .status = s.status,
               .op = s.op};
  if (s.op == opcode::bind) [[unlikely]]
    c.key = windows_.bound(s.window, s.status);
  return c;
}

// The common case: a completion of the next request, not a special one, with nothing else to do. If
// there is free space in `out`, all earlier completions were reported: see mark_completed().
[[gnu::always_inline]] inline bool verbs_pair::takes_usual(completion_outlet& out,
                                                           const ibv_wc& wc) noexcept {
  const bool is_next = names_.is_usual_send(wc.wr_id, sends_.done()) && !sends_.idle();
  if (!is_next || wc.status != IBV_WC_SUCCESS || !out.has_room()) return false;
  const send_slot& s = sends_[sends_.done()];
  out.tell({.id = s.id, .byte_len = s.byte_len, .op = s.op});
  sends_.end_and_take();
  return true;
}

// The same for a receive on a connection.
[[gnu::always_inline]] inline bool verbs_pair::takes_usual_receive(completion_outlet& out,
                                                                   const ibv_wc& wc) noexcept {
  const std::uint64_t named = names_.usual_receive(wc.wr_id);
  if (named >= receives_.depth()) return false;
  const auto place = static_cast<std::uint32_t>(named);
  recv_slot& s = receives_[place];
  if (wc.status != IBV_WC_SUCCESS || !s.on_device || !out.has_room()) return false;
  s.on_device = false;
  out.tell({.id = s.id, .byte_len = wc.byte_len, .op = kind_of(wc)});
  if (wc.wc_flags != 0) note_flags(out.last(), wc, home_.owner().hardware());
  receives_.release(place);
  return true;
}

// Completions of one kind mostly arrive together.
[[gnu::always_inline]] inline const ibv_wc* verbs_pair::take_usual(completion_outlet& out,
                                                                   const ibv_wc* next,
                                                                   const ibv_wc* end) noexcept {
  if (takes_usual(out, *next)) {
    while (++next != end && takes_usual(out, *next)) {}
  } else if (takes_usual_receive(out, *next)) {
    while (++next != end && takes_usual_receive(out, *next)) {}
  } else {
    return nullptr;
  }
  watch_.on_completion();
  return next;
}

[[gnu::noinline]] void note_flags(completion& c, const ibv_wc& wc, const device& from) noexcept {
  c.has_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  c.imm = c.has_imm ? ntohl(wc.imm_data) : 0;
  c.key = invalidated_by(wc, from);
}

void verbs_pair::on_send(std::uint32_t number, const ibv_wc& wc) noexcept {
  const std::uint32_t ahead = (number - sends_.done()) & twenty_bits;
  if (ahead >= sends_.posted() - sends_.done()) {
    return enter_error(never_posted("a request"));
  }
  end_sends(ahead + 1, wc);
  settle();
  if (phase_ == phase::closing) advance_close();
}

// The requests before the last one requested no completion: without one, they succeeded.
void verbs_pair::end_sends(std::uint32_t count, const ibv_wc& wc) noexcept {
  send_slot& last = sends_.end(count);
  last.status = told(last.op, to_status(wc.status));
  if (last.status == wc_status::success) return;
  last.byte_len = 0;
  last.vendor_err = wc.vendor_err;
  if (datagrams()) {
    after_failed_datagram();
  } else {
    fail_request(last.status, last.op, wc.vendor_err);
  }
}

// Devices stop the sends of a port after a failed one, and continue on request; Soft-RoCE fails the
// port.
void verbs_pair::after_failed_datagram() noexcept {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (has_failed() || native_.pair == nullptr) return;
  if (ibv_query_qp(native_.pair.get(), &attr, IBV_QP_STATE, &init) != 0) return;
  if (attr.qp_state == IBV_QPS_SQE) {
    attr.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(native_.pair.get(), &attr, IBV_QP_STATE) == 0) return;
  } else if (attr.qp_state == IBV_QPS_RTS) {
    return;
  }
  enter_error(failure{errc::driver,
                      "the RDMA device gave the datagram port up with a datagram that it could not "
                      "send: is the link up? Make another port"});
}

void verbs_pair::on_receive(std::uint32_t place, const ibv_wc& wc) noexcept {
  if (place >= receives_.depth() || !receives_[place].on_device) {
    return enter_error(never_posted("a receive"));
  }
  const wc_status status = begin_receive(wc);
  completion c{.status = status, .op = opcode::recv};
  if (status == wc_status::success) {
    watch_.arrivals().on_arrival();
    c.byte_len = wc.byte_len;
    if (datagrams() && !take_datagram(place, wc, c.byte_len)) return;
    c.op = kind_of(wc);
    if (wc.wc_flags != 0) note_flags(c, wc, home_.owner().hardware());
  } else {
    c.vendor_err = wc.vendor_err;
  }
  finish(place, c);
  if (status != wc_status::success) fail_request(status, opcode::recv, wc.vendor_err);
}

completion verbs_pair::outcome_of(const recv_slot& s) noexcept {
  return {.id = s.id,
          .byte_len = s.byte_len,
          .imm = s.imm,
          .vendor_err = s.vendor_err,
          .status = s.status,
          .op = s.op,
          .has_imm = s.has_imm,
          .key = s.invalidated};
}

void verbs_pair::finish(std::uint32_t place, const completion& c) noexcept {
  recv_slot& slot = receives_[place];
  slot = {.id = slot.id,
          .byte_len = c.byte_len,
          .imm = c.imm,
          .vendor_err = c.vendor_err,
          .op = c.op,
          .status = c.status,
          .has_imm = c.has_imm,
          .on_device = false,
          .invalidated = static_cast<std::uint32_t>(c.key)};
  receives_.finish(place);
  settle();
}

// A request that is not on the device ends when all requests before it have ended.
void verbs_pair::settle() noexcept {
  while (!sends_.idle() && !sends_[sends_.done()].on_device) {
    send_slot& slot = sends_.end();
    if (has_failed() && slot.status == wc_status::success) slot.status = wc_status::wr_flush_err;
    if (slot.status != wc_status::success) slot.byte_len = 0;
  }
  if (!sends_.has_special()) choose_usual();
  if (has_completions()) home_.mark_completed(completed_link_);
  if (has_failed() && !outstanding()) home_.home().remove(timer_);
}

std::size_t verbs_pair::take(std::span<completion> out) noexcept {
  std::size_t n = 0;
  while (n < out.size() && sends_.has_finished()) out[n++] = outcome_of(sends_.take());
  while (n < out.size() && receives_.any_finished()) out[n++] = outcome_of(receives_.take());
  return n;
}

void verbs_pair::on_probe(const ibv_wc& wc) noexcept {
  watch_.on_answer();
  if (wc.status != IBV_WC_SUCCESS) return enter_error(reset("it does not answer any more"));
  puts_.answered();
  advance_close();
}

// Handles the completion of a put that failed or requested one. No caller waits for it: a failure
// ends the connection.
void verbs_pair::on_put(std::uint32_t number, const ibv_wc& wc) noexcept {
  const wc_status status = told(opcode::send, to_status(wc.status));
  if (status != wc_status::success) return fail_request(status, opcode::send, wc.vendor_err);
  if (!puts_.done(number)) enter_error(never_posted("a request"));
}

void verbs_pair::on_completion(const ibv_wc& wc) noexcept {
  const work_id id = unpack(wc.wr_id);
  if (!names_.is_own(id)) return;  // of an earlier queue pair at this index
  watch_.on_completion();
  switch (id.what) {
    case work::send: return on_send(id.number, wc);
    case work::receive:
    case work::datagram_receive: return on_receive(id.number, wc);
    case work::put: return on_put(id.number, wc);
    default: return on_probe(wc);
  }
}

// ---- completions of an adapter ----

void verbs_adapter::drain(ibv_cq* queue) noexcept {
  for (const auto& q : queues_) {
    if (q->queue.get() != queue) continue;
    completion_batch* const rest = q->telling;
    while (rest != nullptr && rest->next != rest->end) on_unusual(*rest->next++);
    while (take_with_care(*q) == completions_per_poll) {}
  }
}

// Used outside the direct output of poll().
std::size_t verbs_adapter::take_with_care(completion_queue& q) noexcept {
  std::array<ibv_wc, completions_per_poll> taken;
  const std::size_t count = q.queue.take(taken);
  if (count != 0) notices_.taken_since = true;
  completion_batch rest{taken.data(), taken.data() + count};
  while (rest.next != rest.end) rest.next = tell_with_care(q, rest);
  return count;
}

// Reports the first of `rest`. If that drains the queue, the others are reported within it. Returns
// the next one.
const ibv_wc* verbs_adapter::tell_with_care(completion_queue& q, completion_batch rest) noexcept {
  completion_batch* const before = std::exchange(q.telling, &rest);
  on_unusual(*rest.next++);
  q.telling = before;
  return rest.next;
}

// Most completions concern no other object; any other one may drain the queue. Returns whether
// there were any.
[[gnu::always_inline]] inline bool verbs_adapter::take_from(completion_queue& q) noexcept {
  std::array<ibv_wc, completions_per_poll> taken;
  const std::size_t count = q.queue.take(taken);
  if (count == 0) return false;
  notices_.taken_since = true;
  const ibv_wc* const end = taken.data() + count;
  for (const ibv_wc* next = taken.data(); next != end;) {
    verbs_pair* const p = pairs_.at(unpack(next->wr_id).place);
    const ibv_wc* const behind = p != nullptr ? p->take_usual(outlet_, next, end) : nullptr;
    next = behind != nullptr ? behind : tell_with_care(q, {next, end});
  }
  return true;
}

void verbs_adapter::on_unusual(const ibv_wc& wc) noexcept {
  const work_id id = unpack(wc.wr_id);
  if (!is_of_pair(id.what)) return on_own_completion(wc);
  if (verbs_pair* const p = pairs_.at(id.place); p != nullptr) p->on_completion(wc);
}

// Handles a completion of the adapter itself, not of a queue pair.
void verbs_adapter::on_own_completion(const ibv_wc& wc) noexcept {
  const work_id id = unpack(wc.wr_id);
  if (id.what == work::shared_receive) return on_shared_receive(id, wc);
  if (control_ != nullptr) control_->on_completion(id, wc);
}

// Takes from each owner in the list; owners with more completions stay in it, in the same order.
template <class Link>
std::size_t hand_out_of(list<Link>& completed, std::span<completion> out) noexcept {
  std::size_t n = 0;
  list<Link> again;
  while (n < out.size() && !completed.empty()) {
    Link& link = completed.pop_front();
    n += link.owner->take(out.subspan(n));
    if (link.owner->has_completions()) again.push_back(link);
  }
  completed.splice_back(again);
  return n;
}

std::size_t verbs_adapter::hand_out(std::span<completion> out) noexcept {
  const std::size_t n = hand_out_of(completed_, out);
  return n + hand_out_of(completed_shared_, out.subspan(n));
}

// Begins a poll that is not short. Completions left from an earlier poll are returned first.
void verbs_adapter::begin_poll(std::span<completion> out, bool& progressed) noexcept {
  const bool at_once = completed_.empty() && completed_shared_.empty();
  outlet_.open(out.first(at_once ? out.size() : 0));
  if (!look_.is_due()) return;
  static_cast<void>(look_.take_wake());
  if (look()) progressed = true;
}

// `out`: the space after the completions reported directly.
std::size_t verbs_adapter::end_poll(std::span<completion> out, bool& progressed) noexcept {
  if (look_.take_wake() && !progressed) {
    progressed = look();
    for (const auto& q : queues_) {
      if (take_with_care(*q) != 0) progressed = true;
    }
  }
  if (!events_.empty()) progressed = true;
  const std::size_t n = hand_out(out);
  if (completed_.empty() && completed_shared_.empty() && events_.empty()) look_.calm_down();
  return n;
}

std::size_t verbs_adapter::poll(std::span<completion> out, bool& progressed) noexcept {
  if (look_.begin_short()) [[likely]] {
    outlet_.open(out);
  } else {
    begin_poll(out, progressed);
  }
  for (const auto& q : queues_) {
    if (take_from(*q)) progressed = true;
  }
  const std::size_t n = outlet_.close(out.data());
  if (look_.is_calm()) [[likely]]
    return n;
  return n + end_poll(out.subspan(n), progressed);
}

}  // namespace cordma::transport::verbs

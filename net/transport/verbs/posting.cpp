#include <cordma/net/transport/verbs/posting.hpp>

#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/window.hpp>

#include <array>
#include <cerrno>

namespace cordma::transport::verbs {
namespace {

std::uint64_t operations(ibv_qp_type type, const ibv_device_attr& has) noexcept {
  std::uint64_t all = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (type == IBV_QPT_UD) return all;
  all |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (type == IBV_QPT_UC) return all;
  all |= IBV_QP_EX_WITH_RDMA_READ;
  if (has_windows(has)) all |= IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
  if (has.atomic_cap == IBV_ATOMIC_NONE) return all;
  return all | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
}

void* at(const ibv_sge& s) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(s.addr));
}

void set_data(ibv_qp_ex* qp, const ibv_sge* pieces, std::size_t count, unsigned flags) noexcept {
  const bool in_place = (flags & IBV_SEND_INLINE) != 0;
  if (count == 1 && in_place) {
    ibv_wr_set_inline_data(qp, at(*pieces), pieces->length);
  } else if (count == 1) {
    ibv_wr_set_sge(qp, pieces->lkey, pieces->addr, pieces->length);
  } else if (in_place) {
    std::array<ibv_data_buf, most_segments> all;
    CORDMA_REQUIRE_OP(count, <=, all.size());
    for (std::size_t i = 0; i < count; ++i) all[i] = {at(pieces[i]), pieces[i].length};
    ibv_wr_set_inline_data_list(qp, count, all.data());
  } else {
    ibv_wr_set_sge_list(qp, count, pieces);
  }
}

// False: not one of operations().
bool build(ibv_qp_ex* qp, const ibv_send_wr& r) noexcept {
  qp->wr_id = r.wr_id;
  // Includes IBV_SEND_INLINE, which Soft-RoCE reads; other devices use the calls of set_data().
  qp->wr_flags = r.send_flags;
  switch (r.opcode) {
    case IBV_WR_SEND: ibv_wr_send(qp); break;
    case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(qp, r.imm_data); break;
    case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, r.wr.rdma.rkey, r.wr.rdma.remote_addr); break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      ibv_wr_rdma_write_imm(qp, r.wr.rdma.rkey, r.wr.rdma.remote_addr, r.imm_data);
      break;
    case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, r.wr.rdma.rkey, r.wr.rdma.remote_addr); break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      ibv_wr_atomic_fetch_add(qp, r.wr.atomic.rkey, r.wr.atomic.remote_addr,
                              r.wr.atomic.compare_add);
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      ibv_wr_atomic_cmp_swp(qp, r.wr.atomic.rkey, r.wr.atomic.remote_addr, r.wr.atomic.compare_add,
                            r.wr.atomic.swap);
      break;
    case IBV_WR_SEND_WITH_INV: ibv_wr_send_inv(qp, r.invalidate_rkey); break;
    case IBV_WR_BIND_MW:
      ibv_wr_bind_mw(qp, r.bind_mw.mw, r.bind_mw.rkey, &r.bind_mw.bind_info);
      return true;
    default: return false;
  }
  if (qp->qp_base.qp_type == IBV_QPT_UD) {
    ibv_wr_set_ud_addr(qp, r.wr.ud.ah, r.wr.ud.remote_qpn, r.wr.ud.remote_qkey);
  }
  set_data(qp, r.sg_list, static_cast<std::size_t>(r.num_sge), r.send_flags);
  return true;
}

bool has_segments(const ibv_send_wr* list) noexcept {
  for (; list != nullptr; list = list->next) {
    if (list->num_sge > 1) return true;
  }
  return false;
}

}  // namespace

// In regions, nothing else may run on this thread between start and complete or abort.
post_outcome send_queue::post_one_extended(const send_request& r, std::uint64_t id,
                                           unsigned flags) const noexcept {
  ibv_qp_ex* const qp = extended_;
  ibv_wr_start(qp);
  qp->wr_id = id;
  qp->wr_flags = flags;
  switch (r.op) {
    case opcode::send: ibv_wr_send(qp); break;
    case opcode::send_imm: ibv_wr_send_imm(qp, htonl(r.imm)); break;
    case opcode::write: ibv_wr_rdma_write(qp, to_rkey(r.rkey), r.remote_addr); break;
    case opcode::write_imm:
      ibv_wr_rdma_write_imm(qp, to_rkey(r.rkey), r.remote_addr, htonl(r.imm));
      break;
    case opcode::read: ibv_wr_rdma_read(qp, to_rkey(r.rkey), r.remote_addr); break;
    default: ibv_wr_abort(qp); return {EOPNOTSUPP, nullptr};
  }
  set_data(qp, as_sges(r.segments), r.segment_count, flags);
  return {ibv_wr_complete(qp), nullptr};
}

post_outcome send_queue::post_extended(ibv_send_wr* list) const noexcept {
  if (one_segment_ && has_segments(list)) return post_plain(list);
  ibv_wr_start(extended_);
  for (const ibv_send_wr* r = list; r != nullptr; r = r->next) {
    if (build(extended_, *r)) [[likely]]
      continue;
    ibv_wr_abort(extended_);
    return {EOPNOTSUPP, nullptr};
  }
  return {ibv_wr_complete(extended_), nullptr};
}

owned<ibv_qp> make_extended_pair(ibv_pd* pd, ibv_qp_init_attr& init, const ibv_device_attr& has) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_context = init.qp_context;
  attr.send_cq = init.send_cq;
  attr.recv_cq = init.recv_cq;
  attr.srq = init.srq;
  attr.cap = init.cap;
  attr.qp_type = init.qp_type;
  attr.sq_sig_all = init.sq_sig_all;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd;
  attr.send_ops_flags = operations(init.qp_type, has);
  owned<ibv_qp> made(ibv_create_qp_ex(pd->context, &attr));
  if (made != nullptr) init.cap = attr.cap;
  return made;
}

made_pair make_queue_pair(const device& d, ibv_pd* pd, ibv_qp_init_attr init) {
  made_pair made;
  if (d.extended.requests) {
    made.pair = make_extended_pair(pd, init, d.attributes.orig_attr);
  }
  ibv_qp_ex* const extended = made.pair != nullptr ? ibv_qp_to_qp_ex(made.pair.get()) : nullptr;
  // The device may lack for another service the calls that it has for RC.
  if (made.pair == nullptr && (!d.extended.requests || errno == EOPNOTSUPP)) {
    made.pair.reset(ibv_create_qp(pd, &init));
  }
  made.sends = send_queue(made.pair.get(), extended, d.is_soft_roce());
  made.given = init.cap;
  return made;
}

}  // namespace cordma::transport::verbs

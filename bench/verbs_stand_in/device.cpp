// The functions of libibverbs and librdmacm that the transport verbs calls with this device, each
// defined here ahead of the library's.
#include <rdma/rdma_cma.h>

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <forward_list>
#include <map>
#include <utility>

#include "parts.hpp"

// Marks code for is_device_code(); the linker defines symbols for both ends of a section.
#define STAND_IN_CODE [[gnu::section("stand_in_code")]]
extern "C" const char __start_stand_in_code;  // NOLINT(bugprone-reserved-identifier)
extern "C" const char __stop_stand_in_code;   // NOLINT(bugprone-reserved-identifier)

namespace stand_in {

std::map<std::uint32_t, queue_pair*>& pairs() {
  static std::map<std::uint32_t, queue_pair*> all;
  return all;
}

std::map<std::uint32_t, ibv_mr>& regions() {
  static std::map<std::uint32_t, ibv_mr> all;
  return all;
}

namespace {

std::uint32_t last_number = 0;

// The GID of 127.0.0.1.
ibv_gid own_gid() {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xFF;
  gid.raw[12] = 127;
  gid.raw[15] = 1;
  return gid;
}

void deliver(const ibv_qp& from, const ibv_send_wr& wr) {
  const auto to = pairs().find(wr.wr.ud.remote_qpn);
  if (to == pairs().end() || to->second->receives.empty()) return;
  queue_pair& port = *to->second;
  const receive into = std::move(port.receives.front());
  port.receives.pop_front();
  const std::vector<std::byte> payload = gather(to_request(wr));
  std::vector<std::byte> all(header_bytes + payload.size());
  std::size_t room = 0;
  for (const ibv_sge& s : into.into) room += s.length;
  if (room < all.size()) return;
  all[0] = std::byte{0x60};  // as in IPv6, with the sender's GID
  std::memcpy(&all[8], own_gid().raw, sizeof own_gid().raw);
  if (!payload.empty()) std::memcpy(&all[header_bytes], payload.data(), payload.size());
  scatter(all, into.into);
  ibv_wc& wc =
      of(port.native.recv_cq)
          .complete(into.id, IBV_WC_RECV, static_cast<std::uint32_t>(all.size()), port.native);
  wc.src_qp = from.qp_num;
  if (wr.opcode != IBV_WR_SEND_WITH_IMM) return;
  wc.wc_flags = IBV_WC_WITH_IMM;
  wc.imm_data = wr.imm_data;
}

STAND_IN_CODE int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (qp->qp_type != IBV_QPT_UD && of(qp->context).of_connected == payload::moved) {
    return send_moved(qp, wr, bad);
  }
  for (; wr != nullptr; wr = wr->next) {
    if (qp->qp_type == IBV_QPT_UD) deliver(*qp, *wr);
    if ((wr->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    const bool write = wr->opcode == IBV_WR_RDMA_WRITE;
    of(qp->send_cq).complete(wr->wr_id, write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, 0, *qp);
  }
  return 0;
}

STAND_IN_CODE int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (qp->qp_type == IBV_QPT_UD || of(qp->context).of_connected == payload::moved) {
    return receive_moved(qp, wr, bad);
  }
  for (; wr != nullptr; wr = wr->next) {
    of(qp->recv_cq).complete(wr->wr_id, IBV_WC_RECV, wr->sg_list->length, *qp);
  }
  return 0;
}

STAND_IN_CODE int poll(ibv_cq* cq, int room, ibv_wc* out) {
  completion_queue& q = of(cq);
  int n = 0;
  for (; n < room && q.first != q.end; ++n) out[n] = q.pending[q.first++ % most_pending];
  return n;
}

int ask_for_notice(ibv_cq* /*cq*/, int /*solicited_only*/) { return 0; }

}  // namespace

ibv_pd* make_device(payload of_connected) {
  struct device {
    ibv_device native{};
    context opened{};
    ibv_pd pd{};
  };
  static std::forward_list<device> all;
  device& made = all.emplace_front();
  std::strcpy(made.native.name, "stand-in");
  made.opened.of_connected = of_connected;
  ibv_context* const context = &made.opened.native;
  context->device = &made.native;
  context->async_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->ops.post_srq_recv = receive_shared;
  context->ops.poll_cq = poll;
  context->ops.req_notify_cq = ask_for_notice;
  made.pd.context = context;
  return &made.pd;
}

bool is_device_code(std::uint64_t address) noexcept {
  return address >= reinterpret_cast<std::uintptr_t>(&__start_stand_in_code) &&
         address < reinterpret_cast<std::uintptr_t>(&__stop_stand_in_code);
}

}  // namespace stand_in

using namespace stand_in;

// libibverbs defines macros with some of these names.
#undef ibv_query_port

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  *attr = ibv_device_attr{};
  attr->phys_port_cnt = 1;
  attr->max_qp = 1024;
  attr->max_qp_wr = most_pending / 2;
  attr->max_cqe = most_pending;
  attr->max_sge = 16;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
  attr->atomic_cap = IBV_ATOMIC_HCA;
  if (of(context).of_connected == payload::moved) {
    attr->max_srq = 1024;
    attr->max_srq_wr = most_pending / 4;
  }
  return 0;
}

int ibv_query_port(ibv_context* /*context*/, std::uint8_t /*port*/, _compat_ibv_port_attr* attr) {
  auto& a = *reinterpret_cast<ibv_port_attr*>(attr);
  a.state = IBV_PORT_ACTIVE;
  a.max_mtu = a.active_mtu = IBV_MTU_1024;
  a.max_msg_sz = 1U << 30;
  a.pkey_tbl_len = 1;
  a.gid_tbl_len = 1;
  a.link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

ssize_t _ibv_query_gid_table(  // NOLINT(bugprone-reserved-identifier)
    ibv_context* /*context*/, ibv_gid_entry* entries, size_t /*most*/, std::uint32_t /*flags*/,
    size_t /*entry_size*/) {
  *entries = ibv_gid_entry{};
  entries->port_num = 1;
  entries->gid_type = IBV_GID_TYPE_ROCE_V2;
  entries->gid = own_gid();
  return 1;
}

int ibv_query_pkey(ibv_context* /*context*/, std::uint8_t /*port*/, int /*index*/, __be16* pkey) {
  *pkey = 0xFFFF;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }
int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, std::uint64_t /*iova*/,
                         unsigned /*access*/) {
  static std::uint32_t last_key = 0;
  ibv_mr& mr = regions()[++last_key];
  mr.context = pd->context;
  mr.pd = pd;
  mr.addr = addr;
  mr.length = length;
  mr.lkey = mr.rkey = last_key;
  return &mr;
}
int ibv_dereg_mr(ibv_mr* mr) {
  regions().erase(mr->lkey);
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{context, ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0};
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* owner, ibv_comp_channel* channel,
                      int /*vector*/) {
  auto* const q = new completion_queue;
  q->native.context = context;
  q->native.channel = channel;
  q->native.cq_context = owner;
  q->native.cqe = entries;
  return &q->native;
}
int ibv_destroy_cq(ibv_cq* cq) {
  delete &of(cq);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* /*channel*/, ibv_cq** /*cq*/, void** /*owner*/) {
  errno = EAGAIN;
  return -1;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  auto* const qp = new queue_pair;
  qp->native.context = pd->context;
  qp->native.pd = pd;
  qp->native.qp_context = init->qp_context;
  qp->native.send_cq = init->send_cq;
  qp->native.recv_cq = init->recv_cq;
  qp->native.qp_type = init->qp_type;
  qp->native.qp_num = ++last_number;
  if (init->srq != nullptr) qp->shared = &of(init->srq);
  pairs()[qp->native.qp_num] = qp;
  return &qp->native;
}
int ibv_destroy_qp(ibv_qp* qp) {
  pairs().erase(qp->qp_num);
  delete &of(qp);
  return 0;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (of(qp->context).of_connected == payload::moved) modify_moved(of(qp), *attr, mask);
  return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  auto* const q = new shared_queue;
  q->native.context = pd->context;
  q->native.pd = pd;
  q->native.srq_context = init->srq_context;
  return &q->native;
}
int ibv_destroy_srq(ibv_srq* srq) {
  delete &of(srq);
  return 0;
}
int ibv_modify_srq(ibv_srq* /*srq*/, ibv_srq_attr* /*attr*/, int /*mask*/) { return 0; }

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* /*attr*/) { return new ibv_ah{pd->context, pd, 0}; }
int ibv_destroy_ah(ibv_ah* ah) {
  delete ah;
  return 0;
}

rdma_event_channel* rdma_create_event_channel() {
  return new rdma_event_channel{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete channel;
}

}  // extern "C"

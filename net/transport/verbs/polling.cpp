#include <cordma/net/transport/verbs/polling.hpp>

#include <cordma/net/transport/verbs/limits.hpp>

namespace cordma::transport::verbs {
namespace {

// Opcode, flags and vendor_err are readable without a request for them.
constexpr std::uint64_t fields = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
                                 IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
                                 IBV_WC_EX_WITH_SLID;

// Reading a field is a call: reads only the fields that are used.
void read(ibv_cq_ex* queue, ibv_wc& wc) noexcept {
  wc.wr_id = queue->wr_id;
  wc.status = queue->status;
  if (wc.status != IBV_WC_SUCCESS) {
    wc.vendor_err = ibv_wc_read_vendor_err(queue);
    wc.qp_num = ibv_wc_read_qp_num(queue);
    return;
  }
  const work what = unpack(wc.wr_id).what;
  if (!is_receive(what)) return;
  wc.opcode = ibv_wc_read_opcode(queue);
  wc.byte_len = ibv_wc_read_byte_len(queue);
  wc.qp_num = ibv_wc_read_qp_num(queue);
  wc.wc_flags = ibv_wc_read_wc_flags(queue);
  // Either an immediate or an invalidated key; Soft-RoCE marks the latter with another flag.
  if (wc.wc_flags != 0) wc.imm_data = ibv_wc_read_imm_data(queue);
  if (!is_datagram(what)) return;
  wc.src_qp = ibv_wc_read_src_qp(queue);
  wc.slid = static_cast<std::uint16_t>(ibv_wc_read_slid(queue));
}

}  // namespace

owned<ibv_cq_ex> make_extended_queue(ibv_context* context, std::uint32_t entries,
                                     ibv_comp_channel* channel, void* owner) {
  CORDMA_REQUIRE_OP(entries, >, 0U);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = entries;
  attr.cq_context = owner;
  attr.channel = channel;
  attr.wc_flags = fields;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  owned<ibv_cq_ex> made(ibv_create_cq_ex(context, &attr));
  if (made == nullptr) {
    attr.comp_mask = 0;
    made.reset(ibv_create_cq_ex(context, &attr));
  }
  return made;
}

std::size_t take_extended(ibv_cq_ex* queue, bool one_at_a_time, std::span<ibv_wc> out) noexcept {
  ibv_poll_cq_attr attr{};
  std::size_t n = 0;
  while (n < out.size() && ibv_start_poll(queue, &attr) == 0) {
    read(queue, out[n++]);
    while (!one_at_a_time && n < out.size() && ibv_next_poll(queue) == 0) read(queue, out[n++]);
    ibv_end_poll(queue);
    if (!one_at_a_time) break;
  }
  return n;
}

polled_queue::polled_queue(const device& d, std::uint32_t entries, ibv_comp_channel* channel,
                           void* owner)
    : one_at_a_time_(d.is_soft_roce()) {
  if (d.extended.completions) {
    extended_ = make_extended_queue(d.context.get(), entries, channel, owner).release();
    if (extended_ != nullptr) queue_.reset(ibv_cq_ex_to_cq(extended_));
  } else {
    queue_.reset(ibv_create_cq(d.context.get(), static_cast<int>(entries), owner, channel, 0));
  }
}

}  // namespace cordma::transport::verbs

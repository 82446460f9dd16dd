#include <cordma/net/transport/verbs/control_port.hpp>

#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <cerrno>

namespace cordma::transport::verbs {
namespace {

constexpr std::uint8_t hops = 64;

}  // namespace

int start_datagrams(ibv_qp* qp) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  const int code = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  if (code != 0) return code;
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = 0;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

ibv_ah_attr datagram_path(const verbs_domain& d, const gid_bytes* like) noexcept {
  ibv_ah_attr path{};
  const verbs_options& options = d.options();
  const std::optional<ibv_gid_entry> own = d.choose_gid(like);
  path.port_num = d.hardware().port;
  path.sl = options.service_level;
  path.is_global = d.hardware().is_ethernet() ? 1 : 0;
  path.grh.sgid_index = own ? static_cast<std::uint8_t>(own->gid_index) : 0;
  path.grh.hop_limit = hops;
  path.grh.traffic_class = options.traffic_class;
  return path;
}

ibv_ah_attr path_to(const verbs_domain& d, const datagram_address& peer) noexcept {
  ibv_ah_attr path = datagram_path(d, &peer.gid);
  path.grh.dgid = to_gid(peer.gid);
  path.dlid = peer.lid;
  return path;
}

control_port::~control_port() {
  qp_.reset();
  if (queue_ == nullptr) return;
  home_.drain(queue_);
  home_.release(queue_, 2 * control_depth);
}

result<void> control_port::make() {
  verbs_domain& d = home_.owner();
  region_ = register_bytes(d.pd(), memory_.get(), sizeof(buffers), IBV_ACCESS_LOCAL_WRITE);
  if (region_ == nullptr) return cannot_register(errno, sizeof(buffers));
  const result<ibv_cq*> queue = home_.promise(2 * control_depth);
  if (!queue) return queue.why();
  queue_ = *queue;
  ibv_qp_init_attr init{};
  init.qp_context = &home_;
  init.send_cq = init.recv_cq = queue_;
  init.cap.max_send_wr = init.cap.max_recv_wr = control_depth;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_UD;
  init.sq_sig_all = 1;
  made_pair made = make_queue_pair(d.hardware(), d.pd(), init);
  if (made.pair == nullptr) {
    const int code = errno;
    const bool never = code == EOPNOTSUPP || code == ENOSYS;
    return never ? failure{errc::not_supported, "this RDMA device has no datagrams"}
                 : failure::from_os(code, "making the control port's queue pair");
  }
  qp_ = std::move(made.pair);
  requests_ = made.sends;
  const int code = start();
  if (code != 0) return failure::from_os(code, "starting the control port");
  return {};
}

int control_port::start() noexcept {
  const device& d = home_.owner().hardware();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = d.pkey_index;
  attr.port_num = d.port;
  attr.qkey = control_qkey;
  int code =
      ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  if (code == 0) code = start_datagrams(qp_.get());
  for (std::uint32_t i = 0; code == 0 && i < control_depth; ++i) receive(i);
  return code;
}

void control_port::start_over() noexcept {
  ++life_;
  sent_ = done_ = 0;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  // If this is refused, the device was removed.
  if (ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE) == 0) static_cast<void>(start());
}

void control_port::receive(std::uint32_t place) noexcept {
  CORDMA_REQUIRE_OP(place, <, control_depth);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_->in[place].data()), received_bytes,
              region_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = pack({.what = work::control_receive, .generation = life_, .number = place});
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  static_cast<void>(ibv_post_recv(qp_.get(), &wr, &bad));
}

void control_port::send(const control_message& m, ibv_ah* to, std::uint32_t to_port) noexcept {
  CORDMA_ASSERT_OP(sent_ - done_, <=, control_depth);
  if (sent_ - done_ == control_depth) return;
  auto& out = memory_->out[sent_ % control_depth];
  encode(m, out);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(out.data()), control_bytes, region_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = pack({.what = work::control_send, .generation = life_});
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SOLICITED;  // wakes a peer that waits for solicited messages only
  wr.wr.ud.ah = to;
  wr.wr.ud.remote_qpn = to_port;
  wr.wr.ud.remote_qkey = control_qkey;
  if (requests_.post(&wr).code == 0) ++sent_;
}

void control_port::on_completion(const work_id& id, const ibv_wc& wc) noexcept {
  if (id.generation != (life_ & twenty_bits)) return;
  if (wc.status != IBV_WC_SUCCESS) return start_over();
  if (id.what == work::control_send) {
    ++done_;
    return;
  }
  const auto& in = memory_->in[id.number % control_depth];
  const std::span<const std::byte, received_bytes> all(in);
  control_message m;
  if (wc.byte_len == received_bytes && decode(all.subspan<grh_bytes>(), m)) {
    verbs_pair* const p = home_.find(m.to_pair);
    const datagram_address sender{.gid = sender_of(all.first<grh_bytes>()), .lid = wc.slid};
    if (p != nullptr && p->has_peer_at(sender, wc.src_qp)) {
      p->on_word(m);
    } else if (p == nullptr && m.what != word::unknown && m.what != word::heard) {
      answer_unknown(m, sender, wc.src_qp);
    }
  }
  if (id.generation == (life_ & twenty_bits))
    receive(id.number);  // otherwise it has restarted and posted all receives
}

void control_port::answer_unknown(const control_message& m, const datagram_address& sender,
                                  std::uint32_t port) noexcept {
  const address_handle* const to = home_.known_handle(sender);
  if (to == nullptr) return;
  send({.what = m.what == word::goodbye ? word::heard : word::unknown,
        .to_pair = m.from_pair,
        .from_pair = m.to_pair,
        .to_token = m.from_token,
        .from_token = m.to_token},
       to->native.get(), port);
}

}  // namespace cordma::transport::verbs

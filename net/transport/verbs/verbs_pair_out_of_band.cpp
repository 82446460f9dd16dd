// Connecting by descriptors that the user carries, without rdma_cm.
#include <cordma/net/transport/random.hpp>
#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/datagram_room.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <algorithm>

namespace cordma::transport::verbs {
namespace {

failure connected_once() {
  return {errc::bad_state, "a queue pair is connected once: create a new one"};
}

}  // namespace

result<std::unique_ptr<queue_pair>> verbs_adapter::create(const queue_pair_options& options) {
  if (lost_) return *lost_;
  const result<queue_pair_options> granted = owner_->grant(options);
  if (!granted) return granted.why();
  if (options.type != service::ud && options.peer == peer_kind::plain) {
    return failure{errc::not_supported,
                   "descriptors are cordma's own: a plain peer is connected by its address"};
  }
  if (options.type != service::ud && control() == nullptr) {
    return failure{
        why_no_control().code(),
        "connecting by descriptors needs a port for datagrams, which the RDMA device refused"}
        .with_cause(std::make_shared<const failure>(why_no_control()));
  }
  auto made = std::make_unique<verbs_pair>(*this, *granted);
  const result<void> ready = made->make();
  if (!ready) return ready.why();
  if (options.type == service::ud) {
    const result<void> open = made->open_port();
    if (!open) return open.why();
  }
  return std::unique_ptr<queue_pair>(std::move(made));
}

result<std::vector<std::byte>> verbs_pair::descriptor() {
  if (phase_ != phase::idle) return connected_once();
  if (terms_.own) return encode(*terms_.own);
  const verbs_domain& domain = home_.owner();
  const std::optional<ibv_gid_entry> gid = domain.choose_gid(nullptr);
  if (!gid && domain.hardware().is_ethernet()) return domain.no_gid();
  struct {
    std::uint64_t token;
    std::uint32_t psn;
  } drawn{};
  const int failed = draw_random(std::as_writable_bytes(std::span(&drawn, 1)));
  if (failed != 0) return failure::from_os(failed, "drawing a random token");
  const hello mine = greeting(hello_kind::request);
  pair_descriptor d;
  d.type = mine.type;
  d.mtu = mine.mtu;
  d.rnr_timer = mine.rnr_timer;
  d.rights = mine.rights;
  d.lid = domain.hardware().port_attributes.lid;
  d.read_depth = static_cast<std::uint16_t>(options_.read_depth);
  d.pair = number_;
  d.first_psn = drawn.psn & 0xFFFFFFU;
  d.control_pair = mine.control_pair;
  d.token = drawn.token;
  if (gid) d.gid = to_bytes(gid->gid);
  terms_.own = d;
  return encode(d);
}

result<void> verbs_pair::connect(std::span<const std::byte> peer_descriptor) {
  if (phase_ != phase::idle) return connected_once();
  const result<pair_descriptor> d = decode_descriptor(peer_descriptor);
  if (!d) return d.why();
  if (!terms_.own) {
    return failure{errc::bad_state,
                   "ask for this side's descriptor first, and give it to the peer"};
  }
  if (d->token == terms_.own->token) {
    return failure{errc::connection_aborted,
                   "this is the queue pair's own descriptor: it needs the one of its peer"};
  }
  if (d->type != options_.type) {
    return failure{errc::connection_aborted,
                   "the peer's descriptor is of a queue pair of service " +
                       std::string(transport::name(d->type)) + ", this one is " +
                       std::string(transport::name(options_.type))};
  }
  const std::uint8_t offered = terms_.mtu;
  const std::uint32_t reads = options_.read_depth;
  result<void> attached = attach_to(*d);
  if (!attached) {  // the offer sent to the peer also holds for the next attempt
    terms_.mtu = offered;
    options_.read_depth = reads;
  }
  return attached;
}

result<void> verbs_pair::attach_to(const pair_descriptor& d) {
  const verbs_domain& domain = home_.owner();
  peer_ = to_text(to_gid(d.gid)) + " (queue pair " + std::to_string(d.pair) + ")";
  terms_.peer = d.pair;
  terms_.peer_token = d.token;
  agree({.kind = hello_kind::accept,
         .type = d.type,
         .mtu = d.mtu,
         .rnr_timer = d.rnr_timer,
         .rights = d.rights,
         .control_pair = d.control_pair},
        {.ours = d.read_depth, .theirs = d.read_depth});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(terms_.mtu);
  attr.dest_qp_num = d.pair;
  attr.rq_psn = d.first_psn;
  const gid_bytes own = terms_.own->gid;
  attr.ah_attr = datagram_path(domain, &own);
  attr.ah_attr.grh.dgid = to_gid(d.gid);
  attr.ah_attr.dlid = d.lid;
  const result<void> receiving =
      to_receive(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (!receiving) return receiving;
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = terms_.own->first_psn;
  const result<void> sending =
      to_send(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                        IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  if (!sending) return sending;
  if (terms_.to_control == nullptr) {
    return failure{errc::unreachable, "no path to the control port of " + peer_};
  }
  move_to(phase::attaching);
  home_.home().add(timer_, after(home_.home().now(), options_.connect_timeout));
  repeat_after_ = first_attach;
  on_repeat();
  return {};
}

}  // namespace cordma::transport::verbs

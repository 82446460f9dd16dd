#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <cordma/net/transport/verbs/datagram_room.hpp>
#include <cordma/net/transport/verbs/port_directory.hpp>
#include <cordma/net/transport/verbs/verbs_receive_queue.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

namespace cordma::transport::verbs {

verbs_pair::verbs_pair(verbs_adapter& home, const queue_pair_options& granted)
    : home_(home), options_(granted), sends_(granted.send_depth), receives_(granted.recv_depth) {
  if (granted.shared != nullptr) events_.last = reserve_event();
}

result<void> verbs_pair::make() {
  const verbs_domain& domain = home_.owner();
  if (options_.shared != nullptr) {
    verbs_receive_queue* const from = home_.find(options_.shared);
    if (from == nullptr) {
      return failure{errc::invalid_value, "`shared` is of another Worker or transport"};
    }
    from->enter();
    shared_.from = from;
    shared_.state.become(drawing::not_yet);
  }
  result<ibv_cq*> queue = home_.promise(completions());
  if (!queue) return queue.why();
  queue_ = *queue;
  place_ = home_.pairs().enter(*this);
  names_.sit_at(place_->generation, place_->index);
  choose_usual();
  ibv_qp_init_attr init{};
  init.qp_context = &home_;
  init.send_cq = init.recv_cq = queue_;
  if (shared_.from != nullptr) {
    init.recv_cq = shared_.from->completions();
    init.srq = shared_.from->native();
  }
  init.cap.max_send_wr = most_sends();
  init.cap.max_recv_wr = options_.recv_depth;
  init.cap.max_send_sge = std::max(options_.max_segments, puts() ? put_segments : 1U);
  init.cap.max_recv_sge = options_.max_segments + (datagrams() ? datagram_extra : 0U);
  init.cap.max_inline_data = options_.inline_bytes;
  init.qp_type = datagrams() ? IBV_QPT_UD : options_.type == service::uc ? IBV_QPT_UC : IBV_QPT_RC;
  made_pair made = make_queue_pair(domain.hardware(), domain.pd(), init);
  if (made.pair == nullptr) {
    return failure::from_os(errno, "making a queue pair on " + domain.hardware().name +
                                       " (ask for smaller depths, or end other connections: see "
                                       "cordma-info --devices for what it has)");
  }
  native_ = std::move(made);
  // A surplus is not used: completion queues have entries for the requested depths only, and a
  // request for fewer inline bytes is deliberate.
  options_.inline_bytes = std::min(options_.inline_bytes, native_.given.max_inline_data);
  CORDMA_ASSERT_OP(options_.max_segments, <=, most_segments);
  number_ = native_.pair->qp_num;
  home_.pairs().name(number_, *this);
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
  const int code = ibv_modify_qp(native_.pair.get(), &attr, mask);
  if (code != 0)
    return failure::from_os(code, "preparing a queue pair on " + domain.hardware().name);
  return {};
}

result<std::uint32_t> verbs_pair::make_window(const window_range& range) {
  if (options_.type != service::rc) return errc::not_supported;
  if (has_failed()) return errc::not_connected;
  try {
    return windows_.make(home_.owner(), range);
  } catch (const std::bad_alloc&) {
    return errc::no_memory;
  }
}

}  // namespace cordma::transport::verbs

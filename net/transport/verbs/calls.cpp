#include <cordma/net/transport/verbs/calls.hpp>

#include <cordma/net/transport/verbs/polling.hpp>
#include <cordma/net/transport/verbs/posting.hpp>

namespace cordma::transport::verbs {

extended_calls try_extended_calls(ibv_pd* pd, const ibv_device_attr& has) {
  constexpr std::uint32_t few = 16;
  if (pd == nullptr) return {};
  extended_calls found;
  found.completions = make_extended_queue(pd->context, few, nullptr, nullptr) != nullptr;
  const owned<ibv_cq> cq(ibv_create_cq(pd->context, few, nullptr, nullptr, 0));
  if (cq == nullptr) return found;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.cap.max_send_wr = init.cap.max_recv_wr = 1;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  found.requests = make_extended_pair(pd, init, has) != nullptr;
  return found;
}

}  // namespace cordma::transport::verbs

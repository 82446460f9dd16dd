// Which calls of libibverbs carry requests and completions: found by trying, once per device.
#pragma once

#include <infiniband/verbs.h>

namespace cordma::transport::verbs {

// The plain ones, ibv_post_send and ibv_poll_cq, are always there.
struct extended_calls {
  bool requests = false;     // ibv_wr_*
  bool completions = false;  // ibv_cq_ex
};

// Makes a completion queue and a reliable queue pair, and takes them away again.
[[nodiscard]] extended_calls try_extended_calls(ibv_pd* pd, const ibv_device_attr& has);

}  // namespace cordma::transport::verbs

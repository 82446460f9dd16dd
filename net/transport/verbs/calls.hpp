// Finds the calls of libibverbs for requests and completions, by trying them once per device.
#pragma once

#include <infiniband/verbs.h>

namespace cordma::transport::verbs {

// The plain calls, ibv_post_send and ibv_poll_cq, always exist.
struct extended_calls {
  bool requests = false;     // ibv_wr_*
  bool completions = false;  // ibv_cq_ex
};

// Creates a completion queue and a reliable queue pair, and destroys them again.
[[nodiscard]] extended_calls try_extended_calls(ibv_pd* pd, const ibv_device_attr& has);

}  // namespace cordma::transport::verbs

// The optional features of RDMA devices beyond requests and completions: whether this device has
// them and cordma uses them.
#pragma once

#include <cordma/net/transport/device_attributes.hpp>

#include <infiniband/verbs.h>

#include <vector>

namespace cordma::transport::verbs {

// Tests by trying if no attribute reports the feature. Creates objects, and destroys them again.
[[nodiscard]] std::vector<device_extra> ask_extras(ibv_context* context);

}  // namespace cordma::transport::verbs

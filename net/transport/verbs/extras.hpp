// What RDMA devices may have beyond requests and completions: whether this one does, and cordma uses it.
#pragma once

#include <cordma/net/transport/device_attributes.hpp>

#include <infiniband/verbs.h>

#include <vector>

namespace cordma::transport::verbs {

// Asks by trying where no attribute tells. Makes objects, and takes them away again.
[[nodiscard]] std::vector<device_extra> ask_extras(ibv_context* context);

}  // namespace cordma::transport::verbs

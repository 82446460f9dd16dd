// What RDMA devices may have beyond requests and completions: whether this one does, and cordma uses it.
#pragma once

#include <infiniband/verbs.h>

#include <vector>

namespace cordma::transport::verbs {

struct extra {
  const char* name;
  bool on_device;
  bool offered;  // by cordma's interface, where the device has it
};

// Asks by trying where no attribute tells. Makes objects, and takes them away again.
[[nodiscard]] std::vector<extra> ask_extras(ibv_context* context);

}  // namespace cordma::transport::verbs

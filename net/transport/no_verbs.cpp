// What stands in for verbs/ in a build without libibverbs and librdmacm.
#include <cordma/net/transport/transport.hpp>

namespace cordma::transport {

result<std::shared_ptr<domain>> make_verbs(const verbs_options&) {
  return failure{errc::not_supported,
                 "this build has no verbs transport: install libibverbs-dev and librdmacm-dev, and "
                 "build again"};
}

result<std::vector<std::shared_ptr<domain>>> make_verbs_with_rails(const verbs_options& options) {
  return make_verbs(options).why();
}

std::string describe_rdma_devices() { return {}; }

}  // namespace cordma::transport

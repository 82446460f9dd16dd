// Replaces verbs/ in a build without libibverbs and librdmacm.
#include <cordma/net/transport/device_attributes.hpp>
#include <cordma/net/transport/transport.hpp>

namespace cordma::transport {
namespace {

failure not_built() {
  return {errc::not_supported,
          "this build has no verbs transport: install libibverbs-dev and librdmacm-dev, and build "
          "again"};
}

}  // namespace

result<std::shared_ptr<domain>> make_verbs(const verbs_options&) { return not_built(); }

result<std::vector<std::shared_ptr<domain>>> make_verbs_with_rails(const verbs_options&) {
  return not_built();
}

result<std::vector<device_attributes>> query_devices() { return not_built(); }

}  // namespace cordma::transport

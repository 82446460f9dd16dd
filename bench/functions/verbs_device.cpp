#include "../verbs_stand_in/device.hpp"
#include "over.hpp"

namespace functions {

std::optional<cordma::context_options> only(cordma::transport::kind over) {
  cordma::context_options o;
  o.transports = {over};
  if (over == cordma::transport::kind::verbs) {
    o.verbs.pd = stand_in::make_device(stand_in::payload::moved);
    // the only calls that this device supports
    o.verbs.calls = cordma::transport::verbs_calls::plain;
  }
  return o;
}

}  // namespace functions

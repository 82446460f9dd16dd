#include "../verbs_stand_in/device.hpp"
#include "over.hpp"

namespace functions {

std::optional<cordma::context_options> only(cordma::transport::kind over) {
  cordma::context_options o;
  o.transports = {over};
  if (over == cordma::transport::kind::verbs) {
    o.verbs.pd = stand_in::make_device(stand_in::payload::moved);
    o.verbs.calls = cordma::transport::verbs_calls::plain;  // all that this device has
  }
  return o;
}

}  // namespace functions

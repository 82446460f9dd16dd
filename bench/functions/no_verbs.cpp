#include "over.hpp"

namespace functions {

std::optional<cordma::context_options> only(cordma::transport::kind over) {
  if (over == cordma::transport::kind::verbs) return std::nullopt;
  cordma::context_options o;
  o.transports = {over};
  return o;
}

}  // namespace functions

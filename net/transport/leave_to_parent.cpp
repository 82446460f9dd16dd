#include <cordma/net/transport/transport.hpp>

namespace cordma::transport {

void leave_to_parent(std::shared_ptr<domain> d) noexcept {
  CORDMA_REQUIRE(d != nullptr);
  // Not destroyed: only the object and its reference count stay.
  if (!d->leave_to_parent()) static_cast<void>(new (std::nothrow) std::shared_ptr<domain>(d));
}

}  // namespace cordma::transport

#include <cordma/net/transport/transport.hpp>

namespace cordma::transport {

void leave_to_parent(std::shared_ptr<domain> d) noexcept {
  CORDMA_REQUIRE(d != nullptr);
  // Never destroyed: the object and its count are all that stays.
  if (!d->leave_to_parent()) static_cast<void>(new (std::nothrow) std::shared_ptr<domain>(d));
}

}  // namespace cordma::transport

// Ends an adapter and its endpoints; poll() is in posting.cpp.
#include <cordma/net/datapath/adapter_poller.hpp>

#include <cordma/net/datapath/endpoint_core.hpp>

#include <string>

namespace cordma::detail {

failure adapter_poller::why_broken() const {
  return {errc::shutdown,
          "the completion queue of " + std::string(transport::name(domain_->caps().transport)) +
              " told of a request that nobody made, and cannot be believed any more"};
}

void adapter_poller::end_later(endpoint_core& e) noexcept {
  CORDMA_ASSERT(e.via() == this);
  CORDMA_ASSERT(e.cause() != nullptr);
  if (!e.ending().linked()) ending_.push_back(e.ending());
  careful_ = true;
}

void adapter_poller::end_due(bool all_told) noexcept {
  if (!all_told && --polls_to_end_ != 0) return;
  polls_to_end_ = patience;
  while (!ending_.empty()) {
    endpoint_core& e = *ending_.pop_front().owner;
    CORDMA_ASSERT(e.via() == this);
    e.end(*e.cause());
    CORDMA_ASSERT_OP(e.state(), ==, endpoint_state::closed);
  }
}

}  // namespace cordma::detail

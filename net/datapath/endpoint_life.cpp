#include <cordma/net/datapath/endpoint_life.hpp>

#include <utility>

namespace cordma::detail {

// Operations that wait for the end continue to wait. Resolved operations resume later, from the
// ready list.
void endpoint_life::resume_waiters(endpoint_state s) noexcept {
  waiters_.for_each([s](state_operation& w) {
    if (w.kind_ == state_operation::kind::close && s != endpoint_state::closed) return;
    w.unlink();
    w.resolve(s);
  });
}

void endpoint_life::blame(failure why) noexcept {
  if (cause_) return;
  *storage_ = std::move(why);
  cause_ = storage_;
}

std::optional<failure> endpoint_life::why_not(const char* operation) const noexcept {
  if (state_ != endpoint_state::closed && state_ != endpoint_state::closing) return {};
  if (closed_here_) return failure{errc::not_connected, "this side closed the connection"};
  return flushed(operation);
}

failure endpoint_life::flushed(const char* operation) const noexcept {
  failure why{errc::flushed};
  why.with_operation(operation).with_cause(cause_);
  why.with_status(static_cast<std::uint16_t>(transport::wc_status::wr_flush_err), 0);
  return why;
}

}  // namespace cordma::detail

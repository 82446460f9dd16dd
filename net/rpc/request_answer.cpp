// The one answer to a request, as the handler awaits it.
#include <cordma/net/rpc/held_request.hpp>

#include <new>
#include <utility>

namespace cordma::detail {

request_answer::request_answer(held_request* to, reactor* home, const Slice& response) noexcept
    : operation_base(home), held_(to), response_(response) {}

request_answer::request_answer(held_request* to, reactor* home, std::string_view redirect) noexcept
    : operation_base(home), held_(to) {
  if (redirect.empty() || redirect.size() > protocol::longest_redirect) {
    failure_ = failure::of(errc::invalid_value, {"an address of ", redirect.size(), " bytes: 1 to ",
                                                 protocol::longest_redirect});
    return;
  }
  try {
    redirect_ = redirect;
  } catch (const std::bad_alloc&) {
    failure_ = errc::no_memory;
  }
}

request_answer::request_answer(request_answer&& other) noexcept
    : operation_base(std::move(other)),
      held_(std::exchange(other.held_, nullptr)),
      response_(other.response_),
      redirect_(std::move(other.redirect_)) {
  if (state() == phase::posted) held_->follow(*this);
}

request_answer::~request_answer() {
  if (state() == phase::posted) held_->leave(*this);
}

void request_answer::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation("respond"));
  finish();
}

void request_answer::do_start() noexcept { held_->respond(*this); }

}  // namespace cordma::detail

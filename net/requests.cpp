#include <cordma/net/requests.hpp>

#include <cordma/net/rpc/request_core.hpp>

#include <utility>

namespace cordma {

using detail::request_call;

// ---- Request ----

Request::Request(detail::held_request& held) noexcept : held_(&held) { held.on_handle_made(); }
Request::Request(Request&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
Request::~Request() {
  if (held_ != nullptr) held_->on_handle_gone();
}

std::uint16_t Request::method() const noexcept { return held_->head().method; }
std::uint64_t Request::size() const noexcept { return held_->size(); }
std::uint64_t Request::room() const noexcept { return held_->head().room_bytes; }
time_point Request::deadline() const noexcept { return held_->until(); }
bool Request::wants_response() const noexcept { return held_->wants_response(); }
bool Request::unwanted() const noexcept { return held_->unwanted().is_set(); }
event::wait_operation Request::until_unwanted() noexcept { return held_->unwanted().wait(); }
Endpoint* Request::from() const noexcept { return held_->peer().handle(); }

std::span<const std::byte> Request::data() const noexcept {
  const ActiveMessage* const message = held_->message();
  if (message == nullptr) return {};
  return message->data();
}

tag_recv_operation Request::read(const Slice& into) noexcept {
  if (ActiveMessage* const message = held_->begin_reading()) return message->read(into);
  return {held_->why_dropped(), &held_->home()};
}

respond_operation Request::respond(const Slice& response) noexcept {
  return {held_, &held_->home(), response};
}

respond_operation Request::redirect(std::string_view address) noexcept {
  return {held_, &held_->home(), address};
}

// ---- Requests ----

Requests::Requests(Messages& messages, const request_options& options)
    : core_(std::make_unique<detail::request_core>(messages, options)) {}
Requests::~Requests() = default;

void Requests::serve(std::uint16_t method, request_handler handler) {
  core_->serve(method, std::move(handler));
}

call_operation Requests::call(Endpoint& to, std::uint16_t method, const Slice& request,
                              const Slice& room, const call_options& options) noexcept {
  return {*core_, to.core(), request_call::manner::call, method, request, room, options.timeout};
}

call_operation Requests::try_call(Endpoint& to, std::uint16_t method, const Slice& request,
                                  const Slice& room, const call_options& options) noexcept {
  call_operation op = call(to, method, request, room, options);
  op.or_again();
  return op;
}

notify_operation Requests::notify(Endpoint& to, std::uint16_t method,
                                  const Slice& request) noexcept {
  return {*core_,  to.core(),       request_call::manner::notify, method, request,
          Slice(), duration::zero()};
}

notify_operation Requests::notify_acked(Endpoint& to, std::uint16_t method, const Slice& request,
                                        const call_options& options) noexcept {
  return {*core_,  to.core(),      request_call::manner::notify_acked, method, request,
          Slice(), options.timeout};
}

const request_counters& Requests::counters() const noexcept { return core_->counters(); }
std::size_t Requests::running() const noexcept { return core_->tasks().running(); }

}  // namespace cordma

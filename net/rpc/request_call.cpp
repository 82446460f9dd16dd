// A call, as its caller awaits it: its position in the queue, its deadline and its outcome.
#include <cordma/net/rpc/request_core.hpp>

#include <utility>

namespace cordma::detail {

failure not_of_requests(const Slice& s, const endpoint_core& on) {
  if (s.region()->context != on.context()) {
    return {errc::invalid_value, "a slice belongs to another Context"};
  }
  return {errc::not_supported,
          "a request, its room and its response lie in host memory: write() or tag_send() what "
          "lies in device memory"};
}

request_call::request_call(request_core& core, endpoint_core& to, manner how, std::uint16_t method,
                           const Slice& request, const Slice& room, duration timeout) noexcept
    : operation_base(&core.home()),
      core_(&core),
      endpoint_(&to),
      how_(how),
      method_(method),
      request_(request),
      room_(room),
      timeout_(timeout),
      alarm_(*this) {}

request_call::request_call(request_call&& other) noexcept
    : operation_base(std::move(other)),
      core_(other.core_),
      endpoint_(other.endpoint_),
      asked_(std::exchange(other.asked_, nullptr)),
      how_(other.how_),
      method_(other.method_),
      request_(other.request_),
      room_(other.room_),
      timeout_(other.timeout_),
      alarm_(*this),
      response_(other.response_),
      redirect_(std::move(other.redirect_)) {
  if (asked_ != nullptr) asked_->follow(other, *this);
  if (!other.alarm_.pending()) return;
  const time_point when = other.alarm_.when();
  home()->remove(other.alarm_);
  home()->add(alarm_, when);
}

request_call::~request_call() {
  if (state() == phase::queued && linked()) leave_queue();
  if (asked_ != nullptr) asked_->leave();
}

const char* request_call::op_name() const noexcept {
  switch (how_) {
    case manner::call: return "call";
    case manner::notify: return "notify";
    case manner::notify_acked: return "notify_acked";
  }
  return "";
}

void request_call::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation(op_name()));
  succeed();
}

void request_call::succeed() noexcept {
  if (alarm_.pending()) home()->remove(alarm_);
  finish();
}

std::optional<failure> request_call::obstacle() const {
  const endpoint_core& e = *endpoint_;
  if (e.worker() == nullptr) return failure{errc::shutdown, "its Worker is gone"};
  if (e.is_plain()) return plain_messages();
  if (std::optional<failure> ended = e.why_not(op_name())) return ended;
  const message_core* const below = messages_of(e);
  if (below == nullptr) return failure{errc::shutdown, "its Messages are gone"};
  if (!core_->is_of(*below)) {
    return failure{errc::invalid_value, "the Endpoint is of other Messages than these Requests"};
  }
  const auto elsewhere = [&e](const Slice& s) {
    return s.size() != 0 && s.region()->touched_in != e.context().get();
  };
  if (elsewhere(request_)) return not_of_requests(request_, e);
  if (elsewhere(room_)) return not_of_requests(room_, e);
  if (room_.size() != 0 && !has(room_.region()->range.rights, access::local_write)) {
    return failure{errc::invalid_value, "the room for the response needs access::local_write"};
  }
  if (request_.size() > core_->options().most_bytes) {
    return failure::of(errc::invalid_value,
                       {"a request of ", request_.size(),
                        " bytes: request_options::most_bytes are ", core_->options().most_bytes});
  }
  return {};
}

void request_call::do_start() noexcept {
  if (!home()->on_owner_thread()) {
    return fail(home()->wrong_thread("Requests may only be used on the thread of their Worker"));
  }
  if (std::optional<failure> why = obstacle()) return fail(std::move(*why));
  if (timeout_ < duration::zero()) return fail(too_late());
  if (timeout_ > duration::zero()) home()->add(alarm_, after(home()->now(), timeout_));
  if (endpoint_->early() != nullptr) {
    set_phase(phase::queued);
    return early_of(*endpoint_).hold(*this, early_);
  }
  go();
}

const early_call request_call::early_ = {
    .start = [](operation_base& c) noexcept { static_cast<request_call&>(c).go(); },
    .fail = [](operation_base& c,
               failure why) noexcept { static_cast<request_call&>(c).fail(std::move(why)); },
    .name =
        [](const operation_base& c) noexcept {
          return static_cast<const request_call&>(c).op_name();
        }};

void request_call::fail_early(early_messages& waiting, const request_core& core) noexcept {
  waiting.calls().for_each([&core](operation_base& each) {
    auto& call = static_cast<request_call&>(each);
    if (call.core_ != &core) return;
    call.unlink();
    call.fail({errc::shutdown, "its Requests are gone"});
  });
}

void request_call::go() noexcept {
  request_peer* const peer = core_->peer_on(peer_of(*endpoint_));
  if (peer == nullptr) return fail(errc::no_memory);
  peer->start(*this);
}

void request_call::do_cancel() noexcept {
  if (asked_ != nullptr) return asked_->withdraw();
  CORDMA_ASSERT(linked());
  leave_queue();
  fail(errc::canceled);
}

// Calls behind it may fit the limits now.
void request_call::leave_queue() noexcept {
  unlink();
  if (endpoint_->frames() == nullptr) return;
  if (request_peer* const peer = peer_of(*endpoint_).requests()) peer->pump();
}

void request_call::on_deadline() noexcept {
  if (asked_ == nullptr) {
    CORDMA_ASSERT(linked());
    leave_queue();
    return fail(too_late());
  }
  asked_->on_deadline();
}

}  // namespace cordma::detail

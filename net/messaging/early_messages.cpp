#include <cordma/net/messaging/early_messages.hpp>

#include <cordma/net/messaging/message_core.hpp>

#include <optional>
#include <utility>

namespace cordma::detail {

early_messages::early_messages(endpoint_core& of, message_core& with) : endpoint(&of), core(&with) {
  with.unwired.push_back(*this);
}

void early_messages::send(message_send& op) noexcept {
  if (core == nullptr) return op.fail({errc::shutdown, "its Messages are gone"});
  if (std::optional<failure> ended = endpoint->why_not(op.op_name())) {
    return op.fail(std::move(*ended));
  }
  ++endpoint->counters.waited;
  op.set_phase(operation_base::phase::queued);
  sends.push_back(op);
}

void early_messages::hold(operation_base& call, const early_call& how) noexcept {
  CORDMA_ASSERT(how_calls == nullptr || how_calls == &how);
  how_calls = &how;
  calls.push_back(call);
}

void early_messages::start_all() noexcept {
  CORDMA_ASSERT(endpoint->peer != nullptr && endpoint->early == nullptr);
  while (!sends.empty()) peer_of(*endpoint).send(sends.pop_front());
  while (!calls.empty()) how_calls->start(calls.pop_front());
}

void early_messages::on_end() noexcept {
  while (!sends.empty()) {
    message_send& op = sends.pop_front();
    op.fail(endpoint->flushed(op.op_name()));
  }
  while (!calls.empty()) {
    operation_base& call = calls.pop_front();
    how_calls->fail(call, endpoint->flushed(how_calls->name(call)));
  }
  if (core != nullptr) core->end_receives_from(*endpoint, endpoint->flushed("tag_recv"));
}

void early_messages::on_messages_gone() noexcept {
  unlink();
  core = nullptr;
  endpoint->end({errc::shutdown, "its Messages are gone"});
  endpoint->wiring.reset();
}

}  // namespace cordma::detail

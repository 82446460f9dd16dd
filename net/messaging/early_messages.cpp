#include <cordma/net/messaging/early_messages.hpp>

#include <cordma/net/messaging/message_core.hpp>

#include <optional>
#include <utility>

namespace cordma::detail {

early_messages::early_messages(endpoint_core& of, message_core& with)
    : endpoint_(&of), core_(&with) {
  with.unwired().push_back(*this);
}

void early_messages::send(message_send& op) noexcept {
  if (core_ == nullptr) return op.fail({errc::shutdown, "its Messages are gone"});
  if (std::optional<failure> ended = endpoint_->why_not(op.op_name())) {
    return op.fail(std::move(*ended));
  }
  endpoint_->count_waited();
  op.set_phase(operation_base::phase::queued);
  sends_.push_back(op);
}

void early_messages::hold(operation_base& call, const early_call& how) noexcept {
  CORDMA_ASSERT(how_calls_ == nullptr || how_calls_ == &how);
  how_calls_ = &how;
  calls_.push_back(call);
}

void early_messages::start_all() noexcept {
  CORDMA_ASSERT(endpoint_->frames() != nullptr && endpoint_->early() == nullptr);
  while (!sends_.empty()) peer_of(*endpoint_).send(sends_.pop_front());
  while (!calls_.empty()) how_calls_->start(calls_.pop_front());
}

void early_messages::on_end() noexcept {
  while (!sends_.empty()) {
    message_send& op = sends_.pop_front();
    op.fail(endpoint_->flushed(op.op_name()));
  }
  while (!calls_.empty()) {
    operation_base& call = calls_.pop_front();
    how_calls_->fail(call, endpoint_->flushed(how_calls_->name(call)));
  }
  if (core_ != nullptr) core_->end_receives_from(*endpoint_, endpoint_->flushed("tag_recv"));
}

void early_messages::on_messages_gone() noexcept {
  unlink();
  core_ = nullptr;
  endpoint_->end({errc::shutdown, "its Messages are gone"});
  endpoint_->take_wiring().reset();
}

}  // namespace cordma::detail

#include <cordma/runtime/stop.hpp>

#include <new>

namespace cordma::detail {

stop_message& stop_message::create(reactor& home, cancel_source& target) {
  void* const memory = frame_pool::allocate(sizeof(stop_message));
  return *::new (memory) stop_message(home, target);
}

stop_bridge::stop_bridge(task_context& task, std::stop_token stop)
    : task_(task), outer_(task.current()), source_(task.cancellation()) {
  if (stop.stop_requested()) {
    source_.request();
  } else if (stop.stop_possible()) {
    message_ = &stop_message::create(task.home(), source_);
    callback_.emplace(std::move(stop), sender(message_));
  }
  task.set_cancellation(&source_);
}

stop_bridge::~stop_bridge() {
  // Waits for a callback that is running on another thread.
  callback_.reset();
  if (message_ != nullptr) message_->abandon();
  task_.restore(outer_);
}

}  // namespace cordma::detail

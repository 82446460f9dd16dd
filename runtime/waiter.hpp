// waiter: an operation that waits in the queue of an object on its own reactor: what event, mutex,
// semaphore and channel hand out.
#pragma once

#include <cordma/runtime/operation.hpp>

namespace cordma {

// Derived supplies do_start() and take() as for operation. It waits first in, first out; canceling
// takes it out of the queue (canceled). No allocation per wait.
template <class Derived, class T>
class [[nodiscard]] waiter : public operation<Derived, T> {
 protected:
  using base = operation<Derived, T>;
  using phase = operation_base::phase;

  waiter() noexcept : base(nullptr) {}
  waiter(waiter&&) noexcept = default;

  void wait_in(list<Derived>& queue) noexcept {
    this->set_phase(phase::queued);
    queue.push_back(static_cast<Derived&>(*this));
  }
  // Out of the queue, if it stands in one, and on to whoever awaits it.
  void succeed() noexcept {
    this->unlink();
    this->finish();
  }
  void fail(errc code, const char* what) noexcept {
    this->failure_.emplace(code);
    this->failure_->with_operation(what);
    succeed();
  }
  [[nodiscard]] bool failed() const noexcept { return static_cast<bool>(this->failure_); }
};

}  // namespace cordma

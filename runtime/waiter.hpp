// waiter: an operation that waits in the queue of an object on its own reactor; returned by event,
// mutex, semaphore and channel.
#pragma once

#include <cordma/runtime/operation.hpp>

namespace cordma {

// Derived supplies do_start() and take() as for operation. It waits first in, first out;
// cancellation removes it from the queue (canceled). No allocation per wait.
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
  // Leaves its queue, if it is in one, and completes.
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

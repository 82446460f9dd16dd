// Pauses that the reactor waits out in its own mode.
#pragma once

#include <cordma/cordma.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>

namespace perf {

// Puts the awaiting coroutine behind everything that is ready, so that the reactor polls between.
class yield {
 public:
  yield() noexcept = default;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> h) noexcept {
    item_.handle = h;
    h.promise().context.home->ready(item_);
  }
  void await_resume() const noexcept {}

 private:
  cordma::resume_item item_;
};

}  // namespace perf

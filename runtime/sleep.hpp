// sleep_for, sleep_until, yield: wait for a time, or for the other coroutines.
#pragma once

#include <cordma/runtime/operation.hpp>

#include <optional>

namespace cordma {

// Done when the clock of the reactor that awaits or starts it has reached a point in time.
// On cancellation: canceled, at once. No allocation, no descriptor.
class [[nodiscard]] sleep_operation final : public operation<sleep_operation, void> {
 public:
  explicit sleep_operation(time_point when) noexcept : operation(nullptr), when_(when) {}
  explicit sleep_operation(duration time) noexcept : operation(nullptr), time_(time) {}
  sleep_operation(sleep_operation&& other) noexcept
      : operation(std::move(other)), when_(other.when_), time_(other.time_) {
    if (!other.timer_.pending()) return;
    home()->remove(other.timer_);
    home()->add(timer_, when_);
  }

 private:
  template <class, class, class>
  friend class operation;
  void do_start() noexcept {
    if (time_) when_ = after(home()->now(), *time_);
    if (when_ <= home()->now()) {
      finish();
      return;
    }
    set_phase(phase::queued);
    home()->add(timer_, when_);
  }
  void do_cancel() noexcept {
    home()->remove(timer_);
    failure_.emplace(errc::canceled);
    failure_->with_operation("sleep");
    finish();
  }
  void take() noexcept {}

  struct alarm final : timer {
    explicit alarm(sleep_operation& o) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).owner.finish(); }), owner(o) {}
    sleep_operation& owner;
  };

  time_point when_{};
  std::optional<duration> time_;
  alarm timer_{*this};
};

// The time starts when it is awaited or started. Done at once if it is zero or negative.
[[nodiscard]] inline sleep_operation sleep_for(duration time) noexcept {
  return sleep_operation(time);
}
[[nodiscard]] inline sleep_operation sleep_until(time_point when) noexcept {
  return sleep_operation(when);
}

// `co_await yield();` runs everything that is ready now, and the pollers, before it continues.
// Cannot be canceled; it takes no time.
class [[nodiscard]] yield_awaiter {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
    requires std::is_base_of_v<task_promise_base, Promise>
  void await_suspend(std::coroutine_handle<Promise> h,
                     std::source_location here = std::source_location::current()) noexcept {
    h.promise().suspend_at(here);
    h.promise().context()->resume_later(h);
  }
  void await_resume() const noexcept {}
};
[[nodiscard]] inline yield_awaiter yield() noexcept { return yield_awaiter(); }

}  // namespace cordma

// task_context: what tasks that await each other have in common. At any time one of them runs, or one waits.
#pragma once

#include <cordma/runtime/cancel.hpp>
#include <cordma/runtime/reactor.hpp>

#include <coroutine>
#include <utility>

namespace cordma {

class operation_base;

// Outlives the tasks that share it. Bound to the thread of home(), which is where they run.
class task_context {
 public:
  using cancel_function = void (*)(operation_base&) noexcept;

  task_context() noexcept : hook_(*this) {}
  task_context(const task_context&) = delete;
  task_context& operator=(const task_context&) = delete;

  [[nodiscard]] reactor& home() const noexcept { return *home_; }
  // What can cancel the tasks where they run now; null: nothing can, or they are away from home (resume_on.hpp).
  [[nodiscard]] cancel_source* cancellation() const noexcept {
    return home_ == cancel_home_ ? cancel_ : nullptr;
  }

  // ---- for awaiters ----

  // The coroutine that waits is resumed by resume(). What it waits for is canceled by `cancel`, at once where that was
  // requested already.
  void wait(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void wait_for(operation_base& what, cancel_function cancel) noexcept {
    waits_for_ = &what;
    cancel_what_ = cancel;
    if (canceled_) [[unlikely]]
      cancel(what);
  }
  void resume() noexcept {
    waits_for_ = nullptr;
    waiter_.resume();
  }
  // `what` is destroyed.
  void forget(const operation_base& what) noexcept {
    if (waits_for_ == &what) waits_for_ = nullptr;
  }
  [[nodiscard]] std::coroutine_handle<> waiter() const noexcept { return waiter_; }
  // Goes on with the coroutine in the next pass.
  void resume_later(std::coroutine_handle<> h) noexcept {
    waiter_ = h;
    home_->ready(turn_);
  }

  // ---- for those that start tasks, and come between them and their cancellation ----

  // `top` is the task that was started first. REQUIRES that those before it have ended.
  void begin(reactor& home, cancel_source* cancel, task_promise_base& top) noexcept {
    home_ = &home;
    canceled_ = false;
    cancel_ = cancel;
    cancel_home_ = &home;
    if (cancel != nullptr) listen();
    entry_.top = &top;
    home.tasks().push_back(entry_);
  }
  // On the thread of home(), for as long as the tasks run here.
  void set_cancellation(cancel_source* source) noexcept { set_cancellation(source, home_); }
  // What set_cancellation() replaced, for restore().
  struct canceler {
    cancel_source* source = nullptr;
    reactor* home = nullptr;  // the thread it is bound to
  };
  [[nodiscard]] canceler current() const noexcept { return {cancel_, cancel_home_}; }
  void restore(const canceler& before) noexcept { set_cancellation(before.source, before.home); }
  // No task is left.
  void end() noexcept {
    entry_.unlink();
    hook_.unlink();
  }
  // From one thread to another: first named here, then left on this thread, then arrived at on the other.
  [[nodiscard]] reactor& go_to(reactor& target) noexcept { return *std::exchange(home_, &target); }
  void leave() noexcept {
    entry_.unlink();
    hook_.unlink();
    canceled_ = false;
  }
  void arrive() noexcept {
    home_->tasks().push_back(entry_);
    listen();
  }
  [[nodiscard]] running_task& entry() noexcept { return entry_; }
  [[nodiscard]] const running_task& entry() const noexcept { return entry_; }

 private:
  struct canceled_hook final : cancel_hook {
    explicit canceled_hook(task_context& c) noexcept
        : cancel_hook(
              [](cancel_hook& h) noexcept { static_cast<canceled_hook&>(h).owner.on_cancel(); }),
          owner(c) {}
    task_context& owner;
  };
  struct turn_item final : ready_item {
    explicit turn_item(task_context& c) noexcept
        : ready_item([](ready_item& i) noexcept { static_cast<turn_item&>(i).owner.resume(); }),
          owner(c) {}
    task_context& owner;
  };
  void set_cancellation(cancel_source* source, reactor* home) noexcept {
    hook_.unlink();
    canceled_ = false;
    cancel_ = source;
    cancel_home_ = home;
    listen();
  }
  void listen() noexcept {
    cancel_source* const source = cancellation();
    if (source == nullptr) return;
    if (source->requested()) {
      canceled_ = true;
    } else {
      source->attach(hook_);
    }
  }
  void on_cancel() noexcept {
    canceled_ = true;
    if (waits_for_ != nullptr) cancel_what_(*waits_for_);
  }

  friend struct detail::stack_layout;
  reactor* home_ = nullptr;
  std::coroutine_handle<> waiter_;
  operation_base* waits_for_ = nullptr;
  cancel_function cancel_what_ = nullptr;
  bool canceled_ = false;
  canceled_hook hook_;
  cancel_source* cancel_ = nullptr;
  reactor* cancel_home_ = nullptr;
  turn_item turn_{*this};
  running_task entry_;
};

}  // namespace cordma

// task_context: the shared state of tasks that await each other. At any time at most one of them
// runs, or one waits.
#pragma once

#include <cordma/runtime/cancel.hpp>
#include <cordma/runtime/reactor.hpp>

#include <coroutine>
#include <utility>

namespace cordma {

class operation_base;

// Outlives the tasks that share it. Bound to the thread of home(), on which they run.
class task_context {
 public:
  using cancel_function = void (*)(operation_base&) noexcept;

  task_context() noexcept : hook_(*this) {}
  task_context(const task_context&) = delete;
  task_context& operator=(const task_context&) = delete;

  [[nodiscard]] reactor& home() const noexcept { return *home_; }
  // The source that can cancel the tasks on their present reactor; null: none, or they are away
  // from home (resume_on.hpp).
  [[nodiscard]] cancel_source* cancellation() const noexcept {
    return home_ == cancel_home_ ? cancel_ : nullptr;
  }

  // ---- for awaiters ----

  // Records the waiting coroutine, which resume() resumes. `cancel` cancels the operation it waits
  // for, at once if cancellation is already requested.
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
  // Called when `what` is destroyed.
  void forget(const operation_base& what) noexcept {
    if (waits_for_ == &what) waits_for_ = nullptr;
  }
  [[nodiscard]] std::coroutine_handle<> waiter() const noexcept { return waiter_; }
  // Resumes the coroutine in the next pass.
  void resume_later(std::coroutine_handle<> h) noexcept {
    waiter_ = h;
    home_->ready(turn_);
  }

  // ---- for code that starts tasks, and code between tasks and their cancellation ----

  // `top` is the task that was started first. REQUIRES that earlier tasks have ended.
  void begin(reactor& home, cancel_source* cancel, task_promise_base& top) noexcept {
    home_ = &home;
    canceled_ = false;
    cancel_ = cancel;
    cancel_home_ = &home;
    if (cancel != nullptr) listen();
    entry_.top = &top;
    home.tasks().push_back(entry_);
  }
  // On the thread of home(); valid while the tasks run there.
  void set_cancellation(cancel_source* source) noexcept { set_cancellation(source, home_); }
  // The state that set_cancellation() replaced, for restore().
  struct canceler {
    cancel_source* source = nullptr;
    reactor* home = nullptr;  // the thread that the source is bound to
  };
  [[nodiscard]] canceler current() const noexcept { return {cancel_, cancel_home_}; }
  void restore(const canceler& before) noexcept { set_cancellation(before.source, before.home); }
  // Called when no task is left.
  void end() noexcept {
    entry_.unlink();
    hook_.unlink();
  }
  // Moves the tasks to another thread: go_to() here, then leave() on this thread, then arrive() on
  // the other.
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

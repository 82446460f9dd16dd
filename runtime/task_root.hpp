// task_root: receives the end of a task that no coroutine awaits. Scopes, when_all, run() and the
// adapters have one per task they drive.
#pragma once

#include <cordma/runtime/task_context.hpp>

#include <coroutine>

namespace cordma {

// Bound to the reactor it was started on. If the task ends on another reactor (resume_on.hpp), its
// end is still reported here. REQUIRES, when destroyed, that the task is not on its way back.
class task_root : private ready_item, private inbox_item {
 public:
  // Called once, from the last suspension of the task or later; may destroy the task and the root.
  using function = void (*)(task_root&) noexcept;

  explicit task_root(function done) noexcept
      : ready_item(&task_root::run_first), inbox_item(&task_root::run_inbox), done_(done) {}
  task_root(const task_root&) = delete;
  task_root& operator=(const task_root&) = delete;
  ~task_root() { CORDMA_REQUIRE(!away_); }

  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // Resumes `first` in the next pass of `home`; `top` is its promise. Returns the context that it
  // shares with the tasks it awaits.
  [[nodiscard, gnu::always_inline]] task_context& begin(reactor& home, cancel_source* cancel,
                                                        std::coroutine_handle<> first,
                                                        task_promise_base& top) noexcept {
    home_ = &home;
    first_ = first;
    chain_.begin(home, cancel, top);
    home.ready(*this);
    return chain_;
  }
  // The task has ended on the reactor of this thread.
  void ended() noexcept {
    chain_.end();
    if (&chain_.home() != home_) [[unlikely]]
      return go_home();
    done_(*this);
  }

 protected:
  [[nodiscard]] detail::task_group& group() const noexcept { return *chain_.entry().group; }
  void set_group(detail::task_group& g) noexcept { chain_.entry().group = &g; }

 private:
  static void run_first(ready_item& item) noexcept {
    static_cast<task_root&>(item).first_.resume();
  }
  // Through the ready list: the frame must be fully suspended before another thread sees it.
  [[gnu::noinline]] void go_home() noexcept {
    away_ = true;
    set_run_function([](ready_item& item) noexcept {
      auto& self = static_cast<task_root&>(item);
      self.set_run_function(&task_root::run_first);
      self.home_->post(self);  // from here on the other thread owns it
    });
    chain_.home().ready(*this);
  }
  static void run_inbox(inbox_item& item) noexcept {
    auto& self = static_cast<task_root&>(item);
    self.away_ = false;
    self.done_(self);
  }

  friend struct detail::stack_layout;
  function done_;
  task_context chain_;
  reactor* home_ = nullptr;
  std::coroutine_handle<> first_;
  bool away_ = false;
};

}  // namespace cordma

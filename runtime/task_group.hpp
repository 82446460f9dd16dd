// task_group: tasks that run side by side and end together; the base of scope, when_all and
// when_any.
#pragma once

#include <cordma/runtime/operation.hpp>

#include <cstddef>
#include <exception>
#include <tuple>
#include <variant>

namespace cordma::detail {

class task_group;

// One task of a group, from start to end. Bound to the reactor of the group.
class group_member : public task_root {
 public:
  group_member() noexcept;
  // For members with additional work at their end; `done` must call group->ended().
  explicit group_member(function done) noexcept : task_root(done) {}

  using task_root::group;
  using task_root::set_group;
  task_promise_base* promise = nullptr;
  std::size_t index = 0;
};

// The outcome of a task that cancels the remaining ones; the group still waits for them.
enum class group_rule : std::uint8_t {
  first_error_cancels,
  first_end_cancels,
};

// Bound to one reactor. It may be destroyed with running tasks only if their frames are destroyed
// with it.
class task_group {
 public:
  // Done when all have ended. On cancellation: cancels them, and is done when they have ended.
  class wait_operation final : public operation<wait_operation, void> {
   public:
    explicit wait_operation(task_group& g) noexcept : operation(&g.home_), group_(&g) {}

   private:
    friend class task_group;
    friend operation;
    void do_start() noexcept {
      if (group_->running_ == 0) {
        finish();
        return;
      }
      set_phase(phase::posted);
      group_->waiting_.push_back(*this);
    }
    void do_cancel() noexcept { group_->cancel_.request(); }
    void take() noexcept {}

    task_group* group_;
  };

  task_group(reactor& home, cancel_source* parent, group_rule rule) noexcept
      : home_(home), cancel_(parent), rule_(rule) {}

  template <class T>
  void start(task<T>& t, group_member& m, std::size_t index) noexcept {
    m.set_group(*this);
    m.promise = &t.handle().promise();
    m.index = index;
    ++running_;
    start_root(home_, t, &cancel_, m);
  }
  void ended(const group_member& m) noexcept {
    const std::exception_ptr& e = m.promise->exception();
    const bool counts =
        rule_ == group_rule::first_end_cancels || (e && !(disowned_ && is_canceled(e)));
    if (counts && first_ == nobody) {
      first_ = m.index;
      first_error_ = e;
      cancel_.request();
    }
    if (--running_ > 0) return;
    while (!waiting_.empty()) {
      wait_operation& w = waiting_.pop_front();
      w.finish();
    }
  }

  [[nodiscard]] wait_operation wait() noexcept { return wait_operation(*this); }
  // From here on a task that ends in errc::canceled does so by this request; that is no error.
  void cancel() noexcept {
    disowned_ = true;
    cancel_.request();
  }
  [[nodiscard]] std::size_t running() const noexcept { return running_; }
  // For reports, on the thread of its reactor: the task that waits for the end of all, or null.
  [[nodiscard]] task_promise_base* joiner() noexcept {
    return waiting_.empty() ? nullptr : waiting_.front().awaiting_task();
  }
  [[nodiscard]] const reactor& home() const noexcept { return home_; }
  // The index of the task that ended first or failed first, once all have ended.
  [[nodiscard]] std::size_t first() const noexcept { return first_; }
  void rethrow_first_error() {
    if (first_error_) std::rethrow_exception(std::exchange(first_error_, nullptr));
  }

 private:
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  friend struct stack_layout;
  reactor& home_;
  cancel_source cancel_;
  list<wait_operation> waiting_;
  std::exception_ptr first_error_;
  std::size_t running_ = 0;
  std::size_t first_ = nobody;
  group_rule rule_;
  bool disowned_ = false;
};

inline group_member::group_member() noexcept
    : task_root([](task_root& r) noexcept {
        auto& m = static_cast<group_member&>(r);
        m.group().ended(m);
      }) {}

template <class A>
concept is_operation = std::is_base_of_v<operation_base, A>;

// Converts any awaitable to a task.
template <class T>
[[nodiscard]] task<T> as_task(task<T> t) noexcept {
  return t;
}
template <is_operation Op>
[[nodiscard]] task<typename Op::value_type> as_task(Op op) {
  co_return co_await op;
}

template <class A>
using awaited = typename A::value_type;
// std::monostate for void, which has no values.
template <class T>
using solid = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class T>
[[nodiscard]] solid<T> take_value(task<T>& t) {
  if constexpr (std::is_void_v<T>) {
    t.handle().promise().take();
    return {};
  } else {
    return t.handle().promise().take();
  }
}

// Awaits the end of a task and leaves its outcome in the task.
template <class T>
class end_awaiter {
 public:
  explicit end_awaiter(task<T>& t) noexcept : inner_(t.operator co_await()) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> parent,
      std::source_location here = std::source_location::current()) noexcept {
    return inner_.await_suspend(parent, here);
  }
  void await_resume() const noexcept {}

 private:
  typename task<T>::awaiter inner_;
};
template <class T>
[[nodiscard]] end_awaiter<T> end_of(task<T>& t) noexcept {
  return end_awaiter<T>(t);
}

}  // namespace cordma::detail

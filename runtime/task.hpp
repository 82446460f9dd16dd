// task<T>: a lazy coroutine. Starts when awaited, resumes its awaiter when done, and inherits the
// reactor and the cancellation of its awaiter.
#pragma once

#include <cordma/runtime/frame_pool.hpp>
#include <cordma/runtime/task_context.hpp>
#include <cordma/runtime/task_root.hpp>

#include <coroutine>
#include <exception>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace cordma {

// The part of every promise that awaiters may use. Bound to the thread of context->home().
class task_promise_base {
 public:
  static void* operator new(std::size_t bytes) { return frame_pool::allocate(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    frame_pool::deallocate(frame, bytes);
  }

  // Null before the start.
  [[nodiscard]] task_context* context() const noexcept { return context_; }
  // The promise in the frame of a cordma task; null for null. Every task stores it behind the two
  // addresses at the start of each frame: see task_promise.
  [[nodiscard]] static task_promise_base* at(void* frame) noexcept {
    return frame == nullptr
               ? nullptr
               : &std::coroutine_handle<task_promise_base>::from_address(frame).promise();
  }

  // Starts it without an awaiting coroutine: `root` is notified at the end.
  void start(task_root& root, task_context& context) noexcept {
    root_ = &root;
    context_ = &context;
  }
  // Starts it for the coroutine `awaiter`, whose handle is `handle`.
  void start(task_promise_base& awaiter, std::coroutine_handle<> handle) noexcept {
    context_ = awaiter.context_;
    continuation_ = handle;
    awaiter_ = &awaiter;
    awaiter.awaited_ = this;
  }
  void suspend_at(std::source_location here) noexcept { suspended_at_ = here; }

  // For reports: the task that awaits this one, the task that it awaits, and its last co_await that
  // suspended.
  [[nodiscard]] const task_promise_base* awaiter() const noexcept { return awaiter_; }
  [[nodiscard]] const task_promise_base* awaited() const noexcept { return awaited_; }
  [[nodiscard]] const std::source_location& suspended_at() const noexcept { return suspended_at_; }

  // The exception of the task; null before its end, and if it ended without one.
  [[nodiscard]] const std::exception_ptr& exception() const noexcept { return exception_; }
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }

 protected:
  // Rethrows the exception, once; does nothing if the task ended without one.
  void throw_exception() {
    if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  }
  struct final_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().finish();
    }
    void await_resume() const noexcept {}
  };

 private:
  friend struct detail::stack_layout;
  // Symmetric transfer to the awaiter; through the ready list if too many coroutines have run
  // inline (fairness, and the stack of builds in which the transfer is no tail call).
  std::coroutine_handle<> finish() noexcept {
    if (root_ != nullptr) {
      root_->ended();  // may destroy this frame
      return std::noop_coroutine();
    }
    awaiter_->awaited_ = nullptr;
    if (context_->home().may_continue_inline()) return continuation_;
    context_->resume_later(continuation_);
    return std::noop_coroutine();
  }

  task_context* context_ = nullptr;
  task_root* root_ = nullptr;
  std::coroutine_handle<> continuation_;
  task_promise_base* awaiter_ = nullptr;
  task_promise_base* awaited_ = nullptr;
  std::source_location suspended_at_;
  std::exception_ptr exception_;
};

template <class T>
class task;

namespace detail {

template <class T>
class task_promise final : public task_promise_base {
 public:
  task<T> get_return_object() noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  final_awaiter final_suspend() const noexcept { return {}; }
  template <class U>
    requires std::is_convertible_v<U&&, T>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    throw_exception();
    CORDMA_ASSERT(value_.has_value());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class task_promise<void> final : public task_promise_base {
 public:
  task<void> get_return_object() noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  final_awaiter final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void take() { throw_exception(); }
};

}  // namespace detail

// Move-only. Destroying a task that was never awaited, or that is suspended, destroys its frame and
// with it the operations it was waiting for, each by its own contract. T is a value or void.
template <class T = void>
class [[nodiscard]] task {
 public:
  using promise_type = detail::task_promise<T>;
  using handle_type = std::coroutine_handle<promise_type>;
  using value_type = T;

  task() noexcept = default;
  explicit task(handle_type h) noexcept : handle_(h) {}
  task(task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  task(const task&) = delete;
  task& operator=(const task&) = delete;
  ~task() {
    if (handle_) handle_.destroy();
  }

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
  [[nodiscard]] bool done() const noexcept { return handle_ && handle_.done(); }
  // For code that drives tasks (scope, reactor, adapters): the frame, still owned by this task.
  [[nodiscard]] handle_type handle() const noexcept { return handle_; }
  // As handle(), but ownership passes to the caller, which destroys the frame.
  [[nodiscard]] handle_type release() noexcept { return std::exchange(handle_, {}); }

  class awaiter {
   public:
    explicit awaiter(handle_type child) noexcept : child_(child) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
      requires std::is_base_of_v<task_promise_base, Promise>
    std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> parent,
        std::source_location here = std::source_location::current()) noexcept {
      child_.promise().start(parent.promise(), parent);
      parent.promise().suspend_at(here);
      return child_;
    }
    T await_resume() { return child_.promise().take(); }

   private:
    handle_type child_;
  };

  awaiter operator co_await() const noexcept {
    CORDMA_REQUIRE(handle_ && !handle_.done());
    return awaiter(handle_);
  }

 private:
  handle_type handle_;
};

namespace detail {
template <class T>
task<T> task_promise<T>::get_return_object() noexcept {
  static_assert(alignof(task_promise) <= 2 * sizeof(void*), "frames are no further aligned");
  return task<T>(std::coroutine_handle<task_promise<T>>::from_promise(*this));
}
inline task<void> task_promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<task_promise<void>>::from_promise(*this));
}

// The awaiting coroutine's context, without suspending.
class context_awaiter {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> h) noexcept {
    promise_ = &h.promise();
    return false;
  }
  [[nodiscard]] task_context& await_resume() const noexcept { return *promise_->context(); }

 private:
  task_promise_base* promise_ = nullptr;
};

class run_root final : public task_root {
 public:
  run_root() noexcept
      : task_root([](task_root& r) noexcept { static_cast<run_root&>(r).done_ = true; }) {}
  [[nodiscard]] bool done() const noexcept { return done_; }

 private:
  bool done_ = false;
};
}  // namespace detail

// `task_context& c = co_await this_task();`
[[nodiscard]] inline detail::context_awaiter this_task() noexcept { return {}; }

// Starts the task of that frame without an awaiting coroutine: it begins in the next pass of
// `home`, and `root` is notified at its end. The caller keeps both. Used by scopes and adapters;
// programs use run() and scope.
template <class Promise>
[[gnu::always_inline]] inline void start_root(reactor& home, std::coroutine_handle<Promise> frame,
                                              cancel_source* cancel, task_root& root) noexcept {
  frame.promise().start(root, root.begin(home, cancel, frame, frame.promise()));
}
template <class T>
void start_root(reactor& home, task<T>& t, cancel_source* cancel, task_root& root) noexcept {
  start_root(home, t.handle(), cancel, root);
}

// Runs the reactor on this thread until `main` is done; returns its value or throws its exception.
// Throws cordma::error: shutdown after reactor::stop(); bad_state if nothing can happen any more in
// virtual time (`main` is then destroyed where it is suspended; REQUIRES that it is on no other
// reactor at that time); no_lock and bad_state as reactor::claim() does.
template <class T>
T run(reactor& r, task<T> main, cancel_source* cancel = nullptr) {
  detail::run_root root;
  const result<void> mine = r.claim();
  if (!mine) throw_error(mine.why());
  start_root(r, main, cancel, root);
  const result<void> outcome = r.run_until(
      [](void* f) noexcept { return static_cast<detail::run_root*>(f)->done(); }, &root);
  if (!outcome) throw_error(outcome.why());
  return main.handle().promise().take();
}

}  // namespace cordma

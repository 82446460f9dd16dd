// scope: structured concurrency. Tasks that are spawned in a scope end before the scope does;
// cancellation propagates down, the first error propagates up.
#pragma once

#include <cordma/runtime/task_group.hpp>

namespace cordma {

// Bound to one reactor. Two ways to use it:
//
///   task_context& me = co_await this_task();
///   scope s(me);
///   s.spawn(first());
///   co_await s.join();
//
// or, if code between spawn and join may throw: a coroutine `task<void> serve(scope& s, int port)`,
// awaited as `co_await in_scope(serve, port);`, which joins in every case.
//
// A scope that is destroyed before it is joined (the coroutine that contains it is destroyed, or an
// error leaves it) destroys its tasks where they are suspended, and with them the operations they
// wait for, each by its own contract. REQUIRES that none of them is on another reactor then.
class scope {
 public:
  // Canceled with the task of this context.
  explicit scope(const task_context& parent) noexcept;
  // Without a parent task: for code outside of coroutines. `parent` may be null; it must outlive
  // the scope.
  explicit scope(reactor& home, cancel_source* parent = nullptr) noexcept;
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
  ~scope();

  // Starts `t` in the next pass of the reactor. Its arguments must be values: objects passed by
  // reference may be destroyed after this call. Takes memory from the frame pool only
  // (std::bad_alloc if even the heap has none; the task is destroyed then). Its first error cancels
  // the others.
  void spawn(task<void> t);

  // Cancels all tasks, including those spawned later. Their errc::canceled is then no error of the
  // scope.
  void cancel() noexcept { group_.cancel(); }

  // Done when all tasks have ended. Throws the first error, in time, of any task; canceled if the
  // parent task was canceled and a task here ended by it. More tasks may be spawned afterwards.
  // On cancellation: cancels all, and is done when they have ended.
  [[nodiscard]] task<void> join();

  [[nodiscard]] std::size_t running() const noexcept { return group_.running(); }

 private:
  struct child;
  detail::task_group group_;
  list<child> children_;
};

// Runs `body(scope&, args...)` as the first task of a scope, and joins. An error of any task cancels
// the others, the body included. `body` is a function or a lambda without captures.
template <class Body, class... Args>
[[nodiscard]] task<void> in_scope(Body body, Args... args) {
  task_context& me = co_await this_task();
  scope s(me);
  s.spawn(body(s, std::move(args)...));
  co_await s.join();
}

}  // namespace cordma

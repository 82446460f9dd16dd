// scope: structured concurrency. What is spawned in a scope ends before the scope does; cancellation
// flows down, the first error flows up.
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
// or, where something may throw between spawn and join: a coroutine `task<void> serve(scope& s, int
// port)`, awaited as `co_await in_scope(serve, port);`, which joins whatever happens.
//
// Destroyed before it is joined (the coroutine that holds it is destroyed, or an error leaves it),
// a scope destroys its tasks where they stand, and with them the operations they wait for, each by
// its own contract. REQUIRES that none of them is on another reactor then.
class scope {
 public:
  // Canceled with the task whose context this is.
  explicit scope(const task_context& parent) noexcept;
  // Nobody above: for code outside of coroutines. `parent` may be null; it outlives the scope.
  explicit scope(reactor& home, cancel_source* parent = nullptr) noexcept;
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
  ~scope();

  // `t` begins in the next pass of the reactor. Its arguments are values: nothing it was given by
  // reference outlives this call for sure. Takes memory from the frame pool only (std::bad_alloc
  // where even the heap has none; the task is destroyed then). Its first error cancels the others.
  void spawn(task<void> t);

  // Cancels all, those spawned later included. Their errc::canceled is no error of the scope then.
  void cancel() noexcept { group_.cancel(); }

  // Done when nothing runs any more. Throws the first error, in time, of any task; canceled where the
  // task above was canceled and a task here ended by it. More may be spawned afterwards.
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

// with_timeout, with_deadline: limit the time of an awaitable.
#pragma once

#include <cordma/runtime/resume_on.hpp>
#include <cordma/runtime/sleep.hpp>

namespace cordma {

namespace detail {

// Places a cancel_source and a timer between a task and those it awaits, for as long as it lives.
class deadline {
 public:
  deadline(task_context& task, time_point when) noexcept
      : task_(task), outer_(task.current()), source_(task.cancellation()), alarm_(*this) {
    task.set_cancellation(&source_);
    if (when <= task.home().now()) {
      pass();
    } else if (when != never) {
      task.home().add(alarm_, when);
    }
  }
  deadline(const deadline&) = delete;
  deadline& operator=(const deadline&) = delete;
  ~deadline() { task_.restore(outer_); }

  // True if a cancellation of the awaited tasks is due to the deadline, and not to an earlier
  // request.
  [[nodiscard]] bool passed() const noexcept { return passed_; }

 private:
  void pass() noexcept {
    if (source_.requested()) return;
    passed_ = true;
    source_.request();
  }
  struct alarm final : timer {
    explicit alarm(deadline& d) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).owner.pass(); }), owner(d) {}
    deadline& owner;
  };

  task_context& task_;
  const task_context::canceler outer_;
  cancel_source source_;
  alarm alarm_;
  bool passed_ = false;
};

[[nodiscard]] inline failure timed_out() noexcept {
  failure f(errc::timed_out);
  f.with_operation("with_timeout");
  return f;
}

template <class T>
task<T> until(time_point when, task<T> t) {
  task_context& me = co_await this_task();
  reactor& home = me.home();
  deadline limit(me, when);
  co_await end_of(t);
  co_await resume_on(home);
  auto& ended = t.handle().promise();
  if (limit.passed() && ended.exception() && is_canceled(ended.exception())) {
    throw_error(timed_out());
  }
  co_return ended.take();
}

template <is_operation Op>
task<typename Op::value_type> until(time_point when, Op op) {
  task_context& me = co_await this_task();
  deadline limit(me, when);
  result<typename Op::value_type> r = co_await op.result();
  if (limit.passed() && r.code() == errc::canceled) throw_error(timed_out());
  co_return std::move(r).value();
}

template <class A>
task<awaited<A>> within(duration time, A a) {
  task_context& me = co_await this_task();
  const time_point when = after(me.home().now(), time);
  co_return co_await until(when, std::move(a));
}

}  // namespace detail

// Awaits a task or an operation until `when`, by the clock of the awaiting reactor. At `when` it is
// canceled and waited for: its buffers belong to the caller again when this ends. Throws
// errc::timed_out if it ended canceled for that reason; if it ended otherwise in spite of the
// request, that outcome is returned. With a time in the past, only an awaitable that need not wait
// succeeds.
// On cancellation: cancels the awaitable, and waits for it.
template <class Awaitable>
[[nodiscard]] task<detail::awaited<Awaitable>> with_deadline(time_point when, Awaitable a) {
  return detail::until(when, std::move(a));
}

// As with_deadline; the time starts when it is awaited.
template <class Awaitable>
[[nodiscard]] task<detail::awaited<Awaitable>> with_timeout(duration time, Awaitable a) {
  return detail::within(time, std::move(a));
}

}  // namespace cordma

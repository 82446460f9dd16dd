#pragma once
// Shared by all programs in forms/: a value that detects a missed or doubled lifetime, the smallest
// lazy task, and a main that runs the form's root() and exits 0 if every lifetime was right.
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Counts its live objects, and the uses of an object that is not at its place of construction:
// destroyed twice, never constructed, or moved by copying its bytes. A form that gets a wrong
// result adds to `bad`.
struct T {
  static inline int live = 0, bad = 0;
  T* self;
  int v;
  std::string heap = std::string(64, 'x');
  explicit T(int x = 0) : self(this), v(x) { ++live; }
  T(const T& o) : self(this), v(o.v), heap(o.heap) {
    check(o);
    ++live;
  }
  T(T&& o) noexcept : self(this), v(o.v), heap(std::move(o.heap)) {
    check(o);
    ++live;
  }
  T& operator=(const T& o) {
    check(*this);
    check(o);
    v = o.v;
    return *this;
  }
  ~T() {
    check(*this);
    self = nullptr;
    --live;
  }
  static void check(const T& o) {
    if (o.self != &o) ++bad;
  }
};

struct promise_base {
  std::coroutine_handle<> continuation;
  std::exception_ptr error;
  struct final_awaiter {
    bool await_ready() noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) noexcept {
      if (h.promise().continuation) return h.promise().continuation;
      return std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  final_awaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <class Promise>
struct task_base {
  using handle = std::coroutine_handle<Promise>;
  handle h;
  explicit task_base(handle x) : h(x) {}
  task_base(task_base&& o) noexcept : h(std::exchange(o.h, {})) {}
  ~task_base() {
    if (h) h.destroy();
  }
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> c) noexcept {
    h.promise().continuation = c;
    return h;
  }
  void rethrow() {
    if (h.promise().error) std::rethrow_exception(h.promise().error);
  }
};

template <class R>
struct task;

template <class R>
struct value_promise : promise_base {
  std::optional<R> r;
  task<R> get_return_object();
  template <class U>
  void return_value(U&& u) {
    r.emplace(std::forward<U>(u));
  }
};

struct void_promise : promise_base {
  task<void> get_return_object();
  void return_void() {}
};

template <class R>
struct task : task_base<value_promise<R>> {
  using promise_type = value_promise<R>;
  using task_base<promise_type>::task_base;
  R await_resume() {
    this->rethrow();
    return std::move(*this->h.promise().r);
  }
};

template <>
struct task<void> : task_base<void_promise> {
  using promise_type = void_promise;
  using task_base<promise_type>::task_base;
  void await_resume() { rethrow(); }
};

template <class R>
task<R> value_promise<R>::get_return_object() {
  return task<R>(std::coroutine_handle<value_promise>::from_promise(*this));
}
inline task<void> void_promise::get_return_object() {
  return task<void>(std::coroutine_handle<void_promise>::from_promise(*this));
}

// Suspends and stores the handle; main resumes it, as a completion queue would.
inline std::coroutine_handle<> pending;
struct yield_ {
  bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { pending = h; }
  void await_resume() noexcept {}
};

// Growth of the stack between its first and its deepest touch().
class stack_probe {
 public:
  __attribute__((noinline)) void touch() {
    volatile char here = 0;
    const char* at = const_cast<const char*>(&here);
    if (!first_) first_ = at;
    if (first_ - at > grown_) grown_ = first_ - at;
  }
  long grown() const { return grown_; }

 private:
  const char* first_ = nullptr;
  long grown_ = 0;
};

task<void> root();

int main() {
  {
    auto t = root();
    t.h.resume();
    while (!t.h.done()) {
      auto next = std::exchange(pending, {});
      if (!next) {
        std::puts("stuck: suspended, and nothing left to resume");
        std::exit(3);
      }
      next.resume();
    }
    t.rethrow();
  }
  std::printf("%d live at the end, %d wrong\n", T::live, T::bad);
  return T::live != 0 || T::bad != 0;
}

// Base of most tests of the runtime: a reactor in virtual time, and the number of live frames.
#pragma once

#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

#include <doctest/doctest.h>

namespace cordma::test {

using namespace std::chrono_literals;

class virtual_loop {
 public:
  virtual_loop() : loop({.mode = wait_mode::polling, .time = &time}) {}
  ~virtual_loop() { CHECK(frame_pool::outstanding() == frames_before_); }
  virtual_loop(const virtual_loop&) = delete;
  virtual_loop& operator=(const virtual_loop&) = delete;

  template <class T>
  T run(task<T> t, cancel_source* cancel = nullptr) {
    return cordma::run(loop, std::move(t), cancel);
  }
  // Runs passes until nothing happens any more; time does not advance.
  void settle() {
    while (loop.turn()) {}
  }
  // Advances virtual time by `d`, and runs everything that is due.
  void pass(duration d) {
    time.advance_to(time.now() + d);
    settle();
  }

  virtual_clock time;
  reactor loop;

 private:
  std::int64_t frames_before_ = frame_pool::outstanding();
};

// A running task that no coroutine awaits.
template <class T>
class driven : public task_root {
 public:
  driven(reactor& r, task<T> t, cancel_source* cancel = nullptr)
      : task_root([](task_root& self) noexcept { static_cast<driven&>(self).ended_ = true; }),
        task_(std::move(t)) {
    start_root(r, task_, cancel, *this);
  }
  [[nodiscard]] bool ended() const { return ended_; }
  T take() {
    REQUIRE(ended_);
    return task_.handle().promise().take();
  }
  // ok, or the code of the cordma::error with which it ended.
  [[nodiscard]] errc outcome() const {
    REQUIRE(ended_);
    const std::exception_ptr thrown = task_.handle().promise().exception();
    if (!thrown) return errc::ok;
    try {
      std::rethrow_exception(thrown);
    } catch (const error& e) {
      return e.condition();
    } catch (...) {
      return errc::unknown;
    }
  }
  void destroy() { task_ = task<T>(); }

 private:
  task<T> task_;
  bool ended_ = false;
};

}  // namespace cordma::test

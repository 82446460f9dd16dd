// A second reactor on a separate thread, for tests that cross threads.
#pragma once

#include <cordma/runtime/reactor.hpp>

#include <future>
#include <thread>

namespace cordma::test {

class thread_loop {
 public:
  explicit thread_loop(wait_mode mode = wait_mode::event)
      : loop({.mode = mode, .spin_limit = duration(1000)}), thread_([this] { run(); }) {
    started_.get_future().wait();
  }
  ~thread_loop() {
    loop.post([this] { loop.stop(); });
    thread_.join();
  }
  thread_loop(const thread_loop&) = delete;
  thread_loop& operator=(const thread_loop&) = delete;

  [[nodiscard]] std::thread::id id() const { return thread_.get_id(); }
  // Runs `work` on that thread and waits for it.
  template <class Work>
  void ask(Work work) {
    std::promise<void> done;
    loop.post([&done, &work] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  reactor loop;

 private:
  void run() {
    loop.bind();
    loop.post([this] { started_.set_value(); });
    (void)loop.run_until([](void*) noexcept { return false; }, nullptr);
  }

  std::promise<void> started_;
  std::thread thread_;
};

}  // namespace cordma::test

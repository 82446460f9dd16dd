// with_stop: a std::stop_token, requested from any thread, cancels a task of this reactor.
#pragma once

#include <cordma/runtime/resume_on.hpp>

#include <atomic>
#include <optional>
#include <stop_token>

namespace cordma {

namespace detail {

// Forwards a request from any thread to a cancel_source of this reactor. Outlives its owner while
// its message is in the inbox, so that an owner may be destroyed at any time.
class stop_message final : private inbox_item {
 public:
  static void operator delete(void* p) noexcept { frame_pool::deallocate(p, sizeof(stop_message)); }

  // Reactor thread. `target` is canceled when the message arrives.
  static stop_message& create(reactor& home, cancel_source& target);
  // Any thread, at most once.
  void send() noexcept {
    sent_.store(true, std::memory_order_relaxed);
    home_.post(static_cast<inbox_item&>(*this));
  }
  // Reactor thread, after the last possible send(): the message is no longer needed.
  void abandon() noexcept {
    target_ = nullptr;
    if (!sent_.load(std::memory_order_relaxed) || arrived_) delete this;
  }

 private:
  stop_message(reactor& home, cancel_source& target) noexcept
      : inbox_item(&stop_message::run, &stop_message::drop), home_(home), target_(&target) {}
  static void run(inbox_item& item) noexcept {
    auto& self = static_cast<stop_message&>(item);
    self.arrived_ = true;
    if (self.target_ == nullptr) {
      delete &self;
    } else {
      self.target_->request();
    }
  }
  static void drop(inbox_item& item) noexcept {
    auto& self = static_cast<stop_message&>(item);
    self.arrived_ = true;
    if (self.target_ == nullptr) delete &self;
  }

  reactor& home_;
  cancel_source* target_;
  std::atomic<bool> sent_{false};
  bool arrived_ = false;
};

// Places a cancel_source and a stop_callback between a task and those it awaits.
class stop_bridge {
 public:
  stop_bridge(task_context& task, std::stop_token stop);
  stop_bridge(const stop_bridge&) = delete;
  stop_bridge& operator=(const stop_bridge&) = delete;
  ~stop_bridge();

 private:
  struct sender {
    explicit sender(stop_message* m) noexcept : message(m) {}
    stop_message* message;
    void operator()() const noexcept { message->send(); }
  };

  task_context& task_;
  const task_context::canceler outer_;
  cancel_source source_;
  stop_message* message_ = nullptr;
  std::optional<std::stop_callback<sender>> callback_;
};

}  // namespace detail

// Awaits `t`; it is canceled, as by its own task, once `stop` is requested, on whichever thread.
// Returns the result of `t`: errc::canceled if it ended for that reason. Creating a
// std::stop_source allocates; this function allocates from the frame pool only.
// On cancellation: `t` is canceled, and waited for.
template <class T>
[[nodiscard]] task<T> with_stop(std::stop_token stop, task<T> t) {
  task_context& me = co_await this_task();
  reactor& home = me.home();
  detail::stop_bridge bridge(me, stop);
  co_await detail::end_of(t);
  co_await resume_on(home);
  co_return t.handle().promise().take();
}

}  // namespace cordma

// resume_on, run_on: the two ways for a task to reach another reactor's thread.
#pragma once

#include <cordma/runtime/task_group.hpp>

namespace cordma {

// On its way the coroutine belongs to no reactor: REQUIRES that it is not destroyed then.
class [[nodiscard]] resume_on_awaiter final : private ready_item, private inbox_item {
 public:
  explicit resume_on_awaiter(reactor& target) noexcept
      : ready_item(&resume_on_awaiter::run_ready),
        inbox_item(&resume_on_awaiter::run_inbox),
        target_(target) {}
  resume_on_awaiter(const resume_on_awaiter&) = delete;
  resume_on_awaiter& operator=(const resume_on_awaiter&) = delete;
  ~resume_on_awaiter() { CORDMA_REQUIRE(where_ != place::between); }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
    requires std::is_base_of_v<task_promise_base, Promise>
  bool await_suspend(std::coroutine_handle<Promise> h,
                     std::source_location where = std::source_location::current()) noexcept {
    chain_ = h.promise().context();
    reactor& here = chain_->go_to(target_);
    if (&here == &target_) return false;
    h.promise().suspend_at(where);
    chain_->wait(h);
    here.ready(*this);
    return true;
  }
  void await_resume() const noexcept {}

 private:
  enum class place : std::uint8_t { leaving, between, arrived };

  static void run_ready(ready_item& item) noexcept {
    auto& self = static_cast<resume_on_awaiter&>(item);
    if (self.where_ == place::arrived) {
      self.chain_->resume();
      return;
    }
    // Only here, where it is fully suspended, may another thread see the coroutine.
    self.where_ = place::between;
    self.chain_->leave();
    self.target_.post(self);
  }
  static void run_inbox(inbox_item& item) noexcept {
    auto& self = static_cast<resume_on_awaiter&>(item);
    self.where_ = place::arrived;
    self.chain_->arrive();
    self.target_.ready(self);
  }

  reactor& target_;
  task_context* chain_ = nullptr;
  place where_ = place::leaving;
};

// `co_await resume_on(other);` continues on the thread of `other`, which must be running or be run
// later; at once if it is on that thread already. A coroutine that awaits this task continues there
// as well when the task ends, up to the next scope, when_all, when_any, with_timeout, run_on or
// run(): these return to their own reactor. Away from its home reactor a task is not canceled; it
// sees the request on its return. Operations that wait on the first reactor must not be awaited on
// the second.
[[nodiscard]] inline resume_on_awaiter resume_on(reactor& target) noexcept {
  return resume_on_awaiter(target);
}

namespace detail {

// Forwards cancellation to another reactor: a hook on this side, a source on the other, an inbox
// item between them.
class remote_cancel final : private cancel_hook, private inbox_item {
 public:
  explicit remote_cancel(reactor& there) noexcept
      : cancel_hook(&remote_cancel::requested),
        inbox_item(&remote_cancel::arrived),
        there_(there) {}

  // On this reactor, before leaving.
  void listen(cancel_source* here) noexcept {
    if (here == nullptr) return;
    if (here->requested()) {
      source_.request();
    } else {
      here->attach(*this);
    }
  }
  // On this reactor, after the return: true if a message may still be on its way; it must arrive
  // before this object is destroyed.
  [[nodiscard]] bool stop_listening() noexcept {
    cancel_hook::unlink();
    return sent_;
  }
  // On the other reactor.
  [[nodiscard]] cancel_source& source() noexcept { return source_; }

 private:
  static void requested(cancel_hook& hook) noexcept {
    auto& self = static_cast<remote_cancel&>(hook);
    self.sent_ = true;
    self.there_.post(static_cast<inbox_item&>(self));
  }
  static void arrived(inbox_item& item) noexcept {
    static_cast<remote_cancel&>(item).source_.request();
  }

  reactor& there_;
  cancel_source source_;
  bool sent_ = false;  // used only on this side
};

}  // namespace detail

// Runs `t` on the thread of `target` and returns with its value or its error.
// On cancellation: `t` is canceled there, and waited for.
template <class T>
[[nodiscard]] task<T> run_on(reactor& target, task<T> t) {
  task_context& me = co_await this_task();
  reactor& home = me.home();
  const task_context::canceler before = me.current();
  detail::remote_cancel bridge(target);
  if (&home != &target) bridge.listen(me.cancellation());
  co_await resume_on(target);
  if (&home != &target) me.set_cancellation(&bridge.source());
  co_await detail::end_of(t);
  co_await resume_on(home);
  if (bridge.stop_listening()) {
    // Inboxes are first in, first out: after one more round trip the message has arrived.
    co_await resume_on(target);
    co_await resume_on(home);
  }
  me.restore(before);
  co_return t.handle().promise().take();
}

}  // namespace cordma

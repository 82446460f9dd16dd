// event, auto_event: a condition for all waiters, or a signal for one waiter at a time.
#pragma once

#include <cordma/runtime/waiter.hpp>

namespace cordma {

// Manual reset: after set() every waiter passes until reset(). Bound to one reactor; to set it from
// another thread, post to that reactor. Waiters resume from the ready list, first in first out.
// When it is destroyed they get errc::shutdown.
class event {
 public:
  class wait_operation final : public waiter<wait_operation, void> {
   public:
    explicit wait_operation(event& owner) noexcept : owner_(&owner) {}

   private:
    friend class event;
    template <class, class>
    friend class waiter;
    template <class, class, class>
    friend class operation;
    void do_start() noexcept {
      if (owner_->set_) {
        succeed();
      } else {
        wait_in(owner_->waiters_);
      }
    }
    void do_cancel() noexcept { fail(errc::canceled, "event wait"); }
    void take() noexcept {}

    event* owner_;
  };

  event() noexcept = default;
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() {
    while (!waiters_.empty()) waiters_.front().fail(errc::shutdown, "event wait");
  }

  [[nodiscard]] bool is_set() const noexcept { return set_; }
  // Releases every current waiter, even if reset() follows at once.
  void set() noexcept {
    set_ = true;
    while (!waiters_.empty()) waiters_.front().succeed();
  }
  void reset() noexcept { set_ = false; }

  // Done when set. On cancellation: leaves the queue, canceled.
  wait_operation wait() noexcept { return wait_operation(*this); }

 private:
  list<wait_operation> waiters_;
  bool set_ = false;
};

// Auto reset: every set() releases exactly one waiter: the one that has waited longest, or else the
// next one that waits. Calls of set() without a waiter do not add up. Bound to one reactor, as
// event. If a released waiter is destroyed before it runs, the next one is released instead.
class auto_event {
 public:
  class wait_operation final : public waiter<wait_operation, void> {
   public:
    explicit wait_operation(auto_event& owner) noexcept : owner_(&owner) {}
    wait_operation(wait_operation&& other) noexcept
        : waiter(std::move(other)),
          owner_(other.owner_),
          holds_pass_(std::exchange(other.holds_pass_, false)) {}
    ~wait_operation() {
      if (holds_pass_) owner_->set();
    }

   private:
    friend class auto_event;
    template <class, class>
    friend class waiter;
    template <class, class, class>
    friend class operation;
    void do_start() noexcept {
      if (owner_->set_) {
        owner_->set_ = false;
        pass();
      } else {
        wait_in(owner_->waiters_);
      }
    }
    void pass() noexcept {
      holds_pass_ = true;
      succeed();
    }
    void do_cancel() noexcept { fail(errc::canceled, "event wait"); }
    void take() noexcept { holds_pass_ = false; }

    auto_event* owner_;
    bool holds_pass_ = false;
  };

  auto_event() noexcept = default;
  auto_event(const auto_event&) = delete;
  auto_event& operator=(const auto_event&) = delete;
  // REQUIRES that every released waiter has run; other waiters get errc::shutdown.
  ~auto_event() {
    while (!waiters_.empty()) waiters_.front().fail(errc::shutdown, "event wait");
  }

  [[nodiscard]] bool is_set() const noexcept { return set_; }
  void set() noexcept {
    if (waiters_.empty()) {
      set_ = true;
    } else {
      waiters_.front().pass();
    }
  }
  void reset() noexcept { set_ = false; }

  // Done when released. On cancellation: leaves the queue, canceled.
  wait_operation wait() noexcept { return wait_operation(*this); }

 private:
  list<wait_operation> waiters_;
  bool set_ = false;
};

}  // namespace cordma

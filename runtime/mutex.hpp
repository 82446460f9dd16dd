// mutex: excludes other coroutines, across suspensions.
#pragma once

#include <cordma/runtime/waiter.hpp>

namespace cordma {

// Bound to one reactor: it synchronizes coroutines, not threads. First in, first out: unlock()
// passes it to the coroutine that has waited longest, which resumes from the ready list. Never
// allocates. If a waiter is destroyed after it got the mutex and before it ran, the next one gets
// it.
class mutex {
 public:
  // Holds the mutex; unlocks when destroyed. Must not outlive it.
  class [[nodiscard]] guard {
   public:
    guard() noexcept = default;
    explicit guard(mutex& held) noexcept : held_(&held) {}
    guard(guard&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    guard& operator=(guard&& other) noexcept {
      if (this != &other) {
        unlock();
        held_ = std::exchange(other.held_, nullptr);
      }
      return *this;
    }
    ~guard() { unlock(); }
    [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }
    void unlock() noexcept {
      if (mutex* m = std::exchange(held_, nullptr)) m->unlock();
    }

   private:
    mutex* held_ = nullptr;
  };

  class lock_operation final : public waiter<lock_operation, guard> {
   public:
    explicit lock_operation(mutex& owner) noexcept : owner_(&owner) {}

   private:
    friend class mutex;
    template <class, class>
    friend class waiter;
    template <class, class, class>
    friend class operation;
    void do_start() noexcept {
      if (owner_->locked_) {
        wait_in(owner_->waiters_);
      } else {
        owner_->locked_ = true;
        give();
      }
    }
    void give() noexcept {
      given_ = guard(*owner_);
      succeed();
    }
    void do_cancel() noexcept { fail(errc::canceled, "mutex lock"); }
    guard take() noexcept { return std::move(given_); }

    mutex* owner_;
    guard given_;
  };

  mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  // REQUIRES unlocked.
  ~mutex() { CORDMA_REQUIRE(!locked_); }

  // Done when the mutex is held: `mutex::guard g = co_await m.lock();`.
  // On cancellation: leaves the queue, canceled.
  lock_operation lock() noexcept { return lock_operation(*this); }
  // Returns an empty guard if the mutex is locked.
  guard try_lock() noexcept {
    if (std::exchange(locked_, true)) return guard();
    return guard(*this);
  }
  [[nodiscard]] bool locked() const noexcept { return locked_; }

 private:
  void unlock() noexcept {
    if (waiters_.empty()) {
      locked_ = false;
    } else {
      waiters_.front().give();
    }
  }

  list<lock_operation> waiters_;
  bool locked_ = false;
};

}  // namespace cordma

// semaphore: limits the number of coroutines that use a resource at a time.
#pragma once

#include <cordma/runtime/waiter.hpp>

#include <cstddef>

namespace cordma {

// Bound to one reactor. First in, first out and fair to large requests: no request overtakes a
// waiter, even if enough is left for the smaller request behind it. Never allocates. If a waiter is
// destroyed after it got its share and before it ran, the share is returned. Waiters of a destroyed
// semaphore get errc::shutdown.
class semaphore {
 public:
  class acquire_operation final : public waiter<acquire_operation, void> {
   public:
    acquire_operation(semaphore& owner, std::size_t n) noexcept : owner_(&owner), wanted_(n) {}
    acquire_operation(acquire_operation&& other) noexcept
        : waiter(std::move(other)),
          owner_(other.owner_),
          wanted_(other.wanted_),
          given_(std::exchange(other.given_, 0)) {}
    ~acquire_operation() {
      if (given_ > 0) {
        owner_->release(given_);
      } else if (this->state() == phase::queued) {
        this->unlink();
        owner_->serve();
      }
    }

   private:
    friend class semaphore;
    template <class, class>
    friend class waiter;
    template <class, class, class>
    friend class operation;
    void do_start() noexcept {
      wait_in(owner_->waiters_);
      owner_->serve();
    }
    void do_cancel() noexcept {
      semaphore& owner = *owner_;
      fail(errc::canceled, "semaphore acquire");
      owner.serve();  // the share reserved for this one may be enough for the next
    }
    void take() noexcept { given_ = 0; }

    semaphore* owner_;
    std::size_t wanted_;
    std::size_t given_ = 0;
  };

  explicit semaphore(std::size_t initial) noexcept : available_(initial) {}
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;
  // REQUIRES that every waiter that got its share has run.
  ~semaphore() {
    while (!waiters_.empty()) waiters_.front().fail(errc::shutdown, "semaphore acquire");
  }

  [[nodiscard]] std::size_t available() const noexcept { return available_; }

  // Done when `n` are acquired; return them with release(n).
  // On cancellation: leaves the queue, canceled, and acquires nothing.
  acquire_operation acquire(std::size_t n = 1) noexcept { return acquire_operation(*this, n); }
  // False, without acquiring any, if a waiter exists or fewer are left.
  [[nodiscard]] bool try_acquire(std::size_t n = 1) noexcept {
    if (!waiters_.empty() || available_ < n) return false;
    available_ -= n;
    return true;
  }
  void release(std::size_t n = 1) noexcept {
    available_ += n;
    serve();
  }

 private:
  void serve() noexcept {
    while (!waiters_.empty() && waiters_.front().wanted_ <= available_) {
      acquire_operation& first = waiters_.front();
      available_ -= first.wanted_;
      first.given_ = first.wanted_;
      first.succeed();
    }
  }

  list<acquire_operation> waiters_;
  std::size_t available_;
};

}  // namespace cordma

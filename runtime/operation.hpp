// operation: the base of every awaitable of cordma. Lazy; started by awaiting it or by start();
// awaited at most once; `co_await op` throws cordma::error, `co_await op.result()` returns
// result<T>. Cancellation is checked only when an operation would have to wait: one that completes
// at once does so in a canceled task too, so that such a task can still send a last message.
#pragma once

#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/task.hpp>

#include <bit>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

namespace cordma {

// The state that every operation has. It is in at most one list at a time: first perhaps in the
// queue of requests that cannot be posted yet, later in the ready list. Bound to the thread of its
// reactor.
class operation_base : public ready_item {
 public:
  enum class phase : std::uint8_t {
    idle,    // not started
    queued,  // started, waits in a queue; can be withdrawn
    posted,  // in flight; cannot be withdrawn
    done,    // the outcome is stored
  };
  // Called once, from the ready list, when the outcome is stored: for adapters that are no
  // coroutines. It may destroy the operation.
  using observer = void (*)(operation_base&, void* context) noexcept;

  [[nodiscard]] phase state() const noexcept { return failure_.is_.at; }
  [[nodiscard]] bool done() const noexcept { return state() == phase::done; }
  // Null until the start if none was set; then the reactor of the coroutine or caller that starts
  // it.
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // For reports: the task that awaits it, or null.
  [[nodiscard]] task_promise_base* awaiting_task() const noexcept {
    const task_context* const chain = awaiting_chain();
    return chain == nullptr ? nullptr : task_promise_base::at(chain->waiter().address());
  }
  // Sets an observer, instead of awaiting the operation. `context` is not null. If the operation is
  // already done, the observer is called from the ready list.
  void observe(observer who, void* context) noexcept {
    CORDMA_REQUIRE(!awaited());
    CORDMA_REQUIRE(context != nullptr);
    set_run_function(&operation_base::tell_observer);
    observer_ = who;
    waiter_ = context;
    if (done()) home_->ready(*this);
  }

 protected:
  // Whether the operation may wait when it is queued.
  enum class turn : std::uint8_t { allowed, refused, turned_away };
  // The failure of the operation, set before or after its start. The phase is stored beside it, so
  // that one comparison checks both.
  class late_failure {
   public:
    late_failure() noexcept {}
    late_failure(late_failure&& other) noexcept
        : is_{.at = std::exchange(other.is_.at, phase::idle), .turn = other.is_.turn} {
      if (other) emplace(std::move(other.of_));
    }
    late_failure& operator=(failure f) noexcept {
      emplace(std::move(f));
      return *this;
    }
    ~late_failure() {}  // the operation has reset it
    explicit operator bool() const noexcept { return is_.failed; }
    failure& operator*() noexcept { return of_; }
    const failure& operator*() const noexcept { return of_; }
    failure* operator->() noexcept { return &of_; }
    template <class... Args>
    void emplace(Args&&... args) noexcept {
      reset();
      std::construct_at(&of_, std::forward<Args>(args)...);
      is_.failed = true;
    }
    void reset() noexcept {
      if (std::exchange(is_.failed, false)) std::destroy_at(&of_);
    }

   private:
    friend class operation_base;
    struct status {
      phase at = phase::idle;
      operation_base::turn turn = operation_base::turn::allowed;
      bool failed = false;
      bool zero = false;
    };
    static_assert(sizeof(status) == sizeof(std::uint32_t));
    [[nodiscard]] bool is_none_at_end() const noexcept {
      constexpr auto well = std::bit_cast<std::uint32_t>(status{.at = phase::done});
      return std::bit_cast<std::uint32_t>(is_) == well;
    }
    [[nodiscard]] bool is_none_so_far() const noexcept {
      constexpr auto queued = std::bit_cast<std::uint32_t>(status{.at = phase::queued});
      constexpr auto posted = std::bit_cast<std::uint32_t>(status{.at = phase::posted});
      static_assert(posted == queued + 1);
      return std::bit_cast<std::uint32_t>(is_) - queued <= 1;
    }
    void start_over() noexcept {
      is_.at = phase::idle;
      is_.turn = turn::allowed;
    }
    status is_;
    union {
      failure of_;
    };
  };
  late_failure failure_;
  // After done(): null if it succeeded.
  [[nodiscard]] const failure* why() const noexcept { return failure_ ? &*failure_ : nullptr; }

  explicit operation_base(reactor* home) noexcept
      : ready_item(&operation_base::resume_chain), home_(home) {}
  operation_base(operation_base&& other) noexcept
      : ready_item(std::move(other)), failure_(std::move(other.failure_)), home_(other.home_) {
    CORDMA_REQUIRE(!other.awaited());
  }
  ~operation_base() {
    if (!ended_well() || linked()) [[unlikely]]
      leave();
  }

  // Resets it to idle. REQUIRES done(), and that the awaiting coroutine was resumed.
  void start_over() noexcept {
    CORDMA_REQUIRE(done());
    CORDMA_REQUIRE(!linked());
    failure_.start_over();
    waiter_ = nullptr;
    set_run_function(&operation_base::resume_chain);
  }

  [[nodiscard]] bool awaited() const noexcept { return waiter_ != nullptr; }
  void set_home(reactor* home) noexcept { home_ = home; }
  void set_phase(phase p) noexcept { failure_.is_.at = p; }
  // Done, allowed to wait, and without a failure: the common case, checked by one comparison.
  [[nodiscard]] bool ended_well() const noexcept { return failure_.is_none_at_end(); }
  // Queued or posted, and without a failure.
  [[nodiscard]] bool goes_on() const noexcept { return failure_.is_none_so_far(); }
  // Called exactly once, when the outcome is stored; puts the waiting coroutine or observer on the
  // ready list.
  [[gnu::always_inline]] void finish() noexcept {
    CORDMA_ASSERT(!done());
    failure_.is_.at = phase::done;
    if (awaited()) home_->ready(*this);
  }

  // As finish(), called from a poll of its reactor. Unlinks it from its list, if it is in one.
  [[gnu::always_inline]] void finish_in_poll() noexcept {
    CORDMA_ASSERT(!done());
    failure_.is_.at = phase::done;
    if (awaited()) [[likely]] {
      home_->ready_in_poll(*this);
    } else {
      unlink();
    }
  }

  // As finish(), for an operation that is in a list.
  [[gnu::always_inline]] void finish_from_list() noexcept {
    CORDMA_ASSERT(!done());
    failure_.is_.at = phase::done;
    if (awaited()) [[likely]] {
      home_->ready_from_list(*this);
    } else {
      unlink();
    }
  }

  void do_not_wait() noexcept { failure_.is_.turn = turn::refused; }
  // For operations that wait for other conditions than their queue.
  [[nodiscard]] bool would_not_wait() const noexcept { return failure_.is_.turn == turn::refused; }
  // True if the operation must be withdrawn now; it then ends with `again`.
  [[nodiscard]] bool turned_away() noexcept {
    if (failure_.is_.turn == turn::allowed || state() != phase::queued) return false;
    failure_.is_.turn = turn::turned_away;
    return true;
  }
  // The failure to report: `again` for an operation that was turned away. If it had begun before,
  // it may fail for another cause.
  [[nodiscard]] failure told(const failure& f) const noexcept {
    if (failure_.is_.turn != turn::turned_away || f.code() != errc::canceled) return f;
    failure why(errc::again);
    why.with_operation(f.operation());
    return why;
  }
  void wait(std::coroutine_handle<> h, task_context& chain) noexcept {
    waiter_ = &chain;
    chain.wait(h);
  }

 private:
  static void resume_chain(ready_item& item) noexcept {
    static_cast<task_context*>(static_cast<operation_base&>(item).waiter_)->resume();
  }
  static void tell_observer(ready_item& item) noexcept {
    auto& self = static_cast<operation_base&>(item);
    self.observer_(self, self.waiter_);
  }
  // Null if no task awaits it.
  [[nodiscard]] task_context* awaiting_chain() const noexcept {
    return run_function() == &operation_base::resume_chain ? static_cast<task_context*>(waiter_)
                                                           : nullptr;
  }
  [[gnu::noinline]] void leave() noexcept {
    if (task_context* const chain = awaiting_chain()) chain->forget(*this);
    failure_.reset();
  }

  friend struct detail::stack_layout;
  reactor* home_;
  void* waiter_ = nullptr;  // the context of the task, or of the observer
  observer observer_;       // used by tell_observer()
};

// A derived class supplies, all noexcept and all private with this class as a friend:
//   void do_start()            leaves the operation queued or posted, or has called finish()
//   void do_cancel()           queued: withdraw it, with errc::canceled; posted: by its contract
//   T take()                   after done and success: the value, moved out
// and a destructor that detaches an operation in flight by its contract. Movable until awaited; a
// moved-from operation is idle. A null home stands for the reactor of the coroutine or caller that
// awaits or starts it. `Base` is operation_base, or a class derived from it with the members that
// Derived's do_ functions need.
template <class Derived, class T, class Base = operation_base>
class [[nodiscard]] operation : public Base {
 public:
  using value_type = T;
  using phase = operation_base::phase;

  // Starts it now; await it later for the outcome. REQUIRES not started.
  [[gnu::always_inline]] Derived start() && {
    start_now();
    return std::move(self());
  }
  [[gnu::always_inline]] void start() & { start_now(); }
  // Makes the operation fail rather than wait: `co_await endpoint.tag_send(7, bytes).or_again()`
  // fails with `again`, without an effect, if it would have to wait in a queue, for space or
  // credits, or for data that has not arrived; it is queued nowhere. An operation that can be
  // posted is posted, and ends as any other. REQUIRES not started.
  Derived&& or_again() && {
    or_again();
    return std::move(self());
  }
  void or_again() & {
    CORDMA_REQUIRE(this->state() == phase::idle);
    this->do_not_wait();
  }

  [[nodiscard, gnu::always_inline]] bool await_ready() noexcept {
    if (phase::idle == this->state()) {
      if (this->home() == nullptr) return false;  // the awaiting task provides the reactor
      self().do_start();
      if (this->ended_well()) return this->home()->may_continue_inline();
      if (this->goes_on()) {
        this->home()->stir();
        return false;
      }
      look_after_start();
    }
    return this->done() && goes_on_inline();
  }
  template <class Promise>
    requires std::is_base_of_v<task_promise_base, Promise>
  [[gnu::always_inline]] bool await_suspend(
      std::coroutine_handle<Promise> h,
      std::source_location here = std::source_location::current()) noexcept {
    h.promise().suspend_at(here);
    return suspend(h, *h.promise().context());
  }
  T await_resume() {
    if (!this->ended_well()) [[unlikely]]
      throw_if_failed();
    return self().take();
  }

  // `result<T> r = co_await op.result();` never throws.
  class result_awaiter {
   public:
    explicit result_awaiter(Derived& op) noexcept : op_(op) {}
    [[nodiscard]] bool await_ready() noexcept { return op_.await_ready(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> h,
                       std::source_location here = std::source_location::current()) noexcept {
      return op_.await_suspend(h, here);
    }
    cordma::result<T> await_resume() { return op_.take_result(); }

   private:
    Derived& op_;
  };
  [[nodiscard]] result_awaiter result() noexcept { return result_awaiter(self()); }

  // Returns the outcome without awaiting. REQUIRES done().
  [[nodiscard]] cordma::result<T> take_result() {
    CORDMA_REQUIRE(this->done());
    if (const failure* f = this->why()) return this->told(*f);
    if constexpr (std::is_void_v<T>) {
      self().take();
      return {};
    } else {
      return self().take();
    }
  }

  // Requests cancellation, by the contract of the operation. Does nothing once done.
  void cancel() noexcept {
    if (this->state() == phase::queued || this->state() == phase::posted) self().do_cancel();
  }

 protected:
  using Base::Base;

 private:
  Derived& self() noexcept { return static_cast<Derived&>(*this); }
  [[gnu::always_inline]] void start_now() noexcept {
    CORDMA_REQUIRE(this->state() == phase::idle);
    if (this->home() == nullptr) this->set_home(reactor::current());
    CORDMA_REQUIRE(this->home() != nullptr);
    self().do_start();
    look_after_start();
  }
  [[gnu::always_inline]] void look_after_start() noexcept {
    if (this->state() != phase::posted) [[unlikely]] {
      if (this->done()) return;
      if (this->turned_away()) return self().do_cancel();
    }
    this->home()->stir();  // on its own thread: on another one it has failed
  }
  [[gnu::noinline]] void throw_if_failed() {
    if (const failure* f = this->why()) throw_error(this->told(*f));
  }
  // A failure because of the wrong thread must not touch the reactor of the right one.
  [[nodiscard]] bool goes_on_inline() noexcept {
    if (!this->ended_well() && !this->home()->on_owner_thread()) [[unlikely]]
      return true;
    return this->home()->may_continue_inline();
  }
  // False if the awaiter continues without suspending.
  [[gnu::always_inline]] bool suspend(std::coroutine_handle<> h, task_context& chain) noexcept {
    CORDMA_REQUIRE(!this->awaited());
    if (!this->goes_on()) [[unlikely]]
      return suspend_otherwise(h, chain);
    this->wait(h, chain);
    chain.wait_for(*this, &operation::cancel_it);
    return true;
  }
  // Not started; done, but must not continue at once; or turned away.
  [[gnu::noinline]] bool suspend_otherwise(std::coroutine_handle<> h,
                                           task_context& chain) noexcept {
    if (this->state() == phase::idle) {
      // Its reactor was unknown before it was awaited.
      this->set_home(&chain.home());
      start_now();
      if (this->done() && chain.home().may_continue_inline()) return false;
    }
    this->wait(h, chain);
    if (this->done()) {
      chain.home().ready(*this);
    } else {
      chain.wait_for(*this, &operation::cancel_it);
    }
    return true;
  }
  static void cancel_it(operation_base& it) noexcept { static_cast<Derived&>(it).cancel(); }
};

}  // namespace cordma

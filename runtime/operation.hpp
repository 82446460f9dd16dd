// operation: what every awaitable of cordma is. Lazy; started by awaiting it or by start(); awaited
// at most once; `co_await op` throws cordma::error, `co_await op.result()` returns result<T>.
// Cancellation is looked at where an operation would have to wait: one that completes at once does
// so in a canceled task too, so that such a task can still say good-bye.
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

// The state every operation shares. One place in one list at a time: first, perhaps, in the queue of
// what cannot be posted yet, later in the ready list. Bound to the thread of its reactor.
class operation_base : public ready_item {
 public:
  enum class phase : std::uint8_t {
    idle,    // not started
    queued,  // started, waits its turn; can be withdrawn
    posted,  // in flight; cannot be withdrawn
    done,    // the outcome is here
  };
  // Told once, from the ready list, when the outcome is here: for adapters that are no coroutines.
  // It may destroy the operation.
  using observer = void (*)(operation_base&, void* context) noexcept;

  [[nodiscard]] phase state() const noexcept { return failure_.is_.at; }
  [[nodiscard]] bool done() const noexcept { return state() == phase::done; }
  // Null until it is started, where it takes the reactor of whoever starts it.
  [[nodiscard]] reactor* home() const noexcept { return home_; }
  // For reports: the task that awaits it, or null.
  [[nodiscard]] task_promise_base* awaiting_task() const noexcept {
    const task_context* const chain = awaiting_chain();
    return chain == nullptr ? nullptr : task_promise_base::at(chain->waiter().address());
  }
  // Instead of awaiting it. `context` is not null. An operation that is done already tells at once,
  // through the ready list.
  void observe(observer who, void* context) noexcept {
    CORDMA_REQUIRE(!awaited());
    CORDMA_REQUIRE(context != nullptr);
    set_run_function(&operation_base::tell_observer);
    observer_ = who;
    waiter_ = context;
    if (done()) home_->ready(*this);
  }

 protected:
  // May it wait its turn, where it is queued?
  enum class turn : std::uint8_t { allowed, refused, turned_away };
  // Why it fails, or will once it is started. Beside it the phase, so that one comparison asks for both.
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
  // After done(): null where it succeeded.
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

  // As if it were new. REQUIRES done(), and that whoever awaited it was resumed.
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
  // Done, in its turn, and without a failure: what most are, asked by one comparison.
  [[nodiscard]] bool ended_well() const noexcept { return failure_.is_none_at_end(); }
  // Queued or posted, and nothing is wrong.
  [[nodiscard]] bool goes_on() const noexcept { return failure_.is_none_so_far(); }
  // The outcome is stored: whoever waits is put on the ready list. Exactly once.
  [[gnu::always_inline]] void finish() noexcept {
    CORDMA_ASSERT(!done());
    failure_.is_.at = phase::done;
    if (awaited()) home_->ready(*this);
  }

  // The same, where a poll of its reactor calls it. It leaves the list that it may be in.
  [[gnu::always_inline]] void finish_in_poll() noexcept {
    CORDMA_ASSERT(!done());
    failure_.is_.at = phase::done;
    if (awaited()) [[likely]] {
      home_->ready_in_poll(*this);
    } else {
      unlink();
    }
  }

  // The same, for one that a list has.
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
  // For those that wait for more than they are queued for.
  [[nodiscard]] bool would_not_wait() const noexcept { return failure_.is_.turn == turn::refused; }
  // Whether it is to be withdrawn now: then that ends it with `again`.
  [[nodiscard]] bool turned_away() noexcept {
    if (failure_.is_.turn == turn::allowed || state() != phase::queued) return false;
    failure_.is_.turn = turn::turned_away;
    return true;
  }
  // What is told of a failure. What had begun when it was turned away may fail for another cause.
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
  // Null: no task awaits it.
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
  observer observer_;       // if tell_observer() is what it does
};

// Derived supplies, all noexcept and all private with this class as a friend:
//   void do_start()            leaves the operation queued or posted, or has called finish()
//   void do_cancel()           queued: withdraw it, with errc::canceled; posted: by its contract
//   T take()                   after done and success: the value, moved out
// and a destructor that detaches an operation in flight by its contract. Movable until awaited; what
// was moved from is idle. A home of null stands for the reactor of whoever awaits or starts it.
// `Base` is operation_base, or a class derived from it that holds what Derived's do_ functions need.
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
  // For who would rather do something else than wait: `co_await endpoint.tag_send(7, bytes).or_again()` ends
  // with `again`, and nothing done, where it had to wait its turn, for room or credits, or for what is not here
  // yet; it is queued nowhere. One that can be posted is, and ends as any other. REQUIRES not started.
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
      if (this->home() == nullptr) return false;  // the awaiting task knows the reactor
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

  // The outcome without awaiting. REQUIRES done().
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

  // Asks for cancellation, by the contract of the operation. Does nothing once done.
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
    this->home()->stir();  // on its thread: elsewhere it has failed
  }
  [[gnu::noinline]] void throw_if_failed() {
    if (const failure* f = this->why()) throw_error(this->told(*f));
  }
  // A failure for being on the wrong thread must not touch the reactor of the right one.
  [[nodiscard]] bool goes_on_inline() noexcept {
    if (!this->ended_well() && !this->home()->on_owner_thread()) [[unlikely]]
      return true;
    return this->home()->may_continue_inline();
  }
  // False where the awaiter goes on without suspending.
  [[gnu::always_inline]] bool suspend(std::coroutine_handle<> h, task_context& chain) noexcept {
    CORDMA_REQUIRE(!this->awaited());
    if (!this->goes_on()) [[unlikely]]
      return suspend_otherwise(h, chain);
    this->wait(h, chain);
    chain.wait_for(*this, &operation::cancel_it);
    return true;
  }
  // Not started; done, but not to go on at once; or turned away.
  [[gnu::noinline]] bool suspend_otherwise(std::coroutine_handle<> h,
                                           task_context& chain) noexcept {
    if (this->state() == phase::idle) {
      // It knew no reactor before it was awaited.
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

// cordma and Asio on one thread: an io_context inside a reactor, a reactor inside an io_context,
// cordma operations with Asio's completion tokens, Asio operations in cordma tasks.
// The only header of the runtime that includes Asio.
#pragma once

#include <cordma/runtime/task_group.hpp>

#include <asio/any_io_executor.hpp>
#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/recycling_allocator.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>

namespace cordma {

struct asio_host_options {
  // Polling the io_context takes a system call. A busy reactor polls it at most once per `passes`
  // passes and once per `interval`, but at once if cordma itself gave it work.
  unsigned passes = 16;
  duration interval = std::chrono::microseconds(10);
};

// An io_context that lives on a reactor's thread: timers, sockets and complete Asio libraries
// beside RDMA. The reactor runs it, and sleeps in it. Bound to the thread of the reactor, which
// must use the real clock, be run by run() or run_until(), and outlive the host. A handler that
// throws ends the program; io_context::stop() has no effect beyond the pass in which it is called.
class asio_host final : private poller, private sleeper {
 public:
  // Throws cordma::error: not_supported if the reactor's time is not real.
  explicit asio_host(reactor& home, const asio_host_options& options = {});
  ~asio_host() override;
  asio_host(const asio_host&) = delete;
  asio_host& operator=(const asio_host&) = delete;

  [[nodiscard]] asio::io_context& context() noexcept { return io_; }
  // Number of times the io_context was polled.
  [[nodiscard]] std::uint64_t polls() const noexcept { return polls_; }

 private:
  std::size_t poll() noexcept override;
  arm_state arm() noexcept override;
  void disarm() noexcept override { armed_ = false; }
  [[nodiscard]] int wait_fd() const noexcept override { return is_sleeper; }
  [[nodiscard]] const char* name() const noexcept override { return "asio"; }
  void sleep(int fd) noexcept override;
  std::size_t ask() noexcept;

  reactor& home_;
  asio_host_options options_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::posix::stream_descriptor reactor_fd_;
  time_point last_ask_{};
  unsigned passes_left_ = 0;
  bool armed_ = false;
  bool waiting_ = false;
  std::uint64_t polls_ = 0;
};

// The reverse of asio_host: a thread that runs `io` drives the reactor beside its own handlers.
// Only one thread may run `io`. The reactor runs passes until it is idle, then the driver waits for
// its descriptor like for a socket; after a limited number of passes it yields to other handlers.
// Starts at once. Ends when it is destroyed, on that thread or while no thread runs `io`. Keeps
// `io` from running out of work.
class asio_driver {
 public:
  asio_driver(reactor& driven, asio::io_context& io);
  ~asio_driver();
  asio_driver(const asio_driver&) = delete;
  asio_driver& operator=(const asio_driver&) = delete;

 private:
  class state;
  std::shared_ptr<state> state_;
};

namespace detail {

template <class T>
struct completion {
  using signature = void(std::exception_ptr, T);
};
template <>
struct completion<void> {
  using signature = void(std::exception_ptr);
};

// A running task of an Asio completion handler. Created on any thread, ends on the reactor, and is
// delivered on the handler's executor. The cancellation slot belongs to that executor as well.
template <class T, class Handler>
class async_state {
 public:
  using allocator_type = typename std::allocator_traits<asio::associated_allocator_t<
      Handler, asio::recycling_allocator<void>>>::template rebind_alloc<async_state>;
  using traits = std::allocator_traits<allocator_type>;

  static void launch(reactor& home, task<T>&& t, Handler&& handler) {
    allocator_type memory(
        asio::get_associated_allocator(handler, asio::recycling_allocator<void>()));
    async_state* const raw = traits::allocate(memory, 1);
    async_state* const self =
        ::new (static_cast<void*>(raw)) async_state(home, std::move(t), std::move(handler), memory);
    const auto slot = asio::get_associated_cancellation_slot(self->handler_);
    if (slot.is_connected()) {
      auto on_cancel = slot;
      on_cancel.template emplace<canceler>(*self);
    }
    if (home.on_owner_thread()) {
      self->begin();
    } else {
      home.post(self->start_);
    }
  }
  async_state(const async_state&) = delete;
  async_state& operator=(const async_state&) = delete;

 private:
  using executor_type = asio::associated_executor_t<Handler>;

  struct canceler {
    explicit canceler(async_state& s) noexcept : owner(s) {}
    void operator()(asio::cancellation_type_t type) const noexcept {
      if (type != asio::cancellation_type::none) owner.request_cancel();
    }
    async_state& owner;
  };
  struct root final : task_root {
    explicit root(async_state& s) noexcept
        : task_root([](task_root& r) noexcept { static_cast<root&>(r).owner.ended(); }), owner(s) {}
    async_state& owner;
  };
  struct message final : inbox_item {
    message(async_state& s, inbox_item::function run, inbox_item::function drop) noexcept
        : inbox_item(run, drop), owner(s) {}
    async_state& owner;
  };
  struct residence final : resident {
    explicit residence(async_state& s) noexcept
        : resident([](resident& r) noexcept { static_cast<residence&>(r).owner.destroy(); }),
          owner(s) {}
    async_state& owner;
  };
  // The handler's work: owns the state until it runs or is dropped.
  class delivery {
   public:
    using allocator_type = typename async_state::allocator_type;
    explicit delivery(async_state& s) noexcept : state_(&s) {}
    delivery(delivery&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    delivery& operator=(delivery&&) = delete;
    ~delivery() {
      if (state_ != nullptr) state_->release();
    }
    [[nodiscard]] allocator_type get_allocator() const noexcept { return state_->memory_; }
    void operator()() { std::exchange(state_, nullptr)->deliver(); }

   private:
    async_state* state_;
  };
  enum class cancel_message : std::uint8_t { none, sent, arrived, abandoned };

  async_state(reactor& home, task<T>&& t, Handler&& handler, const allocator_type& memory)
      : home_(home),
        memory_(memory),
        handler_(std::move(handler)),
        work_(asio::make_work_guard(asio::get_associated_executor(handler_))),
        task_(std::move(t)),
        root_(*this),
        residence_(*this),
        start_(
            *this, [](inbox_item& i) noexcept { static_cast<message&>(i).owner.begin(); },
            [](inbox_item& i) noexcept { static_cast<message&>(i).owner.destroy(); }),
        cancel_(
            *this, [](inbox_item& i) noexcept { static_cast<message&>(i).owner.cancel_arrived(); },
            [](inbox_item& i) noexcept { static_cast<message&>(i).owner.message_settled(); }) {}

  void begin() noexcept {
    home_.keep(residence_);
    start_root(home_, task_, &source_, root_);
  }

  // On the handler's executor.
  void request_cancel() noexcept {
    if (home_.on_owner_thread()) {
      source_.request();
      return;
    }
    cancel_message none = cancel_message::none;
    if (message_.compare_exchange_strong(none, cancel_message::sent)) home_.post(cancel_);
  }
  void cancel_arrived() noexcept {
    source_.request();
    message_settled();
  }
  void message_settled() noexcept {
    if (message_.exchange(cancel_message::arrived) == cancel_message::abandoned) destroy();
  }

  // On the reactor, from the last suspension of the task.
  void ended() noexcept {
    residence_.unlink();
    error_ = task_.handle().promise().exception();
    if constexpr (!std::is_void_v<T>) {
      if (!error_) value_.emplace(task_.handle().promise().take());
    }
    task_ = task<T>();  // destroys its frame, and its references to this reactor
    home_.expect_work();
    const executor_type where = asio::get_associated_executor(handler_);
    asio::dispatch(where, delivery(*this));
  }

  // On the handler's executor.
  void deliver() {
    auto slot = asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected()) slot.clear();
    Handler handler = std::move(handler_);
    const auto work = std::move(work_);
    std::exception_ptr error = std::move(error_);
    if constexpr (std::is_void_v<T>) {
      release();
      std::move(handler)(std::move(error));
    } else {
      T value = value_ ? std::move(*value_) : T();
      release();
      std::move(handler)(std::move(error), std::move(value));
    }
  }
  void release() noexcept {
    // A cancellation request on its way to the reactor still points here; it frees this object on
    // arrival.
    if (message_.exchange(cancel_message::abandoned) != cancel_message::sent) destroy();
  }
  void destroy() noexcept {
    allocator_type memory = memory_;
    this->~async_state();
    traits::deallocate(memory, this, 1);
  }
  ~async_state() = default;

  reactor& home_;
  allocator_type memory_;
  Handler handler_;
  asio::executor_work_guard<executor_type> work_;
  cancel_source source_;
  task<T> task_;
  std::exception_ptr error_;
  std::optional<solid<T>> value_;
  root root_;
  residence residence_;
  message start_;
  message cancel_;
  std::atomic<cancel_message> message_{cancel_message::none};
};

}  // namespace detail

// Runs an operation or a task on `home` and completes an Asio completion token: asio::use_awaitable
// (then `co_await` it in an asio::awaitable), a callback, asio::use_future, as_tuple(...)
// (experimental in Asio 1.22) and so on. May be called from any thread if the awaitable may be
// started on `home` later; otherwise only from the thread of `home`. The signature is
// void(std::exception_ptr) or void(std::exception_ptr, T). T is default-constructible: it is T()
// after an error. The handler runs on its associated executor, never inside this call; memory comes
// from its associated allocator. Emitting its cancellation slot cancels, by the contract of the
// awaitable. The execution context must outlive the operation. An operation that is not done when
// the reactor is destroyed is dropped then, with its handler.
template <class Awaitable, class Token>
auto async(reactor& home, Awaitable a, Token&& token) {
  using T = detail::awaited<Awaitable>;
  return asio::async_initiate<Token, typename detail::completion<T>::signature>(
      [](auto&& handler, reactor* r, Awaitable awaitable) {
        using handler_type = std::decay_t<decltype(handler)>;
        detail::async_state<T, handler_type>::launch(*r, detail::as_task(std::move(awaitable)),
                                                     std::forward<decltype(handler)>(handler));
      },
      token, &home, std::move(a));
}

// As above, on the reactor of the operation, else on the reactor that runs a pass on this thread.
// REQUIRES that one of them exists.
template <class Awaitable, class Token>
auto async(Awaitable a, Token&& token) {
  reactor* home = reactor::current();
  if constexpr (detail::is_operation<Awaitable>) {
    if (a.home() != nullptr) home = a.home();
  }
  CORDMA_REQUIRE(home != nullptr);
  return async(*home, std::move(a), std::forward<Token>(token));
}

// The completion token for Asio operations in a cordma task:
//   `std::size_t n = co_await socket.async_read_some(buffer, use_task);`
// An error_code throws: cordma::error for a system error (canceled for ECANCELED),
// std::system_error otherwise (end of file, resolver). `as_tuple(use_task)` returns it as a value.
// The task resumes from its reactor's ready list, on whichever thread the operation completed.
// On cancellation: emits the operation's Asio cancellation (type all) and waits for its end;
// REQUIRES that its I/O object lives on an io_context of the reactor's thread. A task that is
// destroyed while it waits emits the cancellation too, but does not wait for the end.
struct use_task_t {};
inline constexpr use_task_t use_task{};

namespace detail {

[[noreturn]] void throw_asio_error(const std::error_code& ec);
[[nodiscard]] failure asio_canceled() noexcept;

// State shared by an Asio handler and an awaiting task; outlives both.
template <class... Args>
class asio_wait final : private inbox_item {
 public:
  static void* operator new(std::size_t bytes) { return frame_pool::allocate(bytes); }
  static void operator delete(void* p, std::size_t bytes) noexcept {
    frame_pool::deallocate(p, bytes);
  }
  explicit asio_wait(reactor& home) noexcept
      : inbox_item([](inbox_item& i) noexcept { static_cast<asio_wait&>(i).arrive(); },
                   [](inbox_item& i) noexcept { static_cast<asio_wait&>(i).arrive_late(); }),
        home_(home),
        hook_(*this) {}

  // Called once: with the values of the operation, or without if its handler was dropped. Any
  // thread.
  void complete(std::optional<std::tuple<Args...>> values) noexcept {
    values_ = std::move(values);
    if (home_.on_owner_thread()) {
      arrive();
    } else {
      home_.post(static_cast<inbox_item&>(*this));
    }
  }
  // The functions below: on the reactor's thread.
  [[nodiscard]] asio::cancellation_signal& signal() noexcept { return signal_; }
  [[nodiscard]] bool done() const noexcept { return done_; }
  void await(std::coroutine_handle<> h, cancel_source* canceler) noexcept {
    resume_.handle = h;
    if (canceler == nullptr) return;
    if (canceler->requested()) {
      signal_.emit(asio::cancellation_type::all);
    } else {
      canceler->attach(hook_);
    }
  }
  void abandon() noexcept {
    if (done_) {
      delete this;
      return;
    }
    hook_.unlink();
    resume_.handle = nullptr;
    abandoned_ = true;
    signal_.emit(asio::cancellation_type::all);
  }
  [[nodiscard]] std::optional<std::tuple<Args...>>& values() noexcept { return values_; }

 private:
  struct cancel final : cancel_hook {
    explicit cancel(asio_wait& w) noexcept
        : cancel_hook([](cancel_hook& h) noexcept {
            asio_wait& self = static_cast<cancel&>(h).owner;
            self.home_.expect_work();
            self.signal_.emit(asio::cancellation_type::all);
          }),
          owner(w) {}
    asio_wait& owner;
  };
  void arrive() noexcept {
    done_ = true;
    hook_.unlink();
    if (abandoned_) {
      delete this;
    } else if (resume_.handle) {
      home_.ready(resume_);
    }
  }
  void arrive_late() noexcept {
    done_ = true;
    if (abandoned_) delete this;
  }

  reactor& home_;
  asio::cancellation_signal signal_;
  cancel hook_;
  resume_item resume_;
  std::optional<std::tuple<Args...>> values_;
  bool done_ = false;
  bool abandoned_ = false;
};

template <class... Args>
class asio_handler {
 public:
  using cancellation_slot_type = asio::cancellation_slot;
  using allocator_type = asio::recycling_allocator<void>;

  explicit asio_handler(asio_wait<Args...>& w) noexcept : wait_(&w), slot_(w.signal().slot()) {}
  asio_handler(asio_handler&& other) noexcept
      : wait_(std::exchange(other.wait_, nullptr)), slot_(other.slot_) {}
  asio_handler& operator=(asio_handler&&) = delete;
  ~asio_handler() {
    if (wait_ != nullptr) finish(std::nullopt);
  }
  [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return slot_; }
  [[nodiscard]] allocator_type get_allocator() const noexcept { return {}; }

  template <class... Given>
  void operator()(Given&&... given) {
    finish(std::optional<std::tuple<Args...>>(std::in_place, std::forward<Given>(given)...));
  }

 private:
  void finish(std::optional<std::tuple<Args...>> values) noexcept {
    slot_.clear();
    std::exchange(wait_, nullptr)->complete(std::move(values));
  }
  asio_wait<Args...>* wait_;
  asio::cancellation_slot slot_;
};

template <class... Args>
inline constexpr bool begins_with_error = false;
template <class First, class... Rest>
inline constexpr bool begins_with_error<First, Rest...> =
    std::is_same_v<First, std::error_code> || std::is_same_v<First, std::exception_ptr>;

// Returns the values of a completion without a leading error, which is thrown; a single value is
// returned without a tuple.
template <class... Values>
auto unpack(std::tuple<Values...>&& values) {
  if constexpr (sizeof...(Values) == 1) {
    return std::get<0>(std::move(values));
  } else if constexpr (sizeof...(Values) > 1) {
    return std::move(values);
  }
}
template <class... Args>
auto unpack_completion(std::tuple<Args...>&& values) {
  if constexpr (begins_with_error<Args...>) {
    const auto& why = std::get<0>(values);
    if (why) {
      if constexpr (std::is_same_v<std::decay_t<decltype(why)>, std::error_code>) {
        throw_asio_error(why);
      } else {
        std::rethrow_exception(why);
      }
    }
    return std::apply(
        [](auto&, auto&... rest) {
          return unpack(std::tuple<std::decay_t<decltype(rest)>...>(std::move(rest)...));
        },
        values);
  } else {
    return unpack(std::move(values));
  }
}

template <class Initiation, class InitArgs, class... Args>
class [[nodiscard]] asio_awaiter {
 public:
  asio_awaiter(Initiation&& initiation, InitArgs&& args)
      : initiation_(std::move(initiation)), args_(std::move(args)) {}
  asio_awaiter(asio_awaiter&& other) noexcept
      : initiation_(std::move(other.initiation_)), args_(std::move(other.args_)) {
    CORDMA_REQUIRE(other.wait_ == nullptr);
  }
  asio_awaiter& operator=(asio_awaiter&&) = delete;
  ~asio_awaiter() {
    if (wait_ != nullptr) wait_->abandon();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
    requires std::is_base_of_v<task_promise_base, Promise>
  bool await_suspend(std::coroutine_handle<Promise> h,
                     std::source_location here = std::source_location::current()) {
    h.promise().suspend_at(here);
    const task_context& context = *h.promise().context();
    wait_ = new asio_wait<Args...>(context.home());
    std::apply(
        [this](auto&... arg) {
          std::move(initiation_)(asio_handler<Args...>(*wait_), std::move(arg)...);
        },
        args_);
    if (wait_->done()) return false;
    context.home().expect_work();
    wait_->await(h, context.cancellation());
    return true;
  }
  auto await_resume() {
    if (!wait_->values()) throw_error(asio_canceled());
    return unpack_completion(std::move(*wait_->values()));
  }

 private:
  Initiation initiation_;
  InitArgs args_;
  asio_wait<Args...>* wait_ = nullptr;
};

}  // namespace detail
}  // namespace cordma

template <class R, class... Args>
class asio::async_result<cordma::use_task_t, R(Args...)> {
 public:
  template <class Initiation, class Token, class... InitArgs>
  static auto initiate(Initiation&& initiation, Token&&, InitArgs&&... args) {
    using stored = std::tuple<std::decay_t<InitArgs>...>;
    return cordma::detail::asio_awaiter<std::decay_t<Initiation>, stored, std::decay_t<Args>...>(
        std::decay_t<Initiation>(std::forward<Initiation>(initiation)),
        stored(std::forward<InitArgs>(args)...));
  }
};

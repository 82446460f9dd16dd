// The event loop of one thread: ready list, timers, inbox, pollers, and the three ways of waiting.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/idleness.hpp>
#include <cordma/runtime/inbox.hpp>
#include <cordma/runtime/list.hpp>
#include <cordma/runtime/loop_clock.hpp>
#include <cordma/runtime/process.hpp>
#include <cordma/runtime/report_lists.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/ticks.hpp>
#include <cordma/runtime/timer.hpp>
#include <cordma/runtime/trace.hpp>
#include <cordma/runtime/wait_set.hpp>

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace cordma {

namespace detail {
struct live_reactor;
}

// How a reactor waits when it has nothing to do.
enum class wait_mode : std::uint8_t {
  polling,   // never sleeps: lowest latency, one core busy
  event,     // sleeps at once: no CPU while idle, a wake-up on the path of every message
  adaptive,  // spins for about the cost of a wake-up, then sleeps
};
[[nodiscard]] std::string_view name(wait_mode mode) noexcept;
// Accepts "polling", "event" or "adaptive"; anything else is invalid_value, with a message that
// names them.
[[nodiscard]] result<wait_mode> parse_wait_mode(std::string_view text);

// Work for the next pass of the loop. The owner keeps it alive until it ran or is unlinked.
class ready_item : public list_node {
 public:
  using function = void (*)(ready_item&) noexcept;
  explicit ready_item(function run) noexcept : run_(run) {}

 protected:
  [[nodiscard]] function run_function() const noexcept { return run_; }
  void set_run_function(function run) noexcept { run_ = run; }

 private:
  friend class reactor;
  function run_;
};

// Resumes a coroutine from the ready list.
class resume_item final : public ready_item {
 public:
  resume_item() noexcept
      : ready_item([](ready_item& i) noexcept { static_cast<resume_item&>(i).handle.resume(); }) {}
  std::coroutine_handle<> handle;
};

enum class arm_state : std::uint8_t {
  armed,  // any work that arrives from now on makes the wait fd readable
  busy,   // work is pending already: poll first
};

// A source of work that is polled in every pass: a completion queue, an io_context. poll() marks
// coroutines ready; it never resumes one.
class poller {
 public:
  virtual ~poller() = default;
  // Returns the number of events; 0 = idle. Also publishes the requests that were posted since the
  // last call.
  virtual std::size_t poll() noexcept = 0;
  // Requests that the wait fd becomes readable at the next work. After `armed` the reactor polls
  // once more before it sleeps, so that work which arrives in between is not lost.
  virtual arm_state arm() noexcept = 0;
  // Undoes arm(); called before the next poll() whether or not the fd became readable.
  virtual void disarm() noexcept {}
  static constexpr int cannot_wake = -1;  // only legal in polling mode
  // this poller performs the sleep of the reactor: see sleeper
  static constexpr int is_sleeper = -2;
  // A descriptor, constant for life, or one of the above.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  // True if wait_fd is to be watched for edges: then no code needs to read it to clear it.
  [[nodiscard]] virtual bool edge_triggered() const noexcept { return false; }
  // For messages: "shm", "tcp", "asio".
  [[nodiscard]] virtual const char* name() const noexcept = 0;
};

// Performs the sleep of the reactor if another loop owns the wait (an asio::io_context).
class sleeper {
 public:
  virtual ~sleeper() = default;
  // Returns when `fd` is readable (timers of the reactor make it readable), or after it ran a
  // handler.
  virtual void sleep(int fd) noexcept = 0;
};

// Lives on a reactor until it ends by itself or the reactor is destroyed: then it is dropped.
class resident : public list_node {
 public:
  using function = void (*)(resident&) noexcept;
  explicit resident(function drop) noexcept : drop_(drop) {}

 private:
  friend class reactor;
  function drop_;
};

struct reactor_counters {
  std::uint64_t turns = 0;       // passes of the loop
  std::uint64_t idle_turns = 0;  // passes without work
  std::uint64_t resumes = 0;     // items run from the ready list
  std::uint64_t arms = 0;        // times all pollers were armed
  std::uint64_t sleeps = 0;      // waits entered
  std::uint64_t wakeups = 0;     // waits that ended for work, a timer or a wake()
  std::uint64_t spurious = 0;    // wake-ups without work
  std::uint64_t late_work = 0;   // work found between the last drain and the sleep
  std::uint64_t timers_fired = 0;
  std::uint64_t inbox_items = 0;
};

struct reactor_options {
  wait_mode mode = wait_mode::adaptive;
  clock* time = nullptr;               // null: real_clock(); must outlive the reactor
  duration spin_limit = duration{-1};  // adaptive: the longest spin; negative: as measured
  // Called between the last drain and arming, and again between arming and sleeping. For tests of
  // lost wake-ups.
  void (*before_sleep)(void* context) noexcept = nullptr;
  void* before_sleep_context = nullptr;
};

// Bound to the thread that runs it (the creating thread until claim(), bind() or run_until()
// elsewhere). Only post() and wake() may be called from other threads; all other calls check that
// in every build. Never starts a thread.
class reactor {
 public:
  // Throws cordma::error (no_memory, operating_system) if descriptors cannot be allocated.
  explicit reactor(const reactor_options& options = {});
  ~reactor();
  reactor(const reactor&) = delete;
  reactor& operator=(const reactor&) = delete;

  // The reactor that runs a pass on this thread, or null.
  [[nodiscard]] static reactor* current() noexcept;
  [[nodiscard]] bool on_owner_thread() const noexcept {
    return owner_thread_.load(std::memory_order_relaxed) == detail::thread_identity;
  }
  // True in a child of fork(), for a reactor of its parent: only its destructor may be called.
  [[nodiscard]] bool inherited() const noexcept { return process_.inherited(); }
  // The failure of a call on this thread: bad_state in a child of fork(), else no_lock, with `rule`
  // as its text.
  [[nodiscard]] failure wrong_thread(std::string_view rule) const noexcept;
  // Makes the calling thread the owner. Errors: no_lock while another thread runs it; bad_state
  // inside one of its passes, or in a child of fork().
  [[nodiscard]] result<void> claim() noexcept;
  // For destructors: makes the calling thread the owner. REQUIRES that no other thread runs it.
  // Returns false in a child of fork(): there a destructor releases only resources of the child,
  // and touches nothing shared.
  bool enter_to_destroy() noexcept;
  // For calls without a result: false in a child of fork(), where such a call does nothing.
  // REQUIRES the owner thread.
  [[nodiscard]] bool enter() const noexcept {
    if (on_owner_thread()) return true;
    CORDMA_REQUIRE(inherited());
    return false;
  }
  // As claim(), if neither error can occur: REQUIRES that it is not running.
  void bind() noexcept;

  [[nodiscard]] wait_mode mode() const noexcept { return options_.mode; }
  [[nodiscard]] clock& time() noexcept { return time_.get(); }
  [[nodiscard]] time_point now() noexcept { return time_.now(); }
  [[nodiscard]] const reactor_counters& counters() const noexcept { return counters_; }
  // Adaptive mode: the measured cost of one wake-up, and the current budget of a spin.
  [[nodiscard]] duration wake_cost() const noexcept { return idleness_.budget().wake_cost(); }
  [[nodiscard]] duration spin_budget() const noexcept { return idleness_.budget().get(); }

  // Runs one pass: pollers, inbox, timers, then the items that were ready. True if anything
  // happened; false in a child of fork(). Never waits. REQUIRES not called inside a pass.
  bool turn() noexcept;
  // As turn(), for programs that run passes themselves: returns the number of events, 0 if idle.
  // Errors: bad_state inside a pass or in a child of fork(), no_lock from a thread that does not
  // own it.
  result<std::size_t> poll() noexcept;
  // Runs passes, and waits between them by the wait mode, until `done(context)`, which is checked
  // in every pass. Returns shutdown after stop(); no_lock and bad_state as claim() does; bad_state
  // also if nothing can ever happen again in virtual time.
  result<void> run_until(bool (*done)(void*) noexcept, void* context) noexcept;
  // Ends run_until() at its next pass. Owner thread only (other threads post a call).
  void stop() noexcept { stop_requested_ = true; }

  // Runs the item in the next pass; in a child of fork(), never. REQUIRES the owner thread.
  void ready(ready_item& item) noexcept {
    CORDMA_REQUIRE(on_owner_thread() || inherited());
    ready_.push_back(item);
    stir();
  }
  // As ready(), after unlinking the item from its list, if any. REQUIRES that a poll of the reactor
  // calls it.
  void ready_in_poll(ready_item& item) noexcept {
    if (item.linked()) {
      ready_from_list(item);
    } else {
      ready_.push_back(item);
    }
  }
  void ready_from_list(ready_item& item) noexcept { ready_.move_back(item); }
  // Ends the wait of a foreign loop for fd(). Called after work on the owner thread outside a pass.
  // Free if no loop waits.
  void stir() noexcept {
    if (armed_) wake_once();
  }
  // Makes a poller that polls the kernel only in some passes poll it in the next one.
  void expect_work() noexcept { work_expected_ = true; }
  [[nodiscard]] bool take_expectation() noexcept { return std::exchange(work_expected_, false); }
  // Drops `r` when the reactor is destroyed, unless it was unlinked before.
  void keep(resident& r) noexcept { residents_.push_back(r); }
  void add(timer& t, time_point when) noexcept;
  void remove(timer& t) noexcept;
  // Fails with not_supported, naming the poller, if the mode may sleep and the poller cannot end a
  // sleep.
  result<void> add(poller& p);
  void remove(poller& p) noexcept;
  // The tasks on it, in the order of their start.
  [[nodiscard]] list<running_task>& tasks() noexcept { return reports_.tasks(); }
  void add(report_section& s) noexcept { reports_.add(s); }
  // Null: epoll_wait. At most one sleeper at a time.
  void set_sleeper(sleeper* s) noexcept { sleeper_ = s; }

  // Any thread. The item runs on the owner thread. Lock-free.
  void post(inbox_item& item) noexcept;
  // Any thread; allocates. `work()` must not throw. It is destroyed without having run if the
  // reactor is destroyed first.
  template <class Work>
    requires std::invocable<Work&>
  void post(Work work);
  // Any thread, and signal handlers: ends the current or the next wait.
  void wake() noexcept;

  // For a foreign loop (epoll, Asio, io_uring): call turn() until it returns false, then
  // prepare_wait(); if that returns armed, wait until fd() is readable, call finish_wait() and
  // begin again. In a child of fork() the set of descriptors belongs to the parent, and both calls
  // do nothing.
  [[nodiscard]] int fd() const noexcept { return waits_.fd(); }
  arm_state prepare_wait() noexcept;
  void finish_wait() noexcept;

  // Writes the reactor's state, its timers, descriptors and sections, and each suspended coroutine
  // with the chain of its callers, in at most 200 lines. Allocates nothing and takes no lock: a
  // signal handler on the thread of the reactor may call it at any time. A list that is being
  // changed is reported as such, and not walked. REQUIRES the owner thread.
  void dump(int fd = 2) noexcept;
  void dump(dump_writer& out) noexcept;
  // Starts recording, if the process has a trace file. Throws std::bad_alloc.
  void start_tracing();
  // Null if it does not record.
  [[nodiscard]] trace_ring* trace() noexcept { return trace_.get(); }
  // The time of the last wake-up or of the last 1024th pass, whichever is later.
  [[nodiscard]] coarse_time coarse_now() const noexcept { return time_.coarse(); }
  // The time since `then`, at least.
  [[nodiscard]] duration since(coarse_time then) noexcept { return time_.since(then); }

  // Completing without suspending is free; without a limit it would starve all other coroutines.
  // True if the caller may continue, false if it should pass through the ready list first.
  [[nodiscard]] bool may_continue_inline() noexcept { return --inline_budget_ > 0; }

 private:
  static constexpr int inline_budget_per_turn = 256;

  std::size_t pass() noexcept;
  std::size_t poll_all() noexcept;
  // Returns the number of events, as fire_timers() and run_ready_to_the_end() do.
  std::size_t run_inbox() noexcept;
  [[nodiscard]] bool is_clock_due() noexcept {
    if (turns_to_clock_ == 0) return true;
    --turns_to_clock_;
    return false;
  }
  std::size_t fire_timers(bool alone) noexcept;
  void run_first_ready() noexcept;
  std::size_t run_ready_to_the_end() noexcept;
  void idle() noexcept;
  void sleep_once() noexcept;
  bool skip_to_next_timer() noexcept;
  void came_to_life() noexcept;
  void end_wait() noexcept;
  void arm_timer_fd() noexcept;
  void wake_once() noexcept;
  [[gnu::cold]] void trace_wait(arm_state state) noexcept;
  [[gnu::cold]] void trace_wake() noexcept;
  void dump_waits(dump_writer& out) noexcept;
  [[nodiscard]] failure deadlock() noexcept;

  friend struct detail::stack_layout;
  reactor_options options_;
  detail::loop_clock time_;
  list<ready_item> ready_;
  ready_item end_of_pass_{nullptr};  // separates the items of this pass from later ones
  list<resident> residents_;
  std::vector<poller*> pollers_;
  std::size_t poller_count_ = 0;  // the number of pollers, read in every pass
  detail::timer_heap timers_;
  int inline_budget_ = inline_budget_per_turn;
  detail::wait_set waits_;
  sleeper* sleeper_ = nullptr;
  reactor* outer_ = nullptr;  // the reactor whose pass encloses this one's
  process_mark process_;
  std::atomic<std::uint64_t> owner_thread_;
  std::atomic<bool> running_{false};  // inside run_until()
  bool in_turn_ = false;
  bool own_timer_only_ = false;  // the last pass found only a timer of the reactor
  bool armed_ = false;
  bool stop_requested_ = false;
  bool stuck_ = false;
  bool work_expected_ = false;

  detail::idleness idleness_;    // adaptive
  unsigned turns_to_clock_ = 0;  // passes until timers read the clock again
  reactor_counters counters_;

  bool changing_ = false;  // pollers_ or the heap of timers is being changed
  detail::report_lists reports_;
  detail::live_reactor* entry_;
  std::unique_ptr<trace_ring> trace_;

  detail::inbox inbox_;
};

template <class Work>
  requires std::invocable<Work&>
void reactor::post(Work work) {
  struct boxed final : inbox_item {
    explicit boxed(Work&& w)
        : inbox_item(
              [](inbox_item& i) noexcept {
                std::unique_ptr<boxed> self(static_cast<boxed*>(&i));
                self->work();
              },
              [](inbox_item& i) noexcept { delete static_cast<boxed*>(&i); }),
          work(std::move(w)) {}
    Work work;
  };
  post(static_cast<inbox_item&>(*new boxed(std::move(work))));
}

}  // namespace cordma

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
// "polling", "event" or "adaptive"; anything else is invalid_value, saying so.
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
  armed,  // whatever arrives from now on makes the wait fd readable
  busy,   // there is work already: poll first
};

// A source of work that is asked in every pass: a completion queue, an io_context.
// poll() marks coroutines ready; it never resumes one.
class poller {
 public:
  virtual ~poller() = default;
  // The number of things that happened; 0 = idle. Also publishes what was posted since last time.
  virtual std::size_t poll() noexcept = 0;
  // Asks for the wait fd to become readable at the next work. After `armed` the reactor polls once
  // more before it sleeps, so work that slips in between is not lost.
  virtual arm_state arm() noexcept = 0;
  // Undoes arm(); called before the next poll() whether or not the fd fired.
  virtual void disarm() noexcept {}
  static constexpr int cannot_wake = -1;  // only legal in polling mode
  static constexpr int is_sleeper = -2;   // it is what sleeps for the reactor: see sleeper
  // A descriptor, constant for life, or one of the above.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  // Whether wait_fd is to be watched for edges: then nobody need read it to clear it.
  [[nodiscard]] virtual bool edge_triggered() const noexcept { return false; }
  // For messages: "shm", "tcp", "asio".
  [[nodiscard]] virtual const char* name() const noexcept = 0;
};

// Sleeps for the reactor, where something else owns the wait (an asio::io_context).
class sleeper {
 public:
  virtual ~sleeper() = default;
  // Returns when `fd` is readable (timers of the reactor make it so), or whenever it did something
  // of its own.
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
  std::uint64_t idle_turns = 0;  // ... that found nothing
  std::uint64_t resumes = 0;     // items run from the ready list
  std::uint64_t arms = 0;        // times all pollers were armed
  std::uint64_t sleeps = 0;      // waits entered
  std::uint64_t wakeups = 0;     // waits that ended for work, a timer or a wake()
  std::uint64_t spurious = 0;    // ... and nothing was there
  std::uint64_t late_work = 0;   // work found between the last drain and the sleep
  std::uint64_t timers_fired = 0;
  std::uint64_t inbox_items = 0;
};

struct reactor_options {
  wait_mode mode = wait_mode::adaptive;
  clock* time = nullptr;               // null: real_clock(); must outlive the reactor
  duration spin_limit = duration{-1};  // adaptive: the longest spin; negative: as measured
  // Called between the last drain and arming, and again between arming and sleeping. For tests that
  // hunt lost wake-ups.
  void (*before_sleep)(void* context) noexcept = nullptr;
  void* before_sleep_context = nullptr;
};

// Bound to the thread that runs it (the creating thread until claim(), bind() or run_until()
// elsewhere); only post() and wake() may be called from other threads, and the rest checks that in
// every build. Never starts a thread.
class reactor {
 public:
  // Throws cordma::error (no_memory, operating_system) where descriptors cannot be had.
  explicit reactor(const reactor_options& options = {});
  ~reactor();
  reactor(const reactor&) = delete;
  reactor& operator=(const reactor&) = delete;

  // The reactor whose turn is running on this thread, or null.
  [[nodiscard]] static reactor* current() noexcept;
  [[nodiscard]] bool on_owner_thread() const noexcept {
    return owner_thread_.load(std::memory_order_relaxed) == detail::thread_identity;
  }
  // True in a child of fork(), for a reactor of its parent: only its destructor may be called.
  [[nodiscard]] bool inherited() const noexcept { return process_.inherited(); }
  // Why a call fails on this thread: bad_state in a child of fork(), else no_lock, with `rule` as its text.
  [[nodiscard]] failure wrong_thread(std::string_view rule) const noexcept;
  // Makes the calling thread the owner. Errors: no_lock while another thread runs it; bad_state from
  // inside one of its own turns, or in a child of fork().
  [[nodiscard]] result<void> claim() noexcept;
  // For destructors: the calling thread owns it from here on, unless another one runs it. REQUIRES that none does.
  // False in a child of fork(): there a destructor gives back what is the child's own, and touches nothing shared.
  bool enter_to_destroy() noexcept;
  // For calls without a result: false in a child of fork(), where such a call does nothing. REQUIRES the owner thread.
  [[nodiscard]] bool enter() const noexcept {
    if (on_owner_thread()) return true;
    CORDMA_REQUIRE(inherited());
    return false;
  }
  // As claim(), where neither can happen: REQUIRES that it is not running.
  void bind() noexcept;

  [[nodiscard]] wait_mode mode() const noexcept { return options_.mode; }
  [[nodiscard]] clock& time() noexcept { return time_.get(); }
  [[nodiscard]] time_point now() noexcept { return time_.now(); }
  [[nodiscard]] const reactor_counters& counters() const noexcept { return counters_; }
  // Adaptive mode: the cost of one wake-up as measured, and the current budget of a spin.
  [[nodiscard]] duration wake_cost() const noexcept { return idleness_.budget().wake_cost(); }
  [[nodiscard]] duration spin_budget() const noexcept { return idleness_.budget().get(); }

  // One pass: pollers, inbox, timers, then what was ready. True if anything happened; false in a child of fork().
  // Never waits. REQUIRES not called from inside a turn.
  bool turn() noexcept;
  // The same, for whoever turns by hand: how many things happened, 0 where nothing was there. Errors:
  // bad_state from inside a turn or in a child of fork(), no_lock from a thread that does not own it.
  result<std::size_t> poll() noexcept;
  // Turns, and waits between them as the mode says, until `done(context)`; checked every pass.
  // Returns shutdown after stop(); no_lock and bad_state as claim() does; bad_state as well where, in
  // virtual time, nothing can ever happen again.
  result<void> run_until(bool (*done)(void*) noexcept, void* context) noexcept;
  // Ends run_until() at its next pass. Owner thread only (from others: post it).
  void stop() noexcept { stop_requested_ = true; }

  // The item runs in the next pass; in a child of fork(), never. REQUIRES the owner thread.
  void ready(ready_item& item) noexcept {
    CORDMA_REQUIRE(on_owner_thread() || inherited());
    ready_.push_back(item);
    stir();
  }
  // The same, out of the list that the item may be in. REQUIRES that a poll of the reactor calls it.
  void ready_in_poll(ready_item& item) noexcept {
    if (item.linked()) {
      ready_from_list(item);
    } else {
      ready_.push_back(item);
    }
  }
  void ready_from_list(ready_item& item) noexcept { ready_.move_back(item); }
  // Whoever does something on the owner thread while a foreign loop waits for fd() says so: the wait
  // ends. Costs nothing otherwise.
  void stir() noexcept {
    if (armed_) wake_once();
  }
  // A poller that asks the kernel only now and then asks in the next pass.
  void expect_work() noexcept { work_expected_ = true; }
  [[nodiscard]] bool take_expectation() noexcept { return std::exchange(work_expected_, false); }
  // Drops `r` when the reactor is destroyed, unless it was unlinked before.
  void keep(resident& r) noexcept { residents_.push_back(r); }
  void add(timer& t, time_point when) noexcept;
  void remove(timer& t) noexcept;
  // not_supported where the mode may sleep and the poller cannot wake a sleeper, naming it.
  result<void> add(poller& p);
  void remove(poller& p) noexcept;
  // The tasks on it, by the order of their start.
  [[nodiscard]] list<running_task>& tasks() noexcept { return reports_.tasks(); }
  void add(report_section& s) noexcept { reports_.add(s); }
  // Null: epoll_wait. At most one at a time.
  void set_sleeper(sleeper* s) noexcept { sleeper_ = s; }

  // Any thread. The item runs on the owner thread. Lock-free.
  void post(inbox_item& item) noexcept;
  // Any thread; allocates. `work()` must not throw. Destroyed without having run where the reactor is
  // destroyed first.
  template <class Work>
    requires std::invocable<Work&>
  void post(Work work);
  // Any thread, and signal handlers: the current or next wait returns.
  void wake() noexcept;

  // For a foreign loop (epoll, Asio, io_uring): turn() until it returns false, then prepare_wait();
  // if that says armed, wait until fd() is readable, call finish_wait() and begin again. In a child of fork() the
  // set of descriptors is the parent's, and both do nothing.
  [[nodiscard]] int fd() const noexcept { return waits_.fd(); }
  arm_state prepare_wait() noexcept;
  void finish_wait() noexcept;

  // Its state, its timers, descriptors and sections, and each suspended coroutine with the chain of its callers, in at
  // most 200 lines. Allocates nothing and takes no lock: a signal handler on the thread of the reactor may call it at any
  // time. A list that was just being changed is reported, and not walked. REQUIRES the owner thread.
  void dump(int fd = 2) noexcept;
  void dump(dump_writer& out) noexcept;
  // Records from now on, if the process has a trace file. Throws std::bad_alloc.
  void start_tracing();
  // Null: it does not record.
  [[nodiscard]] trace_ring* trace() noexcept { return trace_.get(); }
  // The time of the last wake-up or of the last 1024th pass, whichever is later.
  [[nodiscard]] coarse_time coarse_now() const noexcept { return time_.coarse(); }
  // How long ago that was, at least.
  [[nodiscard]] duration since(coarse_time then) noexcept { return time_.since(then); }

  // Completing without suspending is free; doing so for ever would starve everybody else. True if
  // the caller may go on, false if it should pass through the ready list first.
  [[nodiscard]] bool may_continue_inline() noexcept { return --inline_budget_ > 0; }

 private:
  static constexpr int inline_budget_per_turn = 256;

  std::size_t pass() noexcept;
  std::size_t poll_all() noexcept;
  // These and `work`.
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
  ready_item end_of_pass_{nullptr};  // behind what this pass runs
  list<resident> residents_;
  std::vector<poller*> pollers_;
  std::size_t poller_count_ = 0;  // its size, which every pass reads
  detail::timer_heap timers_;
  int inline_budget_ = inline_budget_per_turn;
  detail::wait_set waits_;
  sleeper* sleeper_ = nullptr;
  reactor* outer_ = nullptr;  // in whose turn this one's is
  process_mark process_;
  std::atomic<std::uint64_t> owner_thread_;
  std::atomic<bool> running_{false};  // inside run_until()
  bool in_turn_ = false;
  bool own_timer_only_ = false;  // all that the last pass found to do
  bool armed_ = false;
  bool stop_requested_ = false;
  bool stuck_ = false;
  bool work_expected_ = false;

  detail::idleness idleness_;    // adaptive
  unsigned turns_to_clock_ = 0;  // turns until timers look at the clock again
  reactor_counters counters_;

  bool changing_ = false;  // pollers_, or the heap of timers
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

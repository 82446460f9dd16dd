#include <cordma/runtime/reactor.hpp>

#include <cordma/runtime/live_reactors.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>
#include <utility>

#include <sys/epoll.h>

namespace cordma {
namespace {

thread_local reactor* current_reactor = nullptr;

// If timers are pending, the clock is read once in this number of passes with work, or of passes
// without: reading it takes as long as a pass.
constexpr unsigned busy_turns_per_clock = 16;
constexpr unsigned idle_turns_per_clock = 32;
constexpr int most_ready_per_turn = 1024;
constexpr int most_events_per_wait = 8;
constexpr duration longest_measured_wake = std::chrono::microseconds(50);
constexpr duration shortest_measured_wake = std::chrono::microseconds(2);
// Adaptive mode measures one sleep in this number: the cost of a wake-up changes with the load of
// the machine.
constexpr unsigned sleeps_per_measurement = 8;
duration read_clock(clockid_t which) noexcept {
  timespec t{};
  clock_gettime(which, &t);
  return duration(t.tv_sec * 1'000'000'000LL + t.tv_nsec);
}

// `sleeper`: the CPU time of the side that slept. The other half of a wake-up is the waker's:
// writing the eventfd and the interrupt that follows.
duration wake_cost_from(duration sleeper) noexcept {
  return std::clamp(2 * sleeper, shortest_measured_wake, longest_measured_wake);
}

// Set while this object lives; read by a signal handler on this thread.
class being_changed {
 public:
  explicit being_changed(bool& flag) noexcept : flag_(flag) {
    flag_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  being_changed(const being_changed&) = delete;
  being_changed& operator=(const being_changed&) = delete;
  ~being_changed() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    flag_ = false;
  }

 private:
  bool& flag_;
};

// Measures short sleeps: the CPU time of this thread (falling asleep, waking up, the switch), and
// how late it runs again.
spin_budget measure_wake_cost(const detail::wait_set& waits) noexcept {
  constexpr int rounds = 8;
  constexpr duration nap = std::chrono::microseconds(20);
  std::array<duration, rounds> cpu{};
  duration latency = longest_measured_wake;
  for (duration& spent : cpu) {
    const duration set_at = read_clock(CLOCK_MONOTONIC);
    waits.set_timer(nap);
    const duration before = read_clock(CLOCK_THREAD_CPUTIME_ID);
    epoll_event e{};
    epoll_wait(waits.fd(), &e, 1, 5);
    spent = read_clock(CLOCK_THREAD_CPUTIME_ID) - before;
    latency = std::min(latency, read_clock(CLOCK_MONOTONIC) - set_at - nap);
  }
  std::nth_element(cpu.begin(), cpu.begin() + rounds / 2, cpu.end());
  return spin_budget(wake_cost_from(cpu[rounds / 2]), std::max(latency, duration::zero()));
}

}  // namespace

std::string_view name(wait_mode mode) noexcept {
  switch (mode) {
    case wait_mode::polling: return "polling";
    case wait_mode::event: return "event";
    case wait_mode::adaptive: return "adaptive";
  }
  return "?";
}

result<wait_mode> parse_wait_mode(std::string_view text) {
  for (wait_mode m : {wait_mode::polling, wait_mode::event, wait_mode::adaptive}) {
    if (text == name(m)) return m;
  }
  return failure{errc::invalid_value, "waiting mode \"" + std::string(text) +
                                          "\" is unknown: use polling, event or adaptive"};
}

timer::~timer() {
  if (owner_ != nullptr) owner_->remove(*this);
}

reactor::reactor(const reactor_options& options)
    : options_(options), time_(options.time), owner_thread_(detail::name_thread()) {
  pollers_.reserve(8);
  if (options_.mode == wait_mode::adaptive) {
    if (options_.spin_limit >= duration::zero()) {
      idleness_.limit(options_.spin_limit);
    } else if (time_.real()) {
      idleness_.set_measured(measure_wake_cost(waits_));
    }
  }
  entry_ = detail::enter_table(*this);
}

reactor::~reactor() {
  CORDMA_REQUIRE(!in_turn_);
  const auto thread = entry_ != nullptr ? static_cast<std::uint64_t>(entry_->thread.load()) : 0;
  detail::leave_table(entry_);  // from here on no other thread writes the trace
  if (trace_ != nullptr && !inherited()) trace_->write(thread);
  inbox_.drop();
  while (!residents_.empty()) {
    resident& r = residents_.pop_front();
    r.drop_(r);
  }
  while (timers_.first() != nullptr) remove(*timers_.first());
}

void reactor::start_tracing() {
  if (trace_ != nullptr || !is_tracing()) return;
  trace_ = std::make_unique<trace_ring>(time_.real() ? nullptr : &time_.get());
}

reactor* reactor::current() noexcept { return current_reactor; }

result<void> reactor::claim() noexcept {
  if (on_owner_thread()) {
    if (!in_turn_ && !running_.load(std::memory_order_relaxed)) return {};
    return failure{errc::bad_state,
                   "a reactor cannot be run from inside one of its own coroutines"};
  }
  if (inherited() || running_.load(std::memory_order_acquire)) {
    return wrong_thread("the reactor is running on another thread");
  }
  owner_thread_.store(detail::name_thread(), std::memory_order_relaxed);
  detail::change_thread(entry_);
  return {};
}

failure reactor::wrong_thread(std::string_view rule) const noexcept {
  return inherited() ? made_before_fork() : failure::of(errc::no_lock, {rule});
}

bool reactor::enter_to_destroy() noexcept {
  if (on_owner_thread()) return true;
  if (inherited()) return false;
  bind();
  return true;
}

void reactor::bind() noexcept { CORDMA_REQUIRE(claim().ok()); }

bool reactor::turn() noexcept {
  if (!enter()) return false;
  CORDMA_REQUIRE(!in_turn_);
  return pass() != 0;
}

result<std::size_t> reactor::poll() noexcept {
  if (!on_owner_thread()) return wrong_thread("a reactor may only be used on its own thread");
  if (in_turn_) return errc::bad_state;
  return pass();
}

[[gnu::always_inline]] inline std::size_t reactor::pass() noexcept {
  in_turn_ = true;
  own_timer_only_ = false;
  outer_ = std::exchange(current_reactor, this);
  inline_budget_ = inline_budget_per_turn;
  std::size_t work = poll_all();
  if (!inbox_.empty()) [[unlikely]]
    work += run_inbox();
  if (timers_.first() != nullptr && is_clock_due()) [[unlikely]]
    work += fire_timers(work == 0);
  if (!ready_.empty()) {
    ++work;
    run_first_ready();
    if (end_of_pass_.linked()) [[unlikely]]
      work += run_ready_to_the_end();
  }
  current_reactor = outer_;
  in_turn_ = false;
  ++counters_.turns;
  time_.count_pass();
  if (work != 0) [[likely]]
    return work;
  ++counters_.idle_turns;
  return 0;
}

std::size_t reactor::poll_all() noexcept {
  std::size_t work = 0;
  // By index: a poller may be added from within poll().
  for (std::size_t i = 0; i < poller_count_; ++i) work += pollers_[i]->poll();
  return work;
}

[[gnu::noinline]] std::size_t reactor::run_inbox() noexcept {
  const std::size_t work = inbox_.run();
  counters_.inbox_items += work;
  return work;
}

// Items that become ready meanwhile wait for the next pass, behind the pollers.
[[gnu::always_inline]] inline void reactor::run_first_ready() noexcept {
  ready_item& first = ready_.pop_front();
  ++counters_.resumes;
  if (!ready_.empty()) ready_.push_back(end_of_pass_);
  first.run_(first);
}

[[gnu::noinline]] std::size_t reactor::run_ready_to_the_end() noexcept {
  std::size_t work = 0;
  while (&ready_.front() != &end_of_pass_ && work + 1 < most_ready_per_turn) {
    ready_item& item = ready_.pop_front();
    ++work;
    item.run_(item);
  }
  end_of_pass_.unlink();
  counters_.resumes += work;
  return work;
}

result<void> reactor::run_until(bool (*done)(void*) noexcept, void* context) noexcept {
  const result<void> mine = claim();
  if (!mine) return mine;
  struct running {
    explicit running(std::atomic<bool>& f) noexcept : flag(f) { flag.store(true); }
    ~running() { flag.store(false); }
    std::atomic<bool>& flag;
  } const guard(running_);
  stop_requested_ = false;
  stuck_ = false;
  while (!done(context)) {
    if (stop_requested_) return failure{errc::shutdown};
    if (turn()) {
      if (idleness_.has_begun()) came_to_life();
      continue;
    }
    // A coroutine may have forked, and this process may be the child.
    if (inherited()) return wrong_thread({});
    if (done(context)) break;
    idle();
    if (stuck_) return deadlock();
  }
  return {};
}

void reactor::idle() noexcept {
  if (skip_to_next_timer()) return;
  switch (options_.mode) {
    // No pause: a pass without work takes longer than a pause, which would delay the next message.
    case wait_mode::polling: return;
    case wait_mode::event: sleep_once(); return;
    case wait_mode::adaptive: break;
  }
  if (idleness_.ends_in_sleep(time_.get(), timers_.first())) sleep_once();
}

bool reactor::skip_to_next_timer() noexcept {
  if (time_.real()) return false;
  if (!ready_.empty() || !inbox_.empty()) return true;
  if (timers_.first() == nullptr) {
    // Another thread may still post; a program that combines threads with virtual time keeps a
    // timer pending.
    stuck_ = time_.get().advance_to(time_.now());
    return stuck_;
  }
  turns_to_clock_ = 0;
  const bool advanced = time_.get().advance_to(timers_.first()->when_);
  time_.read_coarse();
  return advanced;
}

arm_state reactor::prepare_wait() noexcept {
  if (inherited()) return arm_state::armed;
  CORDMA_REQUIRE(!in_turn_);
  if (!ready_.empty() || !inbox_.empty()) return arm_state::busy;
  if (options_.before_sleep != nullptr) options_.before_sleep(options_.before_sleep_context);
  ++counters_.arms;
  arm_state state = arm_state::armed;
  for (poller* p : pollers_) {
    if (p->arm() == arm_state::busy) state = arm_state::busy;
  }
  inbox_.begin_wait();
  if (state == arm_state::armed) {
    if (options_.before_sleep != nullptr) options_.before_sleep(options_.before_sleep_context);
    reactor* const outer = std::exchange(current_reactor, this);
    const std::size_t found = poll_all();
    current_reactor = outer;
    if (found != 0 || !ready_.empty() || inbox_.ends_wait()) {
      ++counters_.late_work;
      state = arm_state::busy;
    }
  }
  if (state == arm_state::busy) {
    end_wait();
  } else {
    armed_ = true;  // not before: work that this poll made ready needs no wake-up
    arm_timer_fd();
  }
  if (trace_ != nullptr) [[unlikely]]
    trace_wait(state);
  return state;
}

void reactor::trace_wait(arm_state state) noexcept {
  const bool armed = state == arm_state::armed;
  trace_->add(trace_point::arm, armed ? "armed" : "busy", this, pollers_.size());
  if (armed) trace_->add(trace_point::sleep, "sleep", this);
}

void reactor::trace_wake() noexcept { trace_->add(trace_point::wake, "wake", this); }

void reactor::finish_wait() noexcept {
  if (!armed_ || inherited()) return;
  // The foreign loop that waited on fd() saw it readable and consumed nothing. Without this call it
  // would stay readable for ever: the eventfd and the timerfd are watched for edges and never read.
  epoll_event events[most_events_per_wait];
  epoll_wait(waits_.fd(), events, most_events_per_wait, 0);
  end_wait();
}

void reactor::end_wait() noexcept {
  if (trace_ != nullptr && armed_) [[unlikely]]
    trace_wake();
  armed_ = false;
  inbox_.end_wait();
  turns_to_clock_ = 0;
  for (poller* p : pollers_) p->disarm();
  time_.read_coarse();
}

void reactor::sleep_once() noexcept {
  if (prepare_wait() == arm_state::busy) return;
  ++counters_.sleeps;
  idleness_.note_sleep();
  if (sleeper_ != nullptr) {
    reactor* const outer = std::exchange(current_reactor, this);
    sleeper_->sleep(waits_.fd());
    current_reactor = outer;
    ++counters_.wakeups;
    finish_wait();
    return;
  }
  const bool measured = idleness_.measured() && counters_.sleeps % sleeps_per_measurement == 0;
  const duration before = measured ? read_clock(CLOCK_THREAD_CPUTIME_ID) : duration::zero();
  epoll_event events[most_events_per_wait];
  const bool woken = epoll_wait(waits_.fd(), events, most_events_per_wait, -1) > 0;
  if (measured) {
    idleness_.wake_up_took(wake_cost_from(read_clock(CLOCK_THREAD_CPUTIME_ID) - before));
  }
  ++(woken ? counters_.wakeups : counters_.spurious);
  end_wait();
}

void reactor::arm_timer_fd() noexcept {
  timer* const first = timers_.first();
  if (first != nullptr && !inherited()) waits_.wake_at(first->when_, time_.now());
}

void reactor::came_to_life() noexcept { idleness_.end(time_.get(), own_timer_only_); }

void reactor::post(inbox_item& item) noexcept {
  if (inbox_.add(item)) wake();
}

void reactor::wake() noexcept {
  if (inherited()) return;
  inbox_.ask_to_wake();
  waits_.wake();
}

void reactor::wake_once() noexcept {
  if (!inbox_.asked_to_wake()) wake();
}

result<void> reactor::add(poller& p) {
  const being_changed mark(changing_);
  pollers_.push_back(&p);
  ++poller_count_;
  if (p.wait_fd() < 0) {
    if (p.wait_fd() == poller::cannot_wake && options_.mode != wait_mode::polling) {
      pollers_.pop_back();
      --poller_count_;
      return failure{errc::not_supported, std::string("the ") + p.name() +
                                              " source cannot wake a sleeper: use a reactor in "
                                              "polling mode"};
    }
  } else if (!waits_.add(p.wait_fd(), p.edge_triggered())) {
    const int saved = errno;
    pollers_.pop_back();
    --poller_count_;
    return failure::from_os(saved, {"watching the descriptor of the ", p.name(),
                                    " source (limit: fs.epoll.max_user_watches)"});
  }
  return {};
}

void reactor::remove(poller& p) noexcept {
  const auto at = std::find(pollers_.begin(), pollers_.end(), &p);
  if (at == pollers_.end()) return;
  const being_changed mark(changing_);
  pollers_.erase(at);
  --poller_count_;
  // A child of fork() shares the set with its parent.
  if (p.wait_fd() < 0 || inherited()) return;
  waits_.remove(p.wait_fd());
}

void reactor::add(timer& t, time_point when) noexcept {
  if (t.owner_ != nullptr) t.owner_->remove(t);
  const being_changed mark(changing_);
  t.owner_ = this;
  timers_.add(t, when);
  if (armed_ && timers_.first() == &t) arm_timer_fd();
}

void reactor::remove(timer& t) noexcept {
  if (t.owner_ == nullptr) return;
  CORDMA_ASSERT(t.owner_ == this);
  const being_changed mark(changing_);
  t.owner_ = nullptr;
  timers_.remove(t);
}

// `alone`: this pass has found nothing else.
[[gnu::noinline]] std::size_t reactor::fire_timers(bool alone) noexcept {
  turns_to_clock_ = ready_.empty() ? idle_turns_per_clock : busy_turns_per_clock;
  if (!time_.real()) turns_to_clock_ = 0;
  const time_point now = time_.now();
  std::size_t work = 0;
  while (timers_.first() != nullptr && timers_.first()->when_ <= now) {
    timer& t = *timers_.first();
    remove(t);
    ++work;
    t.fire_(t);
  }
  counters_.timers_fired += work;
  own_timer_only_ = alone && work != 0;
  return work;
}

}  // namespace cordma

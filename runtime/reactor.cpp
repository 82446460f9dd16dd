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
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace cordma {
namespace {

thread_local reactor* current_reactor = nullptr;

// With timers pending, the clock is read once in so many passes that found work, and so many that
// did not: reading it costs as much as a pass.
constexpr unsigned busy_turns_per_clock = 16;
constexpr unsigned idle_turns_per_clock = 32;
constexpr int most_ready_per_turn = 1024;
constexpr int most_events_per_wait = 8;
constexpr duration longest_measured_wake = std::chrono::microseconds(50);
constexpr duration shortest_measured_wake = std::chrono::microseconds(2);
// Adaptive mode asks only every so many passes without work how long it has waited, so that what comes
// soon is found as soon as by polling: as many as take about a sixteenth of a wake-up.
constexpr unsigned first_turns_per_look = 8;
constexpr unsigned most_turns_per_look = 64;
constexpr int looks_per_wake_up = 16;
// Adaptive mode measures one sleep in so many: what a wake-up costs changes with what else runs.
constexpr unsigned sleeps_per_measurement = 8;
// The coarse time is read once in as many passes, beside each end of a wait.
constexpr std::uint16_t passes_per_coarse_time = 1024;

duration read_clock(clockid_t which) noexcept {
  timespec t{};
  clock_gettime(which, &t);
  return duration(t.tv_sec * 1'000'000'000LL + t.tv_nsec);
}

// `sleeper`: the CPU time of the side that slept. The other half of a wake-up is the waker's: writing
// the eventfd and the interrupt it sends.
duration wake_cost_from(duration sleeper) noexcept {
  return std::clamp(2 * sleeper, shortest_measured_wake, longest_measured_wake);
}

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Set while it lives, as a signal handler on this thread sees it.
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

int watch(int epoll_fd, int fd, bool edge) noexcept {
  epoll_event e{};
  e.events = edge ? (EPOLLIN | static_cast<std::uint32_t>(EPOLLET)) : EPOLLIN;
  e.data.fd = fd;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
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
    : options_(options),
      clock_(options.time != nullptr ? options.time : &real_clock()),
      real_time_(clock_ == &real_clock()),
      owner_thread_(detail::name_thread()),
      turns_per_look_(first_turns_per_look),
      made_at_(tick_pair::now()) {
  read_coarse_time();
  pollers_.reserve(8);
  epoll_fd_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (epoll_fd_) event_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event_fd_) timer_fd_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_fd_ || watch(epoll_fd_.get(), event_fd_.get(), true) != 0 ||
      watch(epoll_fd_.get(), timer_fd_.get(), true) != 0) {
    throw_error(failure::from_os(errno, "creating a reactor, which needs three file descriptors"));
  }
  if (options_.mode == wait_mode::adaptive) {
    if (options_.spin_limit >= duration::zero()) {
      spin_ = cordma::spin_budget::at_most(options_.spin_limit);
    } else if (real_time_) {
      measure_wake_cost();
    }
  }
  entry_ = detail::enter_table(*this);
}

reactor::~reactor() {
  CORDMA_REQUIRE(!in_turn_);
  const auto thread = entry_ != nullptr ? static_cast<std::uint64_t>(entry_->thread.load()) : 0;
  detail::leave_table(entry_);  // from here on no other thread writes the trace
  if (trace_ != nullptr && !inherited()) trace_->write(thread);
  for (inbox_item* item = inbox_.exchange(nullptr); item != nullptr;) {
    inbox_item* next = item->next_;
    if (item->drop_ != nullptr) item->drop_(*item);
    item = next;
  }
  while (!residents_.empty()) {
    resident& r = residents_.pop_front();
    r.drop_(r);
  }
  while (first_timer_ != nullptr) remove(*first_timer_);
}

void reactor::start_tracing() {
  if (trace_ != nullptr || !is_tracing()) return;
  trace_ = std::make_unique<trace_ring>(real_time_ ? nullptr : clock_);
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
  outer_ = std::exchange(current_reactor, this);
  inline_budget_ = inline_budget_per_turn;
  own_timer_only_ = false;
  std::size_t work = poll_all();
  if (!inbox_empty() || first_timer_ != nullptr) work = run_inbox_and_timers(work);
  if (!ready_.empty()) work += run_ready();
  current_reactor = outer_;
  in_turn_ = false;
  ++counters_.turns;
  if (--passes_to_coarse_time_ == 0) [[unlikely]]
    read_coarse_time();
  if (work == 0) ++counters_.idle_turns;
  return work;
}

[[gnu::noinline]] std::size_t reactor::run_inbox_and_timers(std::size_t work) noexcept {
  work += run_inbox();
  const std::size_t fired = fire_timers();
  own_timer_only_ = work == 0 && fired != 0;
  return work + fired;
}

std::size_t reactor::poll_all() noexcept {
  std::size_t work = 0;
  // By index: a poller may be added from within poll().
  for (std::size_t i = 0; i < poller_count_; ++i) work += pollers_[i]->poll();
  return work;
}

std::size_t reactor::run_inbox() noexcept {
  if (inbox_empty()) return 0;
  inbox_item* newest = inbox_.exchange(nullptr, std::memory_order_acquire);
  inbox_item* oldest = nullptr;
  while (newest != nullptr) {  // the stack is newest first; run in the order of posting
    inbox_item* next = newest->next_;
    newest->next_ = oldest;
    oldest = newest;
    newest = next;
  }
  std::size_t work = 0;
  while (oldest != nullptr) {
    inbox_item* next = oldest->next_;
    oldest->run_(*oldest);
    oldest = next;
    ++work;
  }
  counters_.inbox_items += work;
  return work;
}

// What becomes ready meanwhile waits for the next pass, behind the pollers.
[[gnu::always_inline]] inline std::size_t reactor::run_ready() noexcept {
  ready_item& first = ready_.pop_front();
  ++counters_.resumes;
  if (!ready_.empty()) ready_.push_back(end_of_pass_);
  first.run_(first);
  return end_of_pass_.linked() ? 1 + run_ready_to_the_end() : 1;
}

std::size_t reactor::run_ready_to_the_end() noexcept {
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
      if (idle_turns_ != 0) came_to_life();
      continue;
    }
    // A coroutine may have forked, and this be the child.
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
    // No pause: a pass without work takes longer than one, and the next message pays for it.
    case wait_mode::polling: return;
    case wait_mode::event: sleep_once(); return;
    case wait_mode::adaptive: break;
  }
  // There is a power of two of them.
  const bool looks = (++idle_turns_ & (turns_per_look_ - 1)) == 0;
  if (!looks && !slept_ && spin_.get() > duration::zero()) return;
  const time_point now = clock_->now();
  if (idle_since_ == never) {
    idle_since_ = now;
    spin_.work_came_at_once(std::exchange(short_waits_, 0));
  } else if (looks && !slept_) {
    adapt_looks(now - looked_at_);
  }
  looked_at_ = now;
  // Its own next timer it need not guess.
  const bool timer_is_near =
      first_timer_ != nullptr && first_timer_->when_ - now < spin_.wake_cost();
  if (now - idle_since_ < spin_.get() || timer_is_near) {
    relax();
    return;
  }
  sleep_once();
}

// The last `turns_per_look_` passes took so long.
void reactor::adapt_looks(duration took) noexcept {
  const duration wanted = spin_.wake_cost() / looks_per_wake_up;
  if (took < wanted / 2 && turns_per_look_ < most_turns_per_look) turns_per_look_ *= 2;
  if (took > wanted && turns_per_look_ > 1) turns_per_look_ /= 2;
}

bool reactor::skip_to_next_timer() noexcept {
  if (real_time_) return false;
  if (!ready_.empty() || !inbox_empty()) return true;
  if (first_timer_ == nullptr) {
    // Another thread may still post; whoever mixes threads with virtual time keeps a timer pending.
    stuck_ = clock_->advance_to(clock_->now());
    return stuck_;
  }
  turns_to_clock_ = 0;
  const bool advanced = clock_->advance_to(first_timer_->when_);
  read_coarse_time();
  return advanced;
}

void reactor::read_coarse_time() noexcept {
  passes_to_coarse_time_ = passes_per_coarse_time;
  coarse_now_ = static_cast<coarse_time>(fine_now() >> coarse_shift);
}

arm_state reactor::prepare_wait() noexcept {
  if (inherited()) return arm_state::armed;
  CORDMA_REQUIRE(!in_turn_);
  if (!ready_.empty() || !inbox_empty()) return arm_state::busy;
  if (options_.before_sleep != nullptr) options_.before_sleep(options_.before_sleep_context);
  ++counters_.arms;
  arm_state state = arm_state::armed;
  for (poller* p : pollers_) {
    if (p->arm() == arm_state::busy) state = arm_state::busy;
  }
  sleeping_.store(true, std::memory_order_seq_cst);
  if (state == arm_state::armed) {
    if (options_.before_sleep != nullptr) options_.before_sleep(options_.before_sleep_context);
    reactor* const outer = std::exchange(current_reactor, this);
    const std::size_t found = poll_all();
    current_reactor = outer;
    // The other half of what post() does: both sides seq_cst, so that one of them sees the other.
    if (found != 0 || !ready_.empty() || inbox_.load(std::memory_order_seq_cst) != nullptr ||
        wake_requested_.load(std::memory_order_seq_cst)) {
      ++counters_.late_work;
      state = arm_state::busy;
    }
  }
  if (state == arm_state::busy) {
    end_wait();
  } else {
    armed_ = true;  // not before: what that poll made ready need not wake anybody
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
  // Whoever waited on fd() saw it readable and took nothing out of it: without this it would stay
  // so for ever, for the eventfd and the timerfd are watched for edges and never read.
  epoll_event events[most_events_per_wait];
  epoll_wait(epoll_fd_.get(), events, most_events_per_wait, 0);
  end_wait();
}

void reactor::end_wait() noexcept {
  if (trace_ != nullptr && armed_) [[unlikely]]
    trace_wake();
  armed_ = false;
  sleeping_.store(false, std::memory_order_relaxed);
  wake_requested_.exchange(false, std::memory_order_acq_rel);
  turns_to_clock_ = 0;
  for (poller* p : pollers_) p->disarm();
  read_coarse_time();
}

void reactor::sleep_once() noexcept {
  if (prepare_wait() == arm_state::busy) return;
  ++counters_.sleeps;
  slept_ = true;
  if (sleeper_ != nullptr) {
    reactor* const outer = std::exchange(current_reactor, this);
    sleeper_->sleep(epoll_fd_.get());
    current_reactor = outer;
    ++counters_.wakeups;
    finish_wait();
    return;
  }
  const bool measured = wake_cost_measured_ && counters_.sleeps % sleeps_per_measurement == 0;
  const duration before = measured ? read_clock(CLOCK_THREAD_CPUTIME_ID) : duration::zero();
  epoll_event events[most_events_per_wait];
  const bool woken = epoll_wait(epoll_fd_.get(), events, most_events_per_wait, -1) > 0;
  if (measured) {
    spin_.wake_up_took(wake_cost_from(read_clock(CLOCK_THREAD_CPUTIME_ID) - before));
  }
  ++(woken ? counters_.wakeups : counters_.spurious);
  end_wait();
}

void reactor::arm_timer_fd() noexcept {
  // One timerfd rather than a timeout, so that a foreign loop that waits on fd() is woken as well.
  if (first_timer_ == nullptr || inherited()) return;
  // Set already, and not fired yet: saves a system call in every sleep of a worker whose keep-alive
  // timers stand far off.
  const time_point when = first_timer_->when_;
  const time_point now = clock_->now();
  if (when == timer_fd_set_to_ && when > now) return;
  timer_fd_set_to_ = when;
  const duration left = std::max(when - now, duration(1));
  itimerspec spec{};
  spec.it_value.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
  spec.it_value.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
  timerfd_settime(timer_fd_.get(), 0, &spec, nullptr);
}

void reactor::came_to_life() noexcept {
  idle_turns_ = 0;
  if (idle_since_ == never) {
    if (!own_timer_only_) ++short_waits_;
    return;
  }
  const duration gap = clock_->now() - idle_since_;
  if (own_timer_only_) {
    spin_.own_timer_fired(gap);
  } else if (slept_) {
    spin_.work_came_while_asleep(gap);
  } else {
    spin_.work_came_while_awake(gap);
  }
  idle_since_ = never;
  slept_ = false;
}

void reactor::measure_wake_cost() noexcept {
  // Over short sleeps: the CPU time of this thread (going to sleep, being woken, the switch), and how
  // late it runs again.
  constexpr int rounds = 8;
  constexpr long nap_ns = 20'000;
  std::array<duration, rounds> cpu{};
  duration latency = longest_measured_wake;
  for (duration& spent : cpu) {
    itimerspec spec{};
    spec.it_value.tv_nsec = nap_ns;
    const duration set_at = read_clock(CLOCK_MONOTONIC);
    timerfd_settime(timer_fd_.get(), 0, &spec, nullptr);
    const duration before = read_clock(CLOCK_THREAD_CPUTIME_ID);
    epoll_event e{};
    epoll_wait(epoll_fd_.get(), &e, 1, 5);
    spent = read_clock(CLOCK_THREAD_CPUTIME_ID) - before;
    latency = std::min(latency, read_clock(CLOCK_MONOTONIC) - set_at - duration(nap_ns));
  }
  std::nth_element(cpu.begin(), cpu.begin() + rounds / 2, cpu.end());
  spin_ = cordma::spin_budget(wake_cost_from(cpu[rounds / 2]), std::max(latency, duration::zero()));
  wake_cost_measured_ = true;
}

void reactor::post(inbox_item& item) noexcept {
  inbox_item* head = inbox_.load(std::memory_order_relaxed);
  do {
    item.next_ = head;
  } while (!inbox_.compare_exchange_weak(head, &item, std::memory_order_seq_cst));
  // The sleeper sets sleeping_ before it looks at the inbox for the last time, both seq_cst: one of
  // the two sides sees the other.
  if (sleeping_.load(std::memory_order_seq_cst)) wake();
}

void reactor::wake() noexcept {
  if (inherited()) return;
  const int saved = errno;
  wake_requested_.store(true, std::memory_order_seq_cst);
  const std::uint64_t one = 1;
  // The counter cannot overflow in practice, and EAGAIN would mean that it is readable anyway.
  [[maybe_unused]] const auto n = ::write(event_fd_.get(), &one, sizeof one);
  errno = saved;
}

void reactor::wake_once() noexcept {
  if (!wake_requested_.load(std::memory_order_relaxed)) wake();
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
  } else if (watch(epoll_fd_.get(), p.wait_fd(), p.edge_triggered()) != 0) {
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
  epoll_ctl(epoll_fd_.get(), EPOLL_CTL_DEL, p.wait_fd(), nullptr);
}

bool reactor::earlier(const timer& a, const timer& b) noexcept {
  return a.when_ != b.when_ ? a.when_ < b.when_ : a.sequence_ < b.sequence_;
}

void reactor::add(timer& t, time_point when) noexcept {
  if (t.owner_ != nullptr) t.owner_->remove(t);
  const being_changed mark(changing_);
  t.owner_ = this;
  t.when_ = when;
  t.sequence_ = timer_sequence_++;
  first_timer_ = meld(first_timer_, &t);
  if (armed_ && first_timer_ == &t) arm_timer_fd();
}

void reactor::remove(timer& t) noexcept {
  if (t.owner_ == nullptr) return;
  CORDMA_ASSERT(t.owner_ == this);
  const being_changed mark(changing_);
  t.owner_ = nullptr;
  timer* const below = take_children(t);
  if (first_timer_ == &t) {
    first_timer_ = below;
    return;
  }
  (t.before_->child_ == &t ? t.before_->child_ : t.before_->next_) = t.next_;
  if (t.next_ != nullptr) t.next_->before_ = t.before_;
  t.next_ = t.before_ = nullptr;
  first_timer_ = meld(first_timer_, below);
}

timer* reactor::meld(timer* a, timer* b) noexcept {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (earlier(*b, *a)) std::swap(a, b);
  b->before_ = a;
  b->next_ = a->child_;
  if (a->child_ != nullptr) a->child_->before_ = b;
  a->child_ = b;
  return a;
}

// Two by two, then the pairs from the last to the first: that is what keeps the heap flat.
timer* reactor::take_children(timer& t) noexcept {
  timer* pairs = nullptr;
  for (timer* rest = std::exchange(t.child_, nullptr); rest != nullptr;) {
    timer* const a = rest;
    timer* const b = a->next_;
    rest = b != nullptr ? b->next_ : nullptr;
    a->next_ = a->before_ = nullptr;
    if (b != nullptr) b->next_ = b->before_ = nullptr;
    timer* const pair = meld(a, b);
    pair->next_ = std::exchange(pairs, pair);
  }
  timer* all = nullptr;
  while (pairs != nullptr) {
    timer* const pair = std::exchange(pairs, pairs->next_);
    pair->next_ = nullptr;
    all = meld(all, pair);
  }
  return all;
}

std::size_t reactor::fire_timers() noexcept {
  if (first_timer_ == nullptr) return 0;
  if (turns_to_clock_ > 0) {
    --turns_to_clock_;
    return 0;
  }
  turns_to_clock_ = ready_.empty() ? idle_turns_per_clock : busy_turns_per_clock;
  if (!real_time_) turns_to_clock_ = 0;
  const time_point now = clock_->now();
  std::size_t work = 0;
  while (first_timer_ != nullptr && first_timer_->when_ <= now) {
    timer& t = *first_timer_;
    remove(t);
    ++work;
    t.fire_(t);
  }
  counters_.timers_fired += work;
  return work;
}

}  // namespace cordma

// The client's half of a run.
#include "session.hpp"

#include "party.hpp"
#include "syscall_counter.hpp"
#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>

namespace perf {
namespace {

using cordma::task;

constexpr std::uint64_t unlimited = ~std::uint64_t{0};
constexpr std::uint64_t first_guess = 1;  // iterations, until their duration is known
constexpr double warm_share = 0.1;        // share of the duration for the warm-up
constexpr double longest_warm_s = 0.2;    // upper limit of the warm-up
constexpr double fastest_growth = 16;     // of the estimate from round to round
constexpr double chunk_s = 1;             // interval after which a run can be ended
constexpr double shortest_split_s = 2;    // shorter runs are not split
// time to calibrate the cycle counter if its rate is needed before the run
constexpr double calibration_s = 0.02;

// Sum of the costs of several phases.
struct costs {
  std::uint64_t count = 0;  // of each flow
  double elapsed_s = 0;
  double ticks = 0;
  usage client;
  closing server;
  std::int64_t syscalls = -1;  // of the client, as in closing
  [[nodiscard]] double ns_per_tick() const noexcept {
    return ticks > 0 ? elapsed_s * 1e9 / ticks : 0;
  }
};
void add(costs& sum, const costs& more) noexcept {
  sum.count += more.count;
  sum.elapsed_s += more.elapsed_s;
  sum.ticks += more.ticks;
  sum.client += more.client;
  usage server = sum.server.spent;
  server += more.server.spent;
  sum.server = more.server;
  sum.server.spent = server;
}

double pace_of_clock() noexcept {
  // The median of three: another process may have run between the readings of the two clocks.
  std::array<double, 3> found{};
  for (double& pace : found) {
    const instant from = now();
    instant to = now();
    while (static_cast<double>(to.ns - from.ns) < calibration_s * 1e9) to = now();
    pace = ns_per_tick(from, to);
  }
  std::ranges::sort(found);
  return found[1];
}

// The client's part of a run, step by step.
class client {
 public:
  client(party& p, channel& control, watcher& watch)
      : party_(p), control_(control), watch_(watch), what_(p.what) {}

  // Prepares the measurement: warms the caches, determines the number of iterations in the
  // duration, and the load if it is given as a share.
  task<void> prepare();
  // Runs the measured phases.
  task<costs> run();
  // Runs one more phase that only counts system calls.
  task<costs> count_syscalls();

  [[nodiscard]] double share_done() const noexcept;
  [[nodiscard]] std::uint64_t progress() const noexcept;
  [[nodiscard]] double load_hz() const noexcept { return load_hz_; }
  // Completed part when run() ended or failed.
  [[nodiscard]] const costs& measured() const noexcept { return measured_; }
  [[nodiscard]] bool measuring() const noexcept { return measuring_; }
  [[nodiscard]] costs cut_off() const noexcept;
  [[nodiscard]] bool interrupted() const noexcept { return interrupted_; }
  [[nodiscard]] const std::string& obstacle() const noexcept { return counter_.obstacle(); }
  void server_counts(bool it_does) noexcept { server_counts_ = it_does; }

 private:
  task<costs> phase(order o);
  [[nodiscard]] bool ended_early(std::uint64_t count) const noexcept;
  void flip_a_bit(std::uint64_t count) noexcept;
  task<double> measure_rate(std::uint64_t most);
  task<void> warm_up(std::uint64_t count);
  void clear_samples() noexcept;
  [[nodiscard]] std::uint64_t next_chunk() const noexcept;
  [[nodiscard]] static std::uint64_t chunk_at(double rate) noexcept;
  void set_load(double hz) noexcept;

  party& party_;
  channel& control_;
  watcher& watch_;
  const plan& what_;
  syscall_counter counter_;
  bool server_counts_ = false;
  double rate_ = 0;          // iterations per second of each flow; 0: unknown yet
  std::uint64_t count_ = 0;  // total of each flow; 0: limited by the duration
  double load_hz_ = 0;
  costs measured_;
  // For the watcher's thread, per flow: iterations of completed phases, and the expected total, if
  // known.
  std::atomic<std::uint64_t> done_before_{0};
  std::atomic<double> expected_{0};
  instant phase_began_;
  usage phase_before_;
  bool measuring_ = false;  // the measured phases have begun
  bool interrupted_ = false;
};

task<costs> client::phase(order o) {
  const test_facts& f = what_.facts();
  for (const std::unique_ptr<lane>& l : party_.lanes) {
    prepare_memory(*l);
    l->progress.store(0, std::memory_order_relaxed);
    l->ended_at = 0;
  }
  if (rate_ > 0) o.expected_s = static_cast<double>(o.count) / rate_;
  std::string go = encode(o);
  const std::string ready = co_await control_.ask(std::move(go));
  const cordma::reactor& loop = party_.worker().loop();
  const usage before = take_usage(loop);
  if (o.count_syscalls) counter_.start();
  const instant began = now();
  phase_began_ = began;
  phase_before_ = before;
  watch_.resume();
  cordma::recv_operation answer = control_.expect();
  // If messages are received, the receive of the response must be posted behind theirs.
  const bool comes_last = f.ping_pong() || f.form == pattern::both_ways;
  if (!comes_last) answer.start();
  co_await party_.run(client_side, o.count);
  instant ended = now();
  usage after = take_usage(loop);
  costs result;
  if (o.count_syscalls) result.syscalls = counter_.stop();
  if (!f.ends_at_server()) watch_.pause();
  if (comes_last) answer.start();
  const std::string over = encode(order{order::kind::stop, ended_early(o.count) ? 0 : o.count});
  cordma::send_operation stop = control_.tell(over);
  if (f.server_is_told()) co_await stop;
  const cordma::Received got = co_await answer;
  if (f.ends_at_server()) {
    ended = now();
    after = take_usage(loop);
    watch_.pause();
  }
  result.count = o.count;
  result.elapsed_s = static_cast<double>(ended.ns - began.ns) / 1e9;
  result.ticks = static_cast<double>(ended.ticks - began.ticks);
  result.client = after - before;
  result.server = decode_closing(control_.text(got));
  for (const std::unique_ptr<lane>& l : party_.lanes) {
    if (f.form == pattern::both_ways) inspect_memory(*l, o.count);
  }
  co_return result;
}

// True if an open loop was ended early for intermediate results.
bool client::ended_early(std::uint64_t count) const noexcept {
  if (!what_.open_loop()) return false;
  return std::ranges::any_of(party_.lanes, [count](const std::unique_ptr<lane>& l) {
    return l->progress.load(std::memory_order_relaxed) != count;
  });
}

// Costs of an unfinished phase on this side so far.
costs client::cut_off() const noexcept {
  costs c;
  c.count = progress() / what_.flows;
  const instant ended = now();
  c.elapsed_s = static_cast<double>(ended.ns - phase_began_.ns) / 1e9;
  c.ticks = static_cast<double>(ended.ticks - phase_began_.ticks);
  c.client = take_usage(party_.worker().loop()) - phase_before_;
  return c;
}

// Runs longer and longer phases until the number of iterations per second is known, or `most` are
// done.
task<double> client::measure_rate(std::uint64_t most) {
  const double enough = std::min(what_.duration_s * warm_share, longest_warm_s);
  std::uint64_t guess = std::min(first_guess, most);
  std::uint64_t done = 0;
  for (;;) {
    const costs p = co_await phase({.what = order::kind::run, .count = guess});
    done += guess;
    if (p.elapsed_s >= enough || done >= most || watch_.asked_to_stop()) {
      co_return static_cast<double>(guess) / p.elapsed_s;
    }
    const double growth = std::clamp(1.5 * enough / p.elapsed_s, 2.0, fastest_growth);
    guess = static_cast<std::uint64_t>(static_cast<double>(guess) * growth);
    guess = std::min(guess, most - done);
  }
}

// Runs the requested number of iterations.
task<void> client::warm_up(std::uint64_t count) {
  while (count != 0 && !watch_.asked_to_stop()) {
    const std::uint64_t now = what_.open_loop() ? count : std::min(count, chunk_at(rate_));
    const costs p = co_await phase({.what = order::kind::run, .count = now});
    // In the open loop this would be the load.
    if (p.elapsed_s > 0 && !what_.open_loop()) rate_ = static_cast<double>(now) / p.elapsed_s;
    count -= now;
  }
}

void client::set_load(double hz) noexcept {
  load_hz_ = hz;
  const double pace = pace_of_clock();
  for (const std::unique_ptr<lane>& l : party_.lanes) {
    l->hz = hz / what_.flows;
    l->ns_per_tick = pace;
  }
  rate_ = hz / what_.flows;
}

task<void> client::prepare() {
  if (what_.facts().form == pattern::idle) {
    constexpr double ms_per_s = 1000;
    rate_ = ms_per_s;
    count_ = what_.iterations;
    co_return;
  }
  const auto of_each = [this](std::uint64_t all) { return (all + what_.flows - 1) / what_.flows; };
  count_ = of_each(what_.iterations);
  const bool measures = what_.open_loop() ? what_.load_hz == 0 : !what_.warmup;
  if (measures) {
    constexpr std::uint64_t share = 10;  // of the iterations
    const bool all_told = what_.iterations != 0 && !what_.open_loop();
    const std::uint64_t most = all_told ? count_ / share : unlimited;
    if (most != 0) rate_ = co_await measure_rate(most);
  }
  std::uint64_t warmup = of_each(what_.warmup.value_or(0));
  if (what_.open_loop()) {
    set_load(what_.load_hz > 0 ? what_.load_hz : what_.load_share * rate_ * what_.flows);
    const double s = std::min(what_.duration_s * warm_share, longest_warm_s);
    constexpr std::uint64_t share = 10;  // of the iterations, at most
    const std::uint64_t most = count_ != 0 ? count_ / share : unlimited;
    if (!what_.warmup) warmup = std::min(most, static_cast<std::uint64_t>(s * rate_));
  }
  co_await warm_up(warmup);
  // Even without a warm-up the number of iterations per second must be known.
  if (rate_ == 0 && count_ == 0) rate_ = co_await measure_rate(unlimited);
}

// Number of iterations that takes about a second.
std::uint64_t client::chunk_at(double rate) noexcept {
  constexpr std::uint64_t unknown_pace = 1000;
  return rate > 0 ? std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rate * chunk_s))
                  : unknown_pace;
}

// Iterations of each flow; 0: enough was measured.
std::uint64_t client::next_chunk() const noexcept {
  // share of the duration beyond which the rest is too short to be useful
  constexpr double nearly = 0.98;
  const std::uint64_t chunk = chunk_at(rate_);
  if (count_ != 0) {
    const std::uint64_t left = count_ - measured_.count;
    const bool whole =
        what_.open_loop() || (rate_ > 0 && static_cast<double>(left) <= rate_ * shortest_split_s);
    return whole ? left : std::min(left, chunk);
  }
  const double left_s = what_.duration_s - measured_.elapsed_s;
  if (measured_.count != 0 && left_s < what_.duration_s * (1 - nearly)) return 0;
  const auto left = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rate_ * left_s));
  return what_.open_loop() || left_s <= shortest_split_s ? left : std::min(left, chunk);
}

void client::clear_samples() noexcept {
  for (const std::unique_ptr<lane>& l : party_.lanes) {
    l->samples.clear();
    l->intended.clear();
    l->lag.clear();
    l->in_flight_area = l->between = 0;
  }
}

// Flips a bit in the last message of the phase: only the last writes are checked.
void client::flip_a_bit(std::uint64_t count) noexcept {
  lane& l = *party_.lanes.front();
  const test_facts& f = what_.facts();
  std::uint64_t before = 0;
  if (f.what == verb::am) before = f.latency() ? l.handler.handled : l.number;
  l.flip_at = before + count - 1;
}

task<costs> client::run() {
  clear_samples();
  bool stalls = what_.stall_ms != 0;
  for (;;) {
    const std::uint64_t count = next_chunk();
    if (count == 0) break;
    expected_.store(count_ != 0 ? static_cast<double>(count_) : rate_ * what_.duration_s);
    if (what_.flip && measured_.count == 0) flip_a_bit(count);
    measuring_ = true;
    costs p = co_await phase({.what = order::kind::run, .count = count, .stalls = stalls});
    stalls = false;
    if (what_.open_loop()) p.count = party_.lanes.front()->progress.load();
    add(measured_, p);
    done_before_.store(measured_.count);
    if (measured_.elapsed_s > 0) rate_ = static_cast<double>(measured_.count) / measured_.elapsed_s;
    for (const std::unique_ptr<lane>& l : party_.lanes) l->progress.store(0);
    if (watch_.asked_to_stop()) {
      interrupted_ = count_ != 0 ? measured_.count < count_ : next_chunk() != 0;
      break;
    }
    if (what_.open_loop()) break;
  }
  co_return measured_;
}

task<costs> client::count_syscalls() {
  if (!counter_.obstacle().empty() && !server_counts_) co_return costs{};
  if (interrupted_ || what_.facts().form == pattern::idle) co_return costs{};
  constexpr std::uint64_t share = 10;
  const auto most = static_cast<std::uint64_t>(rate_ * longest_warm_s);
  const std::uint64_t count = std::max<std::uint64_t>(1, std::min(measured_.count / share, most));
  const costs counted =
      co_await phase({.what = order::kind::run, .count = count, .count_syscalls = true});
  co_return counted;
}

std::uint64_t client::progress() const noexcept {
  std::uint64_t sum = done_before_.load() * what_.flows;
  for (const std::unique_ptr<lane>& l : party_.lanes) {
    sum += l->progress.load(std::memory_order_relaxed);
  }
  return sum;
}

double client::share_done() const noexcept {
  const double expected = expected_.load();
  if (expected <= 0) return 0;
  return std::min(1.0, static_cast<double>(progress()) / what_.flows / expected);
}

void add_if(std::vector<std::string>& to, bool so, std::string text) {
  if (so) to.push_back(std::move(text));
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 1000 ? "%.3g" : "%.0f", value);
  return text;
}

// Sum of the samples of all flows.
support::histogram together(const party& p, support::histogram lane::* which) {
  support::histogram all;
  for (const std::unique_ptr<lane>& l : p.lanes) all.add((*l).*which);
  return all;
}

double sum(const party& p, double lane::* which) noexcept {
  double all = 0;
  for (const std::unique_ptr<lane>& l : p.lanes) all += (*l).*which;
  return all;
}

double largest(const party& p, double lane::* which) noexcept {
  double most = 0;
  for (const std::unique_ptr<lane>& l : p.lanes) most = std::max(most, (*l).*which);
  return most;
}

// Detects rates, latencies and pauses that are inconsistent: lost samples, or intervals counted
// twice.
little law_of(const outcome& o, const party& p, const costs& c, double mean_us) {
  constexpr std::uint64_t enough = 1000;  // requests
  constexpr double long_enough_s = 0.5;
  little law;
  const double rate = static_cast<double>(o.iterations) / o.elapsed_s;
  law.rate_times_latency = rate * mean_us / 1e6;
  if (o.asked.open_loop()) {
    law.in_flight = sum(p, &lane::in_flight_area) / c.ticks;
  } else {
    law.in_flight = o.asked.window() * static_cast<double>(o.asked.flows);
    law.rate_times_latency += sum(p, &lane::between) / c.ticks;
  }
  law.checked = o.iterations >= enough && o.elapsed_s >= long_enough_s;
  return law;
}

void add_times(outcome& o, const party& p, const costs& c) {
  const support::histogram samples = together(p, &lane::samples);
  if (samples.count() == 0) return;
  const double us = c.ns_per_tick() / 1e3;
  o.time = summary(samples, us);
  // There may be samples of a phase that is not included in the costs.
  if (o.broken_off && !o.asked.open_loop()) return;
  o.iterations = samples.count();
  o.law = law_of(o, p, c, o.time->mean);
  add_if(o.complaints, o.law->checked && !o.law->holds(),
         "by Little's law " + number(o.law->rate_times_latency) +
             " requests were in flight, and not " + number(o.law->in_flight) +
             ": samples are missing, or were counted twice");
  if (!o.asked.open_loop()) {
    add_if(o.complaints, o.iterations != c.count * o.asked.flows,
           std::to_string(o.iterations) + " samples of " + std::to_string(c.count * o.asked.flows) +
               " iterations");
    return;
  }
  o.actual = std::move(o.time);
  o.time = summary(together(p, &lane::intended), us);
  o.lag = summary(together(p, &lane::lag), us);
  constexpr std::size_t p99 = 2;
  constexpr double most_lag = 0.1;  // of the latency
  add_if(o.complaints, o.lag->at[p99] > most_lag * o.time->at[p99],
         "the generator lagged: one request in a hundred was made " + number(o.lag->at[p99]) +
             " us late, beside a p99 of " + number(o.time->at[p99]) +
             " us; ask for less, or give it a CPU of its own");
  // When the last request was due, independent of random variation of the load.
  constexpr double kept_up = 0.95;
  const double due_s = largest(p, &lane::due_for) * c.ns_per_tick() / 1e9;
  add_if(o.notes, o.valid() && !o.interrupted && due_s < kept_up * o.elapsed_s,
         "the server did not keep up: what was due within " + number(due_s) + " s took " +
             number(o.elapsed_s) + " s, and latencies grow with the time measured");
}

side side_of(const usage& spent, std::string wait, std::int64_t wake_cost_ns) {
  side s;
  s.spent = spent;
  s.wait = std::move(wait);
  s.wake_cost_ns = wake_cost_ns;
  return s;
}

outcome conclude(party& p, const client& c, const costs& spent, std::string broken = {}) {
  outcome o;
  o.broken_off = !broken.empty();
  add_if(o.complaints, o.broken_off, std::move(broken));
  lane& first = *p.lanes.front();
  const cordma::reactor& loop = p.worker().loop();
  o.asked = p.what;
  const bool idle = p.what.facts().form == pattern::idle;  // its unit is milliseconds
  o.iterations = spent.count * (idle ? 1 : p.what.flows);
  o.transport = cordma::transport::name(first.connection().transport());
  o.reason = first.connection().transport_reason();
  o.peer = first.connection().peer_address();
  o.depth = first.connection().actual().send_depth;
  o.inline_limit = first.connection().inline_limit();
  o.load_hz = c.load_hz();
  o.elapsed_s = spent.elapsed_s;
  const bool adaptive = loop.mode() == cordma::wait_mode::adaptive && !p.what.wait.spin_us;
  o.client = side_of(spent.client, p.what.client_wait().text(),
                     adaptive ? std::chrono::nanoseconds(loop.wake_cost()).count() : 0);
  o.server = side_of(spent.server.spent, "", spent.server.wake_cost_ns);
  o.counters = first.connection().counters();
  o.interrupted = c.interrupted() || o.broken_off;
  if (p.what.facts().latency()) add_times(o, p, spent);
  add_if(o.complaints, p.wrong() != 0,
         std::to_string(p.wrong()) + " messages were wrong at the client");
  add_if(o.complaints, spent.server.wrong != 0,
         std::to_string(spent.server.wrong) + " messages were wrong at the server");
  add_if(o.notes, o.interrupted, "interrupted: these are the figures until then");
  return o;
}

void add_syscalls(outcome& o, const costs& counted, const std::string& obstacle,
                  bool server_counts) {
  outcome phase = o;
  phase.iterations = counted.count * o.asked.flows;
  if (counted.syscalls >= 0) {
    o.client.syscalls_per_message = phase.per_message(static_cast<double>(counted.syscalls));
  }
  if (counted.server.syscalls >= 0) {
    o.server.syscalls_per_message = phase.per_message(static_cast<double>(counted.server.syscalls));
  }
  o.no_syscalls = obstacle;
  if (obstacle.empty() && !server_counts) o.no_syscalls = "the server cannot count its own";
}

// `all` is the client's scope; the client may be asleep.
watcher::subject subject_for(party* p, client* c, cordma::scope* all) {
  watcher::subject s;
  s.what = p->what.facts().name;
  s.progress = [c] { return c->progress(); };
  s.share = [c] { return c->share_done(); };
  s.give_up = [p, all] {
    p->worker().loop().post([p, all] {
      all->cancel();
      p->abort();
    });
  };
  s.watchdog_s = p->what.watchdog_s;
  return s;
}

// Ends the watching before the subject is destroyed.
class watching {
 public:
  watching(watcher& w, watcher::subject s) : watcher_(w) { w.look_at(std::move(s)); }
  watching(const watching&) = delete;
  watching& operator=(const watching&) = delete;
  ~watching() { watcher_.look_away(); }

 private:
  watcher& watcher_;
};

task<void> measured(party* side, client* who, channel* told, welcome greeted, std::string address,
                    std::optional<outcome>* into) {
  party& p = *side;
  client& c = *who;
  p.attach(greeted.blob);
  co_await p.connect(std::move(address), greeted.port);
  c.server_counts(greeted.counts_syscalls);
  co_await c.prepare();
  const costs spent = co_await c.run();
  outcome result = conclude(p, c, spent);
  const costs counted = co_await c.count_syscalls();
  add_syscalls(result, counted, c.obstacle(), greeted.counts_syscalls);
  result.server.wait = greeted.wait;
  const std::string bye = encode(order{});
  co_await told->tell(bye);
  *into = std::move(result);
}

}  // namespace

task<outcome> measure(cordma::Context& context, cordma::Worker& worker, std::string address,
                      plan what, watcher& watch) {
  const auto hello = encode(greeting_for(context, what));
  cordma::connect_options options;
  options.endpoint = options_for(context, greeting_for(context, what));
  options.private_data = hello;
  options.transport = what.transport;
  cordma::Endpoint endpoint = co_await worker.connect(address, options);
  channel control(context, endpoint);
  party p(context, worker, endpoint, what);
  for (const std::unique_ptr<lane>& l : p.lanes) l->stop = &watch.asked_to_stop();
  std::string first = encode(opening{what, p.blob()});
  const std::string answered = co_await control.ask(std::move(first));
  welcome greeted = decode_welcome(answered);
  if (!greeted.complaint.empty()) {
    cordma::throw_error({cordma::errc::rejected, "the server: " + greeted.complaint});
  }
  const std::string waits = greeted.wait;
  client c(p, control, watch);
  std::optional<outcome> result;
  std::optional<cordma::failure> broken;
  {
    cordma::task_context& me = co_await cordma::this_task();
    cordma::scope all(me);
    const watching while_it_runs(watch, subject_for(&p, &c, &all));
    all.spawn(measured(&p, &c, &control, std::move(greeted), std::move(address), &result));
    try {
      co_await all.join();
    } catch (const cordma::error& e) {
      broken = e.why();
    }
    if (!broken && !result) broken.emplace(cordma::errc::canceled);
  }
  if (broken) {
    const std::string why = watch.why();
    if (why.empty()) cordma::throw_error(*broken);
    if (!c.measuring()) throw nothing_measured(why, watch.asked_to_stop());
    const bool some = c.measured().count != 0;
    result = conclude(p, c, some ? c.measured() : c.cut_off(), why);
    add_if(result->notes, !some, "what the server spent is not known");
    result->server.wait = waits;
    result->by_hand = watch.asked_to_stop();
    co_return std::move(*result);
  }
  result->by_hand = watch.asked_to_stop();
  co_await endpoint.close();
  co_return std::move(*result);
}

}  // namespace perf

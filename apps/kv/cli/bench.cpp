#include "bench.hpp"

#include "../../support/status_line.hpp"
#include "cpu_clock.hpp"
#include "interrupts.hpp"
#include "lane.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace kv::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds look_pause(50);  // interval of checks for Ctrl-C and failures

double seconds_since(steady_clock::time_point from) {
  return std::chrono::duration<double>(steady_clock::now() - from).count();
}

// The threads of a benchmark, one per client. The owner's thread coordinates their phases.
class crew {
 public:
  crew(const service& s, const bench_options& o, const zipfian& law, double ticks_per_ns)
      : service_(s), options_(o), stage_{.ticks_per_ns = ticks_per_ns}, all_(o.records) {
    for (std::uint32_t i = 0; i < o.clients; ++i) {
      lanes_.push_back(std::make_unique<lane>(options_, law, all_, stage_, i));
    }
    for (std::uint32_t i = 0; i < o.clients; ++i) {
      threads_.emplace_back([this, i] { work(*lanes_[i]); });
    }
  }
  ~crew() {
    stage_.now = phase::over;
    say([this] { go_ = true; });
    for (std::thread& t : threads_) {
      if (t.joinable()) t.join();
    }
  }
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  // The following functions return false early if they were interrupted. They rethrow the exception
  // of a client.
  bool wait_until_loaded(interrupts& i) {
    const auto began = steady_clock::now();
    const bool whole = watch(
        i, [&] { return ready_ == threads_.size(); }, [&] { show_progress(seconds_since(began)); });
    line_.hide();
    return whole;
  }
  bool warm_up(interrupts& i) {
    say([this] { go_ = true; });
    return wait_for(i, options_.warmup_s);
  }
  bool measure(interrupts& i) {
    stage_.now = phase::measuring;
    if (options_.operations == 0) return wait_for(i, options_.duration_s);
    return watch(i, [&] { return done_ == threads_.size(); }, [] {});
  }
  // Rethrows the exception of a client.
  void end() {
    stage_.now = phase::over;
    for (std::thread& t : threads_) t.join();
    if (trouble_) std::rethrow_exception(trouble_);
  }

  [[nodiscard]] tally found() const {
    tally all;
    for (const std::unique_ptr<lane>& l : lanes_) all.add(l->found);
    return all;
  }
  [[nodiscard]] const std::string& over() const noexcept { return over_; }
  [[nodiscard]] bool one_sided() const noexcept { return one_sided_; }

 private:
  template <class Change>
  void say(Change change) {
    {
      const std::lock_guard hold(mutex_);
      change();
    }
    news_.notify_all();
  }

  void work(lane& l) {
    try {
      const std::unique_ptr<driver> d = service_.is_resp() ? resp_driver(service_, options_, l)
                                                           : native_driver(service_, options_, l);
      if (options_.load) d->load();
      std::unique_lock hold(mutex_);
      over_ = d->over();
      one_sided_ = d->one_sided();
      ++ready_;
      news_.notify_all();
      news_.wait(hold, [this] { return go_; });
      hold.unlock();
      d->drive();
      say([this] { ++done_; });
    } catch (...) {
      say([this] {
        if (!trouble_) trouble_ = std::current_exception();
      });
    }
  }

  template <class Done, class Look>
  bool watch(interrupts& i, Done done, Look look) {
    std::unique_lock hold(mutex_);
    for (;;) {
      if (trouble_) std::rethrow_exception(trouble_);
      if (done()) return true;
      if (i.came()) return false;
      look();
      news_.wait_for(hold, look_pause);
    }
  }
  bool wait_for(interrupts& i, double seconds) {
    const auto until = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                                 std::chrono::duration<double>(seconds));
    std::unique_lock hold(mutex_);
    while (steady_clock::now() < until) {
      if (trouble_) std::rethrow_exception(trouble_);
      if (i.came()) return false;
      news_.wait_until(hold, std::min(until, steady_clock::now() + look_pause));
    }
    return true;
  }

  void show_progress(double seconds) {
    constexpr double quiet_s = 0.5;
    if (!options_.load || seconds < quiet_s || !support::status_line::on_terminal()) return;
    const auto loaded = static_cast<double>(stage_.loaded.load());
    const double share = loaded / static_cast<double>(options_.records);
    std::array<char, 96> text{};
    std::snprintf(text.data(), text.size(), "loading: %3.0f %%, %.3g M records/s, %.0f s left",
                  share * 100, loaded / seconds / 1e6, share > 0 ? seconds / share - seconds : 0);
    line_.show(text.data());
  }

  const service& service_;
  const bench_options& options_;
  stage stage_;
  inserted_records all_;
  std::vector<std::unique_ptr<lane>> lanes_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::size_t ready_ = 0;
  std::size_t done_ = 0;
  bool go_ = false;
  std::exception_ptr trouble_;
  std::string over_;
  bool one_sided_ = false;
  support::status_line line_;
  std::vector<std::thread> threads_;
};

zipfian law_of(const bench_options& o) {
  if (o.spread_of_records() == spread::latest) return zipfian(o.records);
  return zipfian(scrambled_items, zipfian::usual_theta, scrambled_zeta);
}

double measured_ticks_per_ns() noexcept {
  constexpr double calibration_ns = 2e6;
  const support::instant began = support::now();
  support::instant now = began;
  while (static_cast<double>(now.ns - began.ns) < calibration_ns) now = support::now();
  return 1 / support::ns_per_tick(began, now);
}

}  // namespace

std::uint64_t tally::operations() const noexcept {
  std::uint64_t sum = 0;
  for (const support::histogram& h : times) sum += h.count();
  return sum;
}

support::histogram tally::all() const {
  support::histogram sum;
  for (const support::histogram& h : times) sum.add(h);
  return sum;
}

void tally::add(const tally& more) {
  for (std::size_t i = 0; i < steps; ++i) times[i].add(more.times[i]);
  misses += more.misses;
  wrong += more.wrong;
  failures += more.failures;
  if (first_failure.empty()) first_failure = more.first_failure;
  const client_counters& p = more.paths;
  paths.one_sided += p.one_sided;
  paths.asked += p.asked;
  paths.batches += p.batches;
  paths.absent += p.absent;
  paths.torn += p.torn;
  paths.expiring += p.expiring;
  paths.longer += p.longer;
  paths.unmapped += p.unmapped;
  paths.late += p.late;
  paths.silent += p.silent;
  paths.unsafe += p.unsafe;
  paths.torn_reads += p.torn_reads;
  paths.reads += p.reads;
}

std::string why_not_measurable(int pid) {
  if (cpu_ns_of(pid)) return {};
  return "no process of this machine has the number " + std::to_string(pid);
}

bench_result run_bench(const service& s, const bench_options& o) {
  bench_result r;
  r.asked = o;
  r.server = s.name();
  r.wait = s.wait;
  r.under = support::take_conditions();
  const auto began = steady_clock::now();
  interrupts by_hand;
  crew all(s, o, law_of(o), measured_ticks_per_ns());
  if (!all.wait_until_loaded(by_hand)) throw std::runtime_error("interrupted while loading");
  if (o.load) r.load_s = seconds_since(began);
  r.over = all.over();
  r.one_sided = all.one_sided();
  if (o.what == find_mix("load")) return r;
  r.interrupted = !all.warm_up(by_hand);
  const std::optional<std::int64_t> server = cpu_ns_of(o.server_pid);
  const std::int64_t own = own_cpu_ns();
  const support::instant from = support::now();
  if (!r.interrupted) r.interrupted = !all.measure(by_hand);
  const support::instant to = support::now();
  r.spent.client_ns = own_cpu_ns() - own;
  const std::optional<std::int64_t> later = cpu_ns_of(o.server_pid);
  if (server && later) r.spent.server_ns = *later - *server;
  all.end();
  r.elapsed_s = static_cast<double>(to.ns - from.ns) / 1e9;
  r.ns_per_tick = support::ns_per_tick(from, to);
  r.found = all.found();
  if (r.found.operations() == 0 && r.found.failures == 0) {
    throw std::runtime_error("nothing was measured");
  }
  return r;
}

}  // namespace kv::cli

// The work of one client of a benchmark, and its results.
#pragma once

#include "../../support/ticks.hpp"
#include "bench.hpp"
#include "records.hpp"
#include "workload.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace kv::cli {

enum class phase : std::uint8_t { warming, measuring, over };

// State that all clients read. The coordinating thread writes `now`.
struct stage {
  const double ticks_per_ns;
  std::atomic<phase> now{phase::warming};
  std::atomic<std::uint64_t> loaded{0};
};

// Bound to the thread of its client.
class lane {
 public:
  lane(const bench_options& o, const zipfian& law, inserted_records& all, stage& of,
       std::uint32_t number)
      : values(o.value_bytes, o.seed + number),
        options_(o),
        stage_(of),
        all_(all),
        wanted_(*o.what, o.spread_of_records(), law, all,
                scrambled(o.seed * most_clients + number)),
        share_(o.operations / o.clients + (number < o.operations % o.clients ? 1 : 0)),
        gap_ns_(o.target_hz > 0 ? 1e9 * o.batch * o.clients / o.target_hz : 0),
        number_(number) {}

  // Range of records to load: [first, last).
  [[nodiscard]] std::uint64_t first_to_load() const noexcept { return bound(number_); }
  [[nodiscard]] std::uint64_t last_to_load() const noexcept { return bound(number_ + 1); }
  // Reports `more` loaded records. Returns false if loading is to stop.
  [[nodiscard]] bool loaded(std::uint64_t more) noexcept {
    stage_.loaded += more;
    return stage_.now.load(std::memory_order_relaxed) != phase::over;
  }

  // True if further operations are to be begun. measuring() changes only in this function.
  [[nodiscard]] bool goes_on() noexcept {
    const phase now = stage_.now.load(std::memory_order_relaxed);
    if (now == phase::over) return false;
    if (now == phase::measuring && !measuring_) {
      measuring_ = true;
      next_due_ns_ = 0;  // do not catch up on the delay of the warm-up
    }
    return options_.operations == 0 || !measuring_ || begun_ < share_;
  }
  [[nodiscard]] bool measuring() const noexcept { return measuring_; }
  [[nodiscard]] choice next() noexcept {
    if (measuring_) ++begun_;
    return wanted_.next();
  }

  [[nodiscard]] bool open_loop() const noexcept { return gap_ns_ > 0; }
  // Time at which the next batch is to begin, by support::now(). REQUIRES open_loop().
  [[nodiscard]] std::int64_t due_ns() noexcept {
    if (next_due_ns_ == 0) next_due_ns_ = static_cast<double>(support::now().ns);
    const double due = next_due_ns_;
    next_due_ns_ += gap_ns_;
    return static_cast<std::int64_t>(due);
  }
  // Start time, in support::ticks(), of an operation that was due at `due_ns` and begins now.
  [[nodiscard]] std::uint64_t began(std::int64_t due_ns) const noexcept {
    const auto late = static_cast<double>(support::now().ns - due_ns);
    const double late_ticks = late > 0 ? late * stage_.ticks_per_ns : 0;
    return support::ticks() - static_cast<std::uint64_t>(late_ticks);
  }

  void took(step what, std::uint64_t ticks) noexcept {
    if (measuring_) found.times[static_cast<std::size_t>(what)].record(ticks);
  }
  void has_read(std::uint64_t record, bool is_there, std::string_view value) noexcept {
    if (!measuring_) return;
    if (!is_there) ++found.misses;
    if (is_there && !record_values::is_of(record, value)) ++found.wrong;
  }
  void has_inserted(std::uint64_t record) noexcept { all_.there(record); }
  void has_failed(std::string_view why) {
    if (found.failures++ == 0) found.first_failure = why;
  }

  tally found;
  record_values values;

 private:
  [[nodiscard]] std::uint64_t bound(std::uint64_t i) const noexcept {
    return options_.records / options_.clients * i +
           std::min<std::uint64_t>(i, options_.records % options_.clients);
  }

  const bench_options& options_;
  stage& stage_;
  inserted_records& all_;
  workload wanted_;
  std::uint64_t share_;  // its share of --operations
  std::uint64_t begun_ = 0;
  double gap_ns_;
  double next_due_ns_ = 0;
  std::uint32_t number_;
  bool measuring_ = false;
};

// A client that executes the work of a lane, on a separate thread. Both functions throw the
// exceptions of its client.
class driver {
 public:
  virtual ~driver() = default;
  virtual void load() = 0;
  virtual void drive() = 0;
  [[nodiscard]] virtual std::string over() const = 0;
  [[nodiscard]] virtual bool one_sided() const noexcept { return false; }
};
[[nodiscard]] std::unique_ptr<driver> native_driver(const service& s, const bench_options& o,
                                                    lane& l);
[[nodiscard]] std::unique_ptr<driver> resp_driver(const service& s, const bench_options& o,
                                                  lane& l);

inline constexpr std::uint64_t loaded_at_once = 64;

}  // namespace kv::cli

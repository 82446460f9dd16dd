// metrics: the counters of an object, under names, without anything global.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cordma {

class reactor;

// Only grows. One thread adds, any thread reads; adding is a plain load and store.
class counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Goes up and down. One thread writes, any thread reads.
class gauge {
 public:
  void set(std::int64_t to) noexcept { value_.store(to, std::memory_order_relaxed); }
  void add(std::int64_t n) noexcept { set(value() + n); }
  [[nodiscard]] std::int64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> value_{0};
};

struct metric {
  std::string name;        // "reactor.turns": lower case words joined by _ and grouped by dots
  std::int64_t value = 0;  // at the time of the snapshot; counters above 2^63 wrap
  std::string unit;        // "bytes", "ns", "" for plain counts
  std::string help;        // one sentence, without a full stop
};

// The metrics of one object, and of others that it includes. One thread adds all metrics before
// others take snapshots; REQUIRES that each name is added once.
class metrics {
 public:
  metrics() = default;
  metrics(const metrics&) = delete;
  metrics& operator=(const metrics&) = delete;

  // The result lives as long as this object, at a fixed address.
  counter& add_counter(std::string_view name, std::string_view unit, std::string_view help);
  gauge& add_gauge(std::string_view name, std::string_view unit, std::string_view help);
  // Calls `read` at each snapshot, on the thread that takes it; the objects that `read` refers to
  // must outlive this one.
  void add_source(std::string_view name, std::string_view unit, std::string_view help,
                  std::function<std::int64_t()> read);

  // In the order of adding. Any thread, unless a source requires a particular one.
  [[nodiscard]] std::vector<metric> snapshot() const;

 private:
  struct source {
    std::string name;
    std::string unit;
    std::string help;
    std::function<std::int64_t()> read;
  };
  std::vector<source> sources_;
  std::deque<counter> counters_;
  std::deque<gauge> gauges_;
};

// Adds the counters of `r` as "reactor.turns" and so on. Snapshots then REQUIRE its thread; `r`
// must outlive `to`.
void add_reactor(metrics& to, const reactor& r);

}  // namespace cordma

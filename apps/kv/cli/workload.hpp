// Requests of a benchmark: YCSB's core workloads, without scans.
#pragma once

#include "zipfian.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace kv::cli {

enum class spread : std::uint8_t { uniform, zipfian, latest };
[[nodiscard]] std::string_view name(spread s) noexcept;
[[nodiscard]] std::optional<spread> parse_spread(std::string_view text) noexcept;

enum class step : std::uint8_t { read, update, insert, modify };  // modify: read, then update
inline constexpr std::size_t steps = 4;
[[nodiscard]] std::string_view name(step s) noexcept;

struct mix {
  std::string_view name;
  std::string_view text;
  std::array<unsigned, steps> percent{};  // of each step
  spread records = spread::zipfian;
};
inline constexpr std::array<mix, 8> mixes{{
    {"a", "50 % reads, 50 % updates", {50, 50, 0, 0}, spread::zipfian},
    {"b", "95 % reads, 5 % updates", {95, 5, 0, 0}, spread::zipfian},
    {"c", "reads", {100, 0, 0, 0}, spread::zipfian},
    {"d", "95 % reads of what is new, 5 % inserts", {95, 0, 5, 0}, spread::latest},
    {"f", "50 % reads, 50 % read-modify-write", {50, 0, 0, 50}, spread::zipfian},
    {"get", "reads", {100, 0, 0, 0}, spread::uniform},
    {"set", "updates", {0, 100, 0, 0}, spread::uniform},
    {"load", "nothing but the records", {0, 0, 0, 0}, spread::uniform},
}};
[[nodiscard]] const mix* find_mix(std::string_view name) noexcept;

// Allocates numbers to records inserted by many clients, and tracks up to which number all exist.
// Thread-safe.
class inserted_records {
 public:
  // All records below `from` already exist.
  explicit inserted_records(std::uint64_t from) : next_(from), all_below_(from), done_(window) {}
  [[nodiscard]] std::uint64_t take() noexcept { return next_.fetch_add(1); }
  // Reports that the record exists. REQUIRES fewer than `window` other calls of take() since the
  // record's take().
  void there(std::uint64_t record);
  [[nodiscard]] std::uint64_t all_below() const noexcept {
    return all_below_.load(std::memory_order_acquire);
  }
  static constexpr std::uint64_t window = 1 << 16;

 private:
  std::atomic<std::uint64_t> next_;
  std::atomic<std::uint64_t> all_below_;
  std::mutex guard_;
  std::vector<bool> done_;  // existing records above all_below_, by their number modulo the window
};

struct choice {
  step what = step::read;
  std::uint64_t record = 0;
};

// The sequence of requests of one client. Bound to one thread; `all` must outlive it.
class workload {
 public:
  // For `latest`, `law` has as many items as there are records; otherwise scrambled_items.
  workload(const mix& what, spread records, const zipfian& law, inserted_records& all,
           std::uint64_t seed) noexcept;
  [[nodiscard]] choice next() noexcept;

 private:
  [[nodiscard]] step next_step() noexcept;
  [[nodiscard]] std::uint64_t next_record() noexcept;

  const mix& mix_;
  spread spread_;
  zipfian law_;
  inserted_records& all_;
  random_numbers random_;
};

}  // namespace kv::cli

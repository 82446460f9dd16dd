// latency: events that took longer than latency-monitor-threshold, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// Any thread.
class latency_log {
 public:
  static constexpr std::size_t most_samples = 160;  // per event; above that the oldest are dropped

  struct sample {
    std::uint64_t when_s = 0;  // since 1970
    std::uint64_t took_ms = 0;
  };
  struct event {
    std::string name;
    sample last;
    std::uint64_t worst_ms = 0;  // since it was reset
    std::size_t samples = 0;
    double mean_ms = 0;  // of the samples
  };

  // Of several samples in one second the longest is kept.
  void add(std::string_view name, sample s);
  // Sorted by name.
  [[nodiscard]] std::vector<event> events() const;
  // Oldest first; empty for an unknown event.
  [[nodiscard]] std::vector<sample> history(std::string_view name) const;
  // Returns true if the event existed.
  bool forget(std::string_view name);
  // Returns the number of events dropped.
  std::size_t forget_all();

 private:
  struct series {
    std::deque<sample> samples;
    std::uint64_t worst_ms = 0;
  };
  mutable std::mutex guard_;
  std::map<std::string, series, std::less<>> by_name_;
};

}  // namespace kv

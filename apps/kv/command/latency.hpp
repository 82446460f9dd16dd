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
  static constexpr std::size_t most_samples = 160;  // of an event: then the oldest goes

  struct sample {
    std::uint64_t when_s = 0;  // since 1970
    std::uint64_t took_ms = 0;
  };
  struct event {
    std::string name;
    sample last;
    std::uint64_t worst_ms = 0;  // ever, since it was reset
    std::size_t samples = 0;
    double mean_ms = 0;  // of the samples
  };

  // Of several in one second the longest is kept.
  void add(std::string_view name, sample s);
  // In the order of their names.
  [[nodiscard]] std::vector<event> events() const;
  // Oldest first; none of an event that never was.
  [[nodiscard]] std::vector<sample> history(std::string_view name) const;
  // Whether there was one.
  bool forget(std::string_view name);
  // How many there were.
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

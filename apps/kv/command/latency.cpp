#include "latency.hpp"

#include <algorithm>

namespace kv {

void latency_log::add(std::string_view name, sample s) {
  const std::scoped_lock hold(guard_);
  series& of = by_name_[std::string(name)];
  of.worst_ms = std::max(of.worst_ms, s.took_ms);
  if (!of.samples.empty() && of.samples.back().when_s == s.when_s) {
    of.samples.back().took_ms = std::max(of.samples.back().took_ms, s.took_ms);
    return;
  }
  of.samples.push_back(s);
  if (of.samples.size() > most_samples) of.samples.pop_front();
}

std::vector<latency_log::event> latency_log::events() const {
  const std::scoped_lock hold(guard_);
  std::vector<event> all;
  for (const auto& [name, of] : by_name_) {
    double sum = 0;
    for (const sample& s : of.samples) sum += static_cast<double>(s.took_ms);
    all.push_back({.name = name,
                   .last = of.samples.back(),
                   .worst_ms = of.worst_ms,
                   .samples = of.samples.size(),
                   .mean_ms = sum / static_cast<double>(of.samples.size())});
  }
  return all;
}

std::vector<latency_log::sample> latency_log::history(std::string_view name) const {
  const std::scoped_lock hold(guard_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return {};
  return {at->second.samples.begin(), at->second.samples.end()};
}

bool latency_log::forget(std::string_view name) {
  const std::scoped_lock hold(guard_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return false;
  by_name_.erase(at);
  return true;
}

std::size_t latency_log::forget_all() {
  const std::scoped_lock hold(guard_);
  const std::size_t n = by_name_.size();
  by_name_.clear();
  return n;
}

}  // namespace kv

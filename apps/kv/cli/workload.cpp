#include "workload.hpp"

#include <algorithm>

namespace kv::cli {
namespace {

constexpr std::array<std::string_view, 3> spreads{"uniform", "zipfian", "latest"};
constexpr std::array<std::string_view, steps> step_names{"read", "update", "insert",
                                                         "read-modify-write"};

}  // namespace

std::string_view name(spread s) noexcept { return spreads[static_cast<std::size_t>(s)]; }

std::optional<spread> parse_spread(std::string_view text) noexcept {
  const auto* const at = std::ranges::find(spreads, text);
  if (at == spreads.end()) return std::nullopt;
  return spread(at - spreads.begin());
}

std::string_view name(step s) noexcept { return step_names[static_cast<std::size_t>(s)]; }

const mix* find_mix(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(mixes, name, &mix::name);
  return at == mixes.end() ? nullptr : at;
}

void inserted_records::there(std::uint64_t record) {
  const std::lock_guard alone(guard_);
  done_[record % window] = true;
  std::uint64_t first = all_below_.load(std::memory_order_relaxed);
  for (; done_[first % window]; ++first) done_[first % window] = false;
  all_below_.store(first, std::memory_order_release);
}

workload::workload(const mix& what, spread records, const zipfian& law, inserted_records& all,
                   std::uint64_t seed) noexcept
    : mix_(what), spread_(records), law_(law), all_(all), random_(seed) {}

step workload::next_step() noexcept {
  std::uint64_t left = random_.below(100);
  for (std::size_t i = 0; i < steps; ++i) {
    if (left < mix_.percent[i]) return step(i);
    left -= mix_.percent[i];
  }
  return step::read;
}

std::uint64_t workload::next_record() noexcept {
  const std::uint64_t count = all_.all_below();
  switch (spread_) {
    case spread::uniform: return random_.below(count);
    case spread::zipfian: return scrambled(law_.rank(random_.share())) % count;
    case spread::latest: break;
  }
  if (law_.items() < count) law_.grow(count);
  return count - 1 - law_.rank(random_.share());
}

choice workload::next() noexcept {
  const step what = next_step();
  return {.what = what, .record = what == step::insert ? all_.take() : next_record()};
}

}  // namespace kv::cli

// Costs of a phase on one side.
#pragma once

#include <cordma/runtime/reactor.hpp>

#include <cstdint>

namespace perf {

// Since the start of the process; a difference is the usage during a phase.
struct usage {
  std::int64_t elapsed_ns = 0;
  std::int64_t cpu_ns = 0;  // user and system, all threads
  std::int64_t voluntary_switches = 0;
  std::int64_t involuntary_switches = 0;
  std::int64_t turns = 0;
  std::int64_t spins = 0;  // passes that found nothing to do
  std::int64_t arms = 0;
  std::int64_t sleeps = 0;
  std::int64_t wakeups = 0;
  std::int64_t spurious = 0;
  std::int64_t late_work = 0;
};
[[nodiscard]] usage take_usage(const cordma::reactor& loop) noexcept;
[[nodiscard]] usage operator-(const usage& later, const usage& earlier) noexcept;
usage& operator+=(usage& sum, const usage& more) noexcept;

// All fields with their names in JSON.
struct usage_field {
  const char* name;
  std::int64_t usage::* value;
};
inline constexpr usage_field usage_fields[] = {
    {"elapsed_ns", &usage::elapsed_ns},
    {"cpu_ns", &usage::cpu_ns},
    {"voluntary_switches", &usage::voluntary_switches},
    {"involuntary_switches", &usage::involuntary_switches},
    {"turns", &usage::turns},
    {"spins", &usage::spins},
    {"arms", &usage::arms},
    {"sleeps", &usage::sleeps},
    {"wakeups", &usage::wakeups},
    {"spurious", &usage::spurious},
    {"late_work", &usage::late_work},
};

}  // namespace perf

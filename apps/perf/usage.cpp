#include "usage.hpp"

#include "ticks.hpp"

#include <ctime>

#include <sys/resource.h>

namespace perf {

usage take_usage(const cordma::reactor& loop) noexcept {
  usage u;
  u.elapsed_ns = now().ns;
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  u.cpu_ns = cpu.tv_sec * 1'000'000'000LL + cpu.tv_nsec;
  rusage switches{};
  getrusage(RUSAGE_SELF, &switches);
  u.voluntary_switches = switches.ru_nvcsw;
  u.involuntary_switches = switches.ru_nivcsw;
  const cordma::reactor_counters& c = loop.counters();
  u.turns = static_cast<std::int64_t>(c.turns);
  u.spins = static_cast<std::int64_t>(c.idle_turns);
  u.arms = static_cast<std::int64_t>(c.arms);
  u.sleeps = static_cast<std::int64_t>(c.sleeps);
  u.wakeups = static_cast<std::int64_t>(c.wakeups);
  u.spurious = static_cast<std::int64_t>(c.spurious);
  u.late_work = static_cast<std::int64_t>(c.late_work);
  return u;
}

usage operator-(const usage& later, const usage& earlier) noexcept {
  usage d;
  for (const usage_field& f : usage_fields) d.*f.value = later.*f.value - earlier.*f.value;
  return d;
}

usage& operator+=(usage& sum, const usage& more) noexcept {
  for (const usage_field& f : usage_fields) sum.*f.value += more.*f.value;
  return sum;
}

}  // namespace perf

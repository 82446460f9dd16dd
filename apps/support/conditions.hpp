// Conditions of a measurement: without them results cannot be compared.
#pragma once

#include "ticks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace support {

struct conditions {
  std::string host;
  std::string cpu;    // its model; empty if the kernel does not report it
  unsigned cpus = 0;  // number that this process may use
  bool is_virtual = false;
  std::string governor;       // of the first CPU's frequency; empty if there is none
  std::string clock;          // the source of latency timestamps
  bool clock_steady = false;  // constant rate, according to the kernel
  double clock_overhead_ns = 0;
  double load = 0;  // average of the last minute, at the start of the program
  std::string kernel;
  std::string machine;
  std::string date;  // start of the program, UTC, 2026-11-21T18:30:00Z
};

namespace detail {

// Fields of the first processor: "model name : ..." on x86, "Model : ..." on some others.
inline void read_cpuinfo(conditions& c) {
  std::ifstream in("/proc/cpuinfo");
  bool steady = true;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name") || line.starts_with("Model")) c.cpu = value;
    if (!line.starts_with("flags")) continue;
    c.is_virtual = value.find("hypervisor") != std::string::npos;
    steady = value.find("constant_tsc") != std::string::npos &&
             value.find("nonstop_tsc") != std::string::npos;
    break;
  }
  c.clock_steady = steady;
}

inline std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

inline void measure_clock(conditions& c) {
#if defined(__x86_64__)
  c.clock = "tsc";
#elif defined(__aarch64__)
  c.clock = "cntvct";
#else
  c.clock = "CLOCK_MONOTONIC";
#endif
  constexpr int readings = 10'000;
  std::uint64_t sum = 0;
  const instant from = now();
  for (int i = 0; i < readings; ++i) sum += ticks();
  const instant to = now();
  // `sum` is used, so that the readings are not optimised away.
  c.clock_overhead_ns = sum == 0 ? 0 : static_cast<double>(to.ns - from.ns) / readings;
}

inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t n = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), n};
}

}  // namespace detail

// Conditions of this machine now. Call it before anything is pinned.
[[nodiscard]] inline conditions take_conditions() {
  conditions c;
  utsname u{};
  ::uname(&u);
  c.host = u.nodename;
  c.kernel = std::string(u.sysname) + " " + u.release;
  c.machine = u.machine;
  detail::read_cpuinfo(c);
  c.governor = detail::first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  detail::measure_clock(c);
  if (::getloadavg(&c.load, 1) != 1) c.load = 0;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    c.cpus = static_cast<unsigned>(CPU_COUNT(&set));
  } else {  // more than the set can represent
    c.cpus = static_cast<unsigned>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
  }
  c.date = detail::utc_now();
  return c;
}

}  // namespace support

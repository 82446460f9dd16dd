// Under which conditions figures were taken: without them nobody can compare.
#pragma once

#include <optional>
#include <string>

namespace perf {

struct options;

struct conditions {
  std::string host;
  std::string cpu;    // its model; empty where the kernel does not say
  unsigned cpus = 0;  // this process may use
  bool is_virtual = false;
  std::string governor;       // of the first CPU's frequency; empty where there is none to choose
  std::string clock;          // what latencies are read from
  bool clock_steady = false;  // of constant pace, as far as the kernel says
  double clock_overhead_ns = 0;
  double load = 0;  // of the last minute, when the program began
  std::string kernel;
  std::string machine;
  std::string date;  // when the program began, UTC, 2026-11-21T18:30:00Z
  // Where --cpu put them; none: anywhere, and of a server that is another program: unknown.
  std::optional<int> client_cpu;
  std::optional<int> server_cpu;
};

// Of this machine, now. Before anything is pinned.
[[nodiscard]] conditions take_conditions(const options& o);

}  // namespace perf

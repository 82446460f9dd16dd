// Conditions of a measurement, and the CPUs of both sides.
#pragma once

#include "../support/conditions.hpp"

#include <optional>

namespace perf {

struct options;

struct conditions : support::conditions {
  // CPUs set by --cpu; none: any CPU, or unknown for a server that is a separate program.
  std::optional<int> client_cpu;
  std::optional<int> server_cpu;
};

// Conditions of this machine now. Call it before anything is pinned.
[[nodiscard]] conditions take_conditions(const options& o);

}  // namespace perf

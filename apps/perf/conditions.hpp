// Under which conditions figures were taken, and where both sides were put.
#pragma once

#include "../support/conditions.hpp"

#include <optional>

namespace perf {

struct options;

struct conditions : support::conditions {
  // Where --cpu put them; none: anywhere, and of a server that is another program: unknown.
  std::optional<int> client_cpu;
  std::optional<int> server_cpu;
};

// Of this machine, now. Before anything is pinned.
[[nodiscard]] conditions take_conditions(const options& o);

}  // namespace perf

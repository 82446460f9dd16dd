// The clock of all latencies.
#pragma once

#include "../support/ticks.hpp"

namespace perf {

using support::instant;
using support::now;
using support::ns_per_tick;
using support::ticks;

}  // namespace perf

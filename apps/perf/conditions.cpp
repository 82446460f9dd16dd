#include "conditions.hpp"

#include "options.hpp"

namespace perf {

conditions take_conditions(const options& o) {
  conditions c{support::take_conditions(), o.client_cpu, std::nullopt};
  if (o.what == role::both) c.server_cpu = o.server_cpu;
  return c;
}

}  // namespace perf

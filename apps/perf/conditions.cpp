#include "conditions.hpp"

#include "options.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace perf {
namespace {

// "model name : ..." on x86, "Model : ..." on some others.
std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name") || line.starts_with("Model")) return line.substr(colon + 2);
  }
  return {};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t n = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), n};
}

}  // namespace

conditions take_conditions(const options& o) {
  conditions c;
  utsname u{};
  ::uname(&u);
  c.host = u.nodename;
  c.kernel = std::string(u.sysname) + " " + u.release;
  c.machine = u.machine;
  c.cpu = cpu_model();
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    c.cpus = static_cast<unsigned>(CPU_COUNT(&set));
  } else {  // more of them than the set has room for
    c.cpus = static_cast<unsigned>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
  }
  c.date = utc_now();
  c.client_cpu = o.client_cpu;
  if (o.what == role::both) c.server_cpu = o.server_cpu;
  return c;
}

}  // namespace perf

#include "report.hpp"
#include "report_lines.hpp"

namespace info {
namespace {

using namespace cordma;

const char* fork_rule(fork_safety f) noexcept {
  switch (f) {
    case fork_safety::unsafe: return "not safe: set RDMAV_FORK_SAFE=1";
    case fork_safety::marked: return "safe, by marking registered pages";
    case fork_safety::unneeded: return "safe, the kernel copies for the child";
  }
  return "?";
}

}  // namespace

std::string report_of_extras(const device_attributes& d) {
  report_lines out;
  out.line(1, "cordma:");
  for (const port_attributes& p : d.ports) {
    for (const port_pkey& k : p.pkeys) {
      const std::string name =
          "P_Key " + std::to_string(k.index) + " of port " + std::to_string(p.number);
      out.field(2, name, hex(k.value, 4));
    }
  }
  for (const device_extra& e : d.extras) {
    out.field(2, e.name, !e.on_device ? "no" : e.offered ? "yes" : "on the device, not offered");
  }
  out.field(2, "fork", fork_rule(d.fork));
  return out.take();
}

std::string report_of(const device_attributes& d) {
  report_lines out;
  if (d.failed) {
    out.line(0, "hca_id:\t%s", d.name.c_str());
    out.line(1, "%s", d.failed->message().c_str());
    return out.take();
  }
  out.append(report_of_device(d));
  for (const port_attributes& p : d.ports) out.append(report_of_port(p, d.transport));
  out.append(report_of_extras(d));
  return out.take();
}

}  // namespace info

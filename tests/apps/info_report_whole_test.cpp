// The report of RDMA devices: its order, the lines after those of ibv_devinfo, and the reason if a
// device cannot be read.
#include "info_report.hpp"

using namespace cordma;
using namespace info;
using namespace reported;

namespace {

device_attributes device_with_ports() {
  device_attributes d;
  d.name = "nic0";
  for (unsigned number = 1; number <= 2; ++number) {
    port_attributes p;
    p.number = number;
    p.pkeys = {{.index = 0, .value = 0xFFFF}, {.index = 7, .value = 0x8001}};
    d.ports.push_back(p);
  }
  d.extras = {{.name = "XRC"},
              {.name = "tag matching", .on_device = true},
              {.name = "solicited events", .on_device = true, .offered = true}};
  d.fork = fork_safety::unneeded;
  return d;
}

}  // namespace

TEST_CASE("B4: partitions, extras and the rule for fork() are reported in the end") {
  are(lines_of(report_of_extras(device_with_ports())),
      {"cordma:", "P_Key 0 of port 1: 0xffff", "P_Key 7 of port 1: 0x8001",
       "P_Key 0 of port 2: 0xffff", "P_Key 7 of port 2: 0x8001", "XRC: no",
       "tag matching: on the device, not offered", "solicited events: yes",
       "fork: safe, the kernel copies for the child"});
}

TEST_CASE("Q12: each rule for fork() has its words") {
  const auto rule = [](fork_safety f) {
    device_attributes d;
    d.fork = f;
    return lines_of(report_of_extras(d)).back();
  };
  CHECK(rule(fork_safety::unsafe) == "fork: not safe: set RDMAV_FORK_SAFE=1");
  CHECK(rule(fork_safety::marked) == "fork: safe, by marking registered pages");
  CHECK(rule(fork_safety::unneeded) == "fork: safe, the kernel copies for the child");
  CHECK(rule(fork_safety{3}) == "fork: ?");
}

TEST_CASE("B4: a report is the device, its ports in order, and the extras") {
  const device_attributes d = device_with_ports();
  CHECK(report_of(d) == report_of_device(d) + report_of_port(d.ports[0], d.transport) +
                            report_of_port(d.ports[1], d.transport) + report_of_extras(d));
}

TEST_CASE("B4: a device that cannot be read is reported with the reason alone") {
  device_attributes d;
  d.name = "nic1";
  d.failed = failure(errc::not_permitted, "nic1 cannot be opened: it is closed");
  CHECK(report_of(d) == "hca_id:\tnic1\n\tnic1 cannot be opened: it is closed\n");
}

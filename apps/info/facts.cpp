#include "facts.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

namespace info {
namespace {

namespace fs = std::filesystem;
namespace transport = cordma::transport;

constexpr const char* rdma_class = "/sys/class/infiniband";

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

limit resource(const char* name, decltype(RLIMIT_NOFILE) which, const char* unit, const char* why) {
  rlimit r{};
  ::getrlimit(which, &r);
  limit l{name, std::nullopt, unit, why};
  if (r.rlim_cur != RLIM_INFINITY) l.value = r.rlim_cur;
  return l;
}

std::vector<limit> limits() {
  std::vector<limit> all;
  all.push_back(resource("locked memory", RLIMIT_MEMLOCK, "bytes",
                         "RDMA devices lock registered memory; raise it with ulimit -l or "
                         "LimitMEMLOCK="));
  all.push_back(resource("open files", RLIMIT_NOFILE, "descriptors",
                         "a region, a connection and a worker take some each; raise it with "
                         "ulimit -n"));
  struct statvfs s{};
  if (::statvfs("/dev/shm", &s) == 0) {
    all.push_back({"/dev/shm, free", std::uint64_t{s.f_bavail} * s.f_frsize, "bytes",
                   "not used by cordma, whose shared memory is anonymous; a container's size of it "
                   "often tells its memory limit"});
  }
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty()) {
    all.push_back({"ptrace scope", std::strtoull(scope.c_str(), nullptr, 10), "level",
                   "shm reaches memory that is not its own by process_vm_readv, which a level "
                   "above 0 may forbid"});
  }
  return all;
}

std::vector<rdma_port> ports() {
  std::vector<rdma_port> found;
  for (const cordma::device_port& p : cordma::device_list::snapshot().ports()) {
    found.push_back({p.device, p.number, p.state, p.link});
  }
  return found;
}

}  // namespace

std::string no_device_text() {
  std::error_code none;
  const bool drivers = fs::exists(rdma_class, none);
  return std::string("no RDMA device found (") + rdma_class +
         (drivers ? " is empty" : " does not exist") +
         "). With an RDMA NIC: load its driver, e.g. modprobe mlx5_ib. With any Ethernet: "
         "apt-get install rdma-core iproute2; modprobe rdma_rxe; rdma link add rxe0 type rxe "
         "netdev "
         "eth0";
}

facts collect() {
  facts f;
  utsname u{};
  ::uname(&u);
  f.kernel = std::string(u.sysname) + " " + u.release;
  f.machine = u.machine;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    f.cpus = static_cast<unsigned>(CPU_COUNT(&set));
  }
  const cordma::Context context;
  f.transports = context.transports();
  for (const auto& [kind, why] : context.missing()) f.missing.emplace_back(kind, why.message());
  f.ports = ports();
  if (f.ports.empty()) f.no_device = no_device_text();
  f.limits = limits();
  f.settings = context.configuration();
  f.warnings = context.configuration_warnings();
  return f;
}

std::vector<std::string> operations(const transport::capabilities& c, transport::service s) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < transport::opcode_count; ++i) {
    const auto op = static_cast<transport::opcode>(i);
    const bool posted = op != transport::opcode::recv && op != transport::opcode::recv_write_imm;
    if (posted && c.supports(s, op)) names.emplace_back(transport::name(op));
  }
  return names;
}

}  // namespace info

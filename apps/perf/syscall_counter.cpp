#include "syscall_counter.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace perf {
namespace {

// The tracepoint's number; 0 if it cannot be read.
std::uint64_t tracepoint() {
  constexpr std::array<const char*, 2> places{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
  for (const char* place : places) {
    std::ifstream in(std::string(place) + "/events/raw_syscalls/sys_enter/id");
    if (std::uint64_t id = 0; in >> id) return id;
  }
  return 0;
}

}  // namespace

syscall_counter::syscall_counter() noexcept {
  const std::uint64_t id = tracepoint();
  if (id == 0) {
    obstacle_ = "the tracepoint raw_syscalls:sys_enter cannot be read: needs tracefs, and root";
    return;
  }
  perf_event_attr what{};
  what.type = PERF_TYPE_TRACEPOINT;
  what.size = sizeof what;
  what.config = id;
  what.disabled = 1;
  const long fd = ::syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) {
    obstacle_ = std::string("perf_event_open: ") + std::strerror(errno) +
                "; /proc/sys/kernel/perf_event_paranoid says who may";
    return;
  }
  fd_ = cordma::unique_fd(static_cast<int>(fd));
}

void syscall_counter::start() noexcept {
  if (!fd_) return;
  ::ioctl(fd_.get(), PERF_EVENT_IOC_RESET, 0);
  ::ioctl(fd_.get(), PERF_EVENT_IOC_ENABLE, 0);
}

std::int64_t syscall_counter::stop() noexcept {
  if (!fd_) return -1;
  ::ioctl(fd_.get(), PERF_EVENT_IOC_DISABLE, 0);
  std::int64_t counted = 0;
  if (::read(fd_.get(), &counted, sizeof counted) != sizeof counted) return -1;
  return counted == 0 ? 0 : counted - 1;  // without the call that stopped it
}

}  // namespace perf

#include "limits.hpp"

#include <algorithm>
#include <array>

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kv {
namespace {

// Buffers of native clients' endpoints.
constexpr std::uint64_t buffer_bytes = std::uint64_t{64} << 20;

[[nodiscard]] bool may_lock_anything() noexcept {
  __user_cap_header_struct who{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> what{};
  return ::syscall(SYS_capget, &who, what.data()) == 0 &&
         (what[0].effective & (1U << CAP_IPC_LOCK)) != 0;
}

[[nodiscard]] rlim_t files_each(doors open) noexcept {
  return open == doors::redis_and_native ? 4 : 1;
}

}  // namespace

rlim_t files_wanted(std::uint64_t clients, doors open) noexcept {
  constexpr std::uint64_t most = UINT32_MAX;  // no more can be open
  return std::min(clients, most) * files_each(open) + other_files;
}

std::uint64_t clients_possible(rlim_t files, doors open) noexcept {
  return files <= other_files ? 0 : (files - other_files) / files_each(open);
}

rlim_t raise_open_files(rlim_t wanted) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return RLIM_INFINITY;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlimit more{.rlim_cur = std::min(wanted, limit.rlim_max), .rlim_max = limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &more) == 0 ? more.rlim_cur : limit.rlim_cur;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::uint64_t rest = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    rest = bytes % 1024;
    bytes /= 1024;
    ++unit;
  }
  const std::string tenths = unit == 0 ? "" : "." + std::to_string(rest * 10 / 1024);
  return std::to_string(bytes) + tenths + " " + units[unit];
}

std::string limits_text(rlim_t open_files, rlim_t locked_bytes) {
  const bool all = open_files == RLIM_INFINITY;
  const bool any = locked_bytes == RLIM_INFINITY;
  return "open files " + (all ? "unlimited" : std::to_string(open_files)) + ", locked memory " +
         (any ? "unlimited" : size_text(locked_bytes));
}

std::string how_to_raise_files(rlim_t wanted) {
  const std::string n = std::to_string(wanted);
  return "`ulimit -n " + n + "` in the shell that starts it, or LimitNOFILE=" + n +
         " in the unit's [Service]";
}

std::string locked_memory_warning(rlim_t locked_bytes, std::uint64_t maxmemory) {
  const std::uint64_t wanted = maxmemory + buffer_bytes;
  if (locked_bytes == RLIM_INFINITY || (maxmemory != 0 && locked_bytes >= wanted)) return {};
  // In KiB, as ulimit takes it; rounded up.
  const std::string shell = maxmemory == 0 ? "unlimited" : std::to_string((wanted + 1023) / 1024);
  const std::string unit = maxmemory == 0 ? "infinity" : std::to_string(wanted);
  return "the limit of locked memory is " + size_text(locked_bytes) +
         ", and an RDMA device locks all that native clients read: beyond it writes are refused. "
         "Raise it: `ulimit -l " +
         shell + "` in the shell that starts it, or LimitMEMLOCK=" + unit +
         " in the unit's [Service]; or leave verbs out with CORDMA_TRANSPORT=shm,tcp";
}

rlim_t locked_memory_limit() noexcept {
  rlimit limit{};
  if (may_lock_anything() || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return RLIM_INFINITY;
  return limit.rlim_cur;
}

}  // namespace kv

// CPU times of processes.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

namespace kv::cli {

[[nodiscard]] inline std::optional<std::int64_t> read_clock(clockid_t id) noexcept {
  timespec t{};
  if (::clock_gettime(id, &t) != 0) return std::nullopt;
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// User and system time of all threads of a process, including ended ones, in nanoseconds; nothing
// if the process does not exist. Works for any process of this machine, without special permission.
[[nodiscard]] inline std::optional<std::int64_t> cpu_ns_of(int pid) noexcept {
  clockid_t id{};
  if (pid <= 0 || ::clock_getcpuclockid(pid, &id) != 0) return std::nullopt;
  return read_clock(id);
}
[[nodiscard]] inline std::int64_t own_cpu_ns() noexcept {
  return read_clock(CLOCK_PROCESS_CPUTIME_ID).value_or(0);
}

}  // namespace kv::cli

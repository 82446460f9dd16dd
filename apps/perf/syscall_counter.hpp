// Counts the system calls of this thread in the kernel.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>
#include <string>

namespace perf {

// Bound to one thread. Needs the tracepoint raw_syscalls:sys_enter, which the kernel permits to
// root, or to all users if perf_event_paranoid is -1 and tracefs is readable.
class syscall_counter {
 public:
  syscall_counter() noexcept;
  // Why it cannot count; empty if it can.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }
  void start() noexcept;
  // Calls since start(), without its own; -1 if it cannot count.
  [[nodiscard]] std::int64_t stop() noexcept;

 private:
  cordma::unique_fd fd_;
  std::string obstacle_;
};

}  // namespace perf

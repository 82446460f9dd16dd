// How many system calls this thread makes, counted by the kernel.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>
#include <string>

namespace perf {

// Bound to one thread. Needs the tracepoint raw_syscalls:sys_enter, which the kernel gives to root, or
// to everybody where perf_event_paranoid is -1 and tracefs can be read.
class syscall_counter {
 public:
  syscall_counter() noexcept;
  // Why it counts nothing; empty where it does.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }
  void start() noexcept;
  // Since start(), without its own; -1 where it counts nothing.
  [[nodiscard]] std::int64_t stop() noexcept;

 private:
  cordma::unique_fd fd_;
  std::string obstacle_;
};

}  // namespace perf

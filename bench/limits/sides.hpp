// The two sides of a measurement: pinning, a peer process, system calls that throw.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace limits {

/// Returns a system call's result; throws std::system_error naming `what` if it is < 0.
template <typename Result>
Result checked(Result result, const char* what) {
  if (result < 0) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  return result;
}

/// Pins the calling thread to one CPU. Throws if the machine, or the container, lacks that CPU.
inline void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    const std::string what = "pinning to cpu " + std::to_string(cpu) +
                             " (choose two of the CPUs that `nproc` and `taskset -p $$` show)";
    throw std::system_error(errno, std::generic_category(), what);
  }
}

/// Owns one file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// A forked process that runs the answering side. It dies with its parent, and the parent's
/// destructor kills it if the measurement ended early.
class peer_process {
 public:
  /// Runs `side()` in a child pinned to `cpu`. Prints its exception, if any; the exit status
  /// reports the failure.
  template <typename Side>
  peer_process(int cpu, Side&& side) {
    const pid_t parent = ::getpid();
    pid_ = checked(::fork(), "fork");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool orphaned = ::getppid() != parent;
      ::_exit(orphaned ? 1 : run(cpu, side));
    }
  }
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  /// Waits until the peer has ended; throws if it failed.
  void join() {
    int status = 0;
    checked(::waitpid(std::exchange(pid_, -1), &status, 0), "waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      throw std::runtime_error("the peer process failed");
    }
  }

 private:
  template <typename Side>
  static int run(int cpu, Side& side) noexcept {
    try {
      pin_to(cpu);
      side();
      return 0;
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "bench-limits: peer: %s\n", problem.what());
      return 1;
    }
  }

  pid_t pid_ = -1;
};

}  // namespace limits

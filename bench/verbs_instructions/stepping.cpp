#include "stepping.hpp"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace stepping {
namespace {

class traced {
 public:
  explicit traced(const std::function<void()>& child) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
    if (pid_ != 0) return;
    try {
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      child();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "what was to be counted failed: %s\n", e.what());
    }
    ::_exit(1);
  }
  traced(const traced&) = delete;
  traced& operator=(const traced&) = delete;
  ~traced() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // The signal that stopped it; 0: it has ended.
  [[nodiscard]] int wait() const {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) return 0;
    return WSTOPSIG(status);
  }
  void step() const {
    if (::ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0) {
      throw std::runtime_error("this kernel steps through no child");
    }
  }
  // Of the instruction to come.
  [[nodiscard]] std::uint64_t address() const {
    user_regs_struct registers{};
    iovec into{&registers, sizeof registers};
    if (::ptrace(PTRACE_GETREGSET, pid_, NT_PRSTATUS, &into) != 0) {
      throw std::runtime_error("this kernel tells no registers of a child");
    }
#if defined(__x86_64__)
    return registers.rip;
#else
    return registers.pc;
#endif
  }

 private:
  pid_t pid_;
};

std::runtime_error ended(int signal) {
  return std::runtime_error("what was to be counted ended too early" +
                            (signal != 0 ? ": " + std::string(::strsignal(signal)) : ""));
}

}  // namespace

void mark() { ::raise(SIGSTOP); }

profile count(const std::function<void()>& child,
              bool (*is_left_out)(std::uint64_t address) noexcept) {
  const traced c(child);
  const int begin = c.wait();
  if (begin != SIGSTOP) throw ended(begin);
  std::unordered_map<std::uint64_t, std::uint64_t> seen;
  // Repeated string instructions are stepped into, and are one all the same.
  std::uint64_t at = c.address();
  for (;;) {
    c.step();
    const int signal = c.wait();
    if (signal == SIGSTOP) return {seen.begin(), seen.end()};
    if (signal != SIGTRAP) throw ended(signal);
    const std::uint64_t next = c.address();
    if (next != at && !is_left_out(at)) ++seen[at];
    at = next;
  }
}

std::uint64_t total(const profile& p) noexcept {
  return std::accumulate(p.begin(), p.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& one) { return sum + one.second; });
}

}  // namespace stepping

#include "processes.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace perf {

std::string pin_to(std::optional<int> cpu) {
  if (!cpu) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(*cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return "--cpu: this process may not run on CPU " + std::to_string(*cpu) + " (" +
         std::strerror(errno) + "); /proc/self/status lists those allowed";
}

server_process::server_process(const std::function<int(const tell_address&)>& body) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const int code = body([&ends](const std::string& address) {
      [[maybe_unused]] const auto n = ::write(ends[1], address.data(), address.size());
      ::close(ends[1]);
    });
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(ends[1]);
  char text[256];
  for (ssize_t n; (n = ::read(ends[0], text, sizeof text)) > 0;) {
    address_.append(text, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
}

int server_process::wait() {
  if (pid_ < 0) return 0;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

server_process::~server_process() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

}  // namespace perf

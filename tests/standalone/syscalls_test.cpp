// System calls of passes that find nothing: a process is traced while it polls in vain.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace cordma;
using namespace cordma::test;
using transport::kind;

namespace {

constexpr int passes = 10'000;
constexpr auto mark = SYS_getppid;  // no other code calls it

// The traced process: polls an idle connection in vain between two marks. 0 if every pass found
// nothing.
int poll_in_vain(kind over) {
  stage s({}, over);
  wire w = s.play([](stage& on) -> task<wire> {
    endpoint_options
        patient;  // tcp probes its peer by a timer, and an expired timer is not a pass in vain
    patient.peer_timeout = std::chrono::hours(1);
    wire made = co_await connect(on, patient, patient);
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    recv_operation receiving = made.server.recv(in).start();
    co_await made.client.send(out);
    co_await receiving;
    co_return made;
  });
  MemoryRegion room = server_memory(s, 8);
  recv_operation receiving = w.server.recv(room).start();  // a receive waits
  int quiet = 0;
  while (quiet < passes) quiet = s.server().poll().value() == 0 ? quiet + 1 : 0;
  int found = 0;
  ::syscall(mark);
  for (int i = 0; i < passes; ++i) found += s.server().poll().value() == 0 ? 0 : 1;
  ::syscall(mark);
  return found == 0 ? 0 : 1;
}

using calls = std::map<std::uint64_t, int>;  // number of calls, by system call number

// False if this process may not trace.
bool trace(kind over, calls& between_marks) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    ::_exit(poll_in_vain(over));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (!WIFSTOPPED(status)) return false;
  REQUIRE(::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) ==
          0);
  int marks = 0;
  long deliver = 0;
  for (;;) {
    REQUIRE(::ptrace(PTRACE_SYSCALL, child, nullptr, deliver) == 0);
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (!WIFSTOPPED(status)) break;
    const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    deliver = at_call ? 0 : WSTOPSIG(status);
    if (!at_call) continue;
    __ptrace_syscall_info call{};
    REQUIRE(::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) > 0);
    if (call.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if (call.entry.nr == mark) {
      ++marks;
    } else if (marks == 1) {
      ++between_marks[call.entry.nr];
    }
  }
  CHECK(marks == 2);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  // On some machines the clock can only be read by a system call.
  between_marks.erase(SYS_clock_gettime);
  return true;
}

}  // namespace

TEST_CASE("D5: polling in vain makes no system call on sim, next to none on shm, two on tcp") {
  for (kind over : {kind::sim, kind::shm, kind::tcp}) {
    CAPTURE(transport::name(over));
    calls made;
    if (!trace(over, made)) {
      std::printf("skipped: this process may not trace another (ptrace)\n");
      std::exit(77);
    }
    int all = 0;
    for (const auto& [number, times] : made) all += times;
    MESSAGE(all << " system calls in " << passes << " passes");
    if (over == kind::sim) CHECK(all == 0);
    // New and closed connections are checked for once in 4096 passes of each of the two Workers.
    if (over == kind::shm) {
      CHECK(all <= 2 * (passes / 4096 + 1));
      CHECK(made[SYS_epoll_wait] == all);
    }
    // The kernel holds a socket's bytes: checking for them takes a system call.
    if (over == kind::tcp) {
      CHECK(all >= passes);
      CHECK(all <= 2 * 2 * passes);  // of each of the two Workers
    }
  }
}

#include <cordma/runtime/dump_handler.hpp>

#include <cordma/runtime/dump_writer.hpp>
#include <cordma/runtime/live_reactors.hpp>
#include <cordma/runtime/reactor.hpp>

#include <cerrno>
#include <csignal>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

namespace cordma {
namespace {

using detail::live_reactor;

// Reports the reactors that this thread owns and that are marked. False if there is none.
bool report_mine(pid_t me) noexcept {
  bool any = false;
  detail::for_each_live_reactor([&any, me](live_reactor& e, reactor& r) {
    if (e.thread.load(std::memory_order_relaxed) != me || !e.asked.exchange(false)) return;
    any = true;
    detail::visit_held(e, r, me, [&r]() noexcept { r.dump(STDERR_FILENO); });
  });
  return any;
}

void ask_all() noexcept {
  std::uint64_t count = 0;
  detail::for_each_live_reactor([&count](live_reactor& e, reactor&) {
    e.asked.store(true, std::memory_order_release);
    ++count;
  });
  dump_writer out(STDERR_FILENO, 1);
  out << "process " << static_cast<int>(::getpid()) << ": " << count << " reactors";
  out.end_line();
}

// Signals each thread once: a second signal of the same kind finds all of its reactors served.
void wake_others(int signal, pid_t me) noexcept {
  detail::for_each_live_reactor([signal, me](live_reactor& e, reactor& r) {
    const pid_t thread = e.thread.load(std::memory_order_relaxed);
    if (thread == me || !e.asked.load(std::memory_order_acquire)) return;
    if (::syscall(SYS_tgkill, ::getpid(), thread, signal) == 0) return;
    e.asked.store(false, std::memory_order_relaxed);
    dump_writer out(STDERR_FILENO, 1);
    out << "reactor " << static_cast<const void*>(&r) << ": its thread, "
        << static_cast<int>(thread) << ", has ended";
    out.end_line();
  });
}

void on_signal(int signal, siginfo_t* /*info*/, void* /*context*/) noexcept {
  const int saved = errno;
  const pid_t me = ::gettid();
  if (!report_mine(me)) {  // the signal was not forwarded by this process
    ask_all();
    wake_others(signal, me);
    report_mine(me);
  }
  errno = saved;
}

}  // namespace

result<void> install_dump_handler(int signal) {
  struct sigaction action{};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (::sigaction(signal, &action, nullptr) != 0) {
    return failure{errc::invalid_value, "signal " + std::to_string(signal) +
                                            " cannot be handled: use SIGUSR1 or another that "
                                            "is the program's own"};
  }
  return {};
}

}  // namespace cordma

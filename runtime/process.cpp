#include <cordma/runtime/process.hpp>

#include <pthread.h>

namespace cordma {

failure made_before_fork() noexcept {
  return failure::of(errc::bad_state,
                     {"made before fork() or daemon(3): make a new Context in the child"});
}

namespace detail {

constinit std::atomic<std::uint32_t> fork_count{0};

namespace {

constinit std::atomic<std::uint64_t> last_identity{0};

// Runs in the child: only the thread that called fork() continues there.
void on_fork() noexcept {
  fork_count.fetch_add(1, std::memory_order_relaxed);
  thread_identity = 0;
}

// If there is no memory for the handler, forks are not noticed; at the start of a program there is.
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, &on_fork);

}  // namespace

std::uint64_t name_thread() noexcept {
  if (thread_identity == 0) {
    thread_identity = last_identity.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  return thread_identity;
}

}  // namespace detail
}  // namespace cordma

// The table of the reactors of this process, for signal handlers, debuggers and the end of the process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace cordma {

class reactor;

namespace detail {

// Thread-safe, without a lock: a reactor changes its own entry, any thread reads all entries.
struct live_reactor {
  std::atomic<reactor*> object{nullptr};     // null: free
  std::atomic<pid_t> thread{0};              // the owner
  std::atomic<std::uint32_t> made_after{0};  // number of forks of the process
  std::atomic<bool> taken{false};
  std::atomic<bool> asked{false};  // a report is requested, by a signal handler on another thread
  // number of threads that read the reactor: its owner must not change
  std::atomic<std::uint32_t> reporting{0};
};

inline constexpr std::size_t max_live_reactors = 1024;
extern constinit std::array<live_reactor, max_live_reactors> live_table;

// Adds `r`, owned by the calling thread. Returns null if the table is full: such a reactor is in no
// report.
[[nodiscard]] live_reactor* enter_table(reactor& r) noexcept;
// After it returns, no other thread reads the reactor. Null does nothing.
void leave_table(live_reactor* entry) noexcept;
// Makes the calling thread the owner.
void change_thread(live_reactor* entry) noexcept;

// Calls `visit(live_reactor&, reactor&)` for the reactors that this process created; also in a
// signal handler.
[[nodiscard]] reactor* usable(live_reactor& entry) noexcept;
// Calls `visit()` if `r` is still in the entry and `thread` owns it; the owner does not change
// before it returns.
template <class Visit>
void visit_held(live_reactor& entry, const reactor& r, pid_t thread, Visit visit) noexcept {
  entry.reporting.fetch_add(1, std::memory_order_seq_cst);
  if (entry.object.load(std::memory_order_seq_cst) == &r &&
      entry.thread.load(std::memory_order_seq_cst) == thread) {
    visit();
  }
  entry.reporting.fetch_sub(1, std::memory_order_release);
}
template <class Visit>
void for_each_live_reactor(Visit visit) noexcept {
  for (live_reactor& e : live_table) {
    if (reactor* const r = usable(e)) visit(e, *r);
  }
}

}  // namespace detail
}  // namespace cordma

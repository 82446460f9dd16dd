// Which thread and which process an object belongs to, also after fork().
#pragma once

#include <cordma/runtime/result.hpp>

#include <atomic>
#include <cstdint>

namespace cordma {
namespace detail {

// Names the running thread among all of this process; 0: it was not asked yet. In a child of fork() it is 0 again, so
// that nothing of the parent belongs to the child's thread.
inline constinit thread_local std::uint64_t thread_identity = 0;
// Gives the running thread a name if it has none. A name is never used twice.
[[nodiscard]] std::uint64_t name_thread() noexcept;
// How often this process and its ancestors forked, along the line that leads here. Since the last exec().
extern constinit std::atomic<std::uint32_t> fork_count;

}  // namespace detail

// bad_state: what every call in a child of fork() fails with, if its object is of the parent.
[[nodiscard]] failure made_before_fork() noexcept;

// Remembers the process that made it. Thread-safe. fork() and daemon(3) are noticed; _Fork(), clone(2) and the fork
// system call by hand are not.
class process_mark {
 public:
  process_mark() noexcept : made_after_(detail::fork_count.load(std::memory_order_relaxed)) {}
  // True in a child that was forked after the mark was made.
  [[nodiscard]] bool inherited() const noexcept {
    return detail::fork_count.load(std::memory_order_relaxed) != made_after_;
  }

 private:
  std::uint32_t made_after_;
};

}  // namespace cordma

// The thread and the process that an object belongs to, also after fork().
#pragma once

#include <cordma/runtime/result.hpp>

#include <atomic>
#include <cstdint>

namespace cordma {
namespace detail {

// Identifies the running thread in this process; 0: not assigned yet. In a child of fork() it is 0
// again, so that nothing of the parent belongs to the child's thread.
inline constinit thread_local std::uint64_t thread_identity = 0;
// Assigns the running thread an identity if it has none. An identity is never reused.
[[nodiscard]] std::uint64_t name_thread() noexcept;
// Number of forks of this process and its ancestors, along the line that leads here, since the last
// exec().
extern constinit std::atomic<std::uint32_t> fork_count;

}  // namespace detail

// bad_state: the error of every call in a child of fork() on an object of the parent.
[[nodiscard]] failure made_before_fork() noexcept;

// Records the process that constructed it. Thread-safe. fork() and daemon(3) are noticed; _Fork(),
// clone(2) and the raw fork system call are not.
class process_mark {
 public:
  process_mark() noexcept : made_after_(detail::fork_count.load(std::memory_order_relaxed)) {}
  // True in a child that was forked after the mark was constructed.
  [[nodiscard]] bool inherited() const noexcept {
    return detail::fork_count.load(std::memory_order_relaxed) != made_after_;
  }

 private:
  std::uint32_t made_after_;
};

}  // namespace cordma

// io_ring: an io_uring, and what all that stand on one do with it.
#pragma once

#include <cordma/runtime/result.hpp>

#include <liburing.h>
#include <cstddef>
#include <cstdint>
#include <string>

namespace support {

// Bound to the thread that opens it.
class io_ring {
 public:
  // When the kernel does what it does in this thread's name.
  //   in_passing   with any system call; it wakes who sleeps on wait_fd().
  //   when_asked   in enter() alone (IORING_SETUP_DEFER_TASKRUN): no interrupts, and one system call for all of a pass.
  //                It wakes nobody who sleeps elsewhere: who sleeps must sleep in enter(1). Takes Linux 6.1.
  enum class work : std::uint8_t { in_passing, when_asked };

  io_ring() noexcept = default;
  ~io_ring() { close(); }
  io_ring(const io_ring&) = delete;
  io_ring& operator=(const io_ring&) = delete;

  // Room for so many entries, or for as many as the kernel gives at most; `completions` 0: for twice as many
  // completions. Returns 0, or an errno: then it is not open. Once.
  [[nodiscard]] int open(unsigned entries, work w, unsigned completions = 0) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return entries_ != 0; }
  // Then the kernel uses nothing any more of what operations were given.
  void close() noexcept;
  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  // For what is registered with it.
  [[nodiscard]] io_uring& kernel() noexcept { return ring_; }
  [[nodiscard]] int wait_fd() const noexcept { return ring_.ring_fd; }

  // For the next operation; null: no room until enter().
  [[nodiscard]] io_uring_sqe* entry() noexcept { return ::io_uring_get_sqe(&ring_); }
  [[nodiscard]] bool has_entries() const noexcept { return ::io_uring_sq_ready(&ring_) != 0; }
  [[nodiscard]] bool has_completions() const noexcept { return ::io_uring_cq_ready(&ring_) != 0; }
  // There is something to hand over, or to be had by asking.
  [[nodiscard]] bool worth_asking() const noexcept {
    return has_entries() || (IO_URING_READ_ONCE(*ring_.sq.kflags) &
                             (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  }
  // Hands over the entries, and sleeps until so many completions are there. False where the kernel is short of something
  // just now: what it has not taken stays, for the next time.
  bool enter(unsigned wait_for) noexcept;

  // Completions that are here, one after the other; `each` may use entry(). What it leads to at once is not among them.
  template <class Function>
  std::size_t reap(Function&& each) noexcept {
    const unsigned here = ::io_uring_cq_ready(&ring_);
    for (unsigned i = 0; i < here; ++i) {
      io_uring_cqe* at = nullptr;
      if (::io_uring_peek_cqe(&ring_, &at) != 0) return i;
      const io_uring_cqe outcome = *at;
      ::io_uring_cqe_seen(&ring_, at);
      each(outcome);
    }
    return here;
  }

 private:
  io_uring ring_{};
  unsigned entries_ = 0;  // 0: not open
  work work_ = work::in_passing;
};

// "there is no io_uring (...): allow it (...)"
[[nodiscard]] std::string why_no_ring(const cordma::failure& why);

}  // namespace support

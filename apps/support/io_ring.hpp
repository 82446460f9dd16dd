// io_ring: setup, entries and completions of an io_uring, for all programs in apps/.
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
  // When the kernel runs its work of this thread.
  //   in_passing   with any system call; a sleep on wait_fd() ends.
  //   when_asked   in enter() alone (IORING_SETUP_DEFER_TASKRUN): no interrupts, one system call for a whole pass. Only
  //                a sleep in enter(1) ends. Needs Linux 6.1.
  enum class work : std::uint8_t { in_passing, when_asked };

  io_ring() noexcept = default;
  ~io_ring() { close(); }
  io_ring(const io_ring&) = delete;
  io_ring& operator=(const io_ring&) = delete;

  // `entries`: capacity of the submission queue; the kernel may grant fewer. `completions`:
  // capacity of the completion queue; 0: twice the entries. Returns 0, or an errno if it could not
  // be opened. REQUIRES that it is not open.
  [[nodiscard]] int open(unsigned entries, work w, unsigned completions = 0) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return entries_ != 0; }
  // On return the kernel uses no memory of any operation.
  void close() noexcept;
  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  // For registering buffers and the ring itself.
  [[nodiscard]] io_uring& kernel() noexcept { return ring_; }
  [[nodiscard]] int wait_fd() const noexcept { return ring_.ring_fd; }

  // An entry for the next operation; null: no free entry until enter().
  [[nodiscard]] io_uring_sqe* entry() noexcept { return ::io_uring_get_sqe(&ring_); }
  [[nodiscard]] bool has_entries() const noexcept { return ::io_uring_sq_ready(&ring_) != 0; }
  [[nodiscard]] bool has_completions() const noexcept { return ::io_uring_cq_ready(&ring_) != 0; }
  // True if entries wait, or if the kernel has work that enter() runs.
  [[nodiscard]] bool worth_asking() const noexcept {
    return has_entries() || (IO_URING_READ_ONCE(*ring_.sq.kflags) &
                             (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  }
  // Submits the entries and sleeps until `wait_for` completions exist. False: the kernel is short
  // of memory or busy; entries that it did not accept stay for the next call.
  bool enter(unsigned wait_for) noexcept;

  // Calls `each` with the completions that exist now, in order; `each` may use entry(). Returns their number.
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

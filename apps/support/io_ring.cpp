#include "io_ring.hpp"

#include <cerrno>
#include <cordma/runtime/check.hpp>
#include <utility>

namespace support {
namespace {

// Without interrupts for the kernel's work of this thread; enter() triggers it.
constexpr unsigned in_passing =
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
constexpr unsigned when_asked = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;

}  // namespace

int io_ring::open(unsigned entries, work w, unsigned completions) noexcept {
  CORDMA_REQUIRE(!is_open());
  CORDMA_REQUIRE_OP(entries, >, 0U);
  work_ = w;
  io_uring_params p{};
  int outcome = -EINVAL;
  for (const unsigned flags : {w == work::in_passing ? in_passing : when_asked, 0U}) {
    p = {};
    p.flags = flags | IORING_SETUP_CLAMP | (completions != 0 ? IORING_SETUP_CQSIZE : 0U);
    p.cq_entries = completions;
    outcome = ::io_uring_queue_init_params(entries, &ring_, &p);
    // Linux before 5.19 supports none of the flags of in_passing and works without them.
    if (outcome != -EINVAL || w == work::when_asked) break;
  }
  if (outcome < 0) return -outcome;
  entries_ = p.sq_entries;
  return 0;
}

void io_ring::close() noexcept {
  if (std::exchange(entries_, 0U) != 0) ::io_uring_queue_exit(&ring_);
}

bool io_ring::enter(unsigned wait_for) noexcept {
  const int outcome = wait_for != 0               ? ::io_uring_submit_and_wait(&ring_, wait_for)
                      : work_ == work::in_passing ? ::io_uring_submit(&ring_)
                                                  : ::io_uring_submit_and_get_events(&ring_);
  CORDMA_ASSERT(outcome >= 0 || outcome == -EAGAIN || outcome == -EBUSY || outcome == -EINTR ||
                outcome == -ENOMEM);
  return outcome >= 0;
}

std::string why_no_ring(const cordma::failure& why) {
  return "there is no io_uring (" + why.message() +
         "): allow it (sysctl kernel.io_uring_disabled=0, and the container's seccomp profile)";
}

}  // namespace support

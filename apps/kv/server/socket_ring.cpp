#include "socket_ring.hpp"

#include <cordma/runtime/check.hpp>

#include <cerrno>
#include <string>

#include <sys/mman.h>

namespace kv {
namespace {

// Completions of one pass; an overflow costs a system call.
constexpr unsigned completions = 4 * socket_ring::entries;
constexpr std::size_t shared_bytes = socket_ring::buffers * sizeof(io_uring_buf);
// Attempts to submit entries for which the kernel lacks memory.
constexpr int most_attempts = 16;
constexpr std::uint8_t no_operation = 255;  // completes with EINVAL

[[nodiscard]] std::string reason(int error) {
  switch (error) {
    case ENOSYS: return "the kernel has no io_uring, or a filter of system calls hides it";
    case EPERM:
      return "io_uring is forbidden here (kernel.io_uring_disabled, or a container's rules)";
    case EINVAL: return "the kernel's io_uring is too old: this takes Linux 6.1";
    case ENOMEM: return "no memory for a ring: RLIMIT_MEMLOCK may be too low";
    default: return "io_uring_setup: " + cordma::failure::from_os(error, "").message();
  }
}

[[nodiscard]] void* map(std::size_t bytes) noexcept {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

cordma::result<std::unique_ptr<socket_ring>> socket_ring::make() {
  std::unique_ptr<socket_ring> made(new socket_ring);
  int failed = made->ring_.open(entries, support::io_ring::work::when_asked, completions);
  if (failed == 0) failed = made->set_up_buffers();
  if (failed != 0) return cordma::failure(cordma::errc::not_supported, reason(failed));
  // Saves the lookup of the descriptor in each call; optional.
  ::io_uring_register_ring_fd(&made->ring_.kernel());
  return made;
}

int socket_ring::set_up_buffers() noexcept {
  memory_ = static_cast<char*>(map(buffers * stride));
  shared_ = static_cast<io_uring_buf_ring*>(map(shared_bytes));
  if (memory_ == nullptr || shared_ == nullptr) return ENOMEM;
  io_uring_buf_reg r{};
  r.ring_addr = reinterpret_cast<std::uintptr_t>(shared_);
  r.ring_entries = buffers;
  r.bgid = buffer_group;
  if (const int outcome = ::io_uring_register_buf_ring(&ring_.kernel(), &r, 0); outcome < 0)
    return -outcome;
  for (unsigned short i = 0; i < buffers; ++i) {
    ::io_uring_buf_ring_add(shared_, memory_ + i * stride, buffer_bytes, i,
                            ::io_uring_buf_ring_mask(buffers), i);
  }
  ::io_uring_buf_ring_advance(shared_, buffers);
  return 0;
}

socket_ring::~socket_ring() {
  ring_.close();
  if (shared_ != nullptr) ::munmap(shared_, shared_bytes);
  if (memory_ != nullptr) ::munmap(memory_, buffers * stride);
}

io_uring_sqe& socket_ring::entry() noexcept {
  io_uring_sqe* free = ring_.entry();
  if (free == nullptr) {
    enter(0);
    free = ring_.entry();
    CORDMA_ASSERT(free != nullptr);
  }
  return *free;
}

void socket_ring::enter(unsigned wait_for) noexcept {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    ring_.enter(wait_for);
    if (!ring_.has_entries()) return;
    wait_for = 0;
  }
  take_back();
}

// The memory of entries may change once this returns, so none may be left for a later submission.
void socket_ring::take_back() noexcept {
  const io_uring_sq& offered = ring_.kernel().sq;
  for (unsigned at = IO_URING_READ_ONCE(*offered.khead); at != offered.sqe_tail; ++at) {
    io_uring_sqe& e = offered.sqes[at & *offered.kring_mask];
    const std::uint64_t whose = e.user_data;
    ::io_uring_prep_nop(&e);
    e.opcode = no_operation;
    e.user_data = whose;
  }
}

void socket_ring::give_back(const io_uring_cqe& of) noexcept {
  const std::uint16_t i = number(of);
  ::io_uring_buf_ring_add(shared_, memory_ + i * stride, buffer_bytes, i,
                          ::io_uring_buf_ring_mask(buffers), 0);
  ::io_uring_buf_ring_advance(shared_, 1);
}

}  // namespace kv

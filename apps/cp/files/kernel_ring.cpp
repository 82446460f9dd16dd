#include "kernel_ring.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/uio.h>

namespace copy {
namespace {

// Of a completion that no operation waits for: a cancel's.
constexpr std::uint64_t nobody = UINT64_MAX;
constexpr unsigned most_reaped = 64;  // at a time
// Without an interrupt for what is done in this thread's name: poll() asks for it. Not IORING_SETUP_DEFER_TASKRUN,
// whose work wakes nobody who sleeps on the ring's descriptor, and which binds the ring to the thread that made it.
constexpr unsigned wanted_flags =
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;

}  // namespace

cordma::result<std::unique_ptr<kernel_ring>> kernel_ring::make(cordma::reactor& loop,
                                                               std::uint32_t depth,
                                                               file_ring_counters& counters) {
  std::unique_ptr<kernel_ring> made(new kernel_ring(loop, counters));
  if (const int failed = made->set_up(depth); failed != 0) {
    return cordma::failure::from_os(failed, "io_uring_setup");
  }
  const cordma::result<void> added = loop.add(*made);
  if (!added) return added.why();
  return made;
}

int kernel_ring::set_up(std::uint32_t depth) {
  CORDMA_REQUIRE_OP(depth, >, 0U);
  int outcome = 0;
  io_uring_params granted{};
  for (const unsigned flags : {wanted_flags, 0U}) {  // before 5.19 it knows none of these
    granted = {};
    granted.flags = flags | IORING_SETUP_CLAMP;
    outcome = ::io_uring_queue_init_params(depth, &ring_, &granted);
    if (outcome != -EINVAL) break;
  }
  if (outcome < 0) return -outcome;
  alive_ = true;
  // The kernel keeps twice as many places for completions, which is room for a cancel of each.
  slots_.resize(std::min(depth, granted.sq_entries));
  for (std::uint32_t i = 0; i < slots_.size(); ++i) slots_[i].next_free = i + 1;
  return 0;
}

kernel_ring::~kernel_ring() {
  CORDMA_REQUIRE_OP(started_, ==, 0U);
  if (!alive_) return;
  loop_.remove(*this);
  ::io_uring_queue_exit(&ring_);
}

int kernel_ring::register_memory(std::span<std::byte> memory, std::size_t piece_bytes) {
  std::vector<iovec> pieces;
  pieces.reserve(memory.size() / piece_bytes + 1);
  for (std::span<std::byte> rest = memory; !rest.empty();) {
    const std::span<std::byte> piece = rest.first(std::min(rest.size(), piece_bytes));
    pieces.push_back({.iov_base = piece.data(), .iov_len = piece.size()});
    rest = rest.subspan(piece.size());
  }
  return -::io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
}

void kernel_ring::start(file_operation& op) noexcept {
  using phase = cordma::operation_base::phase;
  CORDMA_REQUIRE(loop_.on_owner_thread());
  op.set_phase(full() ? phase::queued : phase::posted);
  ++started_;
  waiting_.push_back(op);
}

void kernel_ring::moved(file_operation& op) noexcept { slots_[op.slot_].operation = &op; }

void kernel_ring::withdraw(file_operation& op) noexcept {
  op.unlink();
  --started_;
}

void kernel_ring::stop(file_operation& op) noexcept {
  stopping_ = &op;
  // A descriptor that is to be closed is closed.
  if (op.what_.opcode != IORING_OP_CLOSE) ask_to_stop(op);
  while (op.slot_ != file_operation::no_slot) {
    enter(waiting::for_one);
    reap();
  }
  stopping_ = nullptr;
}

void kernel_ring::ask_to_stop(const file_operation& op) noexcept {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    enter(waiting::for_nothing);
    reap();
    entry = ::io_uring_get_sqe(&ring_);
  }
  ::io_uring_prep_cancel64(entry, op.slot_, 0);
  entry->user_data = nobody;
  ++expected_;
}

std::size_t kernel_ring::poll() noexcept {
  submit();
  return expected_ == 0 ? 0 : reap();
}

cordma::arm_state kernel_ring::arm() noexcept {
  const bool busy =
      may_hand_over() || ::io_uring_sq_ready(&ring_) != 0 || ::io_uring_cq_ready(&ring_) != 0;
  return busy ? cordma::arm_state::busy : cordma::arm_state::armed;
}

void kernel_ring::submit() noexcept {
  while (may_hand_over()) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) break;
    prepare(*entry, waiting_.pop_front());
  }
  if (::io_uring_sq_ready(&ring_) != 0) enter(waiting::for_nothing);
}

void kernel_ring::prepare(io_uring_sqe& entry, file_operation& op) noexcept {
  const file_operation::request& r = op.what_;
  op.slot_ = first_free_;
  op.stage_ = file_operation::stage::begun;
  op.set_phase(cordma::operation_base::phase::posted);
  slot& s = slots_[op.slot_];
  first_free_ = s.next_free;
  s.operation = &op;
  ::io_uring_prep_rw(r.opcode, &entry, r.fd,
                     reinterpret_cast<const void*>(static_cast<std::uintptr_t>(r.address)),
                     r.length, r.offset);
  entry.rw_flags = static_cast<__kernel_rwf_t>(r.flags);  // or whatever its flags are called
  entry.buf_index = r.buffer;
  entry.user_data = op.slot_;
  ++expected_;
}

void kernel_ring::enter(waiting w) noexcept {
  ++counters_.submissions;
  const int outcome =
      w == waiting::for_one ? ::io_uring_submit_and_wait(&ring_, 1) : ::io_uring_submit(&ring_);
  // What it is too short of something for just now stays in the ring, for the next pass.
  CORDMA_ASSERT(outcome >= 0 || outcome == -EAGAIN || outcome == -EBUSY || outcome == -EINTR ||
                outcome == -ENOMEM);
}

std::size_t kernel_ring::reap() noexcept {
  std::array<io_uring_cqe*, most_reaped> outcomes;
  std::size_t total = 0;
  while (expected_ != 0) {
    const unsigned n = ::io_uring_peek_batch_cqe(&ring_, outcomes.data(), most_reaped);
    if (n == 0) break;
    for (unsigned i = 0; i < n; ++i) tell(*outcomes[i]);
    ::io_uring_cq_advance(&ring_, n);
    total += n;
  }
  return total;
}

void kernel_ring::tell(const io_uring_cqe& outcome) noexcept {
  --expected_;
  if (outcome.user_data == nobody) return;
  CORDMA_ASSERT_OP(outcome.user_data, <, slots_.size());
  slot& s = slots_[outcome.user_data];
  file_operation& op = *s.operation;
  s.operation = nullptr;
  s.next_free = first_free_;
  first_free_ = op.slot_;
  op.slot_ = file_operation::no_slot;
  // Its worker thread was disturbed, which is none of the caller's business.
  if (outcome.res == -EINTR && op.what_.opcode != IORING_OP_CLOSE && stopping_ != &op) {
    waiting_.push_front(op);
    return;
  }
  --started_;
  op.complete(outcome.res);
}

}  // namespace copy

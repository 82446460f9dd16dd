#include "kernel_ring.hpp"

#include <algorithm>
#include <cerrno>

#include <sys/uio.h>

namespace copy {
namespace {

// user_data of a completion without an operation: that of a cancel.
constexpr std::uint64_t nobody = UINT64_MAX;

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
  const int failed = ring_.open(depth, support::io_ring::work::in_passing);
  if (failed != 0) return failed;
  // The completion queue has twice as many entries, enough for a cancel of each operation.
  slots_.resize(std::min(depth, ring_.entries()));
  for (std::uint32_t i = 0; i < slots_.size(); ++i) slots_[i].next_free = i + 1;
  return 0;
}

kernel_ring::~kernel_ring() {
  CORDMA_REQUIRE_OP(started_, ==, 0U);
  if (ring_.is_open()) loop_.remove(*this);
}

int kernel_ring::register_memory(std::span<std::byte> memory, std::size_t piece_bytes) {
  std::vector<iovec> pieces;
  pieces.reserve(memory.size() / piece_bytes + 1);
  for (std::span<std::byte> rest = memory; !rest.empty();) {
    const std::span<std::byte> piece = rest.first(std::min(rest.size(), piece_bytes));
    pieces.push_back({.iov_base = piece.data(), .iov_len = piece.size()});
    rest = rest.subspan(piece.size());
  }
  return -::io_uring_register_buffers(&ring_.kernel(), pieces.data(),
                                      static_cast<unsigned>(pieces.size()));
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
  // A close() is not canceled: its descriptor must be closed.
  if (op.what_.opcode != IORING_OP_CLOSE) ask_to_stop(op);
  while (op.slot_ != file_operation::no_slot) {
    enter(1);
    reap();
  }
  stopping_ = nullptr;
}

void kernel_ring::ask_to_stop(const file_operation& op) noexcept {
  io_uring_sqe* entry = ring_.entry();
  while (entry == nullptr) {
    enter(0);
    reap();
    entry = ring_.entry();
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
  const bool busy = may_hand_over() || ring_.has_entries() || ring_.has_completions();
  return busy ? cordma::arm_state::busy : cordma::arm_state::armed;
}

void kernel_ring::submit() noexcept {
  while (may_hand_over()) {
    io_uring_sqe* const entry = ring_.entry();
    if (entry == nullptr) break;
    prepare(*entry, waiting_.pop_front());
  }
  if (ring_.has_entries()) enter(0);
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
  // the name of the flags depends on the opcode
  entry.rw_flags = static_cast<__kernel_rwf_t>(r.flags);
  entry.buf_index = r.buffer;
  entry.user_data = op.slot_;
  ++expected_;
}

void kernel_ring::enter(unsigned wait_for) noexcept {
  ++counters_.submissions;
  ring_.enter(wait_for);
}

std::size_t kernel_ring::reap() noexcept {
  std::size_t total = 0;
  while (expected_ != 0) {
    const std::size_t n = ring_.reap([this](const io_uring_cqe& outcome) { tell(outcome); });
    if (n == 0) break;
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
  // A signal interrupted the worker thread of the kernel; the operation is repeated.
  if (outcome.res == -EINTR && op.what_.opcode != IORING_OP_CLOSE && stopping_ != &op) {
    waiting_.push_front(op);
    return;
  }
  --started_;
  op.complete(outcome.res);
}

}  // namespace copy

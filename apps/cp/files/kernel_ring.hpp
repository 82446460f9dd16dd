// io_uring on a reactor: the base of a file_ring if the kernel supports it.
#pragma once

#include "../../support/io_ring.hpp"
#include "file_ring.hpp"

#include <cordma/runtime/list.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace copy {

// Submits operations in order, and completes them. Bound to the thread of its reactor.
class kernel_ring final : public cordma::poller {
 public:
  // Errors: those of io_uring_setup() or of the reactor, with errno.
  [[nodiscard]] static cordma::result<std::unique_ptr<kernel_ring>> make(
      cordma::reactor& loop, std::uint32_t depth, file_ring_counters& counters);
  // REQUIRES: no operation is in flight.
  ~kernel_ring() override;

  // Registers memory in pieces of `piece_bytes`, numbered from 0. Returns 0, or an errno: then
  // nothing is registered.
  [[nodiscard]] int register_memory(std::span<std::byte> memory, std::size_t piece_bytes);

  // True if an operation started now has to wait for another to complete.
  [[nodiscard]] bool full() const noexcept { return started_ >= slots_.size(); }
  void start(file_operation& op) noexcept;
  // Updates the address of a moved operation that has a slot.
  void moved(file_operation& op) noexcept;
  // withdraw() abandons an operation before its submission, stop() after it; stop() returns when
  // the kernel no longer uses it.
  void withdraw(file_operation& op) noexcept;
  void stop(file_operation& op) noexcept;

  std::size_t poll() noexcept override;
  cordma::arm_state arm() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return ring_.wait_fd(); }
  [[nodiscard]] const char* name() const noexcept override { return "file"; }

 private:
  struct slot {
    file_operation* operation = nullptr;
    std::uint32_t next_free = 0;
  };
  kernel_ring(cordma::reactor& loop, file_ring_counters& counters) noexcept
      : loop_(loop), counters_(counters) {}
  [[nodiscard]] int set_up(std::uint32_t depth);
  [[nodiscard]] bool may_hand_over() noexcept {
    return !waiting_.empty() && first_free_ < slots_.size();
  }
  void submit() noexcept;
  void prepare(io_uring_sqe& entry, file_operation& op) noexcept;
  void ask_to_stop(const file_operation& op) noexcept;
  void enter(unsigned wait_for) noexcept;
  std::size_t reap() noexcept;
  void tell(const io_uring_cqe& outcome) noexcept;

  cordma::reactor& loop_;
  file_ring_counters& counters_;
  support::io_ring ring_;
  std::vector<slot> slots_;
  std::uint32_t first_free_ = 0;          // slots_.size(): none is free
  cordma::list<file_operation> waiting_;  // started, in order, without a slot
  std::size_t started_ = 0;               // started operations, with and without a slot
  std::size_t expected_ = 0;  // expected completions: of operations with a slot, and of cancels
  const file_operation* stopping_ = nullptr;
};

}  // namespace copy

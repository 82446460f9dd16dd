// io_uring on a reactor: what a file_ring stands on where the kernel has it.
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

// Takes operations in order, and tells each its outcome. Bound to the thread of its reactor.
class kernel_ring final : public cordma::poller {
 public:
  // Errors: what io_uring_setup() says, or the reactor, with errno.
  [[nodiscard]] static cordma::result<std::unique_ptr<kernel_ring>> make(
      cordma::reactor& loop, std::uint32_t depth, file_ring_counters& counters);
  // REQUIRES that no operation is under way.
  ~kernel_ring() override;

  // In pieces of `piece_bytes`, counted from 0. Returns 0, or an errno: then nothing is registered.
  [[nodiscard]] int register_memory(std::span<std::byte> memory, std::size_t piece_bytes);

  // Whether one that is started now has to wait for another to end.
  [[nodiscard]] bool full() const noexcept { return started_ >= slots_.size(); }
  void start(file_operation& op) noexcept;
  // One that has a slot is now here.
  void moved(file_operation& op) noexcept;
  // It is given up before the kernel has it; and afterwards: returns when the kernel is through with it.
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
  std::uint32_t first_free_ = 0;          // slots_.size(): none is
  cordma::list<file_operation> waiting_;  // started, in order, without a slot
  std::size_t started_ = 0;               // ... and those that have one
  std::size_t expected_ = 0;  // completions to come: of those with a slot, and of cancels
  const file_operation* stopping_ = nullptr;
};

}  // namespace copy

// The records that a queue pair keeps of its posted requests.
#pragma once

#include <cordma/net/transport/types.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <bit>
#include <memory>

namespace cordma::transport::verbs {

struct send_slot {
  std::uint64_t id;
  std::uint32_t byte_len;  // for a read, unless it failed
  std::uint32_t vendor_err;
  std::uint32_t window;  // for a bind; unspecified for other requests
  opcode op;
  wc_status status;
  bool on_device;  // the device owes a completion of this request, or of a later one that covers it
};

// While it is posted, only its id and on_device are valid.
struct recv_slot {
  std::uint64_t id;
  std::uint32_t byte_len;
  std::uint32_t imm;
  std::uint32_t vendor_err;
  opcode op;
  wc_status status;
  bool has_imm;
  bool on_device;
  std::uint32_t invalidated;  // a key; 0: none
};
static_assert(sizeof(recv_slot) == 32);
static_assert(std::is_trivially_copyable_v<recv_slot> && std::is_trivially_copyable_v<send_slot>);

// The send queue: requests end in order. taken <= done <= posted, as distances of running numbers.
class send_ring {
 public:
  explicit send_ring(std::uint32_t depth)
      : mask_(std::bit_ceil(std::max(depth, 1U)) - 1), at_(new send_slot[mask_ + std::size_t{1}]) {
    CORDMA_REQUIRE_OP(depth, <=, most_depth);
  }
  [[nodiscard]] send_slot& operator[](std::uint32_t number) noexcept { return at_[number & mask_]; }
  [[nodiscard]] bool idle() const noexcept { return done_ == posted_; }
  // Running numbers of the next request to post, and of the next one to receive its final status.
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t done() const noexcept { return done_; }
  // Number of requests posted and not reported.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return posted_ - taken_; }
  void post() noexcept { ++posted_; }
  // REQUIRES that at least `count` are posted. Ends them and returns the last one.
  [[nodiscard]] send_slot& end(std::uint32_t count = 1) noexcept {
    done_ += count;
    return (*this)[done_ - 1];
  }
  // Ends and reports the next request. REQUIRES not has_finished().
  void end_and_take() noexcept { taken_ = ++done_; }
  [[nodiscard]] bool has_finished() const noexcept { return taken_ != done_; }
  // REQUIRES has_finished().
  [[nodiscard]] send_slot& take() noexcept { return (*this)[taken_++]; }
  // note_special(): the last posted request cannot end on the fast path. has_special(): one is
  // outstanding.
  void note_special() noexcept { special_ = posted_; }
  [[nodiscard]] bool has_special() const noexcept { return special_ - done_ - 1 < posted_ - done_; }

 private:
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;   // requests with their final status
  std::uint32_t taken_ = 0;  // reported
  std::uint32_t mask_;
  std::uint32_t special_ = 0;  // posted_ after the last special request
  std::unique_ptr<send_slot[]> at_;
};

// The receive queue: a table, because a datagram port returns a receive to the device if the
// datagram does not fit into it, and later receives then end first.
class recv_table {
 public:
  explicit recv_table(std::uint32_t depth)
      : depth_(depth),
        slots_(new recv_slot[depth]()),
        free_(new std::uint32_t[depth]),
        finished_(new std::uint32_t[depth]) {
    CORDMA_REQUIRE_OP(depth, <=, most_depth);
    for (std::uint32_t i = 0; i < depth; ++i) free_[i] = depth - 1 - i;
    free_count_ = depth;
  }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] bool full() const noexcept { return free_count_ == 0; }
  [[nodiscard]] recv_slot& operator[](std::uint32_t place) noexcept { return slots_[place]; }
  [[nodiscard]] std::uint32_t reserve() noexcept { return free_[--free_count_]; }
  void finish(std::uint32_t place) noexcept { finished_[(first_ + count_++) % depth_] = place; }
  [[nodiscard]] bool idle() const noexcept { return free_count_ + count_ == depth_; }
  [[nodiscard]] bool any_finished() const noexcept { return count_ != 0; }
  // Releases a slot that was never finished.
  void release(std::uint32_t place) noexcept { free_[free_count_++] = place; }
  // REQUIRES any_finished(); the slot stays readable until the next reserve().
  [[nodiscard]] const recv_slot& take() noexcept {
    const std::uint32_t place = finished_[first_];
    first_ = (first_ + 1) % depth_;
    --count_;
    free_[free_count_++] = place;
    return slots_[place];
  }

 private:
  std::uint32_t depth_;
  std::unique_ptr<recv_slot[]> slots_;
  std::unique_ptr<std::uint32_t[]> free_;
  std::unique_ptr<std::uint32_t[]> finished_;
  std::uint32_t free_count_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace cordma::transport::verbs

// The send queue and the receive queue of one connection: rings of fixed size, and no I/O.
#pragma once

#include <bit>
#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/net/transport/tcp/segments.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/check.hpp>
#include <memory>

namespace cordma::transport::tcp {

// Slots with up to `segments` segments and `inline_bytes` of storage each, addressed by a running
// number. Storage is touched when it is first used.
template <class Slot>
class slot_ring {
 public:
  slot_ring(std::uint32_t depth, std::uint32_t segments, std::uint32_t inline_bytes)
      : mask_(std::bit_ceil(std::max(depth, 1U)) - 1),
        per_slot_(std::max(segments, 1U)),
        inline_bytes_(inline_bytes),
        slots_(new Slot[mask_ + std::size_t{1}]),
        segments_(new segment[(mask_ + std::size_t{1}) * per_slot_]),
        inline_(new std::byte[(mask_ + std::size_t{1}) * inline_bytes_]) {
    CORDMA_REQUIRE_OP(depth, <=, most_depth);
  }

  [[nodiscard]] std::uint32_t capacity() const noexcept { return mask_ + 1; }
  [[nodiscard]] Slot& operator[](std::uint32_t number) noexcept { return slots_[number & mask_]; }
  [[nodiscard]] segment* storage(std::uint32_t number) noexcept {
    return &segments_[std::size_t{number & mask_} * per_slot_];
  }
  [[nodiscard]] segment_list segments(std::uint32_t number) noexcept {
    return {storage(number), (*this)[number].segment_count};
  }
  [[nodiscard]] std::byte* inline_storage(std::uint32_t number) noexcept {
    return &inline_[std::size_t{number & mask_} * inline_bytes_];
  }
  [[nodiscard]] std::uint32_t segments_per_slot() const noexcept { return per_slot_; }
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept { return inline_bytes_; }

 private:
  std::uint32_t mask_;
  std::uint32_t per_slot_;
  std::uint32_t inline_bytes_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<segment[]> segments_;
  std::unique_ptr<std::byte[]> inline_;
};

struct send_slot {
  std::uint64_t id;
  std::uint64_t remote_addr;
  std::uint64_t rkey;
  std::uint64_t operand;
  std::uint64_t swap;
  std::uint32_t length;  // bytes, of all segments
  std::uint32_t imm;
  opcode op;
  std::uint8_t flags;
  std::uint16_t segment_count;
  wc_status status;  // before it is sent: what was wrong with it locally
  bool answered;     // reads and atomics: the answer is in the segments
};

[[nodiscard]] inline bool wants_answer(opcode op) noexcept {
  return op == opcode::read || op == opcode::fetch_add || op == opcode::compare_swap;
}
[[nodiscard]] inline bool takes_receive(opcode op) noexcept {
  return op == opcode::send || op == opcode::send_imm || op == opcode::write_imm ||
         op == opcode::send_invalidate;
}

// taken <= done <= acked <= sent <= posted, as distances. A request's number on the wire is its
// number here, modulo 65536.
struct send_queue : slot_ring<send_slot> {
  using slot_ring::slot_ring;
  std::uint32_t posted = 0;
  std::uint32_t sent = 0;         // begun to be sent
  std::uint32_t acked = 0;        // carried out by the peer, or about to be answered
  std::uint32_t done = 0;         // have their final status
  std::uint32_t taken = 0;        // reported
  std::uint32_t next_answer = 0;  // no read or atomic before this one waits for its answer
  std::uint32_t reads = 0;        // reads and atomics begun and not answered

  // Completes in order whatever is acknowledged and answered. True if anything was.
  bool settle() noexcept {
    const std::uint32_t before = done;
    while (done != acked) {
      send_slot& s = (*this)[done];
      if (wants_answer(s.op) && !s.answered) break;
      s.status = wc_status::success;
      ++done;
    }
    return done != before;
  }
  // What has no final status yet was never carried out, as far as anybody can know.
  void flush() noexcept {
    CORDMA_ASSERT_OP(posted - taken, <=, capacity());
    CORDMA_ASSERT_OP(done - taken, <=, posted - taken);
    for (; done != posted; ++done) (*this)[done].status = wc_status::wr_flush_err;
    sent = acked = posted;
    reads = 0;
  }
  // The order of its numbers, as above. For slow paths.
  void check() const noexcept {
    CORDMA_ASSERT_OP(posted - taken, <=, capacity());
    CORDMA_ASSERT_OP(done - taken, <=, acked - taken);
    CORDMA_ASSERT_OP(acked - taken, <=, sent - taken);
    CORDMA_ASSERT_OP(sent - taken, <=, posted - taken);
    CORDMA_ASSERT_OP(reads, <=, sent - done);
  }
};

struct recv_slot {
  std::uint64_t id;
  std::uint32_t length;  // bytes, of all segments
  std::uint32_t byte_len;
  std::uint32_t imm;
  std::uint16_t segment_count;
  opcode op;
  wc_status status;
  bool has_imm;
  std::uint64_t invalidated;  // a key; 0: none
};

// taken <= done <= posted. The message that is arriving, if any, lands in slot `done`. Where receives are
// shared, there is one slot, for the one that this message has taken.
struct recv_queue : slot_ring<recv_slot> {
  using slot_ring::slot_ring;
  std::uint32_t posted = 0;
  std::uint32_t done = 0;
  std::uint32_t taken = 0;

  void flush() noexcept {
    CORDMA_ASSERT_OP(posted - taken, <=, capacity());
    CORDMA_ASSERT_OP(done - taken, <=, posted - taken);
    for (; done != posted; ++done) (*this)[done].status = wc_status::wr_flush_err;
  }
};

// What the peer is still to be told about its requests, in their order.
struct answer {
  enum class kind : std::uint8_t { read, atomic, nak };
  kind what;
  wc_status status;  // nak
  std::uint16_t request;
  std::uint32_t length;
  std::uint64_t addr;
  std::uint64_t rkey;
  std::uint64_t value;  // atomic, and a read of as many bytes: as it was when the answer began
};

class answer_queue {
 public:
  // One place beyond the reads agreed to, for the nak that ends it all.
  explicit answer_queue(std::uint32_t reads)
      : mask_(std::bit_ceil(reads + 2) - 1), at_(new answer[mask_ + std::size_t{1}]) {
    CORDMA_REQUIRE_OP(reads, <=, most_reads);
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return end - begin; }
  [[nodiscard]] bool empty() const noexcept { return end == begin; }
  [[nodiscard]] answer& operator[](std::uint32_t number) noexcept { return at_[number & mask_]; }
  void push(const answer& a) noexcept {
    CORDMA_ASSERT_OP(size(), <=, mask_);
    (*this)[end++] = a;
  }
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

 private:
  std::uint32_t mask_;
  std::unique_ptr<answer[]> at_;
};

}  // namespace cordma::transport::tcp

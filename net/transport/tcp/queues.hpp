// The send queue and the receive queue of one connection: rings of fixed size, and no I/O.
#pragma once

#include <bit>
#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/net/transport/tcp/segments.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/check.hpp>
#include <memory>
#include <new>
#include <type_traits>

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
        slots_(static_cast<Slot*>(::operator new((mask_ + std::size_t{1}) * sizeof(Slot)))),
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
  // Allocated but not constructed: construction would touch all of them.
  static_assert(std::is_trivially_copyable_v<Slot> && std::is_trivially_destructible_v<Slot>);
  struct free_memory {
    void operator()(Slot* all) const noexcept { ::operator delete(all); }
  };
  std::unique_ptr<Slot[], free_memory> slots_;
  std::unique_ptr<segment[]> segments_;
  std::unique_ptr<std::byte[]> inline_;
};

struct send_slot {
  frame head;  // without the fields of the connection; `length` is that of all segments
  std::uint64_t id;
  opcode op;
  std::uint8_t flags;
  std::uint16_t segment_count;
  wc_status status;  // before it is sent: a local error
  bool answered;     // reads and atomics: the answer is stored in the segments
};
static_assert(sizeof(send_slot) == 64, "found by a shift");

[[nodiscard]] constexpr bool wants_answer(opcode op) noexcept {
  return is_any<opcode::read, opcode::fetch_add, opcode::compare_swap>(op);
}
[[nodiscard]] constexpr bool takes_receive(opcode op) noexcept {
  return is_any<opcode::send, opcode::send_imm, opcode::write_imm, opcode::send_invalidate>(op);
}

// Properties of an operation.
struct request_rule {
  frame_type type;
  access wanted;  // to the local memory
  bool is_atomic;
  bool has_imm;
};
inline constexpr std::array<request_rule, opcode_count> request_rules = [] {
  std::array<request_rule, opcode_count> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto op = static_cast<opcode>(i);
    const frame_type type = to_frame_type(op);
    all[i] = {.type = type,
              .wanted = wants_answer(op) ? access::local_write : access::local_read,
              .is_atomic = is_atomic(type),
              .has_imm = has_imm(type)};
  }
  return all;
}();

// taken <= done <= acked <= sent <= posted, as distances. A request has the same number here and,
// modulo 65536, on the wire.
class send_queue : public slot_ring<send_slot> {
 public:
  using slot_ring::slot_ring;
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t sent() const noexcept { return sent_; }    // begun to be sent
  [[nodiscard]] std::uint32_t acked() const noexcept { return acked_; }  // carried out by the peer
  [[nodiscard]] std::uint32_t done() const noexcept { return done_; }    // have their final status
  // Number of reads and atomics begun and not answered.
  [[nodiscard]] std::uint32_t reads() const noexcept { return reads_; }
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return posted_ - taken_; }
  [[nodiscard]] bool all_sent() const noexcept { return sent_ == posted_; }
  [[nodiscard]] bool all_done() const noexcept { return done_ == posted_; }

  // Adds a request after its slot was filled.
  void post() noexcept { ++posted_; }
  // Requests that are posted later are never sent.
  void close() noexcept { closed_at_ = posted_; }
  [[nodiscard]] std::uint32_t closed_at() const noexcept { return closed_at_; }

  void begin(std::uint32_t number) noexcept { begin(number, (*this)[number].op); }
  void begin(std::uint32_t number, opcode op) noexcept {
    sent_ = number + 1;
    if (wants_answer(op)) {
      ++reads_;
    } else if (takes_receive(op)) {
      last_message_ = sent_;
    }
  }
  // True if a message is unacknowledged: the peer may refuse it, and with it everything behind it.
  [[nodiscard]] bool awaits_ack_of_message() const noexcept {
    return static_cast<std::int32_t>(last_message_ - acked_) > 0;
  }
  // True if this completes any request.
  [[nodiscard]] bool acknowledge(std::uint32_t count) noexcept {
    acked_ += count;
    if (!awaits_ack_of_message()) last_message_ = acked_;
    return settle();
  }
  // Marks all unacknowledged requests to be sent again. Returns the number of receives they take.
  std::uint32_t send_again() noexcept {
    std::uint32_t receives = 0;
    for (std::uint32_t i = acked_; i != sent_; ++i) {
      const opcode op = (*this)[i].op;
      if (takes_receive(op)) ++receives;
      if (!wants_answer(op)) continue;
      CORDMA_ASSERT_OP(reads_, >, 0U);
      --reads_;
    }
    sent_ = acked_;
    check();
    return receives;
  }

  // The read or atomic of the next answer; sent() if none waits for one.
  [[nodiscard]] std::uint32_t find_unanswered() noexcept {
    // If no request needed an answer for long, next_answer_ refers to slots that were reused since.
    if (static_cast<std::int32_t>(done_ - next_answer_) > 0) next_answer_ = done_;
    while (next_answer_ != sent_ && !wants_answer((*this)[next_answer_].op)) ++next_answer_;
    return next_answer_;
  }
  // Segments of the request that find_unanswered() returned.
  [[nodiscard]] segment_list answer_segments() noexcept { return segments(next_answer_); }
  // True if this completes any request.
  [[nodiscard]] bool answered() noexcept {
    (*this)[next_answer_++].answered = true;
    --reads_;
    return settle();
  }

  // The first request that is not done.
  [[nodiscard]] send_slot& first_undone() noexcept { return (*this)[done_]; }
  void fail_first(wc_status status) noexcept {
    check();
    CORDMA_ASSERT_OP(done_, !=, posted_);
    CORDMA_ASSERT(status != wc_status::success);
    (*this)[done_++].status = status;
    acked_ = done_;
  }
  // A request without a final status counts as not carried out.
  void flush() noexcept {
    CORDMA_ASSERT_OP(posted_ - taken_, <=, capacity());
    CORDMA_ASSERT_OP(done_ - taken_, <=, posted_ - taken_);
    for (; done_ != posted_; ++done_) (*this)[done_].status = wc_status::wr_flush_err;
    sent_ = acked_ = posted_;
    reads_ = 0;
  }

  [[nodiscard]] bool has_done() const noexcept { return taken_ != done_; }
  // REQUIRES has_done(). The first request that is not reported.
  [[nodiscard]] const send_slot& first_done() noexcept { return (*this)[taken_]; }
  void take() noexcept { ++taken_; }

  // Checks the order of its counters, as above. Not for the path of each message.
  void check() const noexcept {
    CORDMA_ASSERT_OP(posted_ - taken_, <=, capacity());
    CORDMA_ASSERT_OP(done_ - taken_, <=, acked_ - taken_);
    CORDMA_ASSERT_OP(acked_ - taken_, <=, sent_ - taken_);
    CORDMA_ASSERT_OP(sent_ - taken_, <=, posted_ - taken_);
    CORDMA_ASSERT_OP(reads_, <=, sent_ - done_);
  }

 private:
  // Completes, in order, all requests that are acknowledged and answered. True if there were any.
  [[nodiscard]] bool settle() noexcept {
    const std::uint32_t before = done_;
    while (done_ != acked_) {
      send_slot& s = (*this)[done_];
      if (wants_answer(s.op) && !s.answered) break;
      s.status = wc_status::success;
      ++done_;
    }
    return done_ != before;
  }

  std::uint32_t posted_ = 0;
  std::uint32_t sent_ = 0;
  std::uint32_t acked_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t taken_ = 0;        // reported
  std::uint32_t next_answer_ = 0;  // every read or atomic before this one has its answer
  std::uint32_t reads_ = 0;
  std::uint32_t last_message_ = 0;  // behind the last message sent, unless it is acknowledged
  std::uint32_t closed_at_ = 0;
};

struct recv_slot {
  std::uint64_t id;
  std::uint32_t length;  // bytes of all segments
  std::uint32_t byte_len;
  std::uint32_t imm;
  std::uint16_t segment_count;
  opcode op;
  wc_status status;
  bool has_imm;
  std::uint64_t invalidated;  // a key; 0: none
};

// taken <= done <= posted. An arriving message is stored in the first slot that is not done. With
// shared receives there is one slot, for the receive that this message has taken.
class recv_queue : public slot_ring<recv_slot> {
 public:
  using slot_ring::slot_ring;
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t done() const noexcept { return done_; }
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return posted_ - taken_; }
  [[nodiscard]] bool all_done() const noexcept { return done_ == posted_; }

  // Adds a receive after its slot was filled.
  void post() noexcept { ++posted_; }
  // REQUIRES one. The first receive that is not done.
  [[nodiscard]] recv_slot& current() noexcept { return (*this)[done_]; }
  [[nodiscard]] segment_list current_segments() noexcept { return segments(done_); }
  void finish() noexcept { ++done_; }
  void flush() noexcept {
    CORDMA_ASSERT_OP(posted_ - taken_, <=, capacity());
    CORDMA_ASSERT_OP(done_ - taken_, <=, posted_ - taken_);
    for (; done_ != posted_; ++done_) (*this)[done_].status = wc_status::wr_flush_err;
  }

  [[nodiscard]] bool has_done() const noexcept { return taken_ != done_; }
  // REQUIRES one. The first receive that is not reported.
  [[nodiscard]] const recv_slot& untaken() noexcept { return (*this)[taken_]; }
  void take() noexcept { ++taken_; }

 private:
  std::uint32_t posted_ = 0;
  std::uint32_t done_ = 0;
  std::uint32_t taken_ = 0;
};

// A pending answer to a request of the peer; sent in the order of the requests.
struct answer {
  frame_type type;   // read_response, atomic_response or nak
  wc_status status;  // nak
  std::uint16_t request;
  std::uint32_t length;  // of a read, in bytes
  std::uint64_t addr;
  std::uint64_t rkey;
  std::uint64_t value;  // an atomic, or a read of 8 bytes: the value when the answer began
};
[[nodiscard]] inline frame head_of(const answer& a) noexcept {
  return {.type = a.type,
          .status = a.status,
          .request = a.request,
          .length = a.length,
          .operand = a.value};
}

class answer_queue {
 public:
  // One entry more than the agreed reads, for the nak that ends the connection.
  explicit answer_queue(std::uint32_t reads)
      : mask_(std::bit_ceil(reads + 2) - 1), at_(new answer[mask_ + std::size_t{1}]) {
    CORDMA_REQUIRE_OP(reads, <=, most_reads);
  }
  [[nodiscard]] std::uint32_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::uint32_t end() const noexcept { return end_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return end_ == begin_; }
  [[nodiscard]] answer& operator[](std::uint32_t number) noexcept { return at_[number & mask_]; }
  void push(const answer& a) noexcept {
    CORDMA_ASSERT_OP(size(), <=, mask_);
    (*this)[end_++] = a;
  }
  void pop() noexcept { ++begin_; }
  // Drops all answers behind this one.
  void end_with(std::uint32_t number) noexcept { end_ = number + 1; }

 private:
  std::uint32_t mask_;
  std::unique_ptr<answer[]> at_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace cordma::transport::tcp

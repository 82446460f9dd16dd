// A ring of cells in shared memory with one producer and one consumer. A cell is valid if it has
// the stamp of its lap, so the consumer polls one cache line and no shared counter. The memory is
// mapped twice in a row, so every message is contiguous.
#pragma once

#include <bit>
#include <cordma/net/transport/shm/cell.hpp>
#include <cordma/net/transport/shm/copy.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/check.hpp>
#include <cstring>

namespace cordma::transport::shm {

[[nodiscard]] inline std::atomic_ref<std::uint64_t> stamp_word(std::byte* cell) noexcept {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(cell));
}

[[nodiscard]] inline std::uint64_t published_word(std::uint32_t stamp,
                                                  std::uint32_t length) noexcept {
  return std::bit_cast<std::uint64_t>(std::array<std::uint32_t, 2>{stamp, length});
}

// Bound to the thread of the producer.
class ring_writer {
 public:
  ring_writer() noexcept = default;
  ring_writer(std::byte* cells, std::uint32_t bytes, ring_control* control) noexcept
      : cells_(cells),
        at_(cells),
        end_(cells + bytes),
        mask_(bytes / cell_bytes - 1),
        limit_(bytes / cell_bytes),
        control_(control) {
    CORDMA_REQUIRE_OP(std::popcount(bytes), ==, 1);
    CORDMA_REQUIRE_OP(bytes, >=, least_ring_bytes);
    CORDMA_REQUIRE(cells != nullptr && control != nullptr);
  }

  // Total cells written.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  // The longest payload of one message, if the ring is empty.
  [[nodiscard]] std::uint64_t most_payload() const noexcept {
    return mask_ * cell_bytes - sizeof(cell_header);
  }
  // True if n cells can be written now. One more cell is kept free for wiping its stamp, see
  // write().
  [[nodiscard]] bool room(std::uint64_t n) noexcept {
    return position_ + n + 1 <= limit_ || refresh(n);
  }
  // The consumer's current progress, or the last plausible one if the peer's counter is wrong.
  [[nodiscard]] std::uint64_t taken() noexcept {
    const std::uint64_t t = control_->taken.load(std::memory_order_acquire);
    if (t > position_ || t + mask_ + 1 < limit_) {
      broken_ = true;
    } else {
      limit_ = t + mask_ + 1;
    }
    return limit_ - mask_ - 1;
  }
  [[nodiscard]] std::uint64_t known_taken() const noexcept { return limit_ - mask_ - 1; }
  // True if the peer has reported impossible progress.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  // The payload of the next message. REQUIRES free space for it.
  [[nodiscard]] std::byte* payload() noexcept { return at_ + sizeof(cell_header); }
  // Completes the message. With `withhold` it stays invisible until release().
  void write(message what, std::uint8_t flags, std::uint16_t pieces, std::uint32_t imm_be,
             std::uint32_t length, std::uint64_t cells, bool withhold) noexcept {
    std::byte* const at = at_;
    const std::uint64_t rest = std::uint64_t{static_cast<std::uint8_t>(what)} |
                               std::uint64_t{flags} << 8 | std::uint64_t{pieces} << 16 |
                               std::uint64_t{imm_be} << 32;
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(at + 8, &rest, sizeof rest);
    const std::uint64_t next = position_ + cells;
    const std::uint64_t word = published_word(stamp_, length);
    go_to(next, cells);
    if (next < wipe_until_) wipe();
    if (cells > 1) wipe_until_ = next + mask_ + 1;
    if (withhold && withheld_ == nullptr) {
      withheld_ = at;
      withheld_word_ = word;
    } else {
      stamp_word(at).store(word, std::memory_order_release);
      if (!withhold) release();
    }
  }
  // Writes a message of these bytes, after the head if there is one. False: the known free space is
  // too small, or a message is withheld; nothing has changed.
  [[nodiscard, gnu::always_inline]] bool put(const message_head* head, const std::byte* data,
                                             std::uint32_t bytes) noexcept {
    const std::uint64_t head_bytes = head != nullptr ? sizeof *head : 0;
    const std::uint64_t length = head_bytes + bytes;
    const std::uint64_t cells = cells_for(length);
    const std::uint64_t next = position_ + cells;
    if (withheld_ != nullptr || next + 1 > limit_) [[unlikely]]
      return false;
    std::byte* const at = at_;
    const std::uint32_t stamp = stamp_;
    if (in_burst_) prefetch_for_writing(at + cells_ahead * cell_bytes);
    in_burst_ = true;
    constexpr auto what = std::uint64_t{static_cast<std::uint8_t>(message::send)};
    std::memcpy(at + 8, &what, sizeof what);
    if (head != nullptr) {  // by words, because they arrive in registers
      std::memcpy(at + sizeof(cell_header), &head->first, sizeof head->first);
      std::memcpy(at + sizeof(cell_header) + sizeof head->first, &head->second,
                  sizeof head->second);
    }
    copy_bytes(at + sizeof(cell_header) + head_bytes, data, bytes);
    go_to(next, cells);
    if (next < wipe_until_) wipe();
    if (cells > 1) wipe_until_ = next + mask_ + 1;
    stamp_word(at).store(published_word(stamp, static_cast<std::uint32_t>(length)),
                         std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool withholds() const noexcept { return withheld_ != nullptr; }
  // Called when a message arrives from the peer: the next put() may be a single response to it.
  void on_arrived() noexcept { in_burst_ = false; }
  // Makes all withheld messages visible with one store.
  void release() noexcept {
    if (withheld_ == nullptr) return;
    stamp_word(withheld_).store(withheld_word_, std::memory_order_release);
    withheld_ = nullptr;
  }

 private:
  // In a burst, prefetches the lines of later cells, which the peer read in the lap before, while
  // this cell is written.
  static constexpr std::size_t cells_ahead = 4;

  void go_to(std::uint64_t position, std::uint64_t cells) noexcept {
    position_ = position;
    at_ += cells * cell_bytes;
    if (at_ < end_) [[likely]]
      return;
    at_ -= end_ - cells_;
    stamp_ += 2;
  }
  // The next header may be at a place that held payload one lap ago, and payload may look like a
  // stamp.
  void wipe() noexcept { stamp_word(at_).store(0, std::memory_order_relaxed); }
  [[nodiscard]] bool refresh(std::uint64_t n) noexcept {
    CORDMA_ASSERT_OP(position_, <, limit_);
    static_cast<void>(taken());
    return position_ + n + 1 <= limit_;
  }

  std::byte* cells_ = nullptr;
  std::byte* at_ = nullptr;  // cell of the next message; stamp_ is its stamp
  std::byte* end_ = nullptr;
  std::uint32_t stamp_ = 1;
  bool broken_ = false;
  std::uint64_t mask_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t limit_ = 0;       // position that must not be passed, as last known
  std::uint64_t wipe_until_ = 0;  // below it, a cell may hold payload of the lap before
  std::byte* withheld_ = nullptr;
  std::uint64_t withheld_word_ = 0;
  bool in_burst_ = false;  // no message has arrived since the last one was put
  ring_control* control_ = nullptr;
};

// Bound to the thread of the consumer.
class ring_reader {
 public:
  ring_reader() noexcept = default;
  ring_reader(std::byte* cells, std::uint32_t bytes, ring_control* control) noexcept
      : cells_(cells),
        at_(cells),
        end_(cells + bytes),
        mask_(bytes / cell_bytes - 1),
        most_payload_(bytes - cell_bytes - sizeof(cell_header)),
        lap_shift_(static_cast<unsigned>(std::countr_zero(bytes / cell_bytes))),
        control_(control) {
    CORDMA_REQUIRE_OP(std::popcount(bytes), ==, 1);
    CORDMA_REQUIRE_OP(bytes, >=, least_ring_bytes);
    CORDMA_REQUIRE(cells != nullptr && control != nullptr);
  }

  // True if a message is available: one load of one cache line.
  [[nodiscard]] bool ready() const noexcept {
    return static_cast<std::uint32_t>(stamp_word(at_).load(std::memory_order_acquire)) == stamp_;
  }
  // REQUIRES ready(). Returns a copy, so that the checked values are the values used.
  [[nodiscard]] cell_header header() const noexcept {
    std::array<std::uint64_t, 2> words{stamp_word(at_).load(std::memory_order_relaxed), 0};
    std::memcpy(&words[1], at_ + 8, 8);
    return std::bit_cast<cell_header>(words);
  }
  [[nodiscard]] const std::byte* payload() const noexcept { return at_ + sizeof(cell_header); }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] std::uint64_t most_payload() const noexcept { return most_payload_; }
  // Consumes a message; publishes the progress to the producer every quarter of the ring.
  void take(std::uint64_t cells) noexcept {
    step(cells);
    if (position_ - told_ > mask_ / 4) tell();
  }
  // Steps over a message that is still to be read: the progress is not published.
  void step(std::uint64_t cells) noexcept {
    position_ += cells;
    at_ += cells * cell_bytes;
    if (at_ < end_) [[likely]]
      return;
    at_ -= end_ - cells_;
    stamp_ += 2;
  }
  // Steps back before a message that was stepped over. REQUIRES that the progress was not
  // published.
  void step_back(std::uint64_t cells) noexcept {
    CORDMA_ASSERT_OP(position_ - told_, >=, cells);
    position_ -= cells;
    at_ = cells_ + (position_ & mask_) * cell_bytes;
    stamp_ = static_cast<std::uint32_t>(position_ >> lap_shift_ << 1) | 1U;
  }
  [[nodiscard]] bool untold() const noexcept { return told_ != position_; }
  void tell() noexcept {
    told_ = position_;
    control_->taken.store(position_, std::memory_order_release);
  }

 private:
  std::byte* cells_ = nullptr;
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  std::uint32_t stamp_ = 1;
  std::uint64_t mask_ = 0;
  std::uint64_t most_payload_ = 0;
  unsigned lap_shift_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t told_ = 0;
  ring_control* control_ = nullptr;
};

}  // namespace cordma::transport::shm

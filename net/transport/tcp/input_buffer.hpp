// Received bytes of one connection that are not used yet, in one piece, and no I/O.
#pragma once

#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

namespace cordma::transport::tcp {

// Whether messages are passed to the caller without a copy.
enum class arrival_state : std::uint8_t {
  possible,
  under_way,   // messages in front of the input are being examined, and stay in the buffer
  stopping,    // as under_way, and one of the messages is to be passed to the caller again
  by_receive,  // all messages that have arrived take receives
};
[[nodiscard]] constexpr bool operator>>(arrival_state from, arrival_state to) noexcept {
  using enum arrival_state;
  switch (to) {
    case possible: return from == under_way || from == by_receive;
    case under_way: return from == possible;
    case stopping: return from == under_way;
    case by_receive: return from == stopping;
  }
  return false;
}
[[nodiscard]] constexpr bool are_looked_at(arrival_state s) noexcept {
  return s == arrival_state::under_way || s == arrival_state::stopping;
}

// The wait of a put message that found no receive: it stays in the input.
enum class receive_turn : std::uint8_t { none, awaited, came };
[[nodiscard]] constexpr bool operator>>(receive_turn from, receive_turn to) noexcept {
  return to == receive_turn::awaited ? from == receive_turn::none
         : to == receive_turn::came  ? from != receive_turn::none
                                     : true;
}

// Bound to one thread. Bytes keep their address until room() or clear().
class input_buffer {
 public:
  static constexpr std::uint32_t capacity = 16U << 10;  // bytes
  enum class kept : std::uint8_t { no, yes };

  // The memory is not touched before data arrives. Throws std::bad_alloc.
  explicit input_buffer(kept k) : at_(k == kept::yes ? new std::byte[capacity] : nullptr) {}
  // True if the buffer exists.
  explicit operator bool() const noexcept { return at_ != nullptr; }

  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::span<const std::byte> unused() const noexcept {
    return {at_.get() + begin_, end_ - begin_};
  }
  void use(std::size_t bytes) noexcept {
    CORDMA_ASSERT_OP(bytes, <=, end_ - begin_);
    begin_ += bytes;
  }
  // Marks the bytes from `first` on as unused again; they were used since room() was called.
  void go_back_to(const std::byte* first) noexcept {
    CORDMA_ASSERT_OP(first - at_.get(), >=, 0);
    CORDMA_ASSERT_OP(static_cast<std::size_t>(first - at_.get()), <=, begin_);
    begin_ = static_cast<std::size_t>(first - at_.get());
  }
  // The counters of the first frame are evaluated once, even if the input goes back to it.
  [[nodiscard]] bool is_seen() const noexcept { return begin_ < seen_; }
  void see(std::size_t bytes) noexcept {
    CORDMA_ASSERT_OP(bytes, <=, end_ - begin_);
    seen_ = std::max(seen_, begin_ + bytes);
  }

  // Free space for at least one byte: unused bytes move to the front. REQUIRES that they are fewer
  // than a frame that fits, and were not seen.
  [[nodiscard]] std::span<std::byte> room() noexcept {
    CORDMA_ASSERT_OP(seen_, <=, begin_);
    const std::size_t left = end_ - begin_;
    CORDMA_ASSERT_OP(left, <, capacity);
    if (begin_ != 0 && left != 0) std::memmove(at_.get(), at_.get() + begin_, left);
    begin_ = seen_ = 0;
    end_ = left;
    return {at_.get() + end_, capacity - end_};
  }
  void add(std::size_t bytes) noexcept {
    CORDMA_ASSERT_OP(bytes, <=, capacity - end_);
    end_ += bytes;
  }
  void clear() noexcept { begin_ = end_ = seen_ = 0; }

 private:
  std::unique_ptr<std::byte[]> at_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t seen_ = 0;
};
static_assert(plain_header + most_put <= input_buffer::capacity, "a put lies there whole");

}  // namespace cordma::transport::tcp

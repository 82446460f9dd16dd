// Pending output besides requests and answers: the rest of a frame, and control frames.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/check.hpp>

#include <memory>

namespace cordma::transport::tcp {

inline constexpr std::size_t copied_below = 1024;  // bytes; one copy is cheaper than an iovec

// A frame that is being sent. Its header is fixed when its first byte is sent.
struct outgoing {
  enum class kind : std::uint8_t { none, request, answer, control, put };
  outgoing() = default;
  outgoing(kind k, std::uint32_t n, const frame& head) noexcept
      : what(k), type(head.type), number(n), payload(has_payload(type) ? head.length : 0) {
    header_bytes = static_cast<std::uint8_t>(encode(head, header));
  }
  kind what = kind::none;
  frame_type type = frame_type::update;
  std::uint8_t header_bytes = 0;
  std::uint32_t number = 0;   // number of the request or the answer
  std::uint32_t payload = 0;  // bytes
  std::uint64_t sent = 0;     // bytes of header and payload already sent
  std::size_t offered = 0;    // bytes of it in the batch that is being written
  header_buffer header;
  [[nodiscard]] std::uint64_t size() const noexcept {
    return std::uint64_t{header_bytes} + payload;
  }
};

// Whether the adapter must watch for the socket to become writable.
enum class output_state : std::uint8_t {
  free,
  awaited,  // the socket is connecting, or is full
  full,
};
[[nodiscard]] constexpr bool operator>>(output_state from, output_state to) noexcept {
  return to == output_state::free || from != to;
}

// Bound to the adapter's thread.
class output {
 public:
  enum class puts : std::uint8_t { no, yes };
  explicit output(puts p) : rest_(p == puts::yes ? new std::byte[most_put] : nullptr) {}

  [[nodiscard]] bool is_full() const noexcept { return (busy_ & full) != 0; }
  [[nodiscard]] bool is_awaited() const noexcept { return state_ != output_state::free; }
  // Returns the change in the number of sockets that the adapter waits for.
  [[nodiscard]] int become(output_state next) noexcept {
    const int before = is_awaited() ? 1 : 0;
    state_.become(next);
    busy_ = next == output_state::full ? busy_ | full : busy_ & ~full;
    return (is_awaited() ? 1 : 0) - before;
  }

  // True if nothing is in front of a frame, and the socket has space.
  [[nodiscard]] bool is_free() const noexcept { return busy_ == 0; }
  // As is_free(), but ignores an update, which the next header carries anyway.
  [[nodiscard]] bool is_clear() const noexcept { return (busy_ & ~bit(frame_type::update)) == 0; }
  [[nodiscard]] bool empty() const noexcept { return (busy_ & ~full) == 0; }
  // Adds a control frame; one of each type is enough.
  void add(frame_type t) noexcept { busy_ |= bit(t); }
  void remove(frame_type t) noexcept { busy_ &= ~bit(t); }
  [[nodiscard]] bool has(frame_type t) const noexcept { return (busy_ & bit(t)) != 0; }

  // True if a part of a frame was sent. Nothing else is sent before the rest.
  [[nodiscard]] bool has_partial() const noexcept { return (busy_ & part) != 0; }
  [[nodiscard]] bool has_part_of_put() const noexcept {
    return has_partial() && partial_.what == outgoing::kind::put;
  }
  [[nodiscard]] bool has_part_of_request(std::uint32_t number) const noexcept {
    return has_partial() && partial_.what == outgoing::kind::request && partial_.number == number;
  }
  [[nodiscard]] outgoing& partial() noexcept { return partial_; }
  void keep(const outgoing& f) noexcept {
    partial_ = f;
    busy_ |= part;
  }
  void drop_partial() noexcept { busy_ &= ~part; }

  // True if it has a buffer for the rest of a put.
  [[nodiscard]] bool holds_puts() const noexcept { return rest_ != nullptr; }
  // Like a partly sent request, except that the bytes are stored here.
  void keep_put(const outgoing& f, message_head head, const std::byte* data) noexcept {
    CORDMA_ASSERT_OP(f.sent, <, f.size());
    CORDMA_ASSERT_OP(f.payload, <=, most_put);
    CORDMA_ASSERT(!has_partial());
    std::memcpy(rest_.get(), &head, sizeof head);
    const std::size_t in_front = f.header_bytes + sizeof head;
    const std::size_t gone = f.sent > in_front ? static_cast<std::size_t>(f.sent) - in_front : 0;
    const std::size_t bytes = f.payload - sizeof head;
    if (gone < bytes) std::memcpy(&rest_[sizeof head + gone], data + gone, bytes - gone);
    keep(f);
  }
  [[nodiscard]] const std::byte* put_payload() const noexcept { return rest_.get(); }

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(frame_type t) noexcept {
    return 1U << static_cast<unsigned>(t);
  }
  static constexpr std::uint32_t full = 1U << 31, part = 1U << 30;
  static_assert(static_cast<unsigned>(frame_type::put) < 30);

  checked_state<output_state> state_{output_state::free};
  // Bits for everything in front of a frame: control frames by type, the rest of a frame, a full
  // socket.
  std::uint32_t busy_ = 0;
  outgoing partial_;
  std::unique_ptr<std::byte[]> rest_;
};

}  // namespace cordma::transport::tcp

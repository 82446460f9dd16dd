// A frame that is sent singly, by one system call: a short payload is copied behind its header, a
// long one is sent from its own memory.
#pragma once

#include <sys/socket.h>

#include <cordma/net/transport/little_endian.hpp>
#include <cordma/net/transport/small_copy.hpp>
#include <cordma/net/transport/tcp/output.hpp>
#include <cordma/net/transport/tcp/segments.hpp>

namespace cordma::transport::tcp {

// Bound to one thread.
class single_frame {
 public:
  static constexpr std::size_t most_payload = 1U << 20;  // bytes
  [[nodiscard]] static bool fits(const frame& head) noexcept {
    return head.length <= most_payload || !has_payload(head.type);
  }

  // `ack`, `credit`: counters of the connection. REQUIRES fits(head).
  [[gnu::always_inline]] single_frame(const frame& head, std::uint32_t ack,
                                      std::uint32_t credit) noexcept
      : type_(head.type), payload_(has_payload(head.type) ? head.length : 0) {
    CORDMA_REQUIRE_OP(payload_, <=, most_payload);
    header_bytes_ = encode(head, std::span(flat_).first<most_header>());
    store(&flat_[frame_at::ack], static_cast<std::uint16_t>(ack));
    store(&flat_[frame_at::credit], static_cast<std::uint16_t>(credit));
  }
  // False: nothing was sent. REQUIRES that `payload` has the length in the header, in at most
  // most_segments pieces.
  [[nodiscard, gnu::always_inline]] bool write(int fd, segment_list payload) noexcept {
    CORDMA_REQUIRE_OP(payload.size(), <=, most_segments);
    if (payload_ > copied_below) [[unlikely]]
      return write_pieces(fd, payload);
    if (payload_ != 0) add(payload);
    return write_copy(fd);
  }
  // As above, for a frame without payload.
  [[nodiscard, gnu::always_inline]] bool write(int fd) noexcept { return write_copy(fd); }
  [[nodiscard]] bool is_bare() const noexcept { return payload_ == 0; }
  // As above, for a message head and the data behind it.
  [[nodiscard, gnu::always_inline]] bool write(int fd, const message_head& head,
                                               const std::byte* data) noexcept {
    if (payload_ > copied_below) [[unlikely]]
      return write_behind(fd, head, data);
    std::byte* const to = &flat_[header_bytes_];
    std::memcpy(to, &head, sizeof head);
    copy_bytes(to + sizeof head, data, payload_ - sizeof head);
    return write_copy(fd);
  }
  [[nodiscard]] bool is_whole() const noexcept { return sent_ == header_bytes_ + payload_; }
  // The unsent rest, for the output. REQUIRES an incomplete write.
  [[nodiscard, gnu::noinline]] outgoing rest(outgoing::kind what,
                                             std::uint32_t number) const noexcept {
    CORDMA_REQUIRE_OP(sent_, <, header_bytes_ + payload_);
    outgoing f;
    f.what = what;
    f.type = type_;
    f.header_bytes = static_cast<std::uint8_t>(header_bytes_);
    f.number = number;
    f.payload = payload_;
    f.sent = sent_;
    std::memcpy(f.header.data(), flat_.data(), header_bytes_);
    return f;
  }

 private:
  void add(segment_list payload) noexcept {
    std::byte* const to = &flat_[header_bytes_];
    if (payload.size() == 1) {
      copy_bytes(to, payload.front().addr, payload_);
    } else {
      gather(payload, {to, payload_});
    }
  }
  [[nodiscard, gnu::always_inline]] bool write_copy(int fd) noexcept {
    return sent(::send(fd, flat_.data(), header_bytes_ + payload_, MSG_NOSIGNAL));
  }
  [[nodiscard, gnu::noinline]] bool write_behind(int fd, message_head head,
                                                 const std::byte* data) noexcept {
    const auto bytes = static_cast<std::uint32_t>(payload_ - sizeof head);
    const std::array<segment, 2> pieces{
        segment{reinterpret_cast<std::byte*>(&head), sizeof head, 0},
        segment{const_cast<std::byte*>(data), bytes, 0}};
    return write_pieces(fd, pieces);
  }
  [[nodiscard, gnu::noinline]] bool write_pieces(int fd, segment_list payload) noexcept {
    io_list<most_segments + 1> io;
    io.add(flat_.data(), header_bytes_);
    io.add(payload, 0, payload_, 0);
    msghdr m{};
    m.msg_iov = io.pieces().data();
    m.msg_iovlen = io.pieces().size();
    return sent(::sendmsg(fd, &m, MSG_NOSIGNAL));
  }
  [[nodiscard]] bool sent(ssize_t n) noexcept {
    sent_ = n > 0 ? static_cast<std::size_t>(n) : 0;
    return n > 0;
  }

  frame_type type_;
  std::uint32_t payload_;  // bytes
  std::size_t header_bytes_ = 0;
  std::size_t sent_ = 0;
  std::array<std::byte, most_header + copied_below> flat_;
};

}  // namespace cordma::transport::tcp

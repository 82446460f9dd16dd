// A frame that leaves alone, by one system call: a short payload is copied behind its header, a long one goes from where
// it lies.
#pragma once

#include <sys/socket.h>

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

  // REQUIRES fits(head).
  explicit single_frame(const frame& head) noexcept
      : type_(head.type), payload_(has_payload(head.type) ? head.length : 0) {
    CORDMA_REQUIRE_OP(payload_, <=, most_payload);
    header_bytes_ = encode(head, std::span(flat_).first<most_header>());
  }
  // False: nothing has left. REQUIRES that `payload` has as many bytes as the header says, in at most
  // most_segments pieces.
  [[nodiscard]] bool write(int fd, segment_list payload) noexcept {
    CORDMA_REQUIRE_OP(payload.size(), <=, most_segments);
    const ssize_t n =
        payload_ <= copied_below ? write_copy(fd, payload) : write_pieces(fd, payload);
    sent_ = n > 0 ? static_cast<std::size_t>(n) : 0;
    return n > 0;
  }
  [[nodiscard]] bool is_whole() const noexcept { return sent_ == header_bytes_ + payload_; }
  // For the output, which sends what is missing. REQUIRES a write that was not whole.
  [[nodiscard]] outgoing rest(outgoing::kind what, std::uint32_t number) const noexcept {
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
  [[nodiscard]] ssize_t write_copy(int fd, segment_list payload) noexcept {
    gather(payload, {&flat_[header_bytes_], payload_});
    return ::send(fd, flat_.data(), header_bytes_ + payload_, MSG_NOSIGNAL);
  }
  [[nodiscard]] ssize_t write_pieces(int fd, segment_list payload) noexcept {
    io_list<most_segments + 1> io;
    io.add(flat_.data(), header_bytes_);
    io.add(payload, 0, payload_, 0);
    msghdr m{};
    m.msg_iov = io.pieces().data();
    m.msg_iovlen = io.pieces().size();
    return ::sendmsg(fd, &m, MSG_NOSIGNAL);
  }

  frame_type type_;
  std::uint32_t payload_;  // bytes
  std::size_t header_bytes_ = 0;
  std::size_t sent_ = 0;
  std::array<std::byte, most_header + copied_below> flat_;
};

}  // namespace cordma::transport::tcp

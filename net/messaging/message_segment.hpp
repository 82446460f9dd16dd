// A registered buffer for one arriving frame.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/tag_matcher.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cordma::detail {

class frame_port;
class peer_core;

// Buffer for one arriving frame: posted, held until its message is received, or free.
struct message_segment : list_node {
  struct kept : protocol::tag_message {
    kept(std::uint64_t tag, const void* from, message_segment& s) noexcept
        : tag_message(tag, from), owner(&s) {}
    message_segment* owner;
  };
  [[nodiscard]] bool is_offer() const noexcept {
    return head.kind == protocol::frame_kind::tag_ready ||
           head.kind == protocol::frame_kind::am_ready;
  }
  // Valid for a held message. REQUIRES that peer_core::on_frame() has checked it.
  [[nodiscard]] std::span<const std::byte> body() const noexcept {
    return {room.addr + protocol::head_bytes, head.body};
  }
  [[nodiscard]] std::span<const std::byte> header() const noexcept {
    return body().subspan(is_offer() ? protocol::bytes_of(what) : 0, header_bytes);
  }
  [[nodiscard]] std::span<const std::byte> data() const noexcept {
    return body().subspan(header_bytes);
  }
  [[nodiscard]] std::uint64_t length() const noexcept {
    return is_offer() ? what.total : body().size() - header_bytes;
  }
  frame_port* port = nullptr;
  transport::segment room;
  std::uint32_t index = 0;
  message_segment* next_free = nullptr;
  peer_core* from = nullptr;  // while it is held; null: the peer is destroyed
  bool taken = false;         // for an active message: its read has started
  bool left = false;          // it is held, and `from` is destroyed
  std::uint16_t header_bytes = 0;
  protocol::frame_head head;
  protocol::offer what;         // if is_offer()
  std::optional<kept> waiting;  // for an unexpected tagged message
};

}  // namespace cordma::detail

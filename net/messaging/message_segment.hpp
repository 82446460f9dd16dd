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

// Room for one frame that comes: posted, held by whoever has not asked for it yet, or free.
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
  // Of what it holds. REQUIRES that it was looked at by peer_core::on_frame().
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
  peer_core* from = nullptr;  // while it is held; null: that is gone
  bool taken = false;         // of an active message: it is read, or was
  bool left = false;          // it is held, and `from` is gone
  std::uint16_t header_bytes = 0;
  protocol::frame_head head;
  protocol::offer what;         // where is_offer()
  std::optional<kept> waiting;  // of a tagged message that nobody has asked for
};

}  // namespace cordma::detail

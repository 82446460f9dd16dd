// A long message of this side, from its announcement to the answer.
#pragma once

#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/frame.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace cordma::detail {

// A message that was announced to the peer, until that has said what became of it.
struct open_offer : list_node {
  [[nodiscard]] std::size_t take(std::uint64_t most, std::span<Slice> out) noexcept;

  message_send* op = nullptr;  // null: destroyed meanwhile
  std::uint32_t number = 0;
  std::uint32_t in_flight = 0;  // requests that read its memory
  bool open = false;
  bool cut = false;  // the connection has ended
  std::uint8_t pinned = 0;
  std::uint16_t sends = 0;  // slices: of what the peer cannot read, and is sent as it wants it
  std::uint16_t slice = 0;  // where `sent` ends
  std::uint64_t in_slice = 0;
  std::uint64_t total = 0;
  std::uint64_t sent = 0;
  protocol::want wanted;
  std::optional<protocol::offer_outcome> answer;
  std::array<Slice, most_message_slices> slices;
  std::array<region_core*, most_message_slices> pins{};
};

}  // namespace cordma::detail

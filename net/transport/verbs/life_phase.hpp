// The states of a queue pair, and its possible transitions.
#pragma once

#include <cstdint>

namespace cordma::transport::verbs {

enum class life_phase : std::uint8_t {
  idle,        // created; to be connected out of band
  resolving,   // rdma_cm looks up the device and the path
  requesting,  // the connection request was sent
  accepting,   // the client's last message is missing
  attaching,   // out of band: the peer has not confirmed the connection yet
  open,
  closing,       // disconnect() was called: goodbye follows the posted requests
  goodbye_sent,  // until the peer answers
  dead,          // in error
};
// True if the right state may follow the left one. If a peer has several addresses, each is
// resolved in turn.
[[nodiscard]] constexpr bool operator>>(life_phase from, life_phase to) noexcept {
  using enum life_phase;
  switch (to) {
    case idle: return false;
    case resolving: return from <= requesting;
    case requesting: return from == resolving;
    case accepting:
    case attaching: return from == idle;
    case open: return from <= attaching && from != resolving;
    case closing: return from == open;
    case goodbye_sent: return from == closing;
    case dead: return true;
  }
  return false;
}
// True if requests of both sides are carried out.
[[nodiscard]] constexpr bool carries(life_phase p) noexcept {
  return p >= life_phase::open && p != life_phase::dead;
}
// True while it waits for an event of rdma_cm or a message of the peer's control port.
[[nodiscard]] constexpr bool waits_for_word(life_phase p) noexcept {
  return (p > life_phase::idle && p < life_phase::open) || p == life_phase::goodbye_sent;
}

// The use of a receive queue by a queue pair.
enum class drawing : std::uint8_t {
  apart,  // it has separate receives
  not_yet,
  begun,  // the device may take some: the peer can send before its last handshake message arrives
  ended,  // the queue completes no more receives of this queue pair
};
[[nodiscard]] constexpr bool operator>>(drawing from, drawing to) noexcept {
  switch (to) {
    case drawing::apart: return false;
    case drawing::not_yet: return from == drawing::apart;
    case drawing::begun: return from == drawing::not_yet || from == drawing::begun;
    case drawing::ended: return from == drawing::not_yet || from == drawing::begun;
  }
  return false;
}

}  // namespace cordma::transport::verbs

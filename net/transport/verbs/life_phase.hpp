// Where a queue pair stands, and which steps it may take.
#pragma once

#include <cstdint>

namespace cordma::transport::verbs {

enum class life_phase : std::uint8_t {
  idle,        // made; to be connected out of band
  resolving,   // rdma_cm looks for the device and the path
  requesting,  // the peer is asked
  accepting,   // the client's last word is missing
  attaching,   // out of band: the peer has yet to say that it is connected as well
  open,
  closing,       // disconnect() was called: goodbye follows what was posted
  goodbye_sent,  // until the peer answers
  dead,          // in error
};
// Whether the right one may follow the left one. A peer has several addresses: each is resolved in its turn.
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
// Whether requests of either side are carried out.
[[nodiscard]] constexpr bool carries(life_phase p) noexcept {
  return p >= life_phase::open && p != life_phase::dead;
}
// Whether it waits for a word of rdma_cm or of the peer's control port.
[[nodiscard]] constexpr bool waits_for_word(life_phase p) noexcept {
  return (p > life_phase::idle && p < life_phase::open) || p == life_phase::goodbye_sent;
}

// How a queue pair takes receives from a receive queue.
enum class drawing : std::uint8_t {
  apart,  // it has receives of its own
  not_yet,
  begun,  // the device may take some: the peer can be ahead of its last word
  ended,  // nothing of it comes out of the queue any more
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

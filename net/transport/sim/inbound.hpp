// The receiving half that RC and UC share: packets of sends and writes, in order, to where they go.
#pragma once

#include <cordma/net/transport/sim/packet.hpp>

namespace cordma::transport::sim {

class sim_pair;

class inbound {
 public:
  enum class outcome : std::uint8_t {
    done,
    not_ready,  // no receive posted
    too_long,   // for the receive
    unusable,   // the receive names memory it may not write
    access,     // the right is missing, on the region or on the connection
    bad_key,    // to invalidate: no window's of this queue pair
  };
  explicit inbound(sim_pair& p) noexcept : pair_(p) {}
  // The next packet in order. Whatever is not done changed nothing.
  [[nodiscard]] outcome take(const packet& p) noexcept;
  // Forgets the message in progress; its receive stays for the next one.
  void drop() noexcept { open_ = false; }
  [[nodiscard]] bool open() const noexcept { return open_; }

 private:
  [[nodiscard]] outcome take_send(const packet& p) noexcept;
  [[nodiscard]] outcome take_write(const packet& p) noexcept;
  sim_pair& pair_;
  bool open_ = false;  // in the middle of a message
  std::uint64_t filled_ = 0;
};

}  // namespace cordma::transport::sim

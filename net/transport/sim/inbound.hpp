// The receiving half that RC and UC share: stores packets of sends and writes, in order, at their
// destination.
#pragma once

#include <cordma/net/transport/sim/packet.hpp>

namespace cordma::transport::sim {

class sim_pair;

class inbound {
 public:
  enum class outcome : std::uint8_t {
    done,
    not_ready,  // no receive posted
    too_long,   // longer than the receive
    unusable,   // the receive refers to memory that it may not write
    access,     // the access right is missing, on the region or on the connection
    bad_key,    // to invalidate: not a window of this queue pair
  };
  explicit inbound(sim_pair& p) noexcept : pair_(p) {}
  // Executes the next packet in order. Any other outcome than `done` changes nothing.
  [[nodiscard]] outcome take(const packet& p) noexcept;
  // Drops the message in progress; its receive stays for the next one.
  void drop() noexcept { open_ = false; }
  [[nodiscard]] bool open() const noexcept { return open_; }

 private:
  [[nodiscard]] outcome take_send(const packet& p) noexcept;
  [[nodiscard]] outcome take_write(const packet& p) noexcept;
  sim_pair& pair_;
  bool open_ = false;  // within a message
  std::uint64_t filled_ = 0;
};

}  // namespace cordma::transport::sim

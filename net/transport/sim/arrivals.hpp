// Messages that are handed out in place: they lie in the simulator's own memory until they were looked at.
#pragma once

#include <cordma/net/transport/sim/packet.hpp>

#include <array>

namespace cordma::transport::sim {

class sim_pair;

// Of one queue pair, in the order of its peer. Only the last one may lack some of its packets.
class arrivals {
 public:
  // Longer messages take receives.
  static constexpr std::uint64_t most_bytes = most_mtu;

  explicit arrivals(sim_pair& p) noexcept : pair_(p) {}
  arrivals(const arrivals&) = delete;
  arrivals& operator=(const arrivals&) = delete;
  ~arrivals();

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // The last one is not whole.
  [[nodiscard]] bool open() const noexcept { return count_ != 0 && !last().last; }
  [[nodiscard]] std::size_t whole() const noexcept { return count_ - (open() ? 1 : 0); }
  // The oldest one, as if it had come in a single packet, whose PSN is that of its first. REQUIRES !empty().
  [[nodiscard]] const packet& front() const noexcept { return *ring_[first_ % ring_.size()]; }
  // The next packet in order, of the message that is open() or of a new one.
  void add(const packet& p) noexcept;
  // The oldest whole one that was not handed out.
  [[nodiscard]] const packet& hand_out() noexcept;
  // Forgets the oldest one. REQUIRES that it is whole.
  void pop() noexcept;

 private:
  [[nodiscard]] packet& last() const noexcept {
    return *ring_[(first_ + count_ - 1) % ring_.size()];
  }

  sim_pair& pair_;
  // A message has a packet at least, and the peer sends nothing beyond the first that was not looked at.
  std::array<packet*, most_under_way> ring_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t handed_ = 0;  // of them
};

}  // namespace cordma::transport::sim

// Messages that are passed to the caller without a copy: they stay in the simulator's memory until
// they were examined.
#pragma once

#include <cordma/net/transport/sim/packet.hpp>

#include <array>

namespace cordma::transport::sim {

class sim_pair;

// Of one queue pair, in the order of its peer. Only the last message may lack some of its packets.
class arrivals {
 public:
  // Longer messages take receives.
  static constexpr std::uint64_t most_bytes = most_mtu;

  explicit arrivals(sim_pair& p) noexcept : pair_(p) {}
  arrivals(const arrivals&) = delete;
  arrivals& operator=(const arrivals&) = delete;
  ~arrivals();

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // True if the last message is incomplete.
  [[nodiscard]] bool open() const noexcept { return count_ != 0 && !last().last; }
  [[nodiscard]] std::size_t whole() const noexcept { return count_ - (open() ? 1 : 0); }
  // The oldest message, as if it had arrived in a single packet with the PSN of its first packet.
  // REQUIRES !empty().
  [[nodiscard]] const packet& front() const noexcept { return *ring_[first_ % ring_.size()]; }
  // Adds the next packet in order, to the message that is open() or to a new one.
  void add(const packet& p) noexcept;
  // Returns the oldest complete message that was not returned yet.
  [[nodiscard]] const packet& hand_out() noexcept;
  // Removes the oldest message. REQUIRES that it is complete.
  void pop() noexcept;

 private:
  [[nodiscard]] packet& last() const noexcept {
    return *ring_[(first_ + count_ - 1) % ring_.size()];
  }

  sim_pair& pair_;
  // A message has at least one packet, and the peer sends at most `most_under_way` packets beyond
  // the first unexamined one.
  std::array<packet*, most_under_way> ring_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t handed_ = 0;  // number of returned messages
};

}  // namespace cordma::transport::sim

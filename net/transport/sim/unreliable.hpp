// UC and UD: nothing is acknowledged, and a send is complete when its last packet was sent.
#pragma once

#include <cordma/net/transport/sim/inbound.hpp>
#include <cordma/net/transport/sim/packet.hpp>
#include <cordma/runtime/clock.hpp>

namespace cordma::transport::sim {

struct send_entry;

class unreliable {
 public:
  unreliable(sim_pair& p, inbound& in) noexcept : pair_(p), in_(in) {}
  void start(std::uint64_t first_psn, std::uint64_t expected) noexcept;
  // Sends posted requests and completes those whose packets were sent.
  void pump() noexcept;
  void on_message(const packet& p) noexcept;   // UC
  void on_datagram(const packet& p) noexcept;  // UD

 private:
  [[nodiscard]] wc_status begin(send_entry& e) noexcept;
  void send_message(send_entry& e) noexcept;
  void send_datagram(send_entry& e) noexcept;
  void lose() noexcept;

  sim_pair& pair_;
  inbound& in_;
  std::uint64_t next_psn_ = 0;
  std::uint64_t cursor_ = 0;  // the request to send next
  std::uint64_t expected_ = 0;
  bool skipping_ = false;  // until the next first packet
};

// The address in a datagram_peer: one host, or one multicast group, in this network.
struct datagram_address {
  bool is_group = false;
  std::uint32_t host_or_group = 0;
  std::uint32_t instance = 0;
};
[[nodiscard]] datagram_peer encode(const datagram_address& a, std::uint32_t number,
                                   std::uint32_t qkey) noexcept;
[[nodiscard]] datagram_address decode(const datagram_peer& p) noexcept;

}  // namespace cordma::transport::sim

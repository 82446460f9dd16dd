// Number of reads on the wire, from the RoCE v2 packets over IPv4 on this host's network interface.
#pragma once

#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include <sys/socket.h>
#include <unistd.h>

namespace cordma::test {

// Packets wait in its socket until they are counted. Counts reads with a response of one packet.
class read_watch {
 public:
  read_watch() : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    REQUIRE(socket_ >= 0);
    const int room = 8 << 20;
    REQUIRE(::setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) == 0);
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(::if_nametoindex(named("RDMA_NETDEV").c_str()));
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  }
  read_watch(const read_watch&) = delete;
  read_watch& operator=(const read_watch&) = delete;
  ~read_watch() { ::close(socket_); }

  struct counted {
    std::size_t reads = 0;      // requested; a repeated read counts once
    std::size_t at_a_time = 0;  // maximum number requested and not yet responded to
  };
  // Counts the packets since its construction.
  [[nodiscard]] counted count() {
    counted all;
    std::set<std::uint32_t> under_way;  // by packet sequence number
    std::set<std::uint32_t> seen;
    std::array<std::uint8_t, 256> packet{};
    for (;;) {
      const ssize_t n = ::recv(socket_, packet.data(), packet.size(), MSG_DONTWAIT);
      if (n < 0) break;
      if (static_cast<std::size_t>(n) < header_end || !is_roce(packet)) continue;
      const std::uint8_t* const header = packet.data() + before_header;
      const std::uint32_t number =
          std::uint32_t{header[9]} << 16 | std::uint32_t{header[10]} << 8 | header[11];
      if (header[0] == read_request) {
        under_way.insert(number);
        seen.insert(number);
      }
      if (header[0] == read_answer) under_way.erase(number);
      all.at_a_time = std::max(all.at_a_time, under_way.size());
    }
    all.reads = seen.size();
    return all;
  }

 private:
  // Ethernet 14, IPv4 20, UDP 8; then the base transport header: opcode, 8 bytes, PSN.
  static constexpr std::size_t before_header = 42;
  static constexpr std::size_t header_end = before_header + 12;
  static constexpr std::uint8_t read_request = 0x0C;
  static constexpr std::uint8_t read_answer = 0x10;

  static bool is_roce(const std::array<std::uint8_t, 256>& p) {
    constexpr unsigned port = 4791;
    return p[12] == 0x08 && p[13] == 0x00 && p[14] == 0x45 && p[23] == IPPROTO_UDP &&
           (unsigned{p[36]} << 8 | p[37]) == port;
  }

  int socket_;
};

}  // namespace cordma::test

// The address handles of one queue pair that sends datagrams.
#pragma once

#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/wire.hpp>
#include <cordma/runtime/list.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace cordma::transport::verbs {

inline constexpr std::size_t most_unused_handles =
    1024;  // kept for peers that may be written to again

struct handle_key {
  gid_bytes gid;
  std::uint32_t rest;  // LID 16, index of the own GID 8, service level 8; the last two 0xFFFF: any
  bool operator==(const handle_key&) const = default;
};

// Key for datagrams: any own GID that suits the peer's.
[[nodiscard]] inline handle_key key_to(const datagram_address& peer) noexcept {
  return {.gid = peer.gid, .rest = (std::uint32_t{peer.lid} << 16) | 0xFFFFU};
}

struct address_handle : list_node {
  handle_key key{};
  owned<ibv_ah> native;
  std::uint32_t holders = 0;
  std::uint32_t last_request = 0;  // last request that uses it
};

// Running numbers of the queue pair's requests, which end in order.
struct requests_so_far {
  std::uint32_t posted = 0;
  std::uint32_t done = 0;
};

// Bound to the adapter's thread. If there are too many handles, the least recently used ones are
// destroyed, except those that are held and those used by a request on the device.
class address_handles {
 public:
  explicit address_handles(ibv_pd* pd) noexcept : pd_(pd) {}
  // Returns a handle for the request `posted`, to be posted next. Null: there is none.
  [[nodiscard]] address_handle* find(const handle_key& key, requests_so_far now) noexcept;
  // REQUIRES that there is none. Null: the device refuses, or no memory. Resolves the neighbour,
  // and blocks meanwhile.
  [[nodiscard]] address_handle* make(const handle_key& key, ibv_ah_attr where,
                                     requests_so_far now) noexcept;
  // For any own GID.
  [[nodiscard]] address_handle* find_any(const gid_bytes& gid, std::uint16_t lid,
                                         requests_so_far now) noexcept;
  void hold(address_handle& h) noexcept;
  void let_go(address_handle& h, requests_so_far now) noexcept;

 private:
  struct hash {
    std::size_t operator()(const handle_key& k) const noexcept;
  };
  void use(address_handle& h, requests_so_far now) noexcept;
  void make_room(requests_so_far now) noexcept;

  ibv_pd* pd_;
  std::unordered_map<handle_key, std::unique_ptr<address_handle>, hash> all_;
  list<address_handle> unheld_;  // the least recently used handle is the first
  std::size_t unheld_count_ = 0;
};

}  // namespace cordma::transport::verbs

// What a datagram port keeps: for its receives room for the header ahead of each datagram and for what does not
// fit, and where each receive lands, so that it can be posted again; for its sends the ways to its peers.
#pragma once

#include <cordma/net/transport/verbs/address_handles.hpp>
#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/posting.hpp>

namespace cordma::transport::verbs {

struct datagram_room {
  datagram_room(ibv_pd* pd, std::uint32_t depth, std::uint32_t longest)
      : overflow_bytes(longest),
        size(std::size_t{depth} * grh_bytes + longest),
        bytes(new std::byte[size]()),
        region(register_bytes(pd, bytes.get(), size, IBV_ACCESS_LOCAL_WRITE)),
        handles(pd),
        overflow(bytes.get() + std::size_t{depth} * grh_bytes),
        receives(new kept[depth]()) {}

  struct kept {
    datagram_peer* from;
    std::uint32_t length;  // bytes, of all segments
    std::uint32_t count;
    std::array<ibv_sge, most_segments + datagram_extra> segments;
  };
  void keep(std::uint32_t place, const recv_request& r) noexcept {
    CORDMA_REQUIRE_OP(r.segment_count, <=, most_segments);
    kept& k = receives[place];
    k.from = r.from;
    k.length = 0;
    k.count = 0;
    k.segments[k.count++] = {reinterpret_cast<std::uintptr_t>(header(place)), grh_bytes,
                             region->lkey};
    for (std::size_t i = 0; i < r.segment_count; ++i) {
      k.segments[k.count++] = to_sge(r.segments[i]);
      k.length += r.segments[i].length;
    }
    // Shared by all receives: nobody reads it.
    k.segments[k.count++] = {reinterpret_cast<std::uintptr_t>(overflow), overflow_bytes,
                             region->lkey};
  }
  [[nodiscard]] std::byte* header(std::uint32_t place) const noexcept {
    return bytes.get() + std::size_t{place} * grh_bytes;
  }

  std::uint32_t overflow_bytes;
  std::size_t size;
  std::unique_ptr<std::byte[]> bytes;
  owned<ibv_mr> region;  // null: no memory
  address_handles handles;
  std::byte* overflow;
  std::unique_ptr<kept[]> receives;
};

}  // namespace cordma::transport::verbs

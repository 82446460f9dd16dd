// Memory of a datagram port. For each receive: the header before the datagram, the overflow buffer,
// and its segments, so that it can be posted again. For its sends: the address handles of its
// peers.
#pragma once

#include <cordma/net/transport/verbs/address_handles.hpp>
#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/posting.hpp>

namespace cordma::transport::verbs {

// Bound to the adapter's thread.
class datagram_room {
 public:
  datagram_room(ibv_pd* pd, std::uint32_t depth, std::uint32_t longest)
      : overflow_bytes_(longest),
        size_(std::size_t{depth} * grh_bytes + longest),
        memory_(new std::byte[size_]()),
        region_(register_bytes(pd, memory_.get(), size_, IBV_ACCESS_LOCAL_WRITE)),
        handles_(pd),
        overflow_(memory_.get() + std::size_t{depth} * grh_bytes),
        receives_(new kept[depth]()) {}

  struct kept {
    datagram_peer* from;
    std::uint32_t length;  // bytes, total of all segments
    std::uint32_t count;
    std::array<ibv_sge, most_segments + datagram_extra> segments;
  };
  // False, with errno from the constructor: no memory. Then only bytes() may be called.
  [[nodiscard]] bool is_registered() const noexcept { return region_ != nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return size_; }
  void keep(std::uint32_t place, const recv_request& r) noexcept {
    CORDMA_REQUIRE_OP(r.segment_count, <=, most_segments);
    kept& k = receives_[place];
    k.from = r.from;
    k.length = 0;
    k.count = 0;
    k.segments[k.count++] = {reinterpret_cast<std::uintptr_t>(header(place)), grh_bytes,
                             region_->lkey};
    for (std::size_t i = 0; i < r.segment_count; ++i) {
      k.segments[k.count++] = as_sges(r.segments)[i];
      k.length += r.segments[i].length;
    }
    // Shared by all receives: never read.
    k.segments[k.count++] = {reinterpret_cast<std::uintptr_t>(overflow_), overflow_bytes_,
                             region_->lkey};
  }
  [[nodiscard]] kept& at(std::uint32_t place) noexcept { return receives_[place]; }
  [[nodiscard]] std::byte* header(std::uint32_t place) const noexcept {
    return memory_.get() + std::size_t{place} * grh_bytes;
  }
  [[nodiscard]] address_handles& handles() noexcept { return handles_; }

 private:
  std::uint32_t overflow_bytes_;
  std::size_t size_;
  std::unique_ptr<std::byte[]> memory_;
  owned<ibv_mr> region_;  // null: no memory
  address_handles handles_;
  std::byte* overflow_;
  std::unique_ptr<kept[]> receives_;
};

}  // namespace cordma::transport::verbs

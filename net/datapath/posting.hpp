// Construction of operations: slices, keys and targets, inlined into the calls of an Endpoint.
#pragma once

#include <cordma/net/datapath/endpoint_core.hpp>
#include <cordma/net/memory/region_core.hpp>

namespace cordma::detail {

inline post_base::post_base(endpoint_core& endpoint, transport::opcode op, aside needs) noexcept
    : operation_base(endpoint.home()),
      aside_(needs == aside::nothing ? endpoint.plain_needs() : needs),
      endpoint_(&endpoint) {
  request_.op = op;
}

inline bool post_base::accepts(const Slice& s) const noexcept {
  const region_core* const region = s.region();
  const bool lands_here =
      request_.op == transport::opcode::recv || request_.op == transport::opcode::read;
  return region != nullptr && region->touched_in == endpoint_->context().get() &&
         s.size() <= UINT32_MAX &&
         (!lands_here || has(region->range.rights, transport::access::local_write));
}

inline void post_base::put(std::uint16_t place, const Slice& s) noexcept {
  segments_[place] = {s.data(), static_cast<std::uint32_t>(s.size()),
                      s.region()->keys[endpoint_->kind()].lkey};
  regions_[place] = s.region();
  request_.segment_count = place + 1;
}

inline void post_base::add(const Slice& s) noexcept {
  const std::uint16_t place = request_.segment_count;
  if (place == most_segments || !accepts(s)) [[unlikely]] {
    add_with_care(s);
    return;
  }
  put(place, s);
  total_ += s.size();
}

inline void post_base::target_key(const RemoteSlice& remote) noexcept {
  target(remote, remote.size());
}

inline void post_base::target(const RemoteSlice& remote, std::uint64_t bytes) noexcept {
  request_.remote_addr = remote.addr();
  const transport::remote_keys& keys = remote.keys();
  const std::size_t place = endpoint_->key_place();
  request_.rkey = keys.in(place);
  if (remote.size() != bytes || endpoint_->via() == nullptr ||
      !keys.is_in(place, static_cast<transport::kind>(endpoint_->kind()))) [[unlikely]]
    target_with_care(remote, bytes);
}

}  // namespace cordma::detail

#include <cordma/net/messaging/open_offer.hpp>

#include <algorithm>

namespace cordma::detail {

// The next bytes of it, at most so many.
std::size_t open_offer::take(std::uint64_t most, std::span<Slice> out) noexcept {
  std::size_t count = 0;
  while (most != 0 && slice < sends && count < out.size()) {
    const Slice& s = slices[slice];
    const std::uint64_t n = std::min<std::uint64_t>(most, s.size() - in_slice);
    out[count++] = s.part(in_slice, n);
    most -= n;
    sent += n;
    in_slice += n;
    if (in_slice == s.size()) {
      ++slice;
      in_slice = 0;
    }
  }
  return count;
}

}  // namespace cordma::detail

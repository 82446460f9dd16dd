// The headers of requests: the decoder never reads beyond its input, and accepted headers are
// encoded to the same bytes.
#include <cordma/net/protocol/request.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cordma;
  using namespace cordma::protocol;
  const std::span in(reinterpret_cast<const std::byte*>(data), size);
  demand(redirect_of(in).size() <= longest_redirect);
  const result<request_header> h = decode_request(in);
  if (!h) return 0;
  demand(bytes_of(*h) == in.size() && in.size() <= longest_response);
  demand(h->room_addr + h->room_bytes >= h->room_addr);
  demand(h->address.empty() == (h->outcome != request_outcome::redirected));
  std::array<std::byte, longest_response> again{};
  encode(*h, again);
  demand(std::equal(in.begin(), in.end(), again.begin()));
  return 0;
}

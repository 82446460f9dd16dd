// The decoders of the verbs transport: they never read beyond their input, and accepted values are
// within the limits that the transport relies on.
#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/wire.hpp>

#include <algorithm>
#include <cstdlib>

namespace {

using namespace cordma::transport;
using namespace cordma::transport::verbs;

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_hello(std::span<const std::byte> in) {
  const decoded_hello d = decode(in);
  if (d.what != decoded_hello::outcome::good) return;
  demand(d.user.size() <= in.size() - hello_bytes);
  demand(d.value.type != service::ud && mtu_bytes(d.value.mtu) >= 256);
  demand(has(all_remote, d.value.rights) && d.value.control_pair <= group_pair);
  const std::size_t most =
      d.value.kind == hello_kind::request ? most_request_data : most_accept_data;
  if (d.user.size() > most) return;  // longer than rdma_cm carries
  const private_data again = encode(d.value, d.user);
  const decoded_hello same = decode(std::span(again.bytes).first(again.length));
  demand(same.what == decoded_hello::outcome::good);
  demand(std::equal(same.user.begin(), same.user.end(), d.user.begin(), d.user.end()));
}

void check_control(std::span<const std::byte> in) {
  control_message m;
  if (!decode(in, m)) return;
  std::array<std::byte, control_bytes> again{};
  encode(m, again);
  demand(std::equal(again.begin(), again.end(), in.begin()));
}

void check_descriptor(std::span<const std::byte> in) {
  const cordma::result<pair_descriptor> d = decode_descriptor(in);
  if (!d) return;
  demand(d->type != service::ud && mtu_bytes(d->mtu) >= 256 && d->rnr_timer < 32);
  demand(decode_descriptor(encode(*d)).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> in(reinterpret_cast<const std::byte*>(data), size);
  check_hello(in);
  check_control(in);
  check_descriptor(in);
  if (size >= grh_bytes) static_cast<void>(sender_of(in.first<grh_bytes>()));
  return 0;
}

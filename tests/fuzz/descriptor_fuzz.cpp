// The descriptors that programs carry from one side to the other: each input is refused with a
// message, or is exactly an output of encode(). Input: one byte that selects the transport and the
// way; then a descriptor, or the numbers of one.
#include <cordma/net/transport/sim/descriptor.hpp>
#include <cordma/net/transport/tcp/descriptor.hpp>
#include <cordma/net/transport/transport.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "meeting_place.hpp"

namespace {

using namespace cordma;             // NOLINT(google-build-using-namespace)
using namespace cordma::transport;  // NOLINT(google-build-using-namespace)
using bytes = std::span<const std::byte>;

void demand(bool holds) {
  if (!holds) std::abort();
}

template <class T>
T take(bytes& from) {
  T value{};
  const std::size_t n = std::min(sizeof value, from.size());
  std::memcpy(&value, from.data(), n);
  from = from.subspan(n);
  return value;
}

template <class Descriptor, class Encode>
void check(const result<Descriptor>& d, bytes in, Encode encode) {
  if (!d.ok()) {
    demand(d.code() == errc::connection_aborted || d.code() == errc::unsupported_version);
    return demand(!d.why().message().empty());
  }
  const std::vector<std::byte> again = encode(*d);
  demand(std::equal(again.begin(), again.end(), in.begin(), in.end()));
}

// A descriptor with one changed byte, or a truncated one, is not valid.
template <class Decode>
void check_damage(std::vector<std::byte> whole, std::size_t at, Decode decode) {
  demand(decode(bytes(whole)).ok());
  at %= whole.size();
  demand(!decode(bytes(whole).first(at)).ok());
  whole[at] ^= std::byte{0x10};
  demand(!decode(bytes(whole)).ok());
}

void fuzz_sim(bytes in, bool raw) {
  const auto encode = [](const sim::pair_descriptor& d) { return sim::encode_descriptor(d); };
  const auto decode = [](bytes b) { return sim::decode_descriptor(b); };
  if (raw) return check(decode(in), in, encode);
  sim::pair_descriptor d;
  d.id.host = take<std::uint32_t>(in);
  d.id.instance = take<std::uint32_t>(in);
  d.id.number = take<std::uint32_t>(in);
  d.hello.read_depth = take<std::uint32_t>(in);
  d.hello.first_psn = take<std::uint64_t>(in);
  const std::vector<std::byte> whole = encode(d);
  check(decode(whole), whole, encode);
  if (decode(whole).ok()) check_damage(whole, take<std::uint16_t>(in), decode);
}

void fuzz_tcp(bytes in, bool raw) {
  const auto encode = [](const tcp::pair_descriptor& d) { return tcp::encode(d); };
  const auto decode = [](bytes b) { return tcp::decode_descriptor(b); };
  if (raw) return check(decode(in), in, encode);
  tcp::pair_descriptor d;
  d.port = take<std::uint16_t>(in);
  const std::size_t places = take<std::uint8_t>(in) % (tcp::most_places + 1);
  const auto damage = take<std::uint16_t>(in);
  for (std::size_t i = 0; i < places; ++i) {
    tcp::place& p = d.places.emplace_back();
    p.family = take<std::uint8_t>(in) % 2 == 0 ? 4 : 6;
    p.address = take<std::array<std::byte, 16>>(in);
    if (p.family == 4) std::fill(p.address.begin() + 4, p.address.end(), std::byte{0});
  }
  const std::vector<std::byte> whole = encode(d);
  check(decode(whole), whole, encode);
  if (decode(whole).ok()) check_damage(whole, damage, decode);
}

// The decoder of shm is private: it is reached through an unconnected queue pair.
struct unconnected {
  meeting_place directory;
  reactor home{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> d = *make_shm({.directory = directory.path});
  std::unique_ptr<adapter> a = std::move(*d->open(home));
  std::unique_ptr<queue_pair> q = std::move(*a->create({}));
};

void fuzz_shm(bytes in, bool raw) {
  static unconnected s;
  if (raw) {
    demand(!s.q->connect(in).ok());
    return;
  }
  std::vector<std::byte> whole = *s.q->descriptor();
  const std::size_t at = take<std::uint16_t>(in) % whole.size();
  demand(!s.q->connect(bytes(whole).first(at)).ok());
  whole[at] ^= std::byte{0x10};
  demand(!s.q->connect(whole).ok());
  demand(s.q->descriptor().ok());  // still unconnected
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bytes in = std::as_bytes(std::span(data + 1, size - 1));
  const bool raw = (data[0] & 0x80) == 0;
  switch (data[0] % 3) {
    case 0: fuzz_sim(in, raw); break;
    case 1: fuzz_tcp(in, raw); break;
    default: fuzz_shm(in, raw); break;
  }
  return 0;
}

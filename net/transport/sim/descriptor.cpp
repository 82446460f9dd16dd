#include <cordma/net/transport/sim/descriptor.hpp>
#include <cordma/net/transport/sim/random.hpp>

#include <string>

namespace cordma::transport::sim {
namespace {

constexpr std::uint32_t magic = 0x44535043;  // "CPSD"

void put(std::vector<std::byte>& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t get(std::span<const std::byte> bytes, std::size_t at, std::size_t n) noexcept {
  CORDMA_ASSERT_OP(at + n, <=, bytes.size());
  std::uint64_t value = 0;
  for (std::size_t i = n; i-- > 0;)
    value = (value << 8) | static_cast<std::uint64_t>(bytes[at + i]);
  return value;
}

std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
  std::uint64_t sum = bytes.size();
  for (const std::byte b : bytes) sum = mix(sum * 31 + static_cast<std::uint64_t>(b) + 1);
  return sum;
}

}  // namespace

std::vector<std::byte> encode_descriptor(const pair_descriptor& d) {
  std::vector<std::byte> out;
  out.reserve(descriptor_bytes);
  put(out, magic, 4);
  put(out, descriptor_version, 1);
  put(out, static_cast<std::uint64_t>(d.hello.type), 1);
  put(out, 0, 2);
  put(out, d.id.host, 4);
  put(out, d.id.instance, 4);
  put(out, d.id.number, 4);
  put(out, d.hello.read_depth, 4);
  put(out, d.hello.first_psn, 8);
  put(out, checksum(out), 8);
  CORDMA_ASSERT_OP(out.size(), ==, descriptor_bytes);
  return out;
}

result<pair_descriptor> decode_descriptor(std::span<const std::byte> bytes) {
  constexpr std::size_t summed = descriptor_bytes - 8;
  if (bytes.size() != descriptor_bytes || get(bytes, 0, 4) != magic) {
    return failure{errc::connection_aborted, "this is no descriptor of a simulated queue pair"};
  }
  if (get(bytes, 4, 1) != descriptor_version) {
    return failure{errc::unsupported_version,
                   "the descriptor has version " + std::to_string(get(bytes, 4, 1)) +
                       ", this side reads version " + std::to_string(descriptor_version)};
  }
  if (get(bytes, summed, 8) != checksum(bytes.first(summed)) || get(bytes, 5, 1) > 1) {
    return failure{errc::connection_aborted, "the descriptor was damaged on its way"};
  }
  pair_descriptor d;
  d.hello.type = static_cast<service>(get(bytes, 5, 1));
  d.id.host = static_cast<std::uint32_t>(get(bytes, 8, 4));
  d.id.instance = static_cast<std::uint32_t>(get(bytes, 12, 4));
  d.id.number = static_cast<std::uint32_t>(get(bytes, 16, 4));
  d.hello.read_depth = static_cast<std::uint32_t>(get(bytes, 20, 4));
  d.hello.first_psn = get(bytes, 24, 8);
  return d;
}

}  // namespace cordma::transport::sim

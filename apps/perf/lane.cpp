#include "lane.hpp"

namespace perf {
namespace {

constexpr std::size_t line = 64;  // bytes; buffers share no cache line

std::size_t rounded(std::size_t bytes) noexcept { return (bytes + line - 1) / line * line; }

constexpr std::uint8_t value_at(std::uint64_t i, std::size_t place) noexcept {
  return static_cast<std::uint8_t>(i * 37 + place * 11 + (place >> 8) + 1);
}

int looks(const cordma::Context& context, const cordma::Endpoint& connection) {
  constexpr int many = 2000;
  // Shared memory needs the peer's help for the first access only.
  if (connection.transport() == cordma::transport::kind::shm) return many;
  const auto* const caps = context.find(connection.transport());
  return caps == nullptr || caps->needs_target_progress ? 1 : many;
}

}  // namespace

lane::lane(cordma::Context& context, cordma::Endpoint& connection, const plan& p)
    : endpoint(connection),
      what(p),
      slots(perf::slots(p)),
      looks_per_turn(looks(context, connection)) {
  const std::size_t size = what.size;
  // Every flag of a write-lat has eight aligned bytes of its own, at the end of its message.
  const std::size_t stride = rounded(size < 8 ? 8 : size);
  const std::size_t area = stride * slots;
  region_ = context.allocate(2 * area, cordma::transport::all_remote).value();
  const cordma::Slice all = region_.all();
  for (std::uint32_t i = 0; i < slots; ++i) {
    in_.push_back(all.part(i * stride, size));
    out_.push_back(all.part(area + i * stride, size));
  }
}

void lane::attach(std::span<const std::byte> blob) {
  const cordma::RemoteMemory memory = cordma::RemoteMemory::import(blob).value();
  const std::byte* const base = in_.front().data();
  peer_.clear();
  for (const cordma::Slice& s : in_) {
    const auto offset = static_cast<std::uint64_t>(s.data() - base);
    peer_.push_back(memory.slice(offset, s.size()).value());
  }
}

void require_connected(const cordma::Endpoint& endpoint) {
  if (endpoint.state() == cordma::endpoint_state::connected) return;
  const cordma::failure* const cause = endpoint.first_cause();
  cordma::throw_error(cause != nullptr ? *cause : cordma::failure{cordma::errc::not_connected});
}

void fill(std::span<std::byte> message, std::uint64_t i) noexcept {
  for (std::size_t k = 0; k < message.size(); ++k) message[k] = std::byte{value_at(i, k)};
}

bool matches(std::span<const std::byte> message, std::uint64_t i) noexcept {
  for (std::size_t k = 0; k < message.size(); ++k) {
    if (message[k] != std::byte{value_at(i, k)}) return false;
  }
  return true;
}

}  // namespace perf

#include "lane.hpp"

#include "ticks.hpp"

#include <cordma/runtime/sleep.hpp>

#include <cmath>

namespace perf {
namespace {

constexpr std::size_t line = 64;  // bytes; buffers share no cache line

std::size_t rounded(std::size_t bytes) noexcept { return (bytes + line - 1) / line * line; }

// Every flag of a write-lat has eight aligned bytes of its own, at the end of its message.
std::size_t stride(const plan& p) noexcept { return rounded(p.size < 8 ? 8 : p.size); }

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

lane::lane(const plan& p) : what(p), slots(perf::slots(p)) {}

std::size_t lane::bytes(const plan& p) noexcept { return 2 * stride(p) * perf::slots(p); }

void lane::use(const cordma::Slice& memory) {
  const std::size_t area = memory.size() / 2;
  for (std::uint32_t i = 0; i < slots; ++i) {
    in_.push_back(memory.part(i * stride(what), what.size));
    out_.push_back(memory.part(area + i * stride(what), what.size));
  }
}

void lane::attach(const cordma::RemoteSlice& there) {
  const std::uint64_t area = there.size() / 2;
  for (std::uint32_t i = 0; i < slots; ++i) {
    peer_in_.push_back(there.slice(i * stride(what), what.size).value());
    peer_out_.push_back(there.slice(area + i * stride(what), what.size).value());
  }
}

void lane::use(cordma::Context& context, cordma::Endpoint& shared) {
  endpoint_ = &shared;
  looks_per_turn = looks(context, shared);
}

void lane::use(cordma::Context& context, cordma::Endpoint&& own) {
  own_ = std::move(own);
  use(context, own_);
}

cordma::task<void> lane::think() {
  double us = static_cast<double>(what.think_us);
  if (what.random_think) us = random_gap(random, us);
  const std::uint64_t began = ticks();
  co_await cordma::sleep_for(std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1e3)));
  thought += static_cast<double>(ticks() - began);
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

double random_gap(std::mt19937_64& random, double mean) noexcept {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  return -std::log1p(-uniform(random)) * mean;
}

}  // namespace perf

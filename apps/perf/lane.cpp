#include "lane.hpp"

#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace perf {
namespace {

constexpr std::size_t line = 64;  // bytes; buffers share no cache line

std::size_t rounded(std::size_t bytes) noexcept { return (bytes + line - 1) / line * line; }

// The flag of a write-lat message has eight aligned bytes to itself, at the end of the message.
std::size_t stride(const plan& p) noexcept { return rounded(p.size < 8 ? 8 : p.size); }

// Eight bytes of message `i`, at a multiple of eight: splitmix64 of both.
constexpr std::uint64_t word_at(std::uint64_t i, std::uint64_t place) noexcept {
  std::uint64_t z = i * 0x9E3779B97F4A7C15U + place * 0xD1B54A32D192ED03U + 0x2545F4914F6CDD1DU;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Calls `each(place, bytes, n)` for each piece of the content of message `i`.
template <class Each>
void for_each_piece(std::size_t size, std::uint64_t i, Each each) noexcept {
  for (std::size_t place = 0; place < size; place += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(i, place);
    each(place, &word, std::min(sizeof word, size - place));
  }
}

int looks(const cordma::Endpoint& connection) {
  constexpr int many = 2000;
  return connection.abilities().target_idle() ? many : 1;
}

}  // namespace

lane::lane(const plan& p, std::uint32_t flow) : what(p), index(flow), slots(perf::slots(p)) {}

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

void lane::use(cordma::Endpoint& shared) {
  endpoint_ = &shared;
  looks_per_turn = looks(shared);
}

void lane::use(cordma::Endpoint&& own) {
  own_ = std::move(own);
  use(own_);
}

cordma::task<void> lane::think() {
  double us = static_cast<double>(what.think_us);
  if (what.random_think) us = random_gap(random, us);
  co_await cordma::sleep_for(std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1e3)));
}

void require_connected(const cordma::Endpoint& endpoint) {
  if (endpoint.state() == cordma::endpoint_state::connected) return;
  const cordma::failure* const cause = endpoint.first_cause();
  cordma::throw_error(cause != nullptr ? *cause : cordma::failure{cordma::errc::not_connected});
}

void fill(std::span<std::byte> message, std::uint64_t i) noexcept {
  for_each_piece(message.size(), i, [&](std::size_t place, const void* bytes, std::size_t n) {
    std::memcpy(message.data() + place, bytes, n);
  });
}

void spoil(std::span<std::byte> message, std::uint64_t i) noexcept {
  fill(message, i);
  for (std::byte& b : message) b = ~b;
}

bool matches(std::span<const std::byte> message, std::uint64_t i) noexcept {
  bool same = true;
  for_each_piece(message.size(), i, [&](std::size_t place, const void* bytes, std::size_t n) {
    same = same && std::memcmp(message.data() + place, bytes, n) == 0;
  });
  return same;
}

void lane::fill_out(std::uint64_t slot, std::uint64_t i) noexcept {
  if (!what.check) return;
  const std::span<std::byte> message = out_[slot].bytes();
  fill(message, i);
  if (i == flip_at) message[message.size() / 2] ^= std::byte{1};
}

double random_gap(std::mt19937_64& random, double mean) noexcept {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  return -std::log1p(-uniform(random)) * mean;
}

}  // namespace perf

// Numbers on a wire and in blobs: little-endian, at any address.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cordma::transport {

static_assert(std::endian::native == std::endian::little);

// Stores the low `bytes` bytes of `value`; at most sizeof(T).
template <std::unsigned_integral T>
void store(std::byte* at, T value, std::size_t bytes = sizeof(T)) noexcept {
  std::memcpy(at, &value, bytes);
}

template <std::unsigned_integral T>
[[nodiscard]] T load(const std::byte* at, std::size_t bytes = sizeof(T)) noexcept {
  T value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

}  // namespace cordma::transport

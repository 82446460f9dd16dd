// Numbers as they stand on a wire and in blobs: little-endian, at any address.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace cordma::transport {

// The low `bytes` of them; at most sizeof(T).
template <std::unsigned_integral T>
void store(std::byte* at, T value, std::size_t bytes = sizeof(T)) noexcept {
  for (std::size_t i = 0; i < bytes; ++i) {
    at[i] = static_cast<std::byte>(std::uint64_t{value} >> (8 * i));
  }
}

template <std::unsigned_integral T>
[[nodiscard]] T load(const std::byte* at, std::size_t bytes = sizeof(T)) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;)
    value = (value << 8) | std::to_integer<std::uint64_t>(at[i]);
  return static_cast<T>(value);
}

}  // namespace cordma::transport

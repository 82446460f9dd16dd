// Little-endian integers and length-prefixed texts, for the messages and frames of a protocol.
#pragma once

#include <cordma/runtime/check.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace support {

// REQUIRES that Writer has bytes(span), which appends them.
template <class Writer>
class byte_writer {
 public:
  Writer& u8(std::uint8_t value) { return number(value, 1); }
  Writer& u16(std::uint16_t value) { return number(value, 2); }
  Writer& u32(std::uint32_t value) { return number(value, 4); }
  Writer& u64(std::uint64_t value) { return number(value, 8); }
  // Preceded by its length as u16. REQUIRES at most 65,535 bytes.
  Writer& text(std::string_view value) {
    CORDMA_REQUIRE_OP(value.size(), <=, std::size_t{std::numeric_limits<std::uint16_t>::max()});
    return u16(static_cast<std::uint16_t>(value.size())).bytes(std::as_bytes(std::span(value)));
  }
  // Preceded by its length as u32.
  Writer& long_text(std::string_view value) {
    return u32(static_cast<std::uint32_t>(value.size())).bytes(std::as_bytes(std::span(value)));
  }

 private:
  Writer& number(std::uint64_t value, std::size_t width) {
    std::array<std::byte, sizeof value> little{};
    for (std::size_t i = 0; i < little.size(); ++i) little[i] = std::byte(value >> 8 * i & 255);
    return static_cast<Writer*>(this)->bytes(std::span(little).first(width));
  }
};

// Reads from the front. REQUIRES that Reader has too_short(), which throws.
template <class Reader>
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> in) noexcept : in_(in) {}
  [[nodiscard]] std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  [[nodiscard]] std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  [[nodiscard]] std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  [[nodiscard]] std::uint64_t u64() { return number(8); }
  [[nodiscard]] std::string text() { return string(u16()); }
  [[nodiscard]] std::string long_text() { return string(u32()); }
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t count) {
    if (count > in_.size()) static_cast<const Reader*>(this)->too_short();
    const std::span<const std::byte> first = in_.first(count);
    in_ = in_.subspan(count);
    return first;
  }
  [[nodiscard]] bool empty() const noexcept { return in_.empty(); }

 private:
  [[nodiscard]] std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    int shift = 0;
    for (const std::byte b : bytes(width)) {
      value |= static_cast<std::uint64_t>(b) << shift;
      shift += 8;
    }
    return value;
  }
  [[nodiscard]] std::string string(std::size_t count) {
    const std::span<const std::byte> from = bytes(count);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  std::span<const std::byte> in_;
};

}  // namespace support

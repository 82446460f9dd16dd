// CRC32C of an item: that it is whole, and that it is the one that belongs at its place.
#pragma once

#include "item.hpp"
#include "layout.hpp"

#include <cstddef>
#include <cstdint>

#include <isa-l/crc.h>

namespace kv {

[[nodiscard]] inline std::uint32_t crc32c(const void* data, std::size_t bytes,
                                          std::uint32_t before = 0xFFFFFFFFU) noexcept {
  // ISA-L's buffer is not const, and is not written to.
  return ::crc32_iscsi(static_cast<unsigned char*>(const_cast<void*>(data)),
                       static_cast<int>(bytes), before);
}

// `bytes` of them, at least sizeof(item), lie at `i`; only used_bytes() of them count, which must fit.
[[nodiscard]] inline std::uint32_t item_checksum(const item& i, place where) noexcept {
  const std::uint32_t of_place = crc32c(&where, sizeof where);
  return crc32c(&i.version, i.used_bytes() - offsetof(item, version), of_place);
}

}  // namespace kv

// CRC32C of an item: verifies that it is complete and belongs at its position.
#pragma once

#include "item.hpp"
#include "layout.hpp"

#include <cstddef>
#include <cstdint>

#include <isa-l/crc.h>

namespace kv {

[[nodiscard]] inline std::uint32_t crc32c(const void* data, std::size_t bytes,
                                          std::uint32_t before = 0xFFFFFFFFU) noexcept {
  // ISA-L's parameter is not const, but the buffer is not written to.
  return ::crc32_iscsi(static_cast<unsigned char*>(const_cast<void*>(data)),
                       static_cast<int>(bytes), before);
}

// At least sizeof(item) bytes at `i` must be readable. The checksum covers used_bytes() of them,
// which must be in bounds.
[[nodiscard]] inline std::uint32_t item_checksum(const item& i, place where) noexcept {
  const std::uint32_t of_place = crc32c(&where, sizeof where);
  return crc32c(&i.version, i.used_bytes() - offsetof(item, version), of_place);
}

}  // namespace kv

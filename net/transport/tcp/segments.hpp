// Scatter-gather lists: find the memory of byte `offset` of a message.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cordma/net/transport/small_copy.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/check.hpp>
#include <cstddef>
#include <cstring>
#include <span>

namespace cordma::transport::tcp {

using segment_list = std::span<const segment>;
inline constexpr std::uint32_t most_segments = 8;  // per request or receive
static_assert(offsetof(iovec, iov_base) == 0 && sizeof(iovec) == 2 * sizeof(void*));

// Calls visit(addr, length) for the pieces of [offset, offset + length), until it returns false.
// REQUIRES that the list has that many bytes.
template <class Visit>
void for_each_piece(segment_list list, std::uint64_t offset, std::size_t length, Visit visit) {
  for (const segment& s : list) {
    if (length == 0) return;
    if (offset >= s.length) {
      offset -= s.length;
      continue;
    }
    const std::size_t n = std::min(static_cast<std::size_t>(s.length - offset), length);
    if (!visit(s.addr + offset, n)) return;
    offset = 0;
    length -= n;
  }
}

inline void scatter(segment_list list, std::uint64_t offset,
                    std::span<const std::byte> from) noexcept {
  if (list.size() == 1) {
    CORDMA_ASSERT_OP(from.size(), <=, list.front().length - offset);
    return copy_bytes(list.front().addr + offset, from.data(), from.size());
  }
  const std::byte* next = from.data();
  for_each_piece(list, offset, from.size(), [&next](std::byte* to, std::size_t n) noexcept {
    std::memcpy(to, next, n);
    next += n;
    return true;
  });
}

inline void gather(segment_list list, std::span<std::byte> to) noexcept {
  std::byte* next = to.data();
  for_each_piece(list, 0, to.size(), [&next](const std::byte* from, std::size_t n) noexcept {
    std::memcpy(next, from, n);
    next += n;
    return true;
  });
}

// An iovec array of fixed size under construction.
template <std::size_t Most>
class io_list {
 public:
  [[nodiscard]] std::size_t room() const noexcept { return Most - count_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::span<iovec> pieces() noexcept { return {at_.data(), count_}; }
  void add(const std::byte* addr, std::size_t length) noexcept {
    at_[count_++] = iovec{const_cast<std::byte*>(addr), length};
    bytes_ += length;
  }
  // Adds as much of [offset, offset + length) as fits, leaving `spare` entries free.
  void add(segment_list list, std::uint64_t offset, std::size_t length,
           std::size_t spare) noexcept {
    for_each_piece(list, offset, length, [this, spare](std::byte* addr, std::size_t n) noexcept {
      if (room() <= spare) return false;
      add(addr, n);
      return true;
    });
  }

 private:
  std::array<iovec, Most> at_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace cordma::transport::tcp

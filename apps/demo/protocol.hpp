// What server and client of the tree say to each other.
//
//   connection   accept data: the exported windows (64-byte blob), their number, the bytes of each
//   server       list_part ...                 every entry of the tree, in order
//   server       left_out_part ..., list_end   what of it is not sent, and why; the bytes that follow
//   server       window_filled                 so many bytes of the stream stand in window i
//   client                                     reads window i by a one-sided read
//   client       window_free                   window i may be filled again
//   server       stream_end                    after the last window: how many files changed meanwhile
//   client                                     closes
//
// The stream is the contents of all files, one behind the other, in the order of the list. All
// integers are little-endian.
#pragma once

#include "../support/little_endian.hpp"
#include "tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace demo {

inline constexpr std::size_t longest_message = 32768;  // bytes
inline constexpr std::uint32_t most_windows = 64;
inline constexpr std::uint32_t largest_window = 64U << 20;  // bytes

enum class message_kind : std::uint8_t {
  list_part = 1,
  list_end = 2,
  window_filled = 3,
  window_free = 4,
  stream_end = 5,
  left_out_part = 6,
};

// Appends to a message.
class writer : public support::byte_writer<writer> {
 public:
  explicit writer(message_kind kind) { u8(static_cast<std::uint8_t>(kind)); }
  writer() = default;
  writer& bytes(std::span<const std::byte> value) {
    out_.insert(out_.end(), value.begin(), value.end());
    return *this;
  }
  [[nodiscard]] std::span<const std::byte> done() const noexcept { return out_; }

 private:
  std::vector<std::byte> out_;
};

// Takes apart; throws cordma::error (invalid_value) where the bytes end too early.
class reader : public support::byte_reader<reader> {
 public:
  using byte_reader::byte_reader;
  // The first byte of a message. Throws where it is another kind.
  void expect(message_kind kind);
  [[noreturn]] void too_short() const;
};

// The shape of the server's windows, with their blob.
struct windows {
  std::vector<std::byte> blob;
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;  // of each
};
[[nodiscard]] std::vector<std::byte> encode(const windows& w);
[[nodiscard]] windows decode_windows(std::span<const std::byte> data);

void encode(writer& out, const entry& e);
// Throws where the entry is none: an unknown kind, a path that leads out of the tree.
[[nodiscard]] entry decode_entry(reader& in);

void encode(writer& out, const omission& o);
[[nodiscard]] omission decode_omission(reader& in);

}  // namespace demo

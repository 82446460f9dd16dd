// The protocol between server and client of the tree.
//
//   connection   accept data: the exported windows (64-byte blob), their number, the bytes of each
//   server       list_part ...                 every entry of the tree, in order
//   server       left_out_part ..., list_end   the omitted paths with reasons; the bytes that
//   follow
//   server       window_filled                 window i contains this many bytes of the stream
//   client                                     reads window i by a one-sided read
//   client       window_free                   window i may be filled again
//   server       stream_end                    after the last window: number of files changed
//   meanwhile
//   client                                     closes
//
// The stream is the content of all files, one after the other, in the order of the list. All
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

// Builds a message.
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

// Parses a message. Throws cordma::error (invalid_value) if the bytes end too early.
class reader : public support::byte_reader<reader> {
 public:
  using byte_reader::byte_reader;
  // Reads the first byte of a message. Throws if it is of another kind.
  void expect(message_kind kind);
  [[noreturn]] void too_short() const;
};

// The layout of the server's windows, with their blob.
struct windows {
  std::vector<std::byte> blob;
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;  // of each
};
[[nodiscard]] std::vector<std::byte> encode(const windows& w);
[[nodiscard]] windows decode_windows(std::span<const std::byte> data);

void encode(writer& out, const entry& e);
// Throws if the entry is invalid: an unknown kind, or a path that leads out of the tree.
[[nodiscard]] entry decode_entry(reader& in);

void encode(writer& out, const omission& o);
[[nodiscard]] omission decode_omission(reader& in);

}  // namespace demo

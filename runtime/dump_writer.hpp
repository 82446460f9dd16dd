// dump_writer: lines of text for reports that a signal handler may print.
#pragma once

#include <cordma/runtime/clock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cordma {

// Bound to one thread. Writes complete lines to a descriptor, or into a buffer of the caller.
// Allocates nothing and takes no lock; write(2) is the only call. Lines past the limit are counted,
// but not written.
class dump_writer {
 public:
  dump_writer(int fd, unsigned max_lines) noexcept : fd_(fd), lines_left_(max_lines) {}
  // Writes into `room`; text past its end is lost.
  dump_writer(std::span<char> room, unsigned max_lines) noexcept
      : room_(room), lines_left_(max_lines) {}
  dump_writer(const dump_writer&) = delete;
  dump_writer& operator=(const dump_writer&) = delete;
  ~dump_writer() { flush(); }

  dump_writer& operator<<(std::string_view text) noexcept;
  dump_writer& operator<<(const char* text) noexcept { return *this << std::string_view(text); }
  dump_writer& operator<<(std::uint64_t number) noexcept;
  dump_writer& operator<<(std::uint32_t number) noexcept { return *this << std::uint64_t{number}; }
  dump_writer& operator<<(int number) noexcept;
  dump_writer& operator<<(const void* address) noexcept;
  // With a unit: "12 us", "3.2 s".
  dump_writer& operator<<(duration time) noexcept;
  // The name of a function without its result and parameters, from the text of
  // std::source_location.
  dump_writer& function(std::string_view pretty) noexcept;
  // The last two parts of a path.
  dump_writer& file(std::string_view path) noexcept;
  void end_line() noexcept;

  [[nodiscard]] unsigned lines_left() const noexcept { return lines_left_; }
  // Limits the output to `lines` further lines, until the limit is set again.
  void limit(unsigned lines) noexcept { lines_left_ = lines; }
  [[nodiscard]] bool full() const noexcept { return lines_left_ == 0; }
  // Number of bytes in the caller's buffer.
  [[nodiscard]] std::size_t size() const noexcept { return in_room_; }
  void flush() noexcept;
  // errno of the first write that failed; 0 if none did.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  void put(char c) noexcept;

  static constexpr std::size_t buffer_bytes = 2048;
  int fd_ = -1;
  int error_ = 0;
  std::span<char> room_;
  std::size_t in_room_ = 0;
  unsigned lines_left_;
  std::size_t used_ = 0;
  std::size_t line_begin_ = 0;
  std::array<char, buffer_bytes> buffer_;
};

}  // namespace cordma

// Parses RESP values incrementally.
#pragma once

#include "byte_buffer.hpp"
#include "value.hpp"

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

inline constexpr std::size_t deepest_reply = 32;                          // nested arrays
inline constexpr std::size_t most_items_of_reply = std::size_t{1} << 24;  // in one array
inline constexpr std::size_t longest_text_of_reply = std::size_t{512} << 20;
inline constexpr std::size_t longest_line_of_reply = std::size_t{64} << 10;

// The input is not RESP; the rest of it cannot be parsed.
class resp_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class value_parser {
 public:
  // Space for more bytes, at least one; received() reports how many were written.
  [[nodiscard]] std::span<char> room();
  void received(std::size_t bytes) noexcept { buffer_.added(bytes); }

  // Returns true, with the value in `into`, if a complete value was available. The state of an
  // incomplete value is kept, so that no byte is examined twice. Throws resp_error, std::bad_alloc.
  bool next(resp_value& into);

 private:
  struct level {
    resp_value* of = nullptr;
    std::size_t left = 0;  // missing items
  };
  // Each returns false, and consumes nothing, if more bytes are needed.
  bool take_value(resp_value& into);
  bool take_text(resp_value& into, resp_value::kind what, std::string_view digits);
  void open(resp_value& into, resp_value::kind what, std::string_view digits, std::size_t each = 1);
  [[nodiscard]] std::string_view unread() const noexcept { return buffer_.view().substr(begin_); }

  byte_buffer buffer_;
  std::size_t begin_ = 0;  // start of the unread bytes
  resp_value root_;
  std::vector<level> open_;  // the nesting of unfinished values
};

}  // namespace kv

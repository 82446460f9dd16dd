// Reads values of RESP from bytes as they come.
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

inline constexpr std::size_t deepest_reply = 32;                          // arrays in arrays
inline constexpr std::size_t most_items_of_reply = std::size_t{1} << 24;  // of one of them
inline constexpr std::size_t longest_text_of_reply = std::size_t{512} << 20;
inline constexpr std::size_t longest_line_of_reply = std::size_t{64} << 10;

// What came is no RESP: nothing behind it makes sense.
class resp_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class value_parser {
 public:
  // Room for more bytes, at least one; received() says how many there are now.
  [[nodiscard]] std::span<char> room();
  void received(std::size_t bytes) noexcept { buffer_.added(bytes); }

  // Whether a whole value was there, which is in `into` now. What is known of one that is not yet whole is
  // kept, so that no byte is looked at twice. Throws resp_error, std::bad_alloc.
  bool next(resp_value& into);

 private:
  struct level {
    resp_value* of = nullptr;
    std::size_t left = 0;  // items that are to come
  };
  // Each false: more bytes are needed, and nothing was taken.
  bool take_value(resp_value& into);
  bool take_text(resp_value& into, resp_value::kind what, std::string_view digits);
  void open(resp_value& into, resp_value::kind what, std::string_view digits, std::size_t each = 1);
  [[nodiscard]] std::string_view unread() const noexcept { return buffer_.view().substr(begin_); }

  byte_buffer buffer_;
  std::size_t begin_ = 0;  // of what is unread
  resp_value root_;
  std::vector<level> open_;  // what lies in what
};

}  // namespace kv

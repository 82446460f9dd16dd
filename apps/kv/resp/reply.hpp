// reply_writer: appends replies in RESP2 or RESP3 to a buffer.
#pragma once

#include "byte_buffer.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace kv {

// Types that RESP2 lacks are written as Redis does: maps and sets as arrays, doubles and verbatim
// texts as bulks. Bound to its session. All functions throw std::bad_alloc without having written
// anything. If the buffer would exceed its bound, they write nothing and do not throw.
class reply_writer {
 public:
  enum class protocol : std::uint8_t { resp2 = 2, resp3 = 3 };

  explicit reply_writer(byte_buffer& out) noexcept : out_(out) {}

  [[nodiscard]] protocol version() const noexcept { return version_; }
  [[nodiscard]] bool is_resp3() const noexcept { return version_ == protocol::resp3; }
  void speak(protocol version) noexcept { version_ = version; }

  // Limits the size of the buffer; overflowed() is true once more was to be written.
  void bound(std::size_t most_bytes) noexcept { most_bytes_ = most_bytes; }
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

  void raw(std::string_view bytes) {
    if (fits(bytes.size())) out_.append(bytes);
  }
  void ok() { raw("+OK\r\n"); }
  void simple(std::string_view text);
  // `text` includes the code: "ERR syntax error". Line ends in it become blanks.
  void error(std::string_view text);
  void integer(std::int64_t number) { head(':', number); }
  void bulk(std::string_view bytes) {
    if (!fits(bytes.size() + most_head_bytes + 2)) return;
    char* const start = out_.room(bytes.size() + most_head_bytes + 2);
    char* at = write_head(start, '$', static_cast<std::int64_t>(bytes.size()));
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    at += bytes.size();
    *at++ = '\r';
    *at++ = '\n';
    out_.added(static_cast<std::size_t>(at - start));
  }
  void bulk_integer(std::int64_t number);
  void null() { raw(is_resp3() ? "_\r\n" : "$-1\r\n"); }
  void null_array() { raw(is_resp3() ? "_\r\n" : "*-1\r\n"); }
  void array(std::size_t elements) { count('*', elements); }
  // `pairs`: number of key-value pairs.
  void map(std::size_t pairs) { is_resp3() ? count('%', pairs) : count('*', pairs * 2); }
  void set(std::size_t elements) { count(is_resp3() ? '~' : '*', elements); }
  void push(std::size_t elements) { count(is_resp3() ? '>' : '*', elements); }
  void real(double number);
  // Text for unchanged display.
  void verbatim(std::string_view text);

  // mark(): where the next reply begins. rewind(): removes everything from there on.
  [[nodiscard]] std::size_t mark() const noexcept { return out_.size(); }
  void rewind(std::size_t mark) noexcept { out_.truncate(mark); }
  [[nodiscard]] bool is_error_at(std::size_t mark) const noexcept {
    return out_.size() > mark && out_.data()[mark] == '-';
  }
  [[nodiscard]] std::string_view since(std::size_t mark) const noexcept {
    return out_.view().substr(mark);
  }

 private:
  static constexpr std::size_t most_head_bytes = 24;  // type, 20 digits and sign, line end

  static char* write_head(char* at, char type, std::int64_t number) noexcept {
    *at++ = type;
    if (number >= 0 && number < 10) {
      *at++ = static_cast<char>('0' + number);
    } else {
      at = std::to_chars(at, at + most_head_bytes, number).ptr;
    }
    *at++ = '\r';
    *at++ = '\n';
    return at;
  }
  void head(char type, std::int64_t number) {
    if (!fits(most_head_bytes)) return;
    char* const start = out_.room(most_head_bytes);
    out_.added(static_cast<std::size_t>(write_head(start, type, number) - start));
  }
  void count(char type, std::size_t n) { head(type, static_cast<std::int64_t>(n)); }

  [[nodiscard]] bool fits(std::size_t bytes) noexcept {
    if (out_.size() + bytes > most_bytes_) [[unlikely]]
      overflowed_ = true;
    return !overflowed_;
  }
  void line(char type, std::string_view text);

  byte_buffer& out_;
  std::size_t most_bytes_ = std::numeric_limits<std::size_t>::max();
  protocol version_ = protocol::resp2;
  bool overflowed_ = false;
};

}  // namespace kv

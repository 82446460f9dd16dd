// request_parser: splits the input of RESP clients into commands and their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

struct parse_limits {
  std::size_t bulk_bytes = std::size_t{512} << 20;
  std::size_t request_bytes = std::size_t{1} << 30;  // of one command, with its arguments' memory
  bool authenticated = true;  // false: only a few short arguments are accepted
};

// Parses arrays of bulks and inline commands. The input remains the caller's; arguments are views
// into it. The parser stores its position in an incomplete command, so that no byte is examined
// twice. Not thread-safe.
class request_parser {
 public:
  static constexpr std::size_t most_line_bytes = std::size_t{64} << 10;
  static constexpr std::size_t big_bulk_bytes = std::size_t{32} << 10;
  static constexpr std::int64_t most_arguments_before_auth = 10;
  static constexpr std::int64_t most_bulk_before_auth = 16384;

  enum class outcome : std::uint8_t {
    complete,
    incomplete,  // more bytes are needed
    failed,      // see why(); parsing cannot continue
  };
  struct request {
    std::size_t first = 0;  // arguments: args(request)
    std::size_t count = 0;
    std::size_t end = 0;     // position of the next command in the input
    bool is_inline = false;  // the next inline command overwrites its arguments
  };

  // Parses the command that begins at `at`. After `incomplete`, the next call's input must have the
  // same bytes from its `at` on, at any address, and more behind them.
  outcome next(std::string_view input, std::size_t at, const parse_limits& limits, request& found);
  [[nodiscard]] std::span<const std::string_view> args(const request& r) const noexcept {
    return std::span(args_).subspan(r.first, r.count);
  }
  // "ERR Protocol error: ...".
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  // Forgets the arguments of all complete commands.
  void forget() noexcept;
  // Also forgets the incomplete command: its bytes are parsed again from the start.
  void restart() noexcept;
  // Missing bytes of a long argument, including its line end: these are worth reading directly into
  // their final position. 0: none.
  [[nodiscard]] std::size_t missing_bytes() const noexcept { return missing_bytes_; }

 private:
  // All functions continue at the given position and set it to the end of the parsed bytes.
  outcome begin(const char*& at, const char* end, const parse_limits& limits);
  outcome bulks(const char*& at, const char* end, const parse_limits& limits);
  outcome inline_command(const char*& at, const char* end);
  bool split(std::string_view line);
  outcome fail(std::string_view why);
  void moved(const char* to) noexcept;

  std::vector<std::string_view> args_;
  std::size_t first_ = 0;        // index of the current command's first argument
  std::int64_t to_come_ = -1;    // its missing arguments; -1: nothing of it was read
  std::int64_t bulk_ = -1;       // length of the current argument; -1: unknown yet
  std::size_t progress_ = 0;     // parsed bytes of the command
  const char* start_ = nullptr;  // its address when its arguments were found
  std::size_t missing_bytes_ = 0;
  std::string inline_text_;
  std::string why_;
};

}  // namespace kv

// request_parser: what RESP clients send, cut into commands and their arguments.
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
  std::size_t request_bytes = std::size_t{1}
                              << 30;  // of one command, what its arguments need beside it too
  bool authenticated = true;          // nobody yet: few and short arguments are all that is read
};

// Reads arrays of bulks and inline commands out of bytes that stay the caller's: arguments are views into them. Of a
// command that is not complete it remembers how far it came, so that no byte is looked at twice. Not thread-safe.
class request_parser {
 public:
  static constexpr std::size_t most_line_bytes = std::size_t{64} << 10;
  static constexpr std::size_t big_bulk_bytes = std::size_t{32} << 10;
  static constexpr std::int64_t most_arguments_before_auth = 10;
  static constexpr std::int64_t most_bulk_before_auth = 16384;

  enum class outcome : std::uint8_t {
    complete,
    incomplete,  // more bytes are needed
    failed,      // why() says it; there is no way to go on
  };
  struct request {
    std::size_t first = 0;  // its arguments: args(request)
    std::size_t count = 0;
    std::size_t end = 0;     // where the next one begins in the input
    bool is_inline = false;  // the next inline command overwrites its arguments
  };

  // The command that begins at `at`. After `incomplete` the next call's input has the same bytes from its `at` on,
  // wherever they lie then, and more behind them.
  outcome next(std::string_view input, std::size_t at, const parse_limits& limits, request& found);
  [[nodiscard]] std::span<const std::string_view> args(const request& r) const noexcept {
    return std::span(args_).subspan(r.first, r.count);
  }
  // "ERR Protocol error: ...".
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  // Forgets the arguments of all complete commands.
  void forget() noexcept;
  // Forgets the one that is incomplete as well: its bytes are read from the start again.
  void restart() noexcept;
  // What is missing of a long argument, with its line end: worth to be read straight into its place. 0: nothing such.
  [[nodiscard]] std::size_t missing_bytes() const noexcept { return missing_bytes_; }

 private:
  // All take the place where they go on and leave it where they stopped.
  outcome begin(const char*& at, const char* end, const parse_limits& limits);
  outcome bulks(const char*& at, const char* end, const parse_limits& limits);
  outcome inline_command(const char*& at, const char* end);
  bool split(std::string_view line);
  outcome fail(std::string_view why);
  void moved(const char* to) noexcept;

  std::vector<std::string_view> args_;
  std::size_t first_ = 0;        // of the command that is being read
  std::int64_t to_come_ = -1;    // arguments of it; -1: nothing was read of it
  std::int64_t bulk_ = -1;       // length of the argument that is being read; -1: not known yet
  std::size_t progress_ = 0;     // bytes of it that are done with
  const char* start_ = nullptr;  // where it began when its arguments were found
  std::size_t missing_bytes_ = 0;
  std::string inline_text_;
  std::string why_;
};

}  // namespace kv

// Where files are: here, or in a module of a daemon.
#pragma once

#include <cstdint>
#include <string>

namespace copy {

inline constexpr std::uint16_t default_port = 7473;

// "PATH", "HOST:MODULE/PATH", "HOST::MODULE/PATH", "cordma://HOST[:PORT]/MODULE/PATH"; HOST may be "[::1]". As with
// scp, what has a '/' before its first ':' is here. "-" is standard input or output.
struct place {
  std::string host;  // empty: here
  std::uint16_t port = default_port;
  std::string module;  // of the daemon; empty: here
  std::string path;    // below the module, without a '/' at the front; here: as it was given
  // As rsync has it: of a source, what is in it and not itself; of a target, that it is a directory.
  bool ends_with_slash = false;

  [[nodiscard]] bool here() const noexcept { return host.empty(); }
  [[nodiscard]] bool is_standard_stream() const noexcept { return here() && path == "-"; }
  [[nodiscard]] std::string text() const;     // for people
  [[nodiscard]] std::string address() const;  // "host:port", for Worker::connect()
};

// Throws std::invalid_argument, saying what is wrong and how it would be right.
[[nodiscard]] place parse_place(std::string_view text, std::uint16_t port);

}  // namespace copy

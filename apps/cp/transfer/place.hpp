// Where files are: here, or in a module of a daemon.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace copy {

inline constexpr std::uint16_t default_port = 7473;

// "PATH", "HOST:MODULE/PATH", "HOST::MODULE/PATH", "cordma://HOST[:PORT]/MODULE/PATH"; HOST may be "[::1]". As with
// scp, what has a '/' before its first ':' is here. "-" is standard input or output.
struct place {
  std::string host;  // without brackets; empty: here
  std::uint16_t port = default_port;
  std::string module;  // of the daemon; empty: here
  // Below the module: relative, without "." and empty parts, empty for all of the module. Here: as it was given.
  std::string path;
  // As rsync has it: of a source, what is in it and not itself; of a target, that it is a directory. So it is with
  // "." and ".." as the last name, too, and with a module itself.
  bool ends_with_slash = false;

  [[nodiscard]] bool here() const noexcept { return host.empty(); }
  [[nodiscard]] bool is_standard_stream() const noexcept { return here() && path == "-"; }
  // For people, who may give it to parse_place() again.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string address() const;  // "host:port", for Worker::connect()
};

// `port` where the text has none. Throws std::invalid_argument, saying what is wrong and how it would be right: no
// host, module or path, a port that is none, a path that leads out of the module or is longer than a path may be,
// IPv6 without its brackets, a user before an '@'.
[[nodiscard]] place parse_place(std::string_view text, std::uint16_t port);

}  // namespace copy

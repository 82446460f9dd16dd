// The location of files: local, or in a module of a daemon.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace copy {

inline constexpr std::uint16_t default_port = 7473;

// Written "PATH", "HOST:MODULE/PATH", "HOST::MODULE/PATH" or "cordma://HOST[:PORT]/MODULE/PATH";
// HOST may be "[::1]". As with scp, a text with a '/' before its first ':' is local. "-" is
// standard input or output.
struct place {
  std::string host;  // without brackets; empty: local
  std::uint16_t port = default_port;
  std::string module;  // of the daemon; empty: local
  // Below the module: relative, without "." and empty parts; empty for the complete module. Local:
  // unchanged.
  std::string path;
  // As with rsync: a source names the contents of the directory, not the directory itself; a target
  // names a directory. Also true if the last name is "." or "..", and for a module itself.
  bool ends_with_slash = false;

  [[nodiscard]] bool here() const noexcept { return host.empty(); }
  [[nodiscard]] bool is_standard_stream() const noexcept { return here() && path == "-"; }
  // Returns a text for people, which parse_place() accepts.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string address() const;  // "host:port", for Worker::connect()
};

// Uses `port` if the text has none. Throws std::invalid_argument with the fault and the correct
// form: no host, module or path; an invalid port; a path that leads out of the module or exceeds
// the longest path; IPv6 without its brackets; a user before an '@'.
[[nodiscard]] place parse_place(std::string_view text, std::uint16_t port);

}  // namespace copy

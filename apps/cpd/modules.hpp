// What a daemon serves: its JSON file, and what of it was given on the command line.
#pragma once

#include "../cp/transfer/session.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// A network that clients may come from: "10.0.0.0/8", "::1", "192.168.1.7".
struct network {
  std::vector<std::uint8_t> bytes;  // 4 or 16, as on the wire
  unsigned bits = 0;
  // `peer` is "host:port" or "[host]:port"; an IPv4 address mapped into IPv6 counts as itself.
  [[nodiscard]] bool contains(std::string_view peer) const;
};
// Throws std::invalid_argument.
[[nodiscard]] network parse_network(const std::string& text);

struct served_module {
  module what;
  std::string token_file = "";  // which the token is from
  std::vector<network> hosts;   // empty: from anywhere
};

struct daemon_configuration {
  std::string listen = "127.0.0.1:7473";
  std::optional<tls_context> tls;  // without it nobody can have TLS
  bool tls_required = false;
  std::vector<served_module> modules;
};

// The file is an object: "listen": "HOST:PORT", "modules": [{"name", "path", "read_only" (true unless told
// otherwise), "hosts": ["10.0.0.0/8", ...], "token" or "token_file", "devices" (true: clients may make
// them, where this is root), "whole_disk" (true, where the path is /)}],
// "tls": {"certificate", "key" (files; see tls_context), "required" (false unless told otherwise)}.
// Throws std::invalid_argument, naming the module and the key: an unknown key, a path that is no directory, "/" without
// "whole_disk", a name with '/' or ':' in it, two modules of one name, a token shorter than 8 bytes, a file with
// tokens that others may read, TLS without one of its files, and what tls_context says of them.
[[nodiscard]] daemon_configuration read_configuration(const std::string& file);
// "NAME=PATH", and whether it may be written to. Throws as above.
[[nodiscard]] served_module module_of(const std::string& text, bool read_only, std::string token);

// What is allowed, and hardly meant: sentences. A token that everybody here may read, a module that everybody may write.
[[nodiscard]] std::vector<std::string> doubts_of(const daemon_configuration& c);

}  // namespace copy

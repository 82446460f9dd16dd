// The configuration of a daemon: its JSON file, and the modules of its command line.
#pragma once

#include "../cp/transfer/session.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// A network of permitted clients: "10.0.0.0/8", "::1", "192.168.1.7".
struct network {
  std::vector<std::uint8_t> bytes;  // 4 or 16, in network order
  unsigned bits = 0;
  // `peer` is "host:port" or "[host]:port". An IPv4 address mapped into IPv6 counts as the IPv4
  // address.
  [[nodiscard]] bool contains(std::string_view peer) const;
};
// Throws std::invalid_argument.
[[nodiscard]] network parse_network(const std::string& text);

struct served_module {
  module what;
  std::string token_file = "";  // file of the token
  std::vector<network> hosts;   // permitted clients; empty: all
};

struct daemon_configuration {
  std::string listen = "127.0.0.1:7473";
  std::optional<tls_context> tls;  // empty: clients cannot use TLS
  bool tls_required = false;
  std::vector<served_module> modules;
};

// Reads the file, which is an object: "listen": "HOST:PORT", "modules": [{"name", "path",
// "read_only" (default true), "hosts": ["10.0.0.0/8", ...], "token" or "token_file", "devices"
// (true: clients may create them, if the daemon is root), "whole_disk" (must be true for the path
// /)}], "tls": {"certificate", "key" (files; see tls_context), "required" (default false)}. Throws
// std::invalid_argument with the module and the key: an unknown key, a path that is not a
// directory, "/" without "whole_disk", a name with '/' or ':' in it, a token shorter than 8 bytes,
// a file with tokens that other users may read, TLS without one of its files, and the errors of
// tls_context.
[[nodiscard]] daemon_configuration read_configuration(const std::string& file);
// Decodes "NAME=PATH"; `read_only` as in the file. Throws as above.
[[nodiscard]] served_module module_of(const std::string& text, bool read_only, std::string token);

// Returns a sentence for each permitted but probably unintended setting: a token that every user of
// this machine may read, a module that every client may write to.
[[nodiscard]] std::vector<std::string> doubts_of(const daemon_configuration& c);

}  // namespace copy

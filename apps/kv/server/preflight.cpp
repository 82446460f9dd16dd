#include "preflight.hpp"

#include "listening.hpp"

#include <cordma/runtime/result.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>
#include <utility>

#include <unistd.h>

namespace kv {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) {
  cordma::throw_error(cordma::failure(cordma::errc::invalid_value, what));
}

[[noreturn]] void fail(int error, const std::string& what) {
  cordma::throw_error(cordma::failure::from_os(error, what));
}

void check_ports(const server_options& o) {
  const settings& s = o.configured.values;
  const std::array<std::pair<const char*, unsigned>, 4> ports{{{"port", s.port},
                                                               {"tls-port", s.tls_port},
                                                               {"metrics-port", s.metrics_port},
                                                               {"native-port", o.native.port}}};
  for (const auto& [name, port] : ports) {
    for (const auto* other = ports.data(); port != 0 && other->first != name; ++other) {
      if (other->second != port) continue;
      fail(std::string(name) + " and " + other->first + " are both " + std::to_string(port) +
           ": each takes a port of its own");
    }
  }
}

void check_doors(const server_options& o) {
  const settings& s = o.configured.values;
  check_ports(o);
  if (s.port == 0 && s.tls_port == 0 && s.unixsocket.empty() && o.native.port == 0) {
    fail(
        "nobody can come: port is 0, and there is neither unixsocket nor tls-port nor native-port: "
        "it takes one of them");
  }
  if (s.port != 0 || s.tls_port != 0 || s.metrics_port != 0) check_addresses(s.bind);
  static_cast<void>(unix_permission(s));
  if (!s.unixsocket.empty()) check_unix_path(s.unixsocket);
  if (o.native.port == 0) return;
  static_cast<void>(native_host(s));
  if (!o.native.token_file.empty()) static_cast<void>(native_token(o.native.token_file));
}

// Checks the journal's folder, or the folder to make it in.
void check_journal_folder(const settings& s) {
  std::error_code error;
  const fs::file_status there = fs::status(s.appenddirname, error);
  if (!fs::exists(there)) {
    if (::access(".", W_OK | X_OK) != 0) fail(errno, "dir: " + s.dir);
    return;
  }
  if (!fs::is_directory(there)) fail(ENOTDIR, "appenddirname: " + s.appenddirname);
  if (::access(s.appenddirname.c_str(), W_OK | X_OK) != 0) {
    fail(errno, "appenddirname: " + s.appenddirname);
  }
}

}  // namespace

unsigned unix_permission(const settings& s) {
  unsigned mode = 0;
  const std::string& text = s.unixsocketperm;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 0777) {
    fail("unixsocketperm: \"" + text + "\" is no permission: three octal digits, say 770");
  }
  return mode;
}

std::string native_host(const settings& s) {
  if (s.bind.empty()) return {};
  const std::string host = first_address(s.bind);
  if (host == "*" || host == "0.0.0.0" || host == "::" || host == "::*") return {};
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

void check_writable(const std::string& setting, const std::string& path) {
  if (path.empty()) return;
  const std::string what = setting + ": " + path;
  if (::access(path.c_str(), W_OK) == 0) {
    if (std::error_code error; fs::is_directory(path, error)) fail(EISDIR, what);
    return;
  }
  if (errno != ENOENT) fail(errno, what);
  const fs::path folder = fs::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) fail(errno, what);
}

void check_surroundings(const server_options& o) {
  const settings& s = o.configured.values;
  check_doors(o);
  check_writable("pidfile", o.pidfile);
  if (s.appendonly) check_journal_folder(s);
}

}  // namespace kv

// preflight: checks that find reasons a server cannot start, besides its ports and the data on the
// disk, before either is touched. `--check-config` runs them too, even while a server runs with
// that configuration.
#pragma once

#include "configuration.hpp"

#include <string>

namespace kv {

// Checks that clients can connect, that addresses belong to this host, and that files and folders
// exist or can be made. Changes nothing. REQUIRES that dir is the working directory. Throws
// cordma::error with the setting and its fault.
void check_surroundings(const server_options& o);
// Checks that the file can be written or made; an empty path passes. Throws cordma::error.
void check_writable(const std::string& setting, const std::string& path);
// Returns the address for native clients: the first of `bind` that this host has, since a listener
// takes only one. An IPv6 address is in brackets. Empty: all addresses. Throws cordma::error.
[[nodiscard]] std::string native_host(const settings& s);
// 0: by the umask. Throws cordma::error.
[[nodiscard]] unsigned unix_permission(const settings& s);

}  // namespace kv

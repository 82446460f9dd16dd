// preflight: what keeps a server from starting, besides its ports and what is on the disk, and is found before either is
// touched; `--check-config` looks for it too, also while a server runs with that configuration.
#pragma once

#include "configuration.hpp"

#include <string>

namespace kv {

// That somebody can come, that addresses are this host's, and that files and folders are there, or can be made. Changes
// nothing. REQUIRES that the process is in dir. Throws cordma::error: the setting, and what is wrong with it.
void check_surroundings(const server_options& o);
// That such a file can be written to, or made; an empty path is none. Throws cordma::error.
void check_writable(const std::string& setting, const std::string& path);
// Where native clients come to: the first of `bind` that this host has, as one is all that a listener takes; an IPv6 one in
// brackets. Empty: everywhere. Throws cordma::error.
[[nodiscard]] std::string native_host(const settings& s);
// 0: as the umask says. Throws cordma::error.
[[nodiscard]] unsigned unix_permission(const settings& s);

}  // namespace kv

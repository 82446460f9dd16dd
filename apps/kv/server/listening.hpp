// listening: the listening sockets of the server.
#pragma once

#include "../command/session.hpp"

#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace kv {

struct listening {
  cordma::unique_fd socket;
  std::string address;  // "127.0.0.1:6379", "[::1]:6379", "/run/kv.sock"
  door kind = door::tcp;
};

struct listening_options {
  std::uint64_t backlog = 511;
  std::uint64_t keepalive_s = 300;  // 0: none
};

// `bind` as in Redis: addresses or names, "*" for all of IPv4, "::*" for all of IPv6. An address
// with a leading '-' is skipped if this host does not have it. Port 0: any. Throws cordma::error
// that names the address: in_use, not_permitted, unreachable (no such host, no such address here,
// or no address left).
[[nodiscard]] std::vector<listening> listen_tcp(const std::vector<std::string>& bind,
                                                std::uint16_t port, door kind,
                                                const listening_options& options);

// Takes over a path left by a server that has died. A path that is served, or is no socket, is an
// error. `permission` 0: by the umask. Only remove_unix_path() removes the path.
[[nodiscard]] listening listen_unix(const std::string& path, unsigned permission,
                                    const listening_options& options);
void remove_unix_path(const listening& l) noexcept;

// Returns the result of `listen()`, which throws cordma::error. On in_use it retries until
// `latest`: the addresses of a killed server become free only when the kernel has ended it.
template <class Listen>
[[nodiscard]] auto listen_patiently(std::chrono::steady_clock::time_point latest, Listen listen) {
  constexpr auto often = std::chrono::milliseconds(20);
  for (;;) {
    try {
      return listen();
    } catch (const cordma::error& e) {
      if (e.code() != cordma::errc::in_use || std::chrono::steady_clock::now() >= latest) throw;
    }
    std::this_thread::sleep_for(often);
  }
}
inline constexpr auto listen_patience = std::chrono::seconds(2);

// Checks that listening would succeed, except for addresses in use. Takes no port and removes
// nothing. Throws cordma::error, as the functions above.
void check_addresses(const std::vector<std::string>& bind);
// Returns the first address that this host has, without its '-'. Throws cordma::error, as
// listen_tcp().
[[nodiscard]] std::string first_address(const std::vector<std::string>& bind);
void check_unix_path(const std::string& path);

// Addresses of a connected socket: "127.0.0.1:51234", "[::1]:51234"; "PATH:0" for unix sockets, as
// in Redis.
[[nodiscard]] std::string peer_of(int socket);
[[nodiscard]] std::string local_of(int socket);
// True if the peer is on this host.
[[nodiscard]] bool peer_is_here(int socket) noexcept;
// True if other hosts can reach it.
[[nodiscard]] bool is_reached_from_afar(const listening& l) noexcept;

}  // namespace kv

// listening: the sockets that clients come to.
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

// As Redis has "bind": addresses or names, "*" for all of IPv4, "::*" for all of IPv6; one with '-' before it is left
// out where this host has no such address. Port 0: any. Throws cordma::error, naming the address: in_use,
// not_permitted, unreachable (no such host, no such address here), and where none is left.
[[nodiscard]] std::vector<listening> listen_tcp(const std::vector<std::string>& bind,
                                                std::uint16_t port, door kind,
                                                const listening_options& options);

// A path that a server which has died has left is taken over; one that is served, or is no socket, is an error.
// `permission` 0: as the umask says. The path is removed by remove_unix_path(), and by nobody else.
[[nodiscard]] listening listen_unix(const std::string& path, unsigned permission,
                                    const listening_options& options);
void remove_unix_path(const listening& l) noexcept;

// What `listen()` returns, which throws cordma::error. Where it is in_use it is tried again until `latest`: a server that
// was killed lets go of its addresses when the kernel is done with it.
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

// That they could, but for who is there already: no port is taken, nothing removed. Throws cordma::error, as those.
void check_addresses(const std::vector<std::string>& bind);
// The first that there is, without its '-'. Throws cordma::error, as listen_tcp().
[[nodiscard]] std::string first_address(const std::vector<std::string>& bind);
void check_unix_path(const std::string& path);

// Of a connected socket: "127.0.0.1:51234", "[::1]:51234", and of unix sockets "PATH:0", as Redis has it.
[[nodiscard]] std::string peer_of(int socket);
[[nodiscard]] std::string local_of(int socket);
// Whether who is at the other end is on this host.
[[nodiscard]] bool peer_is_here(int socket) noexcept;
// Whether others than this host's own reach it.
[[nodiscard]] bool is_reached_from_afar(const listening& l) noexcept;

}  // namespace kv

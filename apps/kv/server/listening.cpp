#include "listening.hpp"

#include <cordma/runtime/result.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace kv {
namespace {

using cordma::errc;
using cordma::unique_fd;

[[noreturn]] void fail(errc condition, const std::string& what) {
  cordma::throw_error(cordma::failure(condition, what));
}

[[noreturn]] void fail(int error, const std::string& what) {
  cordma::throw_error(cordma::failure::from_os(error, what));
}

void set(int socket, int level, int option, int value) noexcept {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

// Accepted sockets inherit these options from the listening one.
void set_up_tcp(int socket, int family, const listening_options& o) noexcept {
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (o.keepalive_s == 0) return;
  constexpr int probes = 3;
  const int seconds = static_cast<int>(std::min<std::uint64_t>(o.keepalive_s, 32767));
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / probes, 1));
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
}

[[nodiscard]] int backlog_of(const listening_options& o) noexcept {
  return static_cast<int>(std::min<std::uint64_t>(o.backlog, std::numeric_limits<int>::max()));
}

[[nodiscard]] std::string text_of(const sockaddr_storage& a) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (a.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &a, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (a.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &a, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  sockaddr_un local{};
  std::memcpy(&local, &a, sizeof local);
  return std::string(local.sun_path, ::strnlen(local.sun_path, sizeof local.sun_path)) + ":0";
}

using name_function = int (*)(int, sockaddr*, socklen_t*);
[[nodiscard]] sockaddr_storage name_of(int socket, name_function which) noexcept {
  sockaddr_storage a{};
  socklen_t bytes = sizeof a;
  if (which(socket, reinterpret_cast<sockaddr*>(&a), &bytes) != 0) a.ss_family = AF_UNSPEC;
  return a;
}

[[nodiscard]] bool is_loopback(const sockaddr_storage& a) noexcept {
  if (a.ss_family == AF_UNIX) return true;
  if (a.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &a, sizeof v4);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (a.ss_family != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &a, sizeof v6);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

using addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
[[nodiscard]] addresses resolve(const std::string& host, std::uint16_t port) {
  addrinfo want{};
  want.ai_socktype = SOCK_STREAM;
  want.ai_flags = AI_PASSIVE;
  const char* name = host.c_str();
  if (host == "*" || host == "::*") {
    want.ai_family = host == "*" ? AF_INET : AF_INET6;
    name = nullptr;
  }
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(name, std::to_string(port).c_str(), &want, &found);
  if (failed != 0) {
    fail(errc::unreachable,
         "bind: \"" + host + "\" is no address of this host: " + ::gai_strerror(failed));
  }
  return {found, &::freeaddrinfo};
}

// Returns 0 if it listens, or an errno.
int listen_at(const addrinfo& a, door kind, const listening_options& o,
              std::vector<listening>& to) {
  unique_fd s(::socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return errno;
  set_up_tcp(s.get(), a.ai_family, o);
  if (::bind(s.get(), a.ai_addr, a.ai_addrlen) != 0) return errno;
  if (::listen(s.get(), backlog_of(o)) != 0) return errno;
  std::string bound = local_of(s.get());
  to.push_back({.socket = std::move(s), .address = std::move(bound), .kind = kind});
  return 0;
}

[[noreturn]] void fail_without_address() {
  fail(errc::unreachable, "bind: none of the addresses to listen on is one of this host");
}

// Skips optional addresses that this host does not have.
[[nodiscard]] std::vector<listening> listen_all(std::span<const std::string> bind,
                                                std::uint16_t port, door kind,
                                                const listening_options& options) {
  std::vector<listening> made;
  for (const std::string& one : bind) {
    const bool optional = one.starts_with('-');
    const std::string host = optional ? one.substr(1) : one;
    const addresses found = resolve(host, port);
    for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
      const int error = listen_at(*a, kind, options, made);
      const bool missing = error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
      if (error == 0 || (optional && missing)) continue;
      const std::string what =
          "listening on " + host + (port == 0 ? "" : " port " + std::to_string(port));
      if (error == EADDRINUSE) fail(errc::in_use, what + ": another program has it");
      fail(error, what);
    }
  }
  return made;
}

[[nodiscard]] sockaddr_un unix_address(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.size() >= sizeof a.sun_path) {
    fail(errc::invalid_value, "unixsocket: \"" + path + "\" is longer than " +
                                  std::to_string(sizeof a.sun_path - 1) + " bytes");
  }
  std::memcpy(a.sun_path, path.data(), path.size());
  return a;
}

void check_is_socket(const std::string& path, const struct stat& s) {
  if (S_ISSOCK(s.st_mode)) return;
  fail(errc::invalid_value, "unixsocket: " + path + " is there, and no socket");
}

// Removes a socket file that no server serves.
void clear_path(const std::string& path, const sockaddr_un& a) {
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) return;
  check_is_socket(path, s);
  const unique_fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) fail(errno, "unixsocket: " + path);
  const int outcome =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0 ? 0 : errno;
  if (outcome != ECONNREFUSED) fail(errc::in_use, "unixsocket: " + path + " is served already");
  ::unlink(path.c_str());
}

}  // namespace

std::vector<listening> listen_tcp(const std::vector<std::string>& bind, std::uint16_t port,
                                  door kind, const listening_options& options) {
  std::vector<listening> made = listen_all(bind, port, kind, options);
  if (made.empty()) fail_without_address();
  return made;
}

listening listen_unix(const std::string& path, unsigned permission,
                      const listening_options& options) {
  const sockaddr_un a = unix_address(path);
  clear_path(path, a);
  unique_fd s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) fail(errno, "unixsocket: " + path);
  if (::bind(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) {
    fail(errno, "unixsocket: " + path);
  }
  // No client can connect before listen(), so the permission may be set until then.
  if ((permission != 0 && ::chmod(path.c_str(), permission) != 0) ||
      ::listen(s.get(), backlog_of(options)) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    fail(error, "unixsocket: " + path);
  }
  return {.socket = std::move(s), .address = path, .kind = door::unix_socket};
}

// With any port.
void check_addresses(const std::vector<std::string>& bind) {
  static_cast<void>(listen_tcp(bind, 0, door::tcp, {}));
}

std::string first_address(const std::vector<std::string>& bind) {
  for (const std::string& one : bind) {
    const bool optional = one.starts_with('-');
    if (listen_all({&one, 1}, 0, door::tcp, {}).empty()) continue;
    return optional ? one.substr(1) : one;
  }
  fail_without_address();
}

void check_unix_path(const std::string& path) {
  static_cast<void>(unix_address(path));
  struct stat s{};
  if (::lstat(path.c_str(), &s) == 0) check_is_socket(path, s);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    fail(errno, "unixsocket: " + path);
  }
}

void remove_unix_path(const listening& l) noexcept {
  if (l.kind == door::unix_socket) ::unlink(l.address.c_str());
}

std::string peer_of(int socket) {
  const sockaddr_storage a = name_of(socket, &::getpeername);
  // A peer over a unix socket has no name; the name of the socket is used.
  return a.ss_family == AF_UNIX ? local_of(socket) : text_of(a);
}

std::string local_of(int socket) { return text_of(name_of(socket, &::getsockname)); }

bool peer_is_here(int socket) noexcept { return is_loopback(name_of(socket, &::getpeername)); }

bool is_reached_from_afar(const listening& l) noexcept {
  return !is_loopback(name_of(l.socket.get(), &::getsockname));
}

}  // namespace kv

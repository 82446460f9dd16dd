#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/shortage.hpp>
#include <cordma/net/transport/tcp/socket.hpp>
#include <cstring>
#include <memory>

namespace cordma::transport::tcp {
namespace {

void set_option(int fd, int level, int option, int value) noexcept {
  // Tuning only: a kernel without the option works as well.
  static_cast<void>(setsockopt(fd, level, option, &value, sizeof value));
}

int seconds_of(duration d) noexcept {
  const auto s = std::chrono::ceil<std::chrono::seconds>(d).count();
  return static_cast<int>(std::clamp<long>(static_cast<long>(s), 1, 3600));
}

const sockaddr_in& v4(const socket_address& a) noexcept {
  return reinterpret_cast<const sockaddr_in&>(*a.get());
}
const sockaddr_in6& v6(const socket_address& a) noexcept {
  return reinterpret_cast<const sockaddr_in6&>(*a.get());
}

bool same_host(const socket_address& a, const socket_address& b) noexcept {
  if (a.empty() || a.length() != b.length() || a.family() != b.family()) return false;
  if (a.family() != AF_INET6) return v4(a).sin_addr.s_addr == v4(b).sin_addr.s_addr;
  return std::memcmp(&v6(a).sin6_addr, &v6(b).sin6_addr, sizeof(in6_addr)) == 0;
}

bool lacks_scope(const socket_address& a) noexcept {
  return a.family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(a).sin6_addr) &&
         v6(a).sin6_scope_id == 0;
}

bool is_any(const socket_address& a) noexcept {
  if (a.family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&v6(a).sin6_addr);
  return v4(a).sin_addr.s_addr == htonl(INADDR_ANY);
}

// A socket that listens on `a` listens on `b` too: "::" serves both families.
bool covers(const socket_address& a, const socket_address& b) noexcept {
  return is_any(a) && (a.family() == AF_INET6 || b.family() == AF_INET);
}

result<socket_fd> bind_listener(const socket_address& where, int backlog, const std::string& text) {
  result<socket_fd> opened = open_stream(where.family());
  if (!opened) return opened;
  const int fd = opened->get();
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (where.family() == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd, where.get(), where.length()) == 0 && ::listen(fd, backlog) == 0) return opened;
  const int code = errno;
  if (code == EADDRINUSE) {
    return failure{errc::in_use, "somebody listens on " + text +
                                     " already: stop it, or listen on another port (0 lets the "
                                     "system choose one)"}
        .with_errno(code);
  }
  if (code == EACCES) {
    return failure{errc::not_permitted, "listening on " + text +
                                            " is not permitted: ports below 1024 need "
                                            "CAP_NET_BIND_SERVICE, use a higher one"}
        .with_errno(code);
  }
  if (code == EADDRNOTAVAIL) {
    return failure{errc::invalid_value, text +
                                            " is no address of this machine: listen on one of "
                                            "its own, or on none to listen on all"}
        .with_errno(code);
  }
  return failure::from_os(code, "listening on " + text);
}

}  // namespace

std::uint16_t socket_address::port() const noexcept {
  return ntohs(family() == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port);
}

void socket_address::set_port(std::uint16_t port) noexcept {
  const std::uint16_t wire = htons(port);
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = wire;
  } else {
    reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = wire;
  }
}

address socket_address::numeric() const {
  char host[NI_MAXHOST] = "?";
  if (!empty()) {
    static_cast<void>(getnameinfo(get(), length_, host, sizeof host, nullptr, 0, NI_NUMERICHOST));
  }
  return {.host = host, .port = port()};
}

result<std::vector<socket_address>> resolve(const address& where, purpose why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (why == purpose::listening ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string port = std::to_string(where.port);
  const char* const host = where.host.empty() ? nullptr : where.host.c_str();
  const int code = getaddrinfo(host, port.c_str(), &hints, &found);
  if (code != 0) {
    const int files = reason_behind(0);
    if (files != 0) return failure::from_os(files, {"looking up the host \"", where.host, "\""});
    const char* const reason = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
    return failure{errc::unreachable, "the host name \"" + where.host + "\" is not known here (" +
                                          reason + "): check its spelling, or give an IP address"};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<socket_address> list;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_addrlen > sizeof(sockaddr_storage)) continue;
    const socket_address s(a->ai_addr, a->ai_addrlen);
    if (lacks_scope(s)) {
      return failure{errc::invalid_value, where.host +
                                              " is a link-local address, which each interface has "
                                              "its own of: add the interface, as "
                                              "in " +
                                              where.host + "%eth0"};
    }
    // A hosts file may name an address twice.
    if (std::ranges::find(list, s) != list.end()) continue;
    // An address that covers others is first.
    const bool listens = why == purpose::listening;
    list.insert(std::ranges::find_if(list,
                                     [&](const socket_address& other) {
                                       return listens && covers(s, other) && !covers(other, s);
                                     }),
                s);
  }
  return list;
}

failure descriptor_limit(int os_errno, const char* doing) noexcept {
  if (!at_descriptor_limit(os_errno)) return failure::from_os(os_errno, doing);
  return failure::of(errc::no_memory, {doing,
                                       ": the limit of open files is reached: raise it with "
                                       "ulimit -n, or close connections"})
      .with_errno(os_errno);
}

bool has_address_for(const socket_address& to) noexcept {
  const socket_fd s(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return !s || ::connect(s.get(), to.get(), to.length()) == 0 || errno != EADDRNOTAVAIL;
}

result<socket_fd> open_stream(int family) noexcept {
  socket_fd s(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!s) return descriptor_limit(errno, "opening a socket");
  return s;
}

namespace {

// Binds all of `places` to one port. in_use names the first address that is taken.
result<std::vector<socket_fd>> bind_all(std::vector<socket_address> places, int backlog,
                                        const std::string& text) {
  std::vector<socket_fd> bound;
  failure first{errc::ok};
  std::vector<socket_address> listened_on;
  for (socket_address& at : places) {
    const auto covers_it = [&at](const socket_address& other) { return covers(other, at); };
    if (std::ranges::any_of(listened_on, covers_it)) continue;
    if (at.port() == 0 && !bound.empty()) at.set_port(local_of(bound.front().get()).port());
    result<socket_fd> opened = bind_listener(at, backlog, text);
    if (opened) {
      listened_on.push_back(at);
      bound.push_back(std::move(*opened));
      continue;
    }
    // A missing address family is skipped if there are others.
    const bool missing =
        opened.code() == errc::not_supported || opened.code() == errc::invalid_value;
    if (!missing) return opened.why();
    if (first.code() == errc::ok) first = opened.why();
  }
  if (bound.empty()) return first;
  return bound;
}

}  // namespace

result<std::vector<socket_fd>> open_listeners(const address& where, int backlog) {
  constexpr int most_ports_tried = 16;
  result<std::vector<socket_address>> places = resolve(where, purpose::listening);
  if (!places) return places.why();
  result<std::vector<socket_fd>> bound = bind_all(*places, backlog, where.text());
  // The port that is free on one address may be taken on the next.
  for (int tries = 1; where.port == 0 && bound.code() == errc::in_use && tries < most_ports_tried;
       ++tries) {
    bound = bind_all(*places, backlog, where.text());
  }
  return bound;
}

void tune(int fd, duration peer_timeout) noexcept {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(peer_timeout).count();
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(std::clamp<long>(static_cast<long>(ms), 1, 3'600'000)));
  // TCP_USER_TIMEOUT detects unacknowledged data, keepalives detect silence.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds_of(peer_timeout / 2));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds_of(peer_timeout / 5));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void tune_to_distance(int fd) noexcept {
  // On one host, megabytes in flight do not increase the bandwidth, and do not stay in the
  // processor's caches between the two copies. Measured by bench: 1 MiB messages are 1.7 times as
  // fast, up to 500,000; the kernel doubles the value.
  constexpr int local_queue = 300'000;
  if (same_host(local_of(fd), peer_of(fd))) set_option(fd, SOL_SOCKET, SO_SNDBUF, local_queue);
}

static_assert(sizeof(sockaddr_in6) <= sizeof(sockaddr_storage));

socket_address local_of(int fd) noexcept { return socket_address::of(fd, ::getsockname); }
socket_address peer_of(int fd) noexcept { return socket_address::of(fd, ::getpeername); }

int take_error(int fd) noexcept {
  int code = 0;
  socklen_t length = sizeof code;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0) return errno;
  return code;
}

}  // namespace cordma::transport::tcp

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/shm/local_host.hpp>
#include <cordma/net/transport/shortage.hpp>
#include <cordma/runtime/unique_fd.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace cordma::transport::shm {
namespace {

constexpr ip_address v4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr ip_address v4_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
constexpr ip_address v6_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

bool is_v4(const ip_address& a) noexcept {
  return std::equal(v4_prefix.begin(), v4_prefix.begin() + 12, a.begin());
}

struct resolved {
  ip_address address{};
  bool v4 = false;
  std::uint32_t scope = 0;  // interface of a link-local address
};

std::optional<resolved> to_ip(const addrinfo& a) noexcept {
  resolved r;
  if (a.ai_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, a.ai_addr, sizeof v4);
    r.v4 = true;
    r.address = v4_prefix;
    std::memcpy(&r.address[12], &v4.sin_addr, sizeof v4.sin_addr);
  } else if (a.ai_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, a.ai_addr, sizeof v6);
    std::memcpy(r.address.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    r.scope = v6.sin6_scope_id;
  } else {
    return {};
  }
  return r;
}

bool is_wildcard(const resolved& r) noexcept {
  const std::size_t first = r.v4 ? 12 : 0;
  return std::all_of(r.address.begin() + first, r.address.end(), [](auto b) { return b == 0; });
}

failure cannot_find_out(int os_errno) {
  if (at_descriptor_limit(os_errno)) {
    return failure(errc::no_memory,
                   "looking whether an address is of this host: no file descriptor is left: raise "
                   "the limit with ulimit -n")
        .with_errno(os_errno);
  }
  return failure::from_os(os_errno, "looking whether an address is of this host");
}

// RTM_GETROUTE of rtnetlink(7): requests the route of a packet to one address.
class route_request {
 public:
  explicit route_request(const resolved& to) noexcept {
    head_.nlmsg_len = sizeof head_ + sizeof route_;
    head_.nlmsg_type = RTM_GETROUTE;
    head_.nlmsg_flags = NLM_F_REQUEST;
    route_.rtm_family = to.v4 ? AF_INET : AF_INET6;
    route_.rtm_dst_len = to.v4 ? 32 : 128;
    add(RTA_DST, std::as_bytes(std::span(to.address).subspan(to.v4 ? 12 : 0)));
    if (to.scope != 0) add(RTA_OIF, std::as_bytes(std::span(&to.scope, 1)));
  }
  [[nodiscard]] bool send(int netlink) const noexcept {
    return ::send(netlink, this, head_.nlmsg_len, 0) == static_cast<ssize_t>(head_.nlmsg_len);
  }

 private:
  void add(std::uint16_t type, std::span<const std::byte> value) noexcept {
    rtattr a{};
    a.rta_type = type;
    a.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(value.size()));
    const std::size_t at = head_.nlmsg_len - sizeof head_ - sizeof route_;
    std::memcpy(&attributes_[at], &a, sizeof a);
    std::memcpy(&attributes_[at + RTA_LENGTH(0)], value.data(), value.size());
    head_.nlmsg_len += static_cast<std::uint32_t>(RTA_ALIGN(a.rta_len));
  }
  nlmsghdr head_{};
  rtmsg route_{};
  std::array<std::byte, 32> attributes_{};
};
static_assert(std::is_standard_layout_v<route_request>, "it is sent as it lies in memory");

// Empty if the kernel does not answer such requests.
std::optional<bool> is_routed_here(int netlink, const resolved& r) noexcept {
  if (!route_request(r).send(netlink)) return {};
  alignas(nlmsghdr) std::array<char, 4096> answer;
  const ssize_t n = ::recv(netlink, answer.data(), answer.size(), 0);
  nlmsghdr head{};
  if (n < static_cast<ssize_t>(sizeof head)) return {};
  std::memcpy(&head, answer.data(), sizeof head);
  if (head.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr told{};
    if (n < static_cast<ssize_t>(NLMSG_LENGTH(sizeof told))) return {};
    std::memcpy(&told, answer.data() + NLMSG_HDRLEN, sizeof told);
    const bool no_route = told.error == -ENETUNREACH || told.error == -EHOSTUNREACH ||
                          told.error == -ENODEV || told.error == -EADDRNOTAVAIL;
    if (no_route) return false;
    return {};
  }
  rtmsg route{};
  if (head.nlmsg_type != RTM_NEWROUTE || n < static_cast<ssize_t>(NLMSG_LENGTH(sizeof route))) {
    return {};
  }
  std::memcpy(&route, answer.data() + NLMSG_HDRLEN, sizeof route);
  return route.rtm_type == RTN_LOCAL;
}

// Without netlink (a sandbox): a datagram to an address of this machine is sent from that same
// address.
result<bool> sends_to_itself(const addrinfo& to, const resolved& r) {
  const unique_fd s(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!s && errno == EAFNOSUPPORT) return false;
  if (!s) return cannot_find_out(errno);
  std::array<char, sizeof(sockaddr_in6)> with_port{};
  if (to.ai_addrlen > with_port.size()) return false;
  std::memcpy(with_port.data(), to.ai_addr, to.ai_addrlen);
  const std::uint16_t any = htons(9);
  std::memcpy(&with_port[offsetof(sockaddr_in, sin_port)], &any, sizeof any);
  const auto* const target = reinterpret_cast<const sockaddr*>(with_port.data());
  if (::connect(s.get(), target, to.ai_addrlen) != 0) return false;
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  addrinfo own = to;
  own.ai_addr = reinterpret_cast<sockaddr*>(&from);
  if (::getsockname(s.get(), own.ai_addr, &length) != 0) return cannot_find_out(errno);
  const std::optional<resolved> source = to_ip(own);
  return source && source->address == r.address;
}

bool is_own_name(const std::string& host) {
  char own[256] = {};
  return ::gethostname(own, sizeof own - 1) == 0 && host == own;
}

}  // namespace

bool is_loopback(const ip_address& a) noexcept {
  return a == v6_loopback || (is_v4(a) && a[12] == 127);
}

bool is_link_local(const ip_address& a) noexcept { return a[0] == 0xFE && (a[1] & 0xC0) == 0x80; }

std::string to_text(const ip_address& a) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = is_v4(a);
  ::inet_ntop(v4 ? AF_INET : AF_INET6, &a[v4 ? 12 : 0], text.data(), text.size());
  return text.data();
}

result<named_host> look_up(const std::string& host) {
  named_host n;
  n.here = host.empty() || is_own_name(host);  // the machine's own name need not be resolvable
  if (host.empty()) return n;
  if (host == "localhost") return named_host{.here = true, .addresses = {v4_loopback, v6_loopback}};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    const int files = reason_behind(0);
    if (files != 0) return cannot_find_out(files);
    return n;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &::freeaddrinfo);
  const unique_fd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink && at_descriptor_limit(errno)) return cannot_find_out(errno);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const std::optional<resolved> r = to_ip(*a);
    if (!r) continue;
    if (is_wildcard(*r)) return named_host{.here = true, .addresses = {}};
    std::optional<bool> here;
    if (is_loopback(r->address)) here = true;
    if (netlink && !here) here = is_routed_here(netlink.get(), *r);
    if (!here) {
      const result<bool> asked = sends_to_itself(*a, *r);
      if (!asked) return asked.why();
      here = *asked;
    }
    if (!*here || std::ranges::find(n.addresses, r->address) != n.addresses.end()) continue;
    n.addresses.push_back(r->address);
    n.here = true;
  }
  return n;
}

network_namespace own_namespace() noexcept {
  struct stat s{};
  if (::stat("/proc/thread-self/ns/net", &s) != 0) return {};
  return {.device = s.st_dev, .inode = s.st_ino};
}

}  // namespace cordma::transport::shm

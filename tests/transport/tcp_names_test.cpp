// Names with several addresses, addresses with a scope, and services other than cordma's.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <support/applies.hpp>

#include "tcp_support.hpp"

using namespace tcp_test;

namespace {

const bool is_root = ::geteuid() == 0;

// True if a client that connects to `to` reaches rig.b.
bool reaches(rig& r, const tp::address& to) {
  auto left = r.a.adapter->connect(to, {}, {});
  if (!left) return false;
  r.until([&r] { return !r.a.events.empty() || !r.b.events.empty(); });
  if (r.b.events.empty()) {
    r.a.events.clear();
    return false;
  }
  const tp::cm_event asked = r.event(r.b);
  auto right = r.b.adapter->accept(asked.request, {}, {});
  const bool up = right.ok() && r.event(r.a).what == tp::cm_event::type::established;
  left->reset();
  right->reset();
  r.settle();
  r.a.events.clear();
  r.b.events.clear();
  return up;
}

// Makes `text` this process's /etc/hosts.
bool set_hosts(const char* text) {
  const std::string path = "/tmp/cordma-hosts-" + std::to_string(::getpid());
  std::ofstream(path) << text << std::flush;
  const bool done = ::unshare(CLONE_NEWNS) == 0 &&
                    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    ::mount(path.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
  ::unlink(path.c_str());
  return done;
}

int in_own_network(const std::function<bool()>& life) {
  const pid_t child = ::fork();
  if (child == 0) {
    ifreq up{};
    std::strcpy(up.ifr_name, "lo");
    up.ifr_flags = IFF_UP | IFF_RUNNING;
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(2);
    const int s = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (::ioctl(s, SIOCSIFFLAGS, &up) != 0) ::_exit(3);
    ::_exit(life() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("tcp: a name with several addresses is served on all of them, with one port" *
          cordma::test::applies(is_root, "/etc/hosts of its own needs root")) {
  CHECK(in_own_network([] {
          if (!set_hosts("127.0.0.1 two.test\n::1 two.test\n")) return false;
          rig r;
          auto l = std::move(*r.b.adapter->listen({.host = "two.test", .port = 0}));
          const std::uint16_t port = l->bound().port;
          const std::vector<tp::address> all = l->bound_all();
          const auto serves = [&](const char* host) {
            return std::ranges::find(all, tp::address{host, port}) != all.end() &&
                   reaches(r, {host, port});
          };
          return all.size() == 2 && serves("127.0.0.1") && serves("::1") && reaches(r, l->bound());
        }) == 0);
}

TEST_CASE("tcp: a hosts file that has an address twice is one address" *
          cordma::test::applies(is_root, "/etc/hosts of its own needs root")) {
  CHECK(in_own_network([] {
          if (!set_hosts("127.0.0.1 two.test\n127.0.0.1 other.test two.test\n")) return false;
          rig r;
          auto l = r.b.adapter->listen({.host = "two.test", .port = 4711});
          return l.ok() && (*l)->bound_all().size() == 1 && reaches(r, {"two.test", 4711});
        }) == 0);
}

TEST_CASE("tcp: where one family is off, the other one's answer counts" *
          cordma::test::applies(is_root, "a network of its own needs root")) {
  CHECK(in_own_network([] {
          std::ofstream("/proc/sys/net/ipv6/conf/all/disable_ipv6") << "1" << std::flush;
          if (!set_hosts("127.0.0.1 two.test\n::1 two.test\n")) return false;
          rig r;
          for (const char* host : {"two.test", "::1"}) {
            r.a.events.clear();
            auto q = r.a.adapter->connect({host, 4711}, {}, {});
            if (!q) return false;
            r.settle();
            const auto failed = std::ranges::find_if(r.a.events, [](const tp::cm_event& e) {
              return e.what == tp::cm_event::type::failed;
            });
            if (failed == r.a.events.end() || failed->why.code() != cordma::errc::unreachable)
              return false;
            const bool refused = failed->why.message().find("nobody listens") != std::string::npos;
            if (refused != (std::string_view(host) == "two.test")) return false;
          }
          return true;
        }) == 0);
}

TEST_CASE("tcp: no host, or *, listens on every address of both families, by one socket") {
  for (const char* const host : {"", "*", "::"}) {
    CAPTURE(host);
    rig r;
    auto l = std::move(*r.b.adapter->listen({.host = host, .port = 0}));
    CHECK(l->bound_all().size() == 1);
    CHECK(reaches(r, {"127.0.0.1", l->bound().port}));
    CHECK(reaches(r, {"::1", l->bound().port}));
  }
}

TEST_CASE("tcp: of a name's addresses those that another one covers are served by that" *
          cordma::test::applies(is_root, "/etc/hosts of its own needs root")) {
  CHECK(in_own_network([] {
          if (!set_hosts("127.0.0.1 all.test four.test\n::1 all.test\n0.0.0.0 all.test four.test\n"
                         ":: all.test\n")) {
            return false;
          }
          rig r;
          auto all = r.b.adapter->listen({.host = "all.test", .port = 0});
          auto four = r.b.adapter->listen({.host = "four.test", .port = 0});
          if (!all || !four) return false;
          return (*all)->bound_all() == std::vector{tp::address{"::", (*all)->bound().port}} &&
                 reaches(r, {"::1", (*all)->bound().port}) &&
                 (*four)->bound_all() == std::vector{tp::address{"0.0.0.0", (*four)->bound().port}};
        }) == 0);
}

TEST_CASE("tcp: where IPv6 is off, no host listens on every address of IPv4" *
          cordma::test::applies(is_root, "a network of its own needs root")) {
  CHECK(in_own_network([] {
          std::ofstream("/proc/sys/net/ipv6/conf/all/disable_ipv6") << "1" << std::flush;
          rig r;
          auto l = r.b.adapter->listen({.host = "", .port = 0});
          return l && reaches(r, {"127.0.0.1", (*l)->bound().port});
        }) == 0);
}

TEST_CASE("tcp: a port that is taken on one address of a name is in use" *
          cordma::test::applies(is_root, "/etc/hosts of its own needs root")) {
  CHECK(in_own_network([] {
          if (!set_hosts("::1 two.test\n127.0.0.1 two.test\n")) return false;
          rig r;
          auto taken = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
          const std::uint16_t port = taken->bound().port;
          return r.b.adapter->listen({.host = "two.test", .port = port}).code() == errc::in_use &&
                 r.b.adapter->listen({.host = "::1", .port = port}).ok();
        }) == 0);
}

TEST_CASE("tcp: a port that needs a right, and an address of another machine, say what to do" *
          cordma::test::applies(is_root, "a network of its own needs root")) {
  const auto says = [](rig& r, const tp::address& where, errc code, const char* advice) {
    const auto l = r.b.adapter->listen(where);
    return l.code() == code && l.why().message().find(advice) != std::string::npos;
  };
  CHECK(in_own_network([&says] {
          rig r;
          return says(r, {"192.0.2.1", 0}, errc::invalid_value, "no address of this machine") &&
                 ::seteuid(65534) == 0 &&
                 says(r, {"127.0.0.1", 80}, errc::not_permitted, "CAP_NET_BIND_SERVICE") &&
                 r.b.adapter->listen({"127.0.0.1", 8080}).ok();
        }) == 0);
}

TEST_CASE("tcp: a link-local address needs its interface, and the error says how to name it") {
  rig r;
  for (const bool listens : {false, true}) {
    CAPTURE(listens);
    const tp::address where{"fe80::1", 4711};
    const cordma::failure why =
        listens ? r.b.adapter->listen(where).why() : r.a.adapter->connect(where, {}, {}).why();
    CHECK(why.code() == errc::invalid_value);
    CHECK(why.message().find("fe80::1%eth0") != std::string::npos);
  }
}

TEST_CASE("tcp: that no local port is left says so, with what to do" *
          cordma::test::applies(is_root, "a network of its own needs root")) {
  CHECK(in_own_network([] {
          std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "22000 22003" << std::flush;
          rig r;
          auto l = r.b.adapter->listen({.host = "127.0.0.1", .port = 4711});
          if (!l) return false;
          std::vector<std::unique_ptr<tp::queue_pair>> pairs;
          for (int i = 0; i < 8; ++i) {
            auto q = r.a.adapter->connect({"127.0.0.1", 4711}, {}, {});
            if (q) pairs.push_back(std::move(*q));
          }
          r.settle();
          return std::ranges::any_of(r.a.events, [](const tp::cm_event& e) {
            return e.what == tp::cm_event::type::failed &&
                   e.why.message().find("ip_local_port_range") != std::string::npos;
          });
        }) == 0);
}

TEST_CASE("tcp: a service that sends back what it gets is no peer, and rejects nothing") {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  REQUIRE(::bind(listening, reinterpret_cast<const sockaddr*>(&at), length) == 0);
  REQUIRE(::listen(listening, 1) == 0);
  REQUIRE(::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  rig r;
  const std::array<std::byte, 3> data{std::byte{1}, std::byte{2}, std::byte{3}};
  auto q = r.a.adapter->connect({"127.0.0.1", ntohs(at.sin_port)}, {}, data);
  REQUIRE(q.ok());
  const int peer = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  REQUIRE(peer >= 0);
  r.settle();
  std::array<char, 512> hello{};
  const ssize_t n = ::recv(peer, hello.data(), hello.size(), 0);
  REQUIRE(n > 0);
  REQUIRE(::send(peer, hello.data(), static_cast<std::size_t>(n), 0) == n);
  const tp::cm_event e = r.event(r.a);
  CHECK(e.what == tp::cm_event::type::failed);
  CHECK(e.why.code() == errc::connection_aborted);
  CHECK(e.data.empty());
  ::close(peer);
  ::close(listening);
}

namespace {

// A service with a kernel that resets a connection as soon as something is sent on it.
class breaker {
 public:
  breaker() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    const int on = 1;
    ::setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    REQUIRE(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&at), length) == 0);
    REQUIRE(::listen(listening_.get(), 8) == 0);
    REQUIRE(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0);
    port = ntohs(at.sin_port);
  }
  // Resets a connection, if one has arrived.
  bool break_one() const {
    const cordma::unique_fd came(
        ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const linger at_once{1, 0};
    if (came) ::setsockopt(came.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return static_cast<bool>(came);
  }
  std::uint16_t port = 0;

 private:
  cordma::unique_fd listening_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
};

}  // namespace

TEST_CASE("tcp: a connection that a full backlog lost is made again") {
  rig r;
  std::optional<breaker> busy(std::in_place);
  const std::uint16_t port = busy->port;
  auto q = r.a.adapter->connect({"127.0.0.1", port}, {}, {});
  REQUIRE(q.ok());
  int broken = 0;
  r.until([&] { return (broken += busy->break_one() ? 1 : 0) == 3; });
  busy.reset();
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = port}));
  const tp::cm_event asked = r.event(r.b);
  CHECK(asked.what == tp::cm_event::type::connect_request);
  auto accepted = r.b.adapter->accept(asked.request, {}, {});
  REQUIRE(accepted.ok());
  CHECK(r.event(r.a).what == tp::cm_event::type::established);
}

TEST_CASE("tcp: a service that breaks every connection off is named when connect_timeout is over") {
  rig r;
  const breaker busy;
  tp::queue_pair_options o;
  o.connect_timeout = std::chrono::milliseconds(200);
  auto q = r.a.adapter->connect({"127.0.0.1", busy.port}, o, {});
  REQUIRE(q.ok());
  int broken = 0;
  r.until([&] {
    broken += busy.break_one() ? 1 : 0;
    return !r.a.events.empty();
  });
  const tp::cm_event e = r.event(r.a);
  CHECK(e.what == tp::cm_event::type::failed);
  CHECK(e.why.code() == cordma::errc::timed_out);
  CHECK(e.why.message().find("net.core.somaxconn") != std::string::npos);
  CHECK(broken >= 2);
}

// Lookup of listeners: addresses of this machine, network namespaces, removed files, busy
// listeners.
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cordma/net/transport/shm/local_host.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <support/applies.hpp>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

constexpr const char* needs_root = "a network namespace, or another user, needs root";
const bool is_root = ::geteuid() == 0;

shm_options in(const scratch& s) {
  shm_options o;
  o.directory = s.path;
  return o;
}

// Runs `life` in a child process; 0 if it returned true.
int in_child(const std::function<bool()>& life) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(life() ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Enters a network namespace with loopback up and one more address on it.
bool enter_namespace(const char* own) {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const unique_fd s(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq up{};
  std::strcpy(up.ifr_name, "lo");
  up.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(s.get(), SIOCSIFFLAGS, &up) != 0) return false;
  const std::string add = std::string("ip addr add ") + own + "/32 dev lo";
  return std::system(add.c_str()) == 0;
}

bool set(const char* name, const char* value) {
  std::ofstream file(std::string("/proc/sys/net/") + name);
  file << value;
  return static_cast<bool>(file.flush());
}

// True if a client that connects to `to` reaches `server`.
bool reaches(host& server, host& client, const address& to) {
  client.events.clear();
  server.events.clear();
  auto q = client.a->connect(to, {}, {});
  if (!q) return false;
  client.q = std::move(*q);
  const bool ended = pump(server, client, [&] {
    return client.saw(cm_event::type::failed) != nullptr ||
           client.saw(cm_event::type::established) != nullptr;
  });
  const bool up = ended && client.saw(cm_event::type::established) != nullptr;
  client.q.reset();
  server.q.reset();
  return up;
}

bool is_here(const char* host) {
  const auto found = shm::look_up(host);
  return found.ok() && found->here;
}

}  // namespace

TEST_CASE("shm: an address is this machine's where the kernel routes it to itself") {
  CHECK(is_here(""));
  CHECK(is_here("127.0.0.1"));
  CHECK(is_here("127.0.0.77"));
  CHECK(is_here("0.0.0.0"));
  CHECK(is_here("localhost"));
  CHECK(!is_here("192.0.2.1"));
  CHECK(!is_here("2001:db8::1"));
  CHECK(!is_here("no.such.name.invalid"));
  const auto every = shm::look_up("::");
  REQUIRE(every.ok());
  CHECK(every->addresses.empty());
  const auto both = shm::look_up("localhost");
  REQUIRE(both.ok());
  CHECK(both->addresses.size() == 2);
  CHECK(std::ranges::all_of(both->addresses, shm::is_loopback));
}

TEST_CASE("shm: a listener names in numbers the addresses that it is reached by") {
  scratch dir;
  host h(in(dir));
  const auto one = std::move(*h.a->listen({"127.0.0.1", 4711}));
  CHECK(one->bound_all() == std::vector<address>{{"127.0.0.1", 4711}});
  const auto both = std::move(*h.a->listen({"localhost", 4712}));
  CHECK(both->bound_all() == std::vector<address>{{"127.0.0.1", 4712}, {"::1", 4712}});
  const auto every = std::move(*h.a->listen({"0.0.0.0", 4713}));
  CHECK(every->bound_all() == std::vector<address>{{"0.0.0.0", 4713}});
}

TEST_CASE("shm: that a process may bind any address makes none of them this machine's" *
          test::applies(is_root, needs_root)) {
  CHECK(in_child([] {
          return enter_namespace("10.77.0.1") && set("ipv4/ip_nonlocal_bind", "1") &&
                 set("ipv6/ip_nonlocal_bind", "1") && is_here("10.77.0.1") &&
                 !is_here("10.77.0.2") && !is_here("fd77::2");
        }) == 0);
}

TEST_CASE("shm: the place to meet follows from the user alone, and clients look in both" *
          test::applies(is_root, needs_root)) {
  CHECK(in_child([] {
          using folders = std::vector<std::string>;
          if (::unshare(CLONE_NEWNS) != 0 ||
              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
              ::mount("none", "/run", "tmpfs", 0, nullptr) != 0) {
            return false;
          }
          ::setenv("XDG_RUNTIME_DIR", "/elsewhere", 1);
          ::setenv("TMPDIR", "/elsewhere", 1);
          if (shm::find_meeting_place("").folders != folders{"/tmp/cordma-0"}) return false;
          ::mkdir("/run/user", 0755);
          ::mkdir("/run/user/0", 0700);
          if (shm::find_meeting_place("").folders != folders{"/run/user/0/cordma", "/tmp/cordma-0"})
            return false;
          if (shm::find_meeting_place("/mine").folders != folders{"/mine"}) return false;
          // A folder of another user is not used.
          return ::chown("/run/user/0", 1, 1) == 0 &&
                 shm::find_meeting_place("").folders == folders{"/tmp/cordma-0"};
        }) == 0);
}

TEST_CASE("shm: network namespaces that share a folder have their ports apart" *
          test::applies(is_root, needs_root)) {
  scratch dir;
  host here(in(dir));
  here.l = std::move(*here.a->listen({"", 4711}));
  CHECK(in_child([&dir] {
          if (!enter_namespace("10.77.0.1")) return false;
          host client(in(dir));
          // No server of this namespace listens yet. By loopback "this host" includes the folder's
          // other users.
          if (client.a->connect({"10.77.0.2", 4711}, {}, {}).code() != errc::unreachable)
            return false;
          host there(in(dir));
          auto l = there.a->listen({"10.77.0.1", 4711});
          if (!l) return false;
          there.l = std::move(*l);
          if (there.a->listen({"", 4711}).code() != errc::in_use) return false;
          return reaches(there, client, {"10.77.0.1", 4711}) &&
                 !reaches(there, client, {"127.0.0.1", 4711});
        }) == 0);
  host client(in(dir));
  CHECK(reaches(here, client, {"127.0.0.1", 4711}));
  CHECK(here.a->listen({"", 4711}).code() == errc::in_use);
}

TEST_CASE(
    "shm: an address of another network namespace is not that of a listener on all addresses" *
    test::applies(is_root, needs_root)) {
  CHECK(in_child([] {
          scratch dir;
          host outside(in(dir));
          outside.l = std::move(*outside.a->listen({"", 4711}));
          if (!enter_namespace("10.77.0.1")) return false;
          host client(in(dir));
          return reaches(outside, client, {"127.0.0.1", 4711}) &&
                 !reaches(outside, client, {"10.77.0.1", 4711});
        }) == 0);
}

TEST_CASE("shm: a listener whose files were removed is reached, keeps its name and its addresses") {
  for (const char* what : {".lock", "", "both", "folder"}) {
    CAPTURE(what);
    scratch dir;
    host server(in(dir));
    host client(in(dir));
    server.l = std::move(*server.a->listen({"127.0.0.1", 4711}));
    const std::string path = dir.path + "/4711";
    const std::string_view which = what;
    if (which == "folder") {
      std::filesystem::remove_all(dir.path);
    } else {
      if (which != ".lock") std::filesystem::remove(path);
      if (which != "") std::filesystem::remove(path + ".lock");
    }
    CHECK(client.a->listen({"", 4711}).code() == errc::in_use);
    CHECK(!reaches(server, client, {"127.0.0.2", 4711}));
    CHECK(reaches(server, client, {"127.0.0.1", 4711}));
    // The listener restores the files when a client connects by the other name.
    if (which != ".lock") CHECK(std::filesystem::exists(path));
    CHECK(reaches(server, client, {"localhost", 4711}));
    // The port is still not mistaken for one of another namespace.
    CHECK(client.a->listen({"", 4711}).code() == errc::in_use);
    CHECK(client.a->listen({"", 0}).ok());
    server.l.reset();
    CHECK(!std::filesystem::exists(path));
    CHECK(!std::filesystem::exists(path + ".lock"));
    CHECK(client.a->connect({"127.0.0.1", 4711}, {}, {}).code() == errc::unreachable);
    CHECK(client.a->listen({"", 4711}).ok());
  }
}

TEST_CASE("shm: more clients at once than the backlog holds all connect" *
          test::applies(is_root, needs_root)) {
  CHECK(in_child([] {
          if (!enter_namespace("10.77.0.1") || !set("core/somaxconn", "2")) return false;
          scratch dir;
          host server(in(dir));
          server.accepts = false;
          server.l = std::move(*server.a->listen({"", 4711}));
          host client(in(dir));
          constexpr std::size_t clients = 40;
          std::vector<std::unique_ptr<queue_pair>> pairs;
          for (std::size_t i = 0; i < clients; ++i) {
            auto q = client.a->connect({"", 4711}, {}, {});
            if (!q) return false;
            pairs.push_back(std::move(*q));
          }
          std::vector<std::unique_ptr<queue_pair>> accepted;
          return pump(server, client, [&] {
            for (const cm_event& e : std::exchange(server.events, {})) {
              if (e.what != cm_event::type::connect_request) continue;
              auto made = server.a->accept(e.request, {}, {});
              if (made) accepted.push_back(std::move(*made));
            }
            return std::ranges::count_if(client.events, [](const cm_event& e) {
                     return e.what == cm_event::type::established;
                   }) == clients;
          });
        }) == 0);
}

TEST_CASE("shm: a backlog that stays full is named when connect_timeout is over [virtual time]" *
          test::applies(is_root, needs_root)) {
  CHECK(in_child([] {
          if (!enter_namespace("10.77.0.1") || !set("core/somaxconn", "1")) return false;
          scratch dir;
          virtual_clock time;
          host server(in(dir));
          server.l = std::move(*server.a->listen({"", 4711}));
          host client(in(dir), wait_mode::polling, &time);
          queue_pair_options o;
          o.connect_timeout = std::chrono::seconds(3);
          std::vector<std::unique_ptr<queue_pair>> pairs;
          for (int i = 0; i < 8; ++i)
            pairs.push_back(std::move(*client.a->connect({"", 4711}, o, {})));
          for (int i = 0; i < 100; ++i) {
            time.advance_to(time.now() + std::chrono::milliseconds(50));
            client.poll();
          }
          return std::ranges::any_of(client.events, [](const cm_event& e) {
            return e.why.code() == errc::timed_out &&
                   e.why.message().find("backlog") != std::string::npos;
          });
        }) == 0);
}

namespace {

// Uses all descriptors that one user may have in flight between processes, in a separate process.
class descriptors_in_flight {
 public:
  // Switches to another user, which then owns `dir`. False if that is not possible.
  [[nodiscard]] bool become_limited(const scratch& dir) {
    const rlimit limit{most, most};
    return ::chown(dir.path.c_str(), 65534, 65534) == 0 && ::chmod(dir.path.c_str(), 0700) == 0 &&
           ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && ::setuid(65534) == 0 &&
           ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_.data()) == 0;
  }
  [[nodiscard]] bool fill() {
    const std::array<std::byte, 1> one{};
    std::array<int, 4> fds{};
    fds.fill(ends_[0]);
    std::size_t sent = 0;
    while (shm::send_packet(ends_[0], one, fds) == shm::transfer::done) ++sent;
    return sent >= most / fds.size();
  }
  void drain() {
    shm::received_packet p;
    while (shm::receive_packet(ends_[1], p) == shm::transfer::done) p.fds = {};
  }

 private:
  static constexpr rlim_t most = 100;
  std::array<int, 2> ends_{-1, -1};
};

}  // namespace

TEST_CASE("shm: a hello waits for the limit of descriptors on their way between processes" *
          test::applies(is_root, needs_root)) {
  for (const bool eased : {true, false}) {
    CAPTURE(eased);
    CHECK(in_child([eased] {
            scratch dir;
            descriptors_in_flight flight;
            if (!flight.become_limited(dir) || !flight.fill()) return false;
            virtual_clock time;
            host server(in(dir));
            host client(in(dir), wait_mode::polling, &time);
            server.l = std::move(*server.a->listen({"", 4711}));
            queue_pair_options o;
            o.connect_timeout = std::chrono::seconds(3);
            client.q = std::move(*client.a->connect({"", 4711}, o, {}));
            for (int i = 0; i < 10; ++i) {
              time.advance_to(time.now() + std::chrono::milliseconds(50));
              client.poll();
              for (int poll = 0; poll < 1000; ++poll) server.poll();
            }
            if (server.request != 0) return false;
            if (eased) flight.drain();
            for (int i = 0; i < 100; ++i) {
              time.advance_to(time.now() + std::chrono::milliseconds(50));
              // The server checks its sockets only in some of its polls.
              for (int poll = 0; poll < 1000; ++poll) server.poll();
              client.poll();
            }
            if (eased) return client.saw(cm_event::type::established) != nullptr;
            const cm_event* const failed = client.saw(cm_event::type::failed);
            return failed != nullptr &&
                   failed->why.message().find("ulimit -n") != std::string::npos;
          }) == 0);
  }
}

TEST_CASE("shm: a connection goes on where no more descriptors may be on their way [both ways]" *
          test::applies(is_root, needs_root)) {
  CHECK(in_child([] {
          scratch dir;
          descriptors_in_flight flight;
          if (!flight.become_limited(dir)) return false;
          host server(in(dir));
          host client(in(dir));
          server.l = std::move(*server.a->listen({"", 4711}));
          client.q = std::move(*client.a->connect({"", 4711}, {}, {}));
          const bool up = pump(server, client, [&] {
            return client.saw(cm_event::type::established) != nullptr &&
                   server.saw(cm_event::type::established) != nullptr;
          });
          if (!up || !flight.fill()) return false;
          constexpr std::size_t bytes = 100'000;  // beyond eager_bytes
          memory ours(*client.d, bytes, everything, true);
          memory theirs(*server.d, bytes, everything, true);
          std::memset(ours.data, 5, bytes);
          server.recv(1, theirs.at(0, bytes));
          client.send(2, ours.at(0, bytes));
          client.rma(3, opcode::read, ours.at(0, 64), theirs.address(), theirs.keys.rkey);
          if (!pump(server, client, [&] { return client.find(3) != nullptr; })) return false;
          return client.find(2)->status == wc_status::success &&
                 client.find(3)->status == wc_status::success &&
                 std::memcmp(theirs.data, ours.data, bytes) == 0;
        }) == 0);
}

}  // namespace cordma::transport::shm_test

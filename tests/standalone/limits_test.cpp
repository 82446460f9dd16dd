// Limits of the process and of the file system: an operation that exceeds one fails with an error
// that names the limit to raise, and operations that need none of it still work.
#include <doctest/doctest.h>
#include <cordma/net/transport/shm/names.hpp>
#include <support/applies.hpp>
#include <support/fd_count.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "session.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

// Sets a soft limit during its lifetime.
class soft_limit {
 public:
  soft_limit(__rlimit_resource what, rlim_t to) : what_(what) {
    REQUIRE(::getrlimit(what_, &before_) == 0);
    rlimit tight = before_;
    tight.rlim_cur = to;
    REQUIRE(::setrlimit(what_, &tight) == 0);
  }
  soft_limit(const soft_limit&) = delete;
  soft_limit& operator=(const soft_limit&) = delete;
  ~soft_limit() { ::setrlimit(what_, &before_); }

 private:
  __rlimit_resource what_;
  rlimit before_{};
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

errc opening(transport::kind over, std::string& why) {
  try {
    const stage s({}, over);
    return errc::ok;
  } catch (const error& e) {
    why = e.what();
    return e.condition();
  }
}

std::string locked_memory() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmLck:")) return line;
  }
  return "no VmLck";
}

bool tell(const char* file, const std::string& text) {
  std::ofstream out(std::string("/proc/self/") + file);
  return static_cast<bool>(out << text << std::flush);
}

// Mounts a file system with one page and no space for another file; visible to this process only.
bool mount_tiny(const std::string& directory) {
  if (::unshare(CLONE_NEWNS) != 0) {
    const std::string user = std::to_string(::geteuid());
    const std::string group = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    // An unmapped user owns nothing in its namespace either.
    if (!tell("uid_map", user + ' ' + user + " 1") || !tell("setgroups", "deny") ||
        !tell("gid_map", group + ' ' + group + " 1")) {
      return false;
    }
  }
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return ::mount("none", directory.c_str(), "tmpfs", 0, "mode=700,size=4k,nr_inodes=1") == 0;
}

bool may_mount() {
  return child_process([](wire_to_peer&) { return mount_tiny("/tmp") ? 0 : 1; }).join() == 0;
}

int listen_where_nothing_fits(const std::string& directory) {
  if (!mount_tiny(directory)) return 2;
  auto domain = transport::make_shm({.directory = directory}).value();
  reactor home;
  auto adapter = domain->open(home).value();
  const auto refused = adapter->listen({"", 4711});
  if (refused.ok() || refused.code() != errc::no_memory) return 1;
  if (!has(refused.why().message(), directory.c_str())) return 2;
  if (!has(refused.why().message(), "free space")) return 3;
  // One inode more than the directory and the lock need: the socket does not fit.
  if (::mount("none", directory.c_str(), "tmpfs", MS_REMOUNT, "nr_inodes=2") != 0) return 4;
  const auto half = adapter->listen({"", 4711});
  if (half.ok() || half.code() != errc::no_memory) return 5;
  if (::access((directory + "/4711.lock").c_str(), F_OK) == 0) return 6;
  if (::mount("none", directory.c_str(), "tmpfs", MS_REMOUNT, "nr_inodes=8") != 0) return 7;
  return adapter->listen({"", 4711}).ok() ? 0 : 8;
}

// Occupies an eighth of the ports that tcp chooses from, like listening processes with removed
// files.
class taken_ports {
 public:
  explicit taken_ports(const std::string& directory) {
    std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
    range >> first_ >> last_;
    const transport::shm::meeting_place place = transport::shm::find_meeting_place(directory);
    for (unsigned port = first_; port <= last_; ++port) {
      if (!takes(port)) continue;
      auto name = transport::shm::bind_port(place, static_cast<std::uint16_t>(port), {});
      REQUIRE(name.ok());
      names_.push_back(std::move(name->second));
    }
  }
  // Includes both parities: the kernel prefers one.
  [[nodiscard]] static bool takes(unsigned port) { return port / 2 % 8 == 0; }

 private:
  unsigned first_ = 0;
  unsigned last_ = 0;
  std::vector<transport::socket_fd> names_;
};

}  // namespace

TEST_CASE("memory beyond the limit of file sizes is no_memory, not SIGXFSZ [shm, tcp]") {
  for (const transport::kind over : {transport::kind::shm, transport::kind::tcp}) {
    CAPTURE(transport::name(over));
    stage s({}, over);
    wire w = s.play([](stage& on) -> task<wire> { return connect(on); });
    s.play([](stage& on, wire* x) -> task<> { return use(on, x); }, &w);
    const std::size_t open_before = open_descriptors();
    {
      const soft_limit files(RLIMIT_FSIZE, 1 << 20);
      const result<MemoryRegion> refused = s.client_context().allocate(std::size_t{1} << 21);
      CHECK(refused.code() == errc::no_memory);
      CHECK(has(refused.why().message(), "ulimit -f"));
      CHECK(open_descriptors() == open_before);
      s.play([](stage& on, wire* x) -> task<> { return use(on, x); }, &w);
    }
    CHECK(s.client_context().allocate(std::size_t{1} << 21).ok());
  }
}

TEST_CASE(
    "a Context whose transport's memory is beyond the limit of file sizes is no_memory [shm]") {
  const std::size_t open_before = open_descriptors();
  std::string why;
  {
    const soft_limit files(RLIMIT_FSIZE, 4096);
    CHECK(opening(transport::kind::shm, why) == errc::no_memory);
  }
  CHECK(has(why, "ulimit -f"));
  CHECK(open_descriptors() == open_before);
  CHECK(opening(transport::kind::shm, why) == errc::ok);
}

TEST_CASE("a directory without room for a rendezvous socket: no_memory, nothing left behind [shm]" *
          applies(may_mount(), "mounting is not allowed here")) {
  char name[] = "/tmp/cordma-test-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::string directory = name;
  child_process tried([&](wire_to_peer&) { return listen_where_nothing_fits(directory); });
  const int status = tried.join();
  ::rmdir(name);
  CHECK(status == 0);
}

namespace {

struct attempt {
  const char* what;
  failure why{errc::ok};
};

// Every request to a Worker, with its result.
task<> ask_for_all(stage& on, std::vector<attempt>* tried) {
  const auto note = [tried](const char* what, const auto& r) {
    tried->push_back({what, r.ok() ? failure(errc::ok) : r.why()});
  };
  result<Listener> listening = on.server().listen(on.server_address());
  note("listen", listening);
  note("prepare", on.client().prepare());
  note("datagram", on.client().datagram());
  note("allocate", on.client_context().allocate(4096));
  if (!listening) co_return;
  connect_options soon;
  soon.endpoint.connect_timeout = std::chrono::seconds(5);
  connect_operation connecting = on.client().connect(on.reach(*listening), soon).start();
  next_operation coming = listening->next().start();
  while (!coming.done() && !connecting.done()) co_await yield();
  if (coming.done()) {
    result<ConnectionRequest> request = co_await coming.result();
    auto accepting = request->accept(soon).start();
    const result<Endpoint> accepted = co_await accepting.result();
    note("accept", accepted);
  }
  const result<Endpoint> connected = co_await connecting.result();
  note("connect", connected);
}

// Returns the number of failed attempts.
int judge(const std::vector<attempt>& tried) {
  int failed = 0;
  for (const attempt& a : tried) {
    if (a.why.code() == errc::ok) continue;
    CAPTURE(a.what);
    CAPTURE(a.why.describe());
    CHECK(a.why.first_cause().code() == errc::no_memory);
    CHECK(has(a.why.describe(), "ulimit -n"));
    ++failed;
  }
  return failed;
}

}  // namespace

TEST_CASE(
    "whatever finds no file descriptor left says so, and how to have more; with enough it goes "
    "well [verbs]" *
    only_on(transport::kind::verbs, "it takes a device")) {
  constexpr std::size_t most = 40;  // descriptors that a stage and a connection take, and more
  { const stage first({}, transport::kind::verbs); }  // librdmacm keeps devices that it opened
  int failed = 0;
  std::string why;
  for (std::size_t left = 0; left <= most; ++left) {
    CAPTURE(left);
    const soft_limit files(RLIMIT_NOFILE, open_descriptors() - 1 + left);  // counting opens one
    const errc end = opening(transport::kind::verbs, why);
    if (end == errc::ok) continue;
    CAPTURE(why);
    CHECK(end == errc::no_memory);
    CHECK(has(why, "ulimit -n"));
    ++failed;
  }
  CHECK(failed > 0);
  CHECK(failed < static_cast<int>(most));
  stage s({}, transport::kind::verbs);
  int refused = 0;
  int last = 1;
  for (std::size_t left = 0; left <= most; ++left) {
    CAPTURE(left);
    std::vector<attempt> tried;
    {
      const soft_limit files(RLIMIT_NOFILE, open_descriptors() - 1 + left);  // counting opens one
      s.play([](stage& on, std::vector<attempt>* t) -> task<> { return ask_for_all(on, t); },
             &tried);
    }
    last = judge(tried);
    refused += last;
  }
  CHECK(refused > 0);
  CHECK(last == 0);
  s.play(session);
}

TEST_CASE("a session needs no locked memory, and locks none [shm, tcp]") {
  const soft_limit locked(RLIMIT_MEMLOCK, 0);
  for (const transport::kind over : {transport::kind::shm, transport::kind::tcp}) {
    CAPTURE(transport::name(over));
    stage s({}, over);
    wire w = s.play([](stage& on) -> task<wire> { return connect(on); });
    MemoryRegion registered = client_memory(s, std::size_t{1} << 20);
    CHECK(locked_memory() == "VmLck:\t       0 kB");
    s.play([](stage& on, wire* x) -> task<> { return use(on, x); }, &w);
    s.play(session);
  }
}

TEST_CASE(
    "port 0 is a port that is free on every transport, though others are taken on one of them") {
  char name[] = "/tmp/cordma-test-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  rlimit most{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &most) == 0);
  {
    const soft_limit descriptors(RLIMIT_NOFILE, most.rlim_max);  // as high as allowed
    const taken_ports taken(name);
    context_options both;
    both.transports = {transport::kind::shm, transport::kind::tcp};
    both.shm.directory = name;
    Context context(both);
    Worker worker(context);
    for (int i = 0; i < 200; ++i) {  // so that a port that is free on tcp is sometimes taken on shm
      const result<Listener> l = worker.listen("127.0.0.1:0");
      REQUIRE(l.ok());
      CHECK_FALSE(taken_ports::takes(l->bound().port));
    }
  }
  CHECK(::rmdir(name) == 0);
}

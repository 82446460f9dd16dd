// G3: the n-th call of a system call fails, for every n: during the creation of Contexts and
// Workers, and during a complete session. The program receives an error that states a remedy, or
// continues without the call. An established connection still works, the next session succeeds, and
// nothing is left behind.
#include <doctest/doctest.h>
#include <support/fd_count.hpp>
#include <support/stage.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "session.hpp"

namespace {

struct system_call {
  const char* name;
  int os_errno;  // errno of the failure
};

constexpr std::array<system_call, 14> all_calls{{{"socket", EMFILE},
                                                 {"accept4", EMFILE},
                                                 {"epoll_create1", EMFILE},
                                                 {"epoll_ctl", ENOSPC},
                                                 {"eventfd", EMFILE},
                                                 {"timerfd_create", EMFILE},
                                                 {"dup", EMFILE},
                                                 {"mkdir", ENOSPC},
                                                 {"memfd_create", EMFILE},
                                                 {"fallocate", ENOSPC},
                                                 {"mmap", ENOMEM},
                                                 {"open", EMFILE},
                                                 {"open", ENOSPC},
                                                 {"bind", ENOSPC}}};

struct {
  system_call failing{"", 0};
  int left = 0;  // calls up to the failing one; 0: none fails
  bool came = false;
} plan;

int left_to_programs = 0;  // descriptors that a program started at that moment would inherit

void closes_on_exec(bool does) { left_to_programs += does ? 0 : 1; }

// True if this call has to fail; errno is set.
bool fails(std::string_view name) {
  if (plan.left == 0 || name != plan.failing.name || --plan.left != 0) return false;
  plan.came = true;
  errno = plan.failing.os_errno;
  return true;
}

long raw(long number, long a, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  return ::syscall(number, a, b, c, d, e, f);
}
int raw_int(long number, long a, long b = 0, long c = 0, long d = 0) {
  return static_cast<int>(raw(number, a, b, c, d));
}
long word(const void* p) { return static_cast<long>(reinterpret_cast<std::uintptr_t>(p)); }

}  // namespace

// These replace the functions of the C library.
extern "C" {
int socket(int family, int type, int protocol) noexcept {
  closes_on_exec((type & SOCK_CLOEXEC) != 0);
  return fails("socket") ? -1 : raw_int(SYS_socket, family, type, protocol);
}
int accept4(int fd, sockaddr* a, socklen_t* n, int flags) {
  closes_on_exec((flags & SOCK_CLOEXEC) != 0);
  return fails("accept4") ? -1 : raw_int(SYS_accept4, fd, word(a), word(n), flags);
}
int bind(int fd, const sockaddr* a, socklen_t n) noexcept {
  const bool fails_now = a->sa_family == AF_UNIX && fails("bind");  // only these use space
  return fails_now ? -1 : raw_int(SYS_bind, fd, word(a), n);
}
int epoll_create1(int flags) noexcept {
  closes_on_exec((flags & EPOLL_CLOEXEC) != 0);
  return fails("epoll_create1") ? -1 : raw_int(SYS_epoll_create1, flags);
}
int epoll_ctl(int epoll, int op, int fd, epoll_event* e) noexcept {
  if (op == EPOLL_CTL_ADD && fails("epoll_ctl")) return -1;
  return raw_int(SYS_epoll_ctl, epoll, op, fd, word(e));
}
int eventfd(unsigned value, int flags) noexcept {
  closes_on_exec((flags & EFD_CLOEXEC) != 0);
  return fails("eventfd") ? -1 : raw_int(SYS_eventfd2, value, flags);
}
int timerfd_create(clockid_t clock, int flags) noexcept {
  closes_on_exec((flags & TFD_CLOEXEC) != 0);
  return fails("timerfd_create") ? -1 : raw_int(SYS_timerfd_create, clock, flags);
}
int dup(int fd) noexcept {
  closes_on_exec(false);
  return fails("dup") ? -1 : raw_int(SYS_dup, fd);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return fails("mkdir") ? -1 : raw_int(SYS_mkdirat, AT_FDCWD, word(path), static_cast<long>(mode));
}
int memfd_create(const char* name, unsigned flags) noexcept {
  closes_on_exec((flags & MFD_CLOEXEC) != 0);
  return fails("memfd_create") ? -1 : raw_int(SYS_memfd_create, word(name), flags);
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
  return fails("fallocate") ? -1 : raw_int(SYS_fallocate, fd, mode, at, bytes);
}
void* mmap(void* at, std::size_t bytes, int rights, int flags, int fd, off_t from) noexcept {
  if (fails("mmap")) return MAP_FAILED;
  return reinterpret_cast<void*>(
      raw(SYS_mmap, word(at), static_cast<long>(bytes), rights, flags, fd, from));
}
int open(const char* path, int flags, ...) {
  closes_on_exec((flags & O_CLOEXEC) != 0);
  std::va_list more;
  va_start(more, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
  va_end(more);
  return fails("open") ? -1 : raw_int(SYS_openat, AT_FDCWD, word(path), flags, mode);
}
}

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr int most = 200;  // calls; no session makes as many

template <class Play>
outcome attempt(system_call what, int n, Play play) {
  plan = {what, n, false};
  outcome o;
  try {
    play();
  } catch (const error& e) {
    const errc code = e.why().first_cause().code();
    o.failed = true;
    o.memory = code == errc::no_memory;
    o.loss = is_loss(code);
    o.why = e.what();
  }
  o.came = plan.came;
  plan.left = 0;
  return o;
}

bool says_what_to_do(const std::string& why) {
  constexpr std::array<std::string_view, 4> advice{"raise", "free", "close",
                                                   "make the rings smaller"};
  return std::any_of(advice.begin(), advice.end(),
                     [&](std::string_view a) { return why.find(a) != std::string::npos; });
}

void check(const outcome& o) {
  CAPTURE(o.why);
  CHECK((o.came || !o.failed));
  CHECK((!o.failed || o.memory || o.loss));
  if (o.memory) CHECK(says_what_to_do(o.why));
}

void fail_each_of_opening(transport::kind over, system_call what) {
  const std::size_t open_before = open_descriptors();
  int n = 1;
  for (bool came = true; came && n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(what, n, [over] { const stage s({}, over); });
    check(o);
    CHECK(open_descriptors() == open_before);
    came = o.came;
  }
  CHECK(n < most);
}

// Posts an atomic on memory that is not known yet: the Worker keeps slots for old values, besides
// the requests of all its connections.
task<> fetch_first(stage& on, wire* w) {
  const MemoryRegion word = server_memory(on, 8);
  wire second = co_await connect_in_time(on);
  for (wire* each : {w, &second}) co_await each->client.fetch_add(exported(word).all(), 1);
  co_await second.client.close();
}

// Returns the number of failed sessions.
int fail_each_of_session(transport::kind over, system_call what) {
  stage s({}, over);
  wire healthy = s.play([](stage& on) -> task<wire> { return connect(on); });
  s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
  s.play(fetch_first, &healthy);
  s.play(session);
  const std::size_t open_before = open_descriptors();
  int n = 1;
  int failures = 0;
  for (bool came = true; came && n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(what, n, [&s] { s.play(session); });
    check(o);
    failures += o.failed ? 1 : 0;
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(session);
    CHECK(open_descriptors() == open_before);
    came = o.came;
  }
  CHECK(n < most);
  return failures;
}

void fail_each(transport::kind over) {
  int failures = 0;
  for (const system_call& what : all_calls) {
    CAPTURE(std::string(what.name));
    CAPTURE(what.os_errno);
    fail_each_of_opening(over, what);
    failures += fail_each_of_session(over, what);
  }
  CHECK(failures > 10);
}

}  // namespace

TEST_CASE("G3: the n-th call of a system call fails, for every n [shm]") {
  fail_each(transport::kind::shm);
}
TEST_CASE("G3: the n-th call of a system call fails, for every n [tcp]") {
  fail_each(transport::kind::tcp);
}

TEST_CASE("descriptors are close-on-exec from the call on that makes them") {
  for (const transport::kind over : {transport::kind::shm, transport::kind::tcp}) {
    CAPTURE(over);
    left_to_programs = 0;
    stage s({}, over);
    s.play(session);
    CHECK(left_to_programs == 0);
  }
}

namespace {

task<> talk_by_default(Worker* client, Worker* server, Context* context) {
  Listener listener = server->listen("127.0.0.1:0").value();
  connect_operation connecting = client->connect(listener.bound().text()).start();
  ConnectionRequest request = co_await listener.next();
  Endpoint accepted = co_await request.accept();
  Endpoint connected = co_await connecting;
  MemoryRegion memory = context->allocate(16).value();
  recv_operation receiving = accepted.recv(memory.slice(0, 8).value()).start();
  const Slice message = memory.slice(8, 8).value();
  co_await connected.send(message);
  co_await receiving;
}

}  // namespace

TEST_CASE("where no transport is asked for by name, one that fails at any point is done without") {
  // shm needs it, and tcp does not. Setting an option of shm does not request shm by name.
  char folder[] = "/tmp/cordma-denied-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  for (const system_call missing :
       {system_call{"memfd_create", ENOSYS}, system_call{"memfd_create", EPERM}}) {
    for (const bool set : {false, true}) {
      CAPTURE(missing.os_errno);
      CAPTURE(set);
      context_options options;
      if (set) options.shm.directory = std::string(folder);
      int n = 1;
      for (bool came = true; came && n < most; ++n) {
        CAPTURE(n);
        const outcome o = attempt(missing, n, [&options] {
          Context context(options);
          Worker server(context);
          Worker client(context, server.loop());
          server.run(talk_by_default(&client, &server, &context));
        });
        CAPTURE(o.why);
        CHECK(!o.failed);
        came = o.came;
      }
      CHECK(n > 4);
      CHECK(n < most);
    }
  }
  std::filesystem::remove_all(folder);
}

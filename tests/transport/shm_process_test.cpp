#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>

#include <support/applies.hpp>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

constexpr std::uint16_t port = 4711;

shm_options in(const scratch& s) {
  shm_options o;
  o.directory = s.path;
  return o;
}

// Runs `work` in a child; its return value is the exit status. The destructor kills the child.
struct child {
  pid_t pid;
  explicit child(const std::function<int()>& work) : pid(::fork()) {
    if (pid == 0) ::_exit(work());
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      static_cast<void>(wait());
    }
  }
  int wait() {
    int status = -1;
    ::waitpid(pid, &status, 0);
    pid = -1;
    return status;
  }
};

// In a child: connects to the parent as soon as it listens. False: no connection.
bool connect_child(host& h, const queue_pair_options& o = {}) {
  for (long i = 0; i < patience; ++i) {
    auto q = h.a->connect({"", port}, o, {});
    if (!q) continue;
    h.q = std::move(*q);
    return pump(h, [&] { return h.saw(cm_event::type::established) != nullptr; });
  }
  return false;
}

struct raw_memory {  // for children, which must not use doctest
  std::vector<std::byte> store;
  memory_keys keys;
  raw_memory(domain& d, std::size_t n) : store(n) {
    keys = *d.register_memory({store.data(), n, everything, -1});
  }
  [[nodiscard]] segment at(std::size_t o, std::size_t n) {
    return {store.data() + o, static_cast<std::uint32_t>(n), keys.lkey};
  }
};

}  // namespace

TEST_CASE("shm: 1,000,000 messages from another process, in order and whole") {
  scratch dir;
  constexpr std::uint64_t total = 1'000'000;
  child sender([&] {
    host h(in(dir));
    raw_memory m(*h.d, 4096);
    if (!connect_child(h)) return 1;
    for (std::uint64_t i = 0; i < total; ++i) {
      std::memcpy(m.store.data(), &i, 8);
      h.done.clear();
      h.send(i, m.at(0, i % 1000 == 0 ? 4000 : 8 + i % 60));
      while (h.done.empty()) {
        h.poll();
        std::this_thread::yield();
      }
    }
    h.q->disconnect();
    return pump(h, [&] { return h.saw(cm_event::type::disconnected) != nullptr; }) ? 0 : 2;
  });
  host h(in(dir));
  memory m(*h.d, 64 * 4096, everything, true);
  h.l = std::move(*h.a->listen({"", port}));
  REQUIRE(pump(h, [&] { return h.saw(cm_event::type::established) != nullptr; }));
  std::uint64_t posted_receives = 0;
  std::uint64_t got = 0;
  std::uint64_t wrong = 0;
  for (long i = 0; i < patience && got < total; ++i) {
    while (posted_receives - got < 64 && posted_receives < total) {
      h.recv(posted_receives, m.at(posted_receives % 64 * 4096, 4096));
      ++posted_receives;
    }
    h.poll();
    if (i % polls_per_yield == 0) std::this_thread::yield();
    for (const completion& c : h.done) {
      std::uint64_t value = 0;
      std::memcpy(&value, m.data + got % 64 * 4096, 8);
      const std::size_t n = got % 1000 == 0 ? 4000 : 8 + got % 60;
      if (c.id != got || value != got || c.byte_len != n) ++wrong;
      ++got;
    }
    h.done.clear();
  }
  REQUIRE(got == total);
  CHECK(wrong == 0);
  REQUIRE(pump(h, [&] { return h.saw(cm_event::type::disconnected) != nullptr; }));
  CHECK(sender.wait() == 0);
}

namespace {

constexpr uid_t stranger = 65534;  // no privileges

// Connects as another user with these supplementary groups; returns whether the connection was
// established, or how it failed.
int connect_as_stranger(const shm_options& o, const std::vector<gid_t>& groups = {}) {
  if (::setgroups(groups.size(), groups.data()) != 0 ||
      ::setresgid(stranger, stranger, stranger) != 0 ||
      ::setresuid(stranger, stranger, stranger) != 0) {
    return 100;
  }
  try {
    host h(o);
    for (long i = 0; i < patience && !h.q; ++i) {
      auto q = h.a->connect({"", port}, {}, {});
      if (q) h.q = std::move(*q);
    }
    const auto came_up = [&] { return h.saw(cm_event::type::established) != nullptr; };
    const auto failed = [&] { return h.saw(cm_event::type::failed) != nullptr; };
    if (!pump(h, [&] { return came_up() || failed(); })) return 101;
    return came_up() ? 0 : static_cast<int>(h.saw(cm_event::type::failed)->why.code());
  } catch (const error& e) {
    return static_cast<int>(e.condition());
  }
}

}  // namespace

TEST_CASE("shm: a process of another user is refused, and served where any user is allowed" *
          test::applies(::geteuid() == 0, "becoming another user needs root")) {
  for (const bool any_user : {false, true}) {
    CAPTURE(any_user);
    scratch dir;
    shm_options serving = in(dir);
    serving.any_user = any_user;
    shm_options asking = in(dir);
    asking.any_user = true;
    child client([&] { return connect_as_stranger(asking); });
    host h(serving);
    h.l = std::move(*h.a->listen({"", port}));
    // The directory's permissions normally decide on access; here the server has to.
    REQUIRE(::chmod(dir.path.c_str(), 0777) == 0);
    REQUIRE(::chmod((dir.path + "/" + std::to_string(port)).c_str(), 0666) == 0);
    int status = 0;
    REQUIRE(pump(h, [&] { return ::waitpid(client.pid, &status, WNOHANG) == client.pid; }));
    client.pid = -1;
    const int expected = any_user ? 0 : static_cast<int>(errc::not_permitted);
    CHECK(WEXITSTATUS(status) == expected);
    CHECK((h.saw(cm_event::type::connect_request) != nullptr || h.q != nullptr) == any_user);
  }
}

TEST_CASE("shm: members of shm.group reach each other, and nobody else does" *
          test::applies(::geteuid() == 0, "becoming another user needs root")) {
  const group* const named = ::getgrgid(1);
  REQUIRE(named != nullptr);
  const gid_t members = named->gr_gid;
  const std::string name = named->gr_name;
  for (const bool is_member : {true, false}) {
    CAPTURE(is_member);
    // The server belongs to the group, like a service with the systemd setting Group=.
    child server([&] {
      scratch dir;
      if (::setgroups(1, &members) != 0) return 100;
      shm_options o = in(dir);
      o.directory = dir.path + "/meet";
      o.group = name;
      host h(o);
      h.l = std::move(*h.a->listen({"", port}));
      struct stat folder{};
      struct stat socket{};
      if (::stat(o.directory.get().c_str(), &folder) != 0 || folder.st_gid != members ||
          (folder.st_mode & 0777U) != 0750 ||
          ::stat((o.directory.get() + "/4711").c_str(), &socket) != 0 || socket.st_gid != members ||
          (socket.st_mode & 0777U) != 0660) {
        return 102;
      }
      // Here the server refuses the client, not the permissions of the files.
      if (::chmod(dir.path.c_str(), 0755) != 0 ||
          (!is_member && (::chmod(o.directory.get().c_str(), 0755) != 0 ||
                          ::chmod((o.directory.get() + "/4711").c_str(), 0666) != 0))) {
        return 103;
      }
      child client([&] {
        const std::vector<gid_t> his =
            is_member ? std::vector<gid_t>{members} : std::vector<gid_t>{};
        return connect_as_stranger(o, his);
      });
      int status = 0;
      if (!pump(h, [&] { return ::waitpid(client.pid, &status, WNOHANG) == client.pid; }))
        return 104;
      client.pid = -1;
      const bool came = h.saw(cm_event::type::connect_request) != nullptr || h.q != nullptr;
      return came == is_member ? WEXITSTATUS(status) : 105;
    });
    CHECK(WEXITSTATUS(server.wait()) == (is_member ? 0 : static_cast<int>(errc::not_permitted)));
  }
}

TEST_CASE("shm: a group that is missing, or that this process does not belong to, is named" *
          test::applies(::geteuid() == 0, "becoming another user needs root")) {
  scratch dir;
  shm_options o = in(dir);
  o.group = "no-such-group";
  const auto missing = make_shm(o);
  REQUIRE(missing.code() == errc::invalid_value);
  CHECK(missing.why().message().find("\"no-such-group\"") != std::string::npos);
  child outsider([] {
    if (::setresuid(stranger, stranger, stranger) != 0) return 100;
    scratch own;
    shm_options here = in(own);
    here.directory = own.path + "/meet";
    here.group = ::getgrgid(1)->gr_name;
    return static_cast<int>(make_shm(here).code());
  });
  CHECK(WEXITSTATUS(outsider.wait()) == static_cast<int>(errc::not_permitted));
}

TEST_CASE("shm: a directory that others can write is refused, saying what to do") {
  scratch dir;
  REQUIRE(::chmod(dir.path.c_str(), 0777) == 0);
  const auto refused = make_shm(in(dir));
  REQUIRE(refused.code() == errc::not_permitted);
  CHECK(refused.why().message().find("chmod 700") != std::string::npos);
  shm_options open_to_all = in(dir);
  open_to_all.any_user = true;
  CHECK(make_shm(open_to_all).ok());
}

// The activity of the process that will be killed.
int live_until_killed(const std::string& what, const scratch& dir) {
  host h(in(dir));
  raw_memory m(*h.d, 1 << 20);
  if (what == "half open") {
    for (long i = 0; i < patience && !h.q; ++i) {
      auto q = h.a->connect({"", port}, {}, {});
      if (q) h.q = std::move(*q);
    }
    for (;;) ::pause();
  }
  if (!connect_child(h)) return 1;
  if (what == "fetched") h.send(1, m.at(0, 1 << 20));
  if (what == "idle") ::pause();
  for (std::uint64_t i = 0;; ++i) {
    h.poll();
    h.done.clear();
    if (what == "sending" && i % 64 == 0 && i < 64 * 100) h.send(i, m.at(0, 8));
  }
  return 0;
}

TEST_CASE("shm: a peer killed with -9 is noticed in every phase") {
  for (const char* phase : {"idle", "sending", "fetched", "half open", "accessing"}) {
    CAPTURE(phase);
    const std::string what = phase;
    scratch dir;
    child victim([&] { return live_until_killed(what, dir); });
    host h(in(dir));
    memory m(*h.d, 1 << 20, everything, true);
    if (what == "half open") h.accepts = false;
    h.l = std::move(*h.a->listen({"", port}));
    if (what == "half open") {
      REQUIRE(pump(h, [&] { return h.request != 0; }));
      ::kill(victim.pid, SIGKILL);
      victim.wait();
      CHECK(h.a->accept(h.request, {}, {}).code() == errc::bad_state);
      continue;
    }
    REQUIRE(pump(h, [&] { return h.saw(cm_event::type::established) != nullptr; }));
    const pid_t pid = victim.pid;
    if (what == "sending") {
      h.recv(1, m.at(0, 64));
      REQUIRE(pump(h, [&] { return h.find(1) != nullptr; }));
    }
    std::uint64_t outstanding = 0;
    for (std::uint64_t i = 100; i < 110; ++i, ++outstanding) h.send(i, m.at(0, 100'000));
    if (what == "accessing") {
      h.rma(200, opcode::read, m.at(0, 8), 4096, 12345);
      ++outstanding;
    }
    ::kill(pid, SIGKILL);
    victim.wait();
    if (what == "fetched") {
      h.recv(2, m.at(0, 1 << 20));
      ++outstanding;
    }
    REQUIRE(pump(h, [&] { return h.saw(cm_event::type::disconnected) != nullptr; }));
    const failure& why = h.saw(cm_event::type::disconnected)->why;
    const bool refused_first = what == "accessing" && why.code() == errc::remote_access;
    if (!refused_first) {
      CHECK(why.code() == errc::connection_reset);
      CHECK(why.message().find(std::to_string(pid)) != std::string::npos);
    }
    REQUIRE(pump(h, [&] { return h.done.size() >= outstanding; }));
    for (int i = 0; i < 1000; ++i) h.poll();
    CHECK(h.done.size() == outstanding + (what == "sending" ? 1 : 0));
    // Other clients can connect.
    h.events.clear();
    h.q.reset();
    host other(in(dir));
    other.q = std::move(*other.a->connect({"", port}, {}, {}));
    CHECK(pump(h, other, [&] { return other.saw(cm_event::type::established) != nullptr; }));
  }
}

TEST_CASE("shm: a sleeping adapter is woken by a message, and by the death of its peer") {
  scratch dir;
  child peer([&] {
    host h(in(dir), wait_mode::event);
    raw_memory m(*h.d, 64);
    if (!connect_child(h)) return 1;
    h.recv(1, m.at(0, 8));
    if (!pump(h, [&] { return h.find(1) != nullptr; })) return 2;
    h.send(2, m.at(0, 8));
    for (;;) ::pause();
  });
  host h(in(dir), wait_mode::event);
  memory m(*h.d, 4096, everything, true);
  h.l = std::move(*h.a->listen({"", port}));
  const int waiter = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event e{};
  e.events = EPOLLIN | static_cast<std::uint32_t>(EPOLLET);
  ::epoll_ctl(waiter, EPOLL_CTL_ADD, h.a->wait_fd(), &e);
  const auto sleep_until = [&](auto done) {
    while (!done()) {
      h.poll();
      if (done()) return;
      if (h.a->arm() == arm_state::armed) {
        h.poll();
        if (!done()) static_cast<void>(::epoll_wait(waiter, &e, 1, -1));
      }
      h.a->disarm();
    }
  };
  sleep_until([&] { return h.saw(cm_event::type::established) != nullptr; });
  h.recv(1, m.at(0, 8));
  h.send(5, m.at(0, 8));
  sleep_until([&] { return h.find(1) != nullptr; });
  ::kill(peer.pid, SIGKILL);
  sleep_until([&] { return h.saw(cm_event::type::disconnected) != nullptr; });
  CHECK(h.saw(cm_event::type::disconnected)->why.code() == errc::connection_reset);
  ::close(waiter);
}

TEST_CASE("shm: eight client processes, both directions") {
  scratch dir;
  std::vector<std::unique_ptr<child>> clients;
  for (int k = 0; k < 8; ++k) {
    clients.push_back(std::make_unique<child>([&dir, k] {
      host h(in(dir));
      raw_memory m(*h.d, 4096);
      if (!connect_child(h)) return 1;
      for (std::uint64_t i = 0; i < 100; ++i) {
        m.store[0] = static_cast<std::byte>(k);
        h.recv(2 * i, m.at(64, 64));
        h.send(2 * i + 1, m.at(0, 64));
        if (!pump(h, [&] { return h.find(2 * i) != nullptr; })) return 2;
        if (m.store[64] != static_cast<std::byte>(k + 100)) return 3;
      }
      h.q->disconnect();
      return pump(h, [&] { return h.saw(cm_event::type::disconnected) != nullptr; }) ? 0 : 4;
    }));
  }
  host h(in(dir));
  h.accepts = false;
  memory m(*h.d, 8 * 128, everything, true);
  h.l = std::move(*h.a->listen({"", port}));
  std::vector<std::unique_ptr<queue_pair>> pairs;
  std::size_t ended = 0;
  std::size_t answered = 0;
  const auto receive = [&](std::size_t k) {
    const segment s = m.at(k * 128, 64);
    completion now;
    return pairs[k]->post_recv({k, 1, &s, nullptr}, now) == posted::done;
  };
  const auto answer = [&](std::size_t k) {
    m.data[k * 128 + 64] = static_cast<std::byte>(static_cast<int>(m.data[k * 128]) + 100);
    const segment s = m.at(k * 128 + 64, 64);
    send_request r;
    r.id = 1000;
    r.segments = &s;
    r.segment_count = 1;
    completion now;
    static_cast<void>(pairs[k]->post_send(r, now));
    ++answered;
  };
  for (long i = 0; i < patience && ended < 8; ++i) {
    h.poll();
    if (i % polls_per_yield == 0) std::this_thread::yield();
    while (!h.events.empty()) {
      const cm_event e = std::move(h.events.front());
      h.events.pop_front();
      if (e.what == cm_event::type::connect_request) {
        pairs.push_back(std::move(*h.a->accept(e.request, {}, {})));
        static_cast<void>(receive(pairs.size() - 1));
      }
      if (e.what == cm_event::type::disconnected) ++ended;
    }
    for (const completion& c : h.done) {
      if (c.id >= 8 || c.status != wc_status::success) continue;
      do answer(c.id);
      while (receive(c.id));
    }
    h.done.clear();
  }
  CHECK(ended == 8);
  CHECK(answered == 800);
  pairs.clear();
  for (auto& c : clients) CHECK(c->wait() == 0);
}

TEST_CASE("shm: counters and locks shared by four processes hold [atomics]") {
  scratch dir;
  host h(in(dir));
  memory m(*h.d, 4096, everything, true);
  h.accepts = false;
  h.l = std::move(*h.a->listen({"", port}));
  const std::uint64_t addr = m.address();
  const std::uint64_t rkey = m.keys.rkey;
  std::vector<std::unique_ptr<child>> clients;
  for (int k = 0; k < 4; ++k) {
    clients.push_back(std::make_unique<child>([&, addr, rkey] {
      host c(in(dir));
      raw_memory r(*c.d, 4096);
      if (!connect_child(c)) return 1;
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        c.done.clear();
        if (c.rma(i, opcode::fetch_add, r.at(0, 8), addr, rkey, 1) == posted::pending &&
            !pump(c, [&] { return !c.done.empty(); })) {
          return 2;
        }
        if (c.done[0].status != wc_status::success) return 3;
      }
      return 0;
    }));
  }
  std::vector<std::unique_ptr<queue_pair>> pairs;
  std::size_t ended = 0;
  for (long i = 0; i < patience && ended < 4; ++i) {
    h.poll();
    if (i % polls_per_yield == 0) std::this_thread::yield();
    while (!h.events.empty()) {
      const cm_event e = std::move(h.events.front());
      h.events.pop_front();
      if (e.what == cm_event::type::connect_request) {
        pairs.push_back(std::move(*h.a->accept(e.request, {}, {})));
      }
      if (e.what == cm_event::type::disconnected) ++ended;
    }
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, m.data, 8);
  CHECK(sum == 80'000);
  for (auto& c : clients) CHECK(c->wait() == 0);
}

// Runs twice: here, and in a process that may not access the memory of others (see below).
TEST_CASE("shm: private memory is fetched, written and read") {
  couple c;
  memory from(*c.client.d, 300'000, everything, false);
  memory to(*c.server.d, 300'000, everything, false);
  fill(from.at(0, 300'000), 8);
  c.server.recv(1, to.at(0, 300'000));
  c.client.send(2, from.at(0, 300'000));
  REQUIRE(pump(c.server, c.client,
               [&] { return c.server.find(1) != nullptr && c.client.find(2) != nullptr; }));
  CHECK(same(from.at(0, 300'000), to.at(0, 300'000)));
  std::memset(to.data, 0, 300'000);
  c.server.recv(9, to.at(0, 0));
  c.client.rma(3, opcode::write_imm, from.at(0, 290'000), to.address(8), to.keys.rkey, 0, 0, 77);
  REQUIRE(pump(c.server, c.client, [&] { return c.server.find(9) != nullptr; }));
  CHECK(c.server.find(9)->imm == 77);
  CHECK(std::memcmp(to.data + 8, from.data, 290'000) == 0);
  std::memset(from.data, 0, 300'000);
  c.client.rma(4, opcode::read, from.at(0, 290'000), to.address(8), to.keys.rkey);
  c.client.rma(5, opcode::fetch_add, from.at(290'000, 8), to.address(0), to.keys.rkey, 5);
  REQUIRE(pump(c.server, c.client, [&] { return c.client.find(5) != nullptr; }));
  CHECK(std::memcmp(to.data + 8, from.data, 290'000) == 0);
  CHECK(to.data[0] == std::byte{5});
  c.client.rma(6, opcode::read, from.at(0, 8), to.address(299'999), to.keys.rkey);
  REQUIRE(c.both_down());
  REQUIRE(pump(c.client, [&] { return c.client.find(6) != nullptr; }));
  CHECK(c.client.find(6)->status == wc_status::rem_access_err);
}

TEST_CASE("shm: everything works where the kernel forbids to reach into other processes") {
  child sandbox([] {
    const std::array<sock_filter, 5> code{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1)};
    const sock_fprog program{static_cast<unsigned short>(code.size()),
                             const_cast<sock_filter*>(code.data())};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 90;
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 91;
    ::execl("/proc/self/exe", "tests", "--test-case=shm: private memory is fetched*", "--minimal",
            static_cast<char*>(nullptr));
    return 92;
  });
  CHECK(sandbox.wait() == 0);
}

}  // namespace cordma::transport::shm_test

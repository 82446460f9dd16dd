// fork(), daemon(3) and programs started by a process that has connections: effects on the peers,
// and the calls that the child may make.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/requests.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr const char* one_process = "the simulator is one process by nature";

// A copy of this process that does nothing until the test ends it.
class sitter {
 public:
  sitter() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[1]);
      char c = 0;
      static_cast<void>(::read(ends[0], &c, 1));
      ::_exit(0);
    }
    REQUIRE(pid_ > 0);
    ::close(ends[0]);
    end_ = ends[1];
  }
  sitter(const sitter&) = delete;
  sitter& operator=(const sitter&) = delete;
  ~sitter() {
    ::close(end_);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  int end_ = -1;
};

// Runs `life` in a forked child, which exits without running destructors. Returns its exit status.
int in_child(const std::function<int()>& life) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = life();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "in the child: %s\n", e.what());
    }
    ::_exit(status);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns the number of entries in all epoll sets of this process.
std::size_t watched_descriptors() {
  std::size_t n = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(fd.path());
    for (std::string line; std::getline(lines, line);) n += line.starts_with("tfd:") ? 1U : 0U;
  }
  return n;
}

// Echoes until the connection ends, and reports its cause to the parent.
task<int> echo_story(host& h, wire_to_peer& parent, std::string server) {
  Endpoint e = co_await h.worker.connect(server);
  MemoryRegion room = h.context.allocate(64).value();
  for (;;) {
    const result<Received> got = co_await e.recv(room).result();
    if (!got) break;
    const result<void> sent = co_await e.send(room.slice(0, got->bytes).value()).result();
    if (!sent) break;
  }
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
  // A peer that receives no notification detects the end by silence.
  const bool by_silence = e.first_cause()->message().find("peer_timeout") != std::string::npos;
  parent.tell(std::string(name(e.first_cause()->code())) + (by_silence ? " by peer_timeout" : ""));
  co_return 0;
}

int echo_life(wire_to_peer& parent) {
  const std::string server = parent.hear();
  host h(wait_mode::event);
  return h.worker.run(echo_story(h, parent, server));
}

// A process with a listener, memory and a connection to an echoing peer.
struct service {
  host at;
  Listener listener = at.worker.listen(own_host() + ":0").value();
  std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  MemoryRegion memory = at.context.allocate(4096, every_right).value();
  BufferPool pool{at.context, 64, 4};
  Endpoint endpoint;

  explicit service(wait_mode mode = wait_under_test()) : at(mode) {}
};

task<> meet(service* s) {
  ConnectionRequest request = co_await s->listener.next();
  s->endpoint = co_await request.accept();
}

task<bool> talk(service* s) {
  std::memset(s->memory.data(), 7, 8);
  const Slice there = s->memory.slice(0, 8).value();
  const Slice back = s->memory.slice(8, 8).value();
  recv_operation answer = s->endpoint.recv(back).start();
  const result<void> sent = co_await s->endpoint.send(there).result();
  if (!sent) co_return false;
  const result<Received> got = co_await answer.result();
  co_return got.ok() && std::memcmp(s->memory.data(), s->memory.data() + 8, 8) == 0;
}

// Another client connects to the listener and uses memory that was exported before the fork.
task<> visit(service* s, Worker* visitor, Context* of, std::vector<std::byte> blob) {
  wire w = co_await connect(*visitor, s->listener, s->address);
  MemoryRegion word = of->allocate(8).value();
  std::memset(word.data(), 9, 8);
  const RemoteMemory memory = RemoteMemory::import(blob).value();
  co_await w.client.write(memory.slice(64, 8).value(), word);
  co_await w.client.flush();
  co_await w.client.close();
}

template <class Operation>
task<errc> code_of(Operation op) {
  const auto r = co_await op.result();
  co_return r.code();
}

// Counts the calls that did not fail with bad_state.
class refusals {
 public:
  template <class Result>
  void expect(const char* what, const Result& r) {
    if (r.code() == errc::bad_state && r.why().message().find("fork()") != std::string::npos)
      return;
    ++others;
    std::fprintf(stderr, "in the child, %s: %s\n", what,
                 r.ok() ? "ok" : r.why().describe().c_str());
  }
  int others = 0;
};

template <class Operation>
result<void> outcome(Operation op) {
  op.start();
  if (!op.done()) return failure{errc::timed_out, "it waits"};
  const auto r = op.take_result();
  if (!r) return r.why();
  return {};
}

int call_everything(service& s) {
  refusals r;
  const Slice slice = s.memory.slice(0, 8).value();
  r.expect("allocate", s.at.context.allocate(64));
  r.expect("register", s.at.context.register_memory(s.memory.bytes(), access::local_write));
  r.expect("export", s.memory.export_blob());
  r.expect("listen", s.at.worker.listen(own_host() + ":0"));
  r.expect("poll", s.at.worker.poll());
  r.expect("wake_for", s.at.worker.wake_for(wake_reason::everything));
  r.expect("take", s.pool.take());
  r.expect("get", outcome(s.pool.get(s.at.worker.loop())));
  r.expect("next", outcome(s.listener.next()));
  r.expect("connect", outcome(s.at.worker.connect(s.address)));
  r.expect("send", outcome(s.endpoint.send(slice)));
  r.expect("recv", outcome(s.endpoint.recv(slice)));
  r.expect("recv into a pool", outcome(s.endpoint.recv(s.pool)));
  r.expect("flush", outcome(s.endpoint.flush()));
  r.expect("close", outcome(s.endpoint.close()));
  r.expect("state_changed", outcome(s.endpoint.state_changed()));
  try {
    s.at.worker.run([]() -> task<> { co_return; }());
    ++r.others;
  } catch (const error& e) {
    if (e.condition() != errc::bad_state) ++r.others;
  }
  try {
    Worker another(s.at.context);
    ++r.others;
  } catch (const error& e) {
    if (e.condition() != errc::bad_state) ++r.others;
  }
  // Calls that return no error have no effect.
  s.endpoint.fence();
  { const Endpoint::Batch together = s.endpoint.batch(); }
  s.endpoint.abort();
  s.listener.close();
  s.at.worker.limit_endpoints(1);
  if (s.pool.available() != 0) ++r.others;
  reactor& loop = s.at.worker.loop();
  if (loop.turn() || loop.prepare_wait() != arm_state::armed) ++r.others;
  loop.finish_wait();
  return r.others;
}

struct together {
  Endpoint::Batch batch;
  explicit together(Endpoint& of) : batch(of.batch()) {}
};

}  // namespace

TEST_CASE("a connection that ends while a forked process is alive ends for its peer at once" *
          not_on(transport::kind::sim, one_process)) {
  for (const char* how : {"close", "abort", "destroy", "drop the Worker"}) {
    CAPTURE(how);
    const std::string_view way = how;
    child_process peer(echo_life);
    std::optional<service> s(std::in_place);
    peer.wire().tell(s->address);
    s->at.worker.run(meet(&*s));
    CHECK(s->at.worker.run(talk(&*s)));
    const sitter helper;
    if (way == "close") {
      s->at.worker.run([](Endpoint* e) -> task<> { co_await e->close(); }(&s->endpoint));
    } else if (way == "abort") {
      s->endpoint.abort();
    } else if (way == "destroy") {
      s->endpoint = Endpoint();
    } else {
      s.reset();
    }
    // The helper keeps running.
    const std::string told = peer.wire().hear();
    CHECK(told == (way == "close" ? "not_connected" : "connection_reset"));
    CHECK(peer.join() == 0);
  }
}

TEST_CASE("a forked process keeps no entry of a closed socket in an epoll set" *
          not_on({transport::kind::sim, transport::kind::verbs},
                 "there each adapter has a fixed set of descriptors")) {
  service s(wait_mode::event);
  host other;
  const std::size_t before = watched_descriptors();
  for (int i = 0; i < 3; ++i) {
    std::optional<wire> w;
    Worker visitor(other.context, s.at.worker.loop());
    s.at.worker.run([](Worker* v, service* at, std::optional<wire>* into) -> task<> {
      wire made = co_await connect(*v, at->listener, at->address);
      into->emplace(std::move(made));
    }(&visitor, &s, &w));
    const std::size_t connected = watched_descriptors();
    const sitter helper;
    w.reset();
    // Both ends of the connection process the disconnect.
    s.at.worker.run([]() -> task<> {
      for (int k = 0; k < 100; ++k) co_await yield();
    }());
    CHECK(watched_descriptors() <= connected - 2);  // while the helper still holds its copies
    s.at.worker.run(visit(&s, &visitor, &other.context, s.memory.export_blob().value()));
  }
  s.at.worker.run([]() -> task<> {
    for (int k = 0; k < 100; ++k) co_await yield();
  }());
  CHECK(watched_descriptors() == before);
}

TEST_CASE("in a forked child every call on the parent's objects fails with bad_state" *
          not_on(transport::kind::sim, one_process)) {
  child_process peer(echo_life);
  service s;
  peer.wire().tell(s.address);
  s.at.worker.run(meet(&s));
  CHECK(in_child([&s] { return call_everything(s); }) == 0);
  CHECK(s.at.worker.run(talk(&s)));
}

TEST_CASE("what a batch holds back at a fork is sent once, by the parent" *
          not_on(transport::kind::sim, one_process)) {
  child_process peer(echo_life);
  service s;
  peer.wire().tell(s.address);
  s.at.worker.run(meet(&s));
  std::memset(s.memory.data(), 7, 8);
  recv_operation answer = s.endpoint.recv(s.memory.slice(8, 8).value()).start();
  std::optional<together> held(std::in_place, s.endpoint);
  send_operation sent = s.endpoint.send(s.memory.slice(0, 8).value()).start();
  CHECK(in_child([&held] {
          held.reset();
          return 0;
        }) == 0);
  held.reset();
  const result<Received> got = s.at.worker.run([](recv_operation* op) -> task<result<Received>> {
    co_return co_await op->result();
  }(&answer));
  REQUIRE(got.ok());
  CHECK(got->bytes == 8);
  // The message was sent only once: the echo of a second copy would be received here.
  CHECK(s.at.worker.run(talk(&s)));
  CHECK(sent.done());
}

TEST_CASE("a foreign loop that sleeps at a fork is woken as before" *
          not_on(transport::kind::sim, one_process)) {
  child_process peer(echo_life);
  service s(wait_mode::event);
  peer.wire().tell(s.address);
  s.at.worker.run(meet(&s));
  reactor& loop = s.at.worker.loop();
  recv_operation answer = s.endpoint.recv(s.memory.slice(8, 8).value()).start();
  send_operation sent = s.endpoint.send(s.memory.slice(0, 8).value()).start();
  while (!answer.done()) {
    while (loop.turn()) {}
    if (answer.done() || loop.prepare_wait() != arm_state::armed) continue;
    CHECK(in_child([&loop] {
            loop.finish_wait();
            return 0;
          }) == 0);
    pollfd p{loop.fd(), POLLIN, 0};
    REQUIRE(::poll(&p, 1, 30'000) == 1);
    loop.finish_wait();
  }
  CHECK(sent.done());
}

TEST_CASE("a forked child destroys the parent's objects, and the parent goes on as before" *
          not_on(transport::kind::sim, one_process)) {
  for (const bool transfers : {false, true}) {
    CAPTURE(transfers);
    child_process peer(echo_life);
    std::optional<service> s(std::in_place);
    peer.wire().tell(s->address);
    s->at.worker.run(meet(&*s));
    const std::vector<std::byte> blob = s->memory.export_blob().value();
    std::optional<recv_operation> pending;
    if (transfers) pending.emplace(s->endpoint.recv(s->memory.slice(16, 8).value()).start());
    CHECK(in_child([&s, &pending] {
            pending.reset();
            s.reset();
            return 0;
          }) == 0);
    if (pending) {
      // This message's echo completes the pending receive: no close in the child has reached the
      // peer.
      s->at.worker.run([](service* at) -> task<> {
        co_await at->endpoint.send(at->memory.slice(0, 8).value());
      }(&*s));
      const result<Received> got =
          s->at.worker.run([](recv_operation* op) -> task<result<Received>> {
            co_return co_await op->result();
          }(&*pending));
      CHECK(got.ok());
    }
    CHECK(s->at.worker.run(talk(&*s)));
    host other;
    Worker visitor(other.context, s->at.worker.loop());
    s->at.worker.run(visit(&*s, &visitor, &other.context, blob));
    CHECK(std::ranges::all_of(s->memory.bytes().subspan(64, 8),
                              [](std::byte b) { return b == std::byte{9}; }));
  }
}

TEST_CASE("after daemon(3) a new Context works, and the one of before is refused" *
          not_on(transport::kind::sim, one_process)) {
  child_process to_be_daemon([](wire_to_peer& parent) {
    const std::string server = parent.hear();
    host before(wait_mode::event);
    if (::daemon(1, 1) != 0) return 3;
    const result<MemoryRegion> refused = before.context.allocate(64);
    if (refused.code() != errc::bad_state) return 4;
    host after(wait_mode::event);
    const int status = after.worker.run(echo_story(after, parent, server));
    parent.tell("well");
    return status;
  });
  service s;
  to_be_daemon.wire().tell(s.address);
  s.at.worker.run(meet(&s));
  CHECK(s.at.worker.run(talk(&s)));
  s.at.worker.run([](Endpoint* e) -> task<> { co_await e->close(); }(&s.endpoint));
  CHECK(to_be_daemon.wire().hear() == "not_connected");
  CHECK(to_be_daemon.wire().hear() == "well");
  CHECK(to_be_daemon.join() == 0);
}

TEST_CASE("a coroutine that forks ends the child's run with bad_state, and the parent's goes on" *
          not_on(transport::kind::sim, one_process)) {
  child_process peer(echo_life);
  service s;
  peer.wire().tell(s.address);
  s.at.worker.run(meet(&s));
  pid_t child = -1;
  bool refused = false;
  bool well = false;
  try {
    well = s.at.worker.run([](service* at, pid_t* forked) -> task<bool> {
      *forked = ::fork();
      if (*forked == 0) {
        const errc sent = co_await code_of(at->endpoint.send(at->memory.slice(0, 8).value()));
        if (sent != errc::bad_state) ::_exit(5);
        const errc changed = co_await code_of(at->endpoint.state_changed());
        if (changed != errc::bad_state) ::_exit(8);
        co_await yield();
        ::_exit(6);
      }
      co_return co_await talk(at);
    }(&s, &child));
  } catch (const error& e) {
    refused = e.condition() == errc::bad_state;
  }
  if (child == 0) ::_exit(refused ? 0 : 7);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(well);
}

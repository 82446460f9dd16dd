// Connecting and disconnecting.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tcp_support.hpp"

using namespace tcp_test;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> b(text.size());
  std::memcpy(b.data(), text.data(), text.size());
  return b;
}

}  // namespace

TEST_CASE("tcp: private data goes both ways, over IPv4, IPv6 and names") {
  for (const char* host : {"127.0.0.1", "::1", "localhost", ""}) {
    CAPTURE(host);
    rig r;
    auto l = r.b.adapter->listen({.host = host, .port = 0});
    REQUIRE(l.ok());
    CHECK((*l)->bound().port != 0);
    const auto hello = bytes_of("hello");
    auto left = std::move(*r.a.adapter->connect((*l)->bound(), {}, hello));
    const tp::cm_event asked = r.event(r.b);
    CHECK(asked.what == tp::cm_event::type::connect_request);
    CHECK(asked.from == l->get());
    CHECK(asked.data == hello);
    CHECK(!asked.peer.empty());
    std::vector<std::byte> answer(196, std::byte{7});
    auto right = std::move(*r.b.adapter->accept(asked.request, {}, answer));
    const tp::cm_event up = r.event(r.a);
    CHECK(up.what == tp::cm_event::type::established);
    CHECK(up.pair == left.get());
    CHECK(up.data == answer);
    CHECK(r.event(r.b).pair == right.get());
    CHECK(left->peer_address() == (*l)->bound().text());
    CHECK(right->peer_address() == left->local_address());
    CHECK(r.b.adapter->accept(asked.request, {}, {}).code() == errc::bad_state);
  }
}

TEST_CASE("tcp: a rejected client hears of it, with the reason") {
  rig r;
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  auto left = std::move(*r.a.adapter->connect(l->bound(), {}, {}));
  const tp::cm_event asked = r.event(r.b);
  CHECK(r.b.adapter->reject(asked.request, bytes_of("full")).ok());
  CHECK(r.b.adapter->reject(asked.request, {}).code() == errc::bad_state);
  const tp::cm_event e = r.event(r.a);
  CHECK(e.what == tp::cm_event::type::rejected);
  CHECK(e.why.code() == errc::rejected);
  CHECK(e.data == bytes_of("full"));
}

TEST_CASE("tcp: requests unanswered when the listener dies are rejected, connections stay") {
  connected c;
  auto waiting = std::move(*c.a.adapter->connect(c.listener->bound(), {}, {}));
  const tp::cm_event asked = c.event(c.b);
  c.listener.reset();
  CHECK(c.event(c.a).what == tp::cm_event::type::rejected);
  CHECK(c.b.adapter->accept(asked.request, {}, {}).code() == errc::bad_state);
  memory m(*c.domain, 8);
  post_recv(*c.right, 1, m.all());
  const tp::segment s = m.all();
  post(*c.left, request(opcode::send, 1, s));
  CHECK(c.next(c.b).status == wc_status::success);
}

TEST_CASE("tcp: connecting to a closed port fails with a sentence") {
  rig r;
  std::uint16_t port = 0;
  {
    auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
    port = l->bound().port;
  }
  auto left = std::move(*r.a.adapter->connect({.host = "127.0.0.1", .port = port}, {}, {}));
  memory m(*r.domain, 8);
  post_recv(*left, 1, m.all());
  const tp::cm_event e = r.event(r.a);
  CHECK(e.what == tp::cm_event::type::failed);
  CHECK(e.why.code() == errc::unreachable);
  CHECK(e.why.message().find("nobody listens on 127.0.0.1") != std::string::npos);
  CHECK(r.next(r.a).status == wc_status::wr_flush_err);
}

TEST_CASE("tcp: an unknown host is unreachable at once") {
  rig r;
  auto q = r.a.adapter->connect({.host = "no-such-host.invalid", .port = 1}, {}, {});
  CHECK(q.code() == errc::unreachable);
}

TEST_CASE("tcp: a port in use says so") {
  rig r;
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  auto again = r.a.adapter->listen(l->bound());
  CHECK(again.code() == errc::in_use);
  CHECK(again.why().message().find("another port") != std::string::npos);
}

TEST_CASE("tcp: what tcp does not have is not supported, what is too much is invalid") {
  connected c;
  const tp::address to = c.listener->bound();
  CHECK(c.a.adapter->connect(to, {.type = tp::service::ud}, {}).code() == errc::not_supported);
  CHECK(c.a.adapter->connect(to, {.type = tp::service::uc}, {}).code() == errc::not_supported);
  CHECK(c.a.adapter->connect(to, {.send_depth = 5000}, {}).code() == errc::invalid_value);
  CHECK(c.a.adapter->connect(to, {.inline_bytes = 257}, {}).code() == errc::invalid_value);
  const std::vector<std::byte> too_long(57);
  CHECK(c.a.adapter->connect(to, {}, too_long).code() == errc::invalid_value);
}

TEST_CASE("tcp: disconnect carries out what was posted, then both sides are told") {
  connected c;
  memory own(*c.domain, 32U << 20);
  memory in(*c.domain, 32U << 20);
  own.fill(1);
  post_recv(*c.right, 1, in.all());
  post_recv(*c.left, 9, own.slice(0, 1));
  const tp::segment s = own.all();
  post(*c.left, request(opcode::send, 1, s));
  c.left->disconnect();
  c.left->disconnect();
  const tp::segment t = own.slice(0, 1);
  post(*c.left, request(opcode::send, 2, t));  // too late
  CHECK(c.next(c.b).status == wc_status::success);
  CHECK(own.bytes == in.bytes);
  CHECK(c.next(c.a).status == wc_status::success);
  for (side* x : {&c.a, &c.b}) {
    const tp::cm_event e = c.event(*x);
    CHECK(e.what == tp::cm_event::type::disconnected);
    CHECK(e.why.code() == errc::not_connected);
  }
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
}

TEST_CASE("tcp: both sides may disconnect at once, with work on both") {
  connected c;
  memory one(*c.domain, 4U << 20, tp::all_remote);
  memory two(*c.domain, 4U << 20, tp::all_remote);
  one.fill(1);
  const tp::segment s = one.all();
  const tp::segment t = two.all();
  for (std::uint64_t i = 0; i < 4; ++i) post(*c.left, request(opcode::write, i, s, two));
  for (std::uint64_t i = 0; i < 4; ++i) post(*c.right, request(opcode::read, i, t, one));
  c.left->disconnect();
  c.right->disconnect();
  for (side* x : {&c.a, &c.b}) {
    for (int i = 0; i < 4; ++i) CHECK(c.next(*x).status == wc_status::success);
    CHECK(c.event(*x).why.code() == errc::not_connected);
  }
}

TEST_CASE("tcp: abort flushes at once, and the peer sees a reset") {
  connected c;
  memory m(*c.domain, 8);
  post_recv(*c.left, 1, m.all());
  post_recv(*c.right, 2, m.all());
  c.left->abort();
  CHECK(c.event(c.a).what == tp::cm_event::type::disconnected);
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
  const tp::cm_event e = c.event(c.b);
  CHECK(e.why.code() == errc::connection_reset);
  CHECK(e.why.message().find(c.right->peer_address()) != std::string::npos);
  CHECK(c.next(c.b).status == wc_status::wr_flush_err);
}

TEST_CASE("tcp: the disconnected event comes before the first flushed completion") {
  connected c;
  memory m(*c.domain, 8);
  post_recv(*c.right, 2, m.all());
  c.left.reset();
  std::array<tp::completion, 4> out;
  bool progressed = false;
  for (int i = 0; i < most_polls && !c.b.adapter->has_events(); ++i) {
    CHECK(c.b.adapter->poll(out, progressed) == 0);
  }
  REQUIRE(c.b.adapter->has_events());
  CHECK(c.next(c.b).status == wc_status::wr_flush_err);
  CHECK(c.b.events.front().what == tp::cm_event::type::disconnected);
}

TEST_CASE("tcp: a peer killed in the middle of a transfer is found out, others are unharmed") {
  connected c;
  auto l = std::move(*c.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  const tp::address where = l->bound();
  const pid_t child = ::fork();
  if (child == 0) {
    // The child uses a separate domain to connect to the parent, and runs until it is killed.
    cordma::reactor home({.mode = cordma::wait_mode::polling});
    auto domain = tp::make_tcp({}).value();
    auto adapter = std::move(*domain->open(home));
    auto q = std::move(*adapter->connect(where, {.send_depth = 4}, {}));
    static std::array<std::byte, 1 << 20> data;
    const auto keys = domain->register_memory({.addr = data.data(), .length = data.size()}).value();
    const tp::segment s{data.data(), data.size(), keys.lkey};
    int credit = 4;
    for (;;) {
      std::array<tp::completion, 8> out;
      bool progressed = false;
      credit += static_cast<int>(adapter->poll(out, progressed));
      while (adapter->has_events()) static_cast<void>(adapter->next_event());
      tp::completion now;
      for (; credit > 0; --credit) {
        static_cast<void>(q->post_send(request(opcode::send, 1, s), now));
      }
    }
  }
  const tp::cm_event asked = c.event(c.b);
  auto q = std::move(*c.b.adapter->accept(asked.request, {}, {}));
  memory in(*c.domain, 1U << 20);
  CHECK(c.event(c.b).what == tp::cm_event::type::established);
  for (std::uint64_t i = 0; i < 100; ++i) post_recv(*q, i, in.all());
  for (int i = 0; i < 20; ++i) CHECK(c.next(c.b).status == wc_status::success);
  ::kill(child, SIGKILL);
  const tp::cm_event e = c.event(c.b);
  CHECK(e.pair == q.get());
  CHECK(e.why.code() == errc::connection_reset);
  ::waitpid(child, nullptr, 0);
  c.until([&c] { return c.b.done.size() >= 80; });
  CHECK(c.b.done.back().status == wc_status::wr_flush_err);
  c.b.done.clear();
  const tp::segment s = in.slice(0, 8);
  post_recv(*c.right, 1, s);
  post(*c.left, request(opcode::send, 1, s));
  CHECK(c.next(c.b).status == wc_status::success);
}

TEST_CASE("tcp: a peer that does not answer for peer_timeout is taken for dead [virtual time]") {
  cordma::virtual_clock time;
  connected c({.peer_timeout = std::chrono::seconds(2)}, {},
              {.mode = cordma::wait_mode::polling, .time = &time});
  memory own(*c.domain, 8);
  memory remote(*c.domain, 8, tp::all_remote);
  const tp::segment s = own.all();
  post(*c.left, request(opcode::write, 1, s, remote));
  for (int i = 0; i < 4; ++i) {  // b does not poll
    c.a.poll();
    c.home.turn();
    time.advance_to(time.now() + std::chrono::seconds(1));
  }
  c.a.poll();
  REQUIRE(!c.a.events.empty());
  CHECK(c.a.events.front().why.code() == errc::connection_reset);
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
}

TEST_CASE("tcp: a service that never answers is given up after connect_timeout [virtual time]") {
  cordma::virtual_clock time;
  rig r({.mode = cordma::wait_mode::polling, .time = &time});
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  auto left = std::move(
      *r.a.adapter->connect(l->bound(), {.connect_timeout = std::chrono::seconds(3)}, {}));
  const tp::cm_event asked = r.event(r.b);
  r.settle(50);
  CHECK(r.a.events.empty());
  time.advance_to(time.now() + std::chrono::seconds(3));
  const tp::cm_event e = r.event(r.a);
  CHECK(e.what == tp::cm_event::type::failed);
  CHECK(e.why.code() == errc::timed_out);
  r.settle(50);
  CHECK(r.b.adapter->accept(asked.request, {}, {}).code() == errc::bad_state);
}

TEST_CASE("tcp: at the limit of descriptors connecting and accepting fail, the rest goes on") {
  connected c;
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int next = ::dup(0);
  ::close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next);
  ::setrlimit(RLIMIT_NOFILE, &tight);
  auto refused = c.a.adapter->connect(c.listener->bound(), {}, {});
  CHECK(refused.code() == errc::no_memory);
  CHECK(refused.why().message().find("ulimit -n") != std::string::npos);
  // Descriptors suffice for the client's socket, but not for the server's.
  tight.rlim_cur = static_cast<rlim_t>(next + 1);
  ::setrlimit(RLIMIT_NOFILE, &tight);
  auto late = std::move(*c.a.adapter->connect(c.listener->bound(), {}, {}));
  c.settle();
  CHECK(c.b.events.empty());
  memory m(*c.domain, 8);
  post_recv(*c.right, 1, m.all());
  const tp::segment s = m.all();
  post(*c.left, request(opcode::send, 1, s));
  CHECK(c.next(c.b).status == wc_status::success);
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(c.event(c.b).what == tp::cm_event::type::connect_request);
}

TEST_CASE("tcp: a request can be accepted on another thread's adapter") {
  rig r;
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  auto left = std::move(*r.a.adapter->connect(l->bound(), {}, {}));
  const std::uint64_t id = r.event(r.b).request;
  cordma::reactor other({.mode = cordma::wait_mode::polling});
  auto third = std::move(*r.domain->open(other));
  const auto moved = r.b.adapter->hand_over(id, *third);
  REQUIRE(moved.ok());
  CHECK(r.b.adapter->hand_over(id, *r.a.adapter).code() == errc::ok);  // again, to another one
  memory in(*r.domain, 8);
  std::jthread thread([&] {
    other.bind();
    auto right = std::move(*third->accept(*moved, {}, {}));
    tp::completion now;
    const tp::segment s = in.all();
    static_cast<void>(right->post_recv({.id = 1, .segment_count = 1, .segments = &s}, now));
    std::array<tp::completion, 4> out;
    bool progressed = false;
    bool gone = false;
    while (!gone) {
      static_cast<void>(third->poll(out, progressed));
      while (third->has_events()) {
        gone = third->next_event().what == tp::cm_event::type::disconnected || gone;
      }
    }
    right.reset();
  });
  CHECK(r.event(r.a).what == tp::cm_event::type::established);
  memory own(*r.domain, 8);
  own.fill(6);
  const tp::segment s = own.all();
  post(*left, request(opcode::send, 1, s));
  CHECK(r.next(r.a).status == wc_status::success);
  left.reset();
  thread.join();
  CHECK(own.bytes == in.bytes);
}

TEST_CASE("tcp: fifty connections are served side by side") {
  rig r;
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  std::vector<std::unique_ptr<tp::queue_pair>> left, right;
  for (int i = 0; i < 50; ++i) {
    left.push_back(std::move(*r.a.adapter->connect(l->bound(), {.send_depth = 8}, {})));
  }
  r.until([&] {
    while (!r.b.events.empty()) {
      const tp::cm_event e = std::move(r.b.events.front());
      r.b.events.pop_front();
      if (e.what != tp::cm_event::type::connect_request) continue;
      right.push_back(std::move(*r.b.adapter->accept(e.request, {}, {})));
    }
    return right.size() == 50 && r.a.events.size() == 50;
  });
  memory m(*r.domain, 64);
  for (auto& q : right) post_recv(*q, 1, m.all());
  const tp::segment s = m.all();
  for (auto& q : left) post(*q, request(opcode::send, 1, s));
  r.until([&r] { return r.a.done.size() == 50 && r.b.done.size() == 50; });
}

TEST_CASE("tcp: a client that waits for a descriptor is told that none is left [virtual time]") {
  cordma::virtual_clock time;
  rig r({.mode = cordma::wait_mode::polling, .time = &time});
  auto l = std::move(*r.b.adapter->listen({.host = "127.0.0.1", .port = 0}));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int next = ::dup(0);
  ::close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next + 2);
  ::setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<std::unique_ptr<tp::queue_pair>> clients;
  for (int i = 0; i < 2; ++i)
    clients.push_back(std::move(*r.a.adapter->connect(l->bound(), {}, {})));
  r.settle(50);
  CHECK(r.a.events.empty());  // they wait
  for (int i = 0; i < 60 && r.a.events.size() < 2; ++i) {
    time.advance_to(time.now() + std::chrono::milliseconds(50));
    r.settle(5);
  }
  REQUIRE(r.a.events.size() == 2);
  for (const tp::cm_event& e : r.a.events) {
    CHECK(e.what == tp::cm_event::type::failed);
    CHECK(e.why.code() == errc::no_memory);
    CHECK(e.why.message().find("has no file descriptor left: raise its limit there") !=
          std::string::npos);
  }
  CHECK(r.b.events.empty());
  ::setrlimit(RLIMIT_NOFILE, &before);
  clients.clear();
  r.a.events.clear();
  // The next request is served as usual.
  auto later = std::move(*r.a.adapter->connect(l->bound(), {}, {}));
  for (int i = 0; i < 60 && r.b.events.empty(); ++i) {
    time.advance_to(time.now() + std::chrono::milliseconds(50));
    r.settle(5);
  }
  REQUIRE(r.b.events.size() == 1);
  CHECK(r.b.events.front().what == tp::cm_event::type::connect_request);
}

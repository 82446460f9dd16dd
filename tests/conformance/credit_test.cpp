// Messages that arrive before their receive: retries, and credits that avoid them.
#include "../verbs/told.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/when_all.hpp>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint64_t messages = 300;

struct ends {
  wire w;
  MemoryRegion out;
  MemoryRegion in;
  MemoryRegion count;  // owned by the server; the number of its receives
};

// Messages that arrived before their receive, as sim and RDMA devices count them; 0 elsewhere.
std::uint64_t without_receive(stage& on) {
  if (on.over() == transport::kind::sim) return on.net().counters().rnr_naks;
  const bool device = on.over() == transport::kind::verbs;
  return device ? std::stoull(told("rdma-counter rcvd_rnr_err")) : 0;
}

bool counts_them(const stage& on) {
  return on.over() == transport::kind::sim || on.over() == transport::kind::verbs;
}

// Connects so that a message without a receive ends the connection at once.
task<ends> connect_without_patience(stage& on) {
  endpoint_options strict;
  strict.rnr_retry = 0;
  wire w = co_await connect(on, strict, strict);
  MemoryRegion out = client_memory(on, 64);
  MemoryRegion in = server_memory(on, 64);
  MemoryRegion count = server_memory(on, 8, access::remote_read);
  ends made{.w = std::move(w), .out = out, .in = in, .count = count};
  co_return made;
}

task<> send_all(ends* e, receive_credits* credits) {
  for (std::uint64_t i = 0; i < messages; ++i) {
    co_await credits->take();
    fill(e->out.bytes(), i);
    co_await e->w.client.send(e->out);
    co_await e->w.client.flush();
  }
}

// Posts receives promptly, late, or several at once, by chance.
task<> receive_all(stage* on, ends* e) {
  dice d(7);
  std::uint64_t next = 0;
  while (next < messages) {
    const std::size_t idle = d.below(40);
    for (std::size_t i = 0; i < idle; ++i) co_await moment(*on);
    std::vector<recv_operation> posted;
    const std::size_t width = std::min<std::size_t>(1 + d.below(5), messages - next);
    for (std::size_t i = 0; i < width; ++i) posted.push_back(e->w.server.recv(e->in).start());
    for (recv_operation& r : posted) {
      const Received got = co_await r;
      CHECK(got.bytes == 64);
      ++next;
    }
  }
}

}  // namespace

TEST_CASE("I8: with credits no message comes before its receive, with no retry allowed") {
  stage s;
  s.play([](stage& on) -> task<> {
    ends e = co_await connect_without_patience(on);
    CHECK(e.w.server.publish_receives(e.count).ok());
    receive_credits credits(on.client_context(), e.w.client, exported(e.count));
    const std::uint64_t before = without_receive(on);
    task<> sending = send_all(&e, &credits);
    task<> receiving = receive_all(&on, &e);
    co_await when_all(std::move(sending), std::move(receiving));
    CHECK(filled(e.in.bytes(), messages - 1));
    CHECK(credits.available() == 0);
    CHECK(credits.looks() > 0);
    CHECK(e.count.as<std::uint64_t>()[0] == messages);
    CHECK(e.w.client.state() == endpoint_state::connected);
    CHECK(e.w.server.state() == endpoint_state::connected);
    CHECK(without_receive(on) == before);
  });
}

TEST_CASE("I8: without credits the same connection ends at the first early message") {
  stage s;
  s.play([](stage& on) -> task<> {
    ends e = co_await connect_without_patience(on);
    const std::uint64_t before = without_receive(on);
    send_operation sending = e.w.client.send(e.out).start();
    while (e.w.client.state() != endpoint_state::closed) co_await e.w.client.state_changed();
    CHECK(e.w.client.first_cause()->first_cause().code() == errc::remote_not_ready);
    static_cast<void>(co_await sending.result());
    if (counts_them(on)) CHECK(without_receive(on) > before);
  });
}

TEST_CASE("I8: who waits for a credit suspends, is resumed in turn, and can be canceled") {
  stage s;
  s.play([](stage& on) -> task<> {
    ends e = co_await connect_without_patience(on);
    CHECK(e.w.server.publish_receives(e.count).ok());
    receive_credits credits(on.client_context(), e.w.client, exported(e.count));
    int resumed = 0;
    const auto taker = [](receive_credits* c, int* n, int place) -> task<> {
      co_await c->take();
      CHECK(*n == place);
      ++*n;
    };
    task_context& me = co_await this_task();
    scope waiting(me);
    for (int i = 0; i < 3; ++i) waiting.spawn(taker(&credits, &resumed, i));
    for (int i = 0; i < 300; ++i) co_await moment(on);
    CHECK(resumed == 0);
    recv_operation first = e.w.server.recv(e.in).start();
    while (resumed != 1) co_await moment(on);
    for (int i = 0; i < 300; ++i) co_await moment(on);
    CHECK(resumed == 1);
    recv_operation second = e.w.server.recv(e.in).start();
    while (resumed != 2) co_await moment(on);
    waiting.cancel();
    co_await waiting.join();
    CHECK(resumed == 2);
    recv_operation third = e.w.server.recv(e.in).start();
    co_await credits.take();  // the canceled operation took no credit
    CHECK(credits.available() == 0);
  });
}

TEST_CASE("I8: a count is published in memory that fits, or not at all") {
  stage s;
  s.play([](stage& on) -> task<> {
    ends e = co_await connect_without_patience(on);
    MemoryRegion small = server_memory(on, 7);
    MemoryRegion foreign = client_memory(on, 8);
    CHECK(e.w.server.publish_receives(small).code() == errc::invalid_value);
    CHECK(e.w.server.publish_receives(foreign).code() == errc::invalid_value);
    CHECK(e.w.server.publish_receives(MemoryRegion()).code() == errc::invalid_value);
    // Receives that were posted before are counted too.
    recv_operation before = e.w.server.recv(e.in).start();
    CHECK(e.w.server.publish_receives(e.count).ok());
    CHECK(e.count.as<std::uint64_t>()[0] == 1);
    // Receives that wait for a queue entry are not counted until they are posted.
    const std::uint32_t depth = e.w.server.actual().recv_depth;
    std::vector<recv_operation> many;
    for (std::uint32_t i = 0; i < depth + 5; ++i) many.push_back(e.w.server.recv(e.in).start());
    CHECK(e.count.as<std::uint64_t>()[0] == depth);
    co_await e.w.client.send(e.out);
    co_await before;
    CHECK(e.count.as<std::uint64_t>()[0] == depth + 1);
  });
}

TEST_CASE("I8: rnr_retry 7 waits for ever, a finite one as long as it says, for a late receive") {
  stage s;
  s.play([](stage& on) -> task<> {
    // The receive is posted late, but within the time that either limit of the sender allows.
    for (std::uint8_t retries : {std::uint8_t{7}, std::uint8_t{6}}) {
      CAPTURE(static_cast<int>(retries));
      endpoint_options o;
      o.rnr_retry = retries;
      o.rnr_timer = std::chrono::milliseconds(200);
      wire w = co_await connect(on, o);
      MemoryRegion out = client_memory(on, 8);
      MemoryRegion in = server_memory(on, 8);
      fill(out.bytes(), retries);
      send_operation sending = w.client.send(out).start();
      for (int i = 0; i < 300; ++i) co_await moment(on);
      CHECK(w.client.state() == endpoint_state::connected);
      co_await w.server.recv(in);
      CHECK(filled(in.bytes(), retries));
      co_await sending;
      co_await w.client.flush();
    }
  });
}

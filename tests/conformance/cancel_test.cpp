// Coroutines that are destroyed while their operations are in flight.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t small = 64;
constexpr std::size_t large = 300'000;

task<> receive_pooled(Endpoint* at, BufferPool* pool, int* resumed) {
  const result<Message> m = co_await at->recv(*pool).result();
  ++*resumed;
  CHECK_FALSE(m.ok());
}

// This coroutine owns the region: after its destruction, only the request in flight holds it.
task<> receive_into(Endpoint* at, MemoryRegion mine, int* resumed) {
  const result<Received> m = co_await at->recv(mine).result();
  ++*resumed;
  CHECK_FALSE(m.ok());
}

task<> send_pooled(Endpoint* at, Buffer message, std::size_t bytes) {
  fill(message.bytes().first(bytes), bytes);
  send_operation op = at->send(std::move(message), bytes);
  static_cast<void>(co_await op.result());
}

}  // namespace

TEST_CASE(
    "D1: a coroutine destroyed with a receive into a pool outstanding; the data comes, the buffer "
    "returns once") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (std::size_t size : {small, large}) {
      CAPTURE(size);
      wire w = co_await connect(on);
      MemoryRegion out = client_memory(on, size);
      BufferPool pool(on.server_context(), size, 4);
      int resumed = 0;
      task_context& me = co_await this_task();
      {
        scope gone(me);
        gone.spawn(receive_pooled(&w.server, &pool, &resumed));
        while (pool.available() == 4) co_await moment(on);
        for (int i = 0; i < 3; ++i) co_await moment(on);
      }
      CHECK(pool.available() == 3);  // the request in flight keeps it
      fill(out.bytes(), 1);
      co_await w.client.send(out);  // lands in the buffer of the abandoned receive
      message_operation next = w.server.recv(pool).start();
      fill(out.bytes(), 2);
      co_await w.client.send(out);
      {
        const Message m = co_await next;
        CHECK(m.info().bytes == size);
        CHECK(filled(m.bytes(), 2));
      }
      CHECK(resumed == 0);
      CHECK(pool.available() == 4);
    }
  });
}

TEST_CASE(
    "D1: a coroutine destroyed with its own memory in flight; the memory lives until the data "
    "came") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (std::size_t size : {small, large}) {
      CAPTURE(size);
      wire w = co_await connect(on);
      MemoryRegion out = client_memory(on, size);
      MemoryRegion in = server_memory(on, size);
      int resumed = 0;
      task_context& me = co_await this_task();
      {
        scope gone(me);
        gone.spawn(receive_into(&w.server, server_memory(on, size), &resumed));
        for (int i = 0; i < 3; ++i) co_await moment(on);
      }
      co_await w.client.send(out);
      recv_operation next = w.server.recv(in).start();
      fill(out.bytes(), 2);
      co_await w.client.send(out);
      co_await next;
      CHECK(filled(in.bytes(), 2));
      CHECK(resumed == 0);
    }
  });
}

TEST_CASE("D1: a coroutine destroyed while sending from a pool; the message arrives whole") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (std::size_t size : {small, large}) {
      CAPTURE(size);
      wire w = co_await connect(on);
      MemoryRegion in = server_memory(on, size);
      BufferPool pool(on.client_context(), size, 1);
      task_context& me = co_await this_task();
      {
        scope gone(me);
        gone.spawn(send_pooled(&w.client, pool.take().value(), size));
        co_await moment(on);
      }
      recv_operation receiving = w.server.recv(in).start();
      const Received got = co_await receiving;
      CHECK(got.bytes == size);
      CHECK(filled(in.bytes(), size));
      while (pool.available() == 0) co_await moment(on);
      CHECK(pool.available() == 1);
    }
  });
}

TEST_CASE("D1: an endpoint destroyed with everything in flight returns every buffer once") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (int passes : {0, 1, 5}) {
      CAPTURE(passes);
      wire w = co_await connect(on);
      BufferPool pool(on.client_context(), large, 8);
      MemoryRegion target = server_memory(on, large);
      MemoryRegion local = client_memory(on, large);
      const RemoteMemory remote = exported(target);
      {
        std::vector<send_operation> sends;
        for (int i = 0; i < 4; ++i)
          sends.push_back(w.client.send(pool.take().value(), large).start());
        std::vector<message_operation> recvs;
        for (int i = 0; i < 4; ++i) recvs.push_back(w.client.recv(pool).start());
        send_operation reading = w.client.read(remote, local).start();
        for (int i = 0; i < passes; ++i) co_await moment(on);
        w.client = Endpoint();
        for (send_operation& op : sends) {
          const result<void> r = co_await op.result();
          if (!r.ok()) CHECK(r.code() == errc::flushed);
        }
        for (message_operation& op : recvs) {
          const result<Message> r = co_await op.result();
          CHECK(r.code() == errc::flushed);
        }
        static_cast<void>(co_await reading.result());
      }
      CHECK(pool.available() == 8);
    }
  });
}

namespace {

// One message, and one receive that is canceled some passes after both have started. Whichever of
// the two wins the race, the message is received exactly once, by this receive or by the next.
task<> race_once(stage& on, wire& w, BufferPool& pool, Slice out, std::uint64_t number, dice& d,
                 std::uint64_t& canceled) {
  *reinterpret_cast<std::uint64_t*>(out.data()) = number;
  const bool receive_first = d.below(2) == 0;
  std::optional<send_operation> sending;
  if (!receive_first) sending.emplace(w.client.send(out).start());
  message_operation receiving = w.server.recv(pool).start();
  if (receive_first) sending.emplace(w.client.send(out).start());
  for (std::size_t i = d.below(4); i > 0; --i) co_await moment(on);
  receiving.cancel();
  result<Message> got = co_await receiving.result();
  if (!got.ok()) {
    CHECK(got.code() == errc::canceled);
    ++canceled;
    message_operation again = w.server.recv(pool);
    got = co_await again.result();
  }
  CHECK(got.ok());
  if (got.ok()) CHECK(*reinterpret_cast<std::uint64_t*>(got->bytes().data()) == number);
  send_operation& sent = *sending;
  co_await sent;
}

}  // namespace

TEST_CASE(
    "K10: canceling against matching: exactly one outcome, and no message is lost [1e5 times; 2000 "
    "on verbs]") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint64_t seed = 20;
    const std::uint64_t rounds = rounds_under_test(100'000, 2'000);
    CAPTURE(seed);
    wire w = co_await connect(on);
    BufferPool pool(on.server_context(), 64, 4);
    MemoryRegion out = client_memory(on, 8);
    dice d(seed);
    std::uint64_t canceled = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) co_await race_once(on, w, pool, out, i, d, canceled);
    CHECK(canceled > 0);
    CHECK(canceled < rounds);
    CHECK(pool.available() == 4);
    CHECK(w.client.inflight() == 0);
    CHECK(w.server.inflight() == 0);
  });
}

TEST_CASE(
    "K10: nothing overtakes the message that a canceled receive into a pool is still to take") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    BufferPool pool(on.server_context(), 64, 4);
    MemoryRegion out = client_memory(on, 64);
    MemoryRegion in = server_memory(on, 64);
    for (const bool arrived : {true, false}) {
      CAPTURE(arrived);
      message_operation given_up = w.server.recv(pool).start();
      given_up.cancel();
      const result<Message> canceled = co_await given_up.result();
      CHECK(canceled.code() == errc::canceled);
      fill(out.bytes(), 41);
      if (arrived) co_await w.client.send(out);
      const result<Received> mixed = co_await w.server.recv(in).result();
      CHECK(mixed.code() == errc::bad_state);
      if (!arrived) co_await w.client.send(out);
      {
        const Message first = co_await w.server.recv(pool);
        CHECK(filled(first.bytes(), 41));
      }
      recv_operation second = w.server.recv(in).start();
      fill(out.bytes(), 42);
      co_await w.client.send(out);
      co_await second;
      CHECK(filled(in.bytes(), 42));
    }
    CHECK(pool.available() == 4);
  });
}

TEST_CASE(
    "K10: receives that are canceled in any order leave their messages in the order of sending") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    constexpr std::uint64_t count = 6;
    BufferPool pool(on.server_context(), 8, 2 * count);
    dice d(23);
    for (int round = 0; round < 50; ++round) {
      CAPTURE(round);
      std::vector<message_operation> posted;
      for (std::uint64_t i = 0; i < count; ++i) posted.push_back(w.server.recv(pool).start());
      std::array<std::size_t, count> order{0, 1, 2, 3, 4, 5};
      for (std::size_t left = count; left > 0; --left) {
        std::swap(order[left - 1], order[d.below(left)]);
        message_operation& next = posted[order[left - 1]];
        next.cancel();
        CHECK(next.take_result().code() == errc::canceled);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        co_await w.client.send_inline(std::as_bytes(std::span(&i, 1)));
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        const Message got = co_await w.server.recv(pool);
        CHECK(*reinterpret_cast<const std::uint64_t*>(got.bytes().data()) == i);
      }
    }
    CHECK(pool.available() == 2 * count);
  });
}

TEST_CASE(
    "K10: a message comes to the receive behind a canceled one, posted or waiting for a place") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow;
    shallow.recv_depth = 1;
    for (const bool waiting : {false, true}) {
      CAPTURE(waiting);
      const endpoint_options server = waiting ? shallow : endpoint_options();
      wire w = co_await connect(on, endpoint_options(), server);
      const std::size_t posted = waiting ? w.server.actual().recv_depth : 1;
      BufferPool pool(on.server_context(), 8, static_cast<std::uint32_t>(posted + 1));
      std::vector<message_operation> given_up;
      for (std::size_t i = 0; i < posted; ++i) given_up.push_back(w.server.recv(pool).start());
      message_operation left = w.server.recv(pool).start();
      for (message_operation& op : given_up) op.cancel();
      const std::uint64_t number = 7;
      co_await w.client.send_inline(std::as_bytes(std::span(&number, 1)));
      {
        const Message got = co_await left;
        CHECK(*reinterpret_cast<const std::uint64_t*>(got.bytes().data()) == number);
      }
      co_await w.server.close();
      while (w.server.inflight() != 0) co_await moment(on);
      CHECK(pool.available() == posted + 1);
    }
  });
}

TEST_CASE("K10: receives made before there was a connection move up, and are taken over") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint32_t count = 300;
    Listener listener = on.server().listen(on.server_address()).value();
    connect_options to;
    to.endpoint.recv_depth = 1;
    Endpoint client = on.client().endpoint(on.reach(listener), to).value();
    BufferPool pool(on.client_context(), 8, count + 1);
    std::vector<message_operation> receiving;
    for (std::uint32_t i = 0; i < count; ++i) receiving.push_back(client.recv(pool).start());
    message_operation late = client.recv(pool);
    ConnectionRequest request = co_await listener.next();
    Endpoint server = co_await request.accept();
    while (client.state() == endpoint_state::connecting) co_await client.state_changed();
    REQUIRE(client.actual().recv_depth < count);
    receiving[0].cancel();
    std::uint64_t number = 7;
    co_await server.send_inline(std::as_bytes(std::span(&number, 1)));
    message_operation& second = receiving[1];
    const Message first_come = co_await second;
    CHECK(*reinterpret_cast<const std::uint64_t*>(first_come.bytes().data()) == 7);
    for (std::uint32_t i = 2; i < count; ++i) receiving[i].cancel();
    late.start();
    number = 8;
    co_await server.send_inline(std::as_bytes(std::span(&number, 1)));
    const Message last_come = co_await late;
    CHECK(*reinterpret_cast<const std::uint64_t*>(last_come.bytes().data()) == 8);
    CHECK(client.counters().bytes_received == 16);
  });
}

namespace {

// Receives, cancels and messages in any order. Every message matches the oldest pending receive, at
// once if one exists; awaiting that receive completes.
struct any_order {
  any_order(stage& s, wire& between, BufferPool& from, std::uint64_t seed)
      : on(s), w(between), pool(from), d(seed) {}

  stage& on;
  wire& w;
  BufferPool& pool;
  dice d;
  std::list<message_operation> receiving;
  std::deque<send_operation> sending;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;

  void send() {
    while (!sending.empty() && sending.front().done()) sending.pop_front();
    if (sending.size() == 40) return;
    sending.push_back(w.client.send_inline(std::as_bytes(std::span(&sent, 1))).start());
    ++sent;
  }

  void took(const Message& m) {
    CHECK(*reinterpret_cast<const std::uint64_t*>(m.bytes().data()) == received);
    ++received;
  }

  void cancel_one() {
    const auto which =
        std::next(receiving.begin(), static_cast<std::ptrdiff_t>(d.below(receiving.size())));
    if (which->done()) return;  // completed with its message
    which->cancel();
    const result<Message> got = which->take_result();
    CHECK(got.code() == errc::canceled);
    receiving.erase(which);
  }

  task<> receive_all() {
    while (received < sent && !receiving.empty()) {
      message_operation& op = receiving.front();
      const Message got = co_await op;
      took(got);
      receiving.pop_front();
    }
  }

  task<> step() {
    switch (d.below(4)) {
      case 0: send(); break;
      case 1:
        if (!receiving.empty()) cancel_one();
        break;
      case 2: co_await moment(on); break;
      default:
        if (receiving.size() < 12) receiving.push_back(w.server.recv(pool).start());
    }
    if (d.below(16) == 0) co_await receive_all();
  }
};

}  // namespace

TEST_CASE(
    "K10: receives posted and canceled in any order: each message to the oldest that is left "
    "[20,000 steps; 2000 on verbs]") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint64_t seed = 24;
    CAPTURE(seed);
    endpoint_options shallow;
    shallow.recv_depth = 4;
    wire w = co_await connect(on, endpoint_options(), shallow);
    BufferPool pool(on.server_context(), 8, 512);
    any_order all(on, w, pool, seed);
    const std::uint64_t steps = rounds_under_test(20'000, 2'000);
    for (std::uint64_t i = 0; i < steps; ++i) co_await all.step();
    while (all.received < all.sent) {
      all.receiving.push_back(w.server.recv(pool).start());
      co_await all.receive_all();
    }
    for (send_operation& op : all.sending) co_await op;
    CHECK(all.received > steps / 20);
    all.receiving.clear();
    co_await w.server.close();
    while (w.server.inflight() != 0) co_await moment(on);
    CHECK(pool.available() == 512);
  });
}

TEST_CASE(
    "K10: canceled receives give their buffers back, though messages come after the Endpoint") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint32_t count = 60;  // more than one poll of the completion queue returns
    BufferPool pool(on.server_context(), 64, count);
    MemoryRegion out = client_memory(on, 8);
    for (int passes = 0; passes < 4; ++passes) {
      CAPTURE(passes);
      wire w = co_await connect(on);
      std::vector<message_operation> posted;
      for (std::uint32_t i = 0; i < count; ++i) posted.push_back(w.server.recv(pool).start());
      std::vector<send_operation> sends;
      {
        const Endpoint::Batch together = w.client.batch();
        for (std::uint32_t i = 0; i < count; ++i) sends.push_back(w.client.send(out).start());
      }
      if (passes > 0) static_cast<void>(co_await posted[0].result());
      for (int i = 1; i < passes; ++i) co_await moment(on);
      for (message_operation& op : posted) op.cancel();
      w.server = Endpoint();
      posted.clear();
      for (send_operation& op : sends) static_cast<void>(co_await op.result());
      while (on.server().counters().inflight != 0) co_await moment(on);
      CHECK(pool.available() == count);
    }
  });
}

TEST_CASE("K10: what waits for a place in the queue is withdrawn at once; what is posted is not") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow;
    shallow.recv_depth = 1;
    wire w = co_await connect(on, endpoint_options(), shallow);
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8 * 8);
    std::vector<recv_operation> recvs;
    const std::size_t depth = w.server.actual().recv_depth;
    for (std::size_t i = 0; i < depth + 2; ++i)
      recvs.push_back(w.server.recv(in.all().first(8)).start());
    recvs[depth].cancel();
    CHECK(recvs[depth].done());
    recvs[0].cancel();
    CHECK_FALSE(recvs[0].done());
    for (std::size_t i = 0; i < depth + 1; ++i) co_await w.client.send(out);
    const result<Received> withdrawn = co_await recvs[depth].result();
    CHECK(withdrawn.code() == errc::canceled);
    for (std::size_t i = 0; i < depth + 2; ++i) {
      if (i == depth) continue;
      recv_operation& receiving = recvs[i];
      const Received got = co_await receiving;
      CHECK(got.bytes == 8);
    }
  });
}

namespace {

// Fewer messages under a sanitizer, which is slow.
std::uint64_t messages_raced() { return rounds_under_test(100'000, 2'000); }

// Shared by the two threads of a race: the number of messages the receiving side has received.
struct progress {
  std::atomic<std::uint64_t> received{0};

  void count() noexcept {
    received.fetch_add(1);
    received.notify_one();
  }
  void wait_for(std::uint64_t number) const noexcept {
    std::uint64_t now = received.load();
    for (int i = 0; i < 10'000 && now < number; ++i) now = received.load();
    for (; now < number; now = received.load()) received.wait(now);
  }
};

// Sends a burst of messages as fast as it can, waits until they are received, and repeats. A
// message arrives while the other side has a receive posted, while it cancels one, or while it has
// none.
task<> send_in_bursts(host* at, std::string to, const progress* p) {
  Endpoint e = co_await at->worker.connect(std::move(to));
  MemoryRegion out = at->context.allocate(8).value();
  dice d(22);
  for (std::uint64_t i = 0; i < messages_raced();) {
    const std::uint64_t end = std::min(i + 1 + d.below(6), messages_raced());
    for (; i < end; ++i) {
      out.as<std::uint64_t>()[0] = i;
      co_await e.send(out);
    }
    p->wait_for(end);
  }
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
}

struct race_outcomes {
  std::uint64_t canceled = 0;
  std::uint64_t otherwise = 0;     // neither received nor canceled
  std::uint64_t out_of_order = 0;  // includes lost and duplicated messages
};

// Posts `at_once` receives at a time and cancels all of them after some passes.
task<> receive_and_cancel(Endpoint& e, BufferPool& pool, std::size_t at_once, progress& p,
                          race_outcomes& outcomes) {
  dice d(21);
  std::uint64_t next = 0;
  while (next < messages_raced()) {
    std::vector<message_operation> receiving;
    for (std::size_t i = 0; i < at_once; ++i) receiving.push_back(e.recv(pool).start());
    for (std::size_t turns = d.below(4); turns > 0; --turns) co_await yield();
    for (message_operation& op : receiving) op.cancel();
    for (message_operation& op : receiving) {
      const result<Message> got = co_await op.result();
      if (!got.ok()) {
        ++(got.code() == errc::canceled ? outcomes.canceled : outcomes.otherwise);
        continue;
      }
      if (*reinterpret_cast<const std::uint64_t*>(got->bytes().data()) != next) {
        ++outcomes.out_of_order;
      }
      ++next;
      p.count();
    }
  }
  co_await e.close();
  // Canceled receives that were never matched are flushed.
  while (e.inflight() != 0) co_await yield();
}

task<Endpoint> accept_one(Listener& listener) {
  ConnectionRequest request = co_await listener.next();
  co_return co_await request.accept();
}

}  // namespace

TEST_CASE(
    "K10: canceling against a peer that sends from its own thread: each message is received once, "
    "in order [1e5 messages; 2e4 under a sanitizer, 2e3 on verbs]" *
    not_on(transport::kind::sim,
           "a simulated network lives on one reactor, and so in one thread")) {
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(at_once);
    progress p;
    host h;
    Listener listener = h.worker.listen(own_host() + ":0").value();
    const std::string address = own_host() + ":" + std::to_string(listener.bound().port);
    std::thread peer([&p, address] {
      host other(wait_mode::event);
      other.worker.run(send_in_bursts(&other, address, &p));
    });
    BufferPool pool(h.context, 64, 8);
    race_outcomes outcomes;
    {
      Endpoint e = h.worker.run(accept_one(listener));
      h.worker.run(receive_and_cancel(e, pool, at_once, p, outcomes));
      CHECK(e.inflight() == 0);
    }
    peer.join();
    CHECK(p.received.load() == messages_raced());
    CHECK(outcomes.canceled > 0);
    CHECK(outcomes.otherwise == 0);
    CHECK(outcomes.out_of_order == 0);
    CHECK(pool.available() == pool.count());
  }
}

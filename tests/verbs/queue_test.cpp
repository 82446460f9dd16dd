// Completion queues that never overflow, and requests without a completion.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

task<> many_connections(stage& on, std::size_t count) {
  std::vector<wire> wires;
  for (std::size_t i = 0; i < count; ++i) {
    wire w = co_await connect(on);
    wires.push_back(std::move(w));
  }
  constexpr std::size_t each = 100;  // within the default depth
  MemoryRegion out = client_memory(on, 8);
  MemoryRegion in = server_memory(on, 8);
  std::vector<recv_operation> recvs;
  std::vector<send_operation> sends;
  for (wire& w : wires) {
    for (std::size_t i = 0; i < each; ++i) recvs.push_back(w.server.recv(in).start());
    for (std::size_t i = 0; i < each; ++i) sends.push_back(w.client.send(out).start());
  }
  // All of them are in flight and nothing polls: the kernel fills the completion queues.
  for (send_operation& op : sends) co_await op;
  for (recv_operation& op : recvs) co_await op;
  for (wire& w : wires) CHECK(w.client.state() == endpoint_state::connected);
}

// Number of objects of a kind that the kernel counts on the device: "0: rxe0: pd 2 cq 3 qp 5 ...".
std::string on_device(const std::string& what) {
  FILE* const told = ::popen("rdma resource show", "r");
  REQUIRE(told != nullptr);
  std::array<char, 256> line{};
  std::string all;
  while (std::fgets(line.data(), line.size(), told) != nullptr) all += line.data();
  REQUIRE(::pclose(told) == 0);
  const std::size_t at = all.find(" " + what + " ");
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + what.size() + 2;
  return all.substr(from, all.find(' ', from) - from);
}

}  // namespace

TEST_CASE("L4: sixty connections with full queues share completion queues that never overflow") {
  for (const char* entries : {"256", "4096"}) {
    CAPTURE(entries);
    ::setenv("CORDMA_VERBS_CQ_ENTRIES", entries, 1);
    stage s;
    s.play([](stage& on) -> task<> { co_await many_connections(on, 60); });
  }
  ::unsetenv("CORDMA_VERBS_CQ_ENTRIES");
}

namespace {

// Messages on one connection, without a pause until `stop`; each carries the next number.
struct traffic {
  bool stop = false;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

task<> send_numbers(traffic* t, Endpoint* to, MemoryRegion memory) {
  while (!t->stop) {
    memory.as<std::uint64_t>()[0] = t->sent++;
    co_await to->send(memory.all().first(8));
  }
  memory.as<std::uint64_t>()[0] = ~std::uint64_t{0};
  co_await to->send(memory.all().first(8));
}

task<> expect_numbers(traffic* t, Endpoint* from, MemoryRegion memory) {
  constexpr std::size_t posted = 64;
  std::vector<recv_operation> receives;
  for (std::size_t i = 0; i < posted; ++i) {
    receives.push_back(from->recv(memory.all().part(8 * i, 8)).start());
  }
  for (std::size_t i = 0;; i = (i + 1) % posted) {
    recv_operation& next = receives[i];
    co_await next;
    const std::uint64_t number = memory.as<std::uint64_t>()[i];
    if (number == ~std::uint64_t{0}) break;
    CHECK(number == t->received++);
    next.again(memory.all().part(8 * i, 8));
    next.start();
  }
}

task<> more_connections(traffic* t, stage* on, std::vector<wire>* wires) {
  for (int i = 0; i < 12; ++i) {
    wire w = co_await connect(*on);
    wires->push_back(std::move(w));
    const std::uint64_t before = t->received;
    while (t->received < before + 50) co_await yield();  // the traffic continues meanwhile
  }
  t->stop = true;
}

// Completion queues of 256 entries, each for one connection, that may grow to `limit`.
struct small_queues {
  small_queues(const char* limit, const char* calls) {
    ::setenv("CORDMA_VERBS_CQ_ENTRIES", "256", 1);
    ::setenv("CORDMA_VERBS_CQ_LIMIT", limit, 1);
    ::setenv("CORDMA_VERBS_CALLS", calls, 1);
  }
  small_queues(const small_queues&) = delete;
  small_queues& operator=(const small_queues&) = delete;
  ~small_queues() {
    for (const char* name :
         {"CORDMA_VERBS_CQ_ENTRIES", "CORDMA_VERBS_CQ_LIMIT", "CORDMA_VERBS_CALLS"}) {
      ::unsetenv(name);
    }
  }
};

int entries_of(const Endpoint& e) {
  const std::vector<transport::property> all = e.properties();
  const auto at = std::ranges::find(all, "cq_entries", &transport::property::name);
  REQUIRE(at != all.end());
  return std::stoi(at->value);
}

task<> grow_under_load(stage& on, bool by_more_queues) {
  std::vector<wire> wires;
  wire first = co_await connect(on);
  wires.push_back(std::move(first));
  wires.reserve(20);
  const int queues = std::stoi(on_device("cq"));
  const int entries = entries_of(wires[0].client);
  traffic t;
  task_context& me = co_await this_task();
  scope all(me);
  all.spawn(expect_numbers(&t, &wires[0].server, server_memory(on, 64 * 8)));
  all.spawn(send_numbers(&t, &wires[0].client, client_memory(on, 8)));
  all.spawn(more_connections(&t, &on, &wires));
  co_await all.join();
  CHECK(t.received == t.sent);
  for (wire& w : wires) CHECK(w.client.state() == endpoint_state::connected);
  if (by_more_queues) {
    CHECK(std::stoi(on_device("cq")) >= queues + 12);  // on each side
    CHECK(entries_of(wires[0].client) == entries);
  } else {
    CHECK(std::stoi(on_device("cq")) == queues);
    CHECK(entries_of(wires[0].client) >= 13 * 256);
    CHECK(entries_of(wires[0].server) >= 13 * 256);
  }
}

}  // namespace

TEST_CASE("Q12: room for completions grows under load: nothing is lost, and nothing overtaken") {
  for (const char* limit : {"256", "65536"}) {
    for (const char* calls : {"extended", "plain"}) {
      CAPTURE(limit);
      CAPTURE(calls);
      const small_queues small(limit, calls);
      const bool by_more_queues = limit == std::string_view("256");
      stage s;
      s.play([](stage& on, bool more) -> task<> { co_await grow_under_load(on, more); },
             by_more_queues);
    }
  }
}

TEST_CASE("L4: connections that come and go give their room in the completion queue back") {
  ::setenv("CORDMA_VERBS_CQ_ENTRIES", "1024", 1);
  stage s;
  ::unsetenv("CORDMA_VERBS_CQ_ENTRIES");
  s.play([](stage& on) -> task<> {
    { const wire first = co_await connect(on); }
    const std::string queues = on_device("cq");
    for (int i = 0; i < 100; ++i) {
      wire w = co_await connect(on);
      MemoryRegion in = server_memory(on, 8);
      recv_operation abandoned = w.server.recv(in).start();
      w.client.abort();
      const result<Received> r = co_await abandoned.result();
      CHECK(r.code() == errc::flushed);
    }
    CHECK(on_device("cq") == queues);
  });
}

TEST_CASE("L7: a datagram port that goes while it is in groups leaves nothing on the device") {
  stage s;
  s.play([](stage& on) -> task<> {
    { const DatagramEndpoint first = on.client().datagram().value(); }
    const std::string before = on_device("qp");
    {
      DatagramEndpoint port = on.client().datagram().value();
      CHECK(port.join({"239.0.0.1", 0}).ok());
      CHECK(port.join({"some name", 7}).ok());
      CHECK(on_device("qp") != before);
    }
    CHECK(on_device("qp") == before);
    co_return;
  });
}

TEST_CASE("L5: of a batch, the request that fails is told to its own awaiter") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t bad = 41;  // in the middle of the requests behind one doorbell
    wire w = co_await connect(on);
    MemoryRegion data = client_memory(on, 8);
    MemoryRegion target = server_memory(on, 100 * 8);
    const RemoteMemory remote = exported(target);
    MemoryRegion closed = server_memory(on, 8, access::local_write | access::remote_read);
    const RemoteMemory unwritable = exported(closed);
    fill(data.bytes(), 3);
    std::vector<send_operation> writes;
    {
      const Endpoint::Batch together = w.client.batch();
      for (std::size_t i = 0; i < 100; ++i) {
        const RemoteSlice to =
            i == bad ? unwritable.slice(0, 8).value() : remote.slice(i * 8, 8).value();
        writes.push_back(w.client.write(to, data).start());
      }
    }
    for (std::size_t i = 0; i < 100; ++i) {
      CAPTURE(i);
      send_operation& op = writes[i];
      const result<void> r = co_await op.result();
      CHECK(r.code() == (i < bad ? errc::ok : i == bad ? errc::remote_access : errc::flushed));
    }
    CHECK(all_zero(target.bytes().subspan((bad + 1) * 8)));
    CHECK(all_zero(closed.bytes()));
  });
}

TEST_CASE("L5: depth 64, batches of 16: the queue is never too full [1e6 writes]") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options o;
    o.send_depth = 64;
    wire w = co_await connect(on, o, o);
    MemoryRegion data = client_memory(on, 64);
    MemoryRegion target = server_memory(on, 64);
    const RemoteMemory remote = exported(target);
    const std::uint64_t rounds = rounds_under_test(1'000'000) / 16;
    const std::size_t depth = w.client.actual().send_depth;
    std::deque<send_operation> writes;
    std::size_t fullest = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      {
        const Endpoint::Batch together = w.client.batch();
        for (int i = 0; i < 16; ++i) writes.push_back(w.client.write(remote, data).start());
      }
      fullest = std::max(fullest, w.client.inflight());
      while (writes.size() > depth) {  // the next batch does not find enough free slots
        send_operation& oldest = writes.front();
        co_await oldest;
        writes.pop_front();
      }
    }
    for (send_operation& op : writes) co_await op;
    CHECK(fullest == depth);
    CHECK(w.client.state() == endpoint_state::connected);
    CHECK(w.client.inflight() == 0);
  });
}

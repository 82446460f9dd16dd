// Several Contexts of one kind, each with a Worker, on one reactor, like hosts of a network.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint64_t talk_rounds = 100;
constexpr std::size_t talk_bytes = 5000;

// A Context and a Worker that share the loop of a stage with others.
struct member {
  member(stage& s, const std::string& named)
      : context(options(s, named)),
        worker(context, s.loop()),
        listener(worker.listen(here(s, named)).value()) {}
  static context_options options(stage& s, const std::string& named) {
    context_options o;
    if (s.over() == transport::kind::sim) {
      o.domains.push_back(s.net().make_domain(named));
    } else {
      o.transports = {s.over()};
    }
    return o;
  }
  static std::string here(const stage& s, const std::string& named) {
    return (s.over() == transport::kind::sim ? named : own_host()) + ":0";
  }
  Context context;
  Worker worker;
  Listener listener;
};

struct talking {
  wire ends;
  member* from;
  member* to;
  std::uint64_t rounds = 0;
  std::uint64_t wrong = 0;
};

task<> ask(talking* t, std::uint64_t seed, std::vector<std::uint64_t>* finished) {
  MemoryRegion out = t->from->context.allocate(talk_bytes).value();
  MemoryRegion in = t->from->context.allocate(talk_bytes).value();
  while (t->rounds < talk_rounds) {
    fill(out.bytes(), seed + t->rounds);
    recv_operation answer = t->ends.client.recv(in).start();
    co_await t->ends.client.send(out);
    co_await answer;
    if (!filled(in.bytes(), seed + t->rounds)) ++t->wrong;
    ++t->rounds;
  }
  finished->push_back(seed);
}

task<> answer(talking* t) {
  MemoryRegion room = t->to->context.allocate(talk_bytes).value();
  for (std::uint64_t i = 0; i < talk_rounds; ++i) {
    co_await t->ends.server.recv(room);
    co_await t->ends.server.send(room);
  }
}

task<talking> join_members(member* from, member* to) {
  connect_operation connecting = from->worker.connect(to->listener.bound().text()).start();
  ConnectionRequest request = co_await to->listener.next();
  Endpoint server = co_await request.accept();
  Endpoint client = co_await connecting;
  wire ends(std::move(client), std::move(server));
  talking t(std::move(ends), from, to);
  co_return t;
}

}  // namespace

TEST_CASE(
    "D2: four Contexts with a Worker each on one reactor: all talk to all at once, and none waits "
    "for another to end") {
  for (const wait_mode mode : waits_under_test({wait_mode::polling, wait_mode::event})) {
    CAPTURE(name(mode));
    stage s(stage_options{.mode = mode});
    s.play([](stage& on) -> task<> {
      std::vector<std::unique_ptr<member>> members;
      for (const char* named : {"one", "two", "three", "four"}) {
        members.push_back(std::make_unique<member>(on, named));
      }
      std::vector<talking> pairs;
      for (const auto& from : members) {
        for (const auto& to : members) {
          if (from == to) continue;
          talking t = co_await join_members(from.get(), to.get());
          pairs.push_back(std::move(t));
        }
      }
      std::vector<std::uint64_t> finished;
      task_context& me = co_await this_task();
      scope talk(me);
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        talk.spawn(answer(&pairs[i]));
        talk.spawn(ask(&pairs[i], i << 32, &finished));
      }
      while (finished.empty()) co_await moment(on);
      for (const talking& t : pairs) CHECK(t.rounds > 0);
      co_await talk.join();
      CHECK(finished.size() == pairs.size());
      for (const talking& t : pairs) CHECK(t.wrong == 0);
      for (const auto& each : members) CHECK(each->worker.counters().endpoints == 6);
    });
  }
}

namespace {

constexpr std::size_t guarded = 4096;  // bytes

// Each of the operations for which a key is valid only on its own connection's Context. They use
// fresh connections, because a refused operation ends its connection.
enum class attempt : std::uint8_t { write, read, add, swap };

task<errc> try_with_foreign_key(Endpoint& e, attempt what, RemoteSlice foreign, Slice local) {
  const RemoteSlice word = foreign.slice(64, 8).value();
  if (what == attempt::write || what == attempt::read) {
    const bool writes = what == attempt::write;
    send_operation op = writes ? e.write(foreign, local) : e.read(foreign, local);
    const result<void> r = co_await op.result();
    co_return r.code();
  }
  atomic_operation op = what == attempt::add ? e.fetch_add(word, 1) : e.compare_swap(word, 0, 1);
  const result<std::uint64_t> r = co_await op.result();
  co_return r.code();
}

}  // namespace

TEST_CASE("K5: a key that is used on an endpoint to another host is refused, and no byte changes") {
  stage s;
  s.play([](stage& on) -> task<> {
    member client(on, "asking");
    member owner(on, "owner");
    member other(on, "other");
    MemoryRegion owned = owner.context.allocate(guarded, every_right).value();
    MemoryRegion others = other.context.allocate(guarded, every_right).value();
    MemoryRegion local = client.context.allocate(guarded).value();
    const RemoteMemory key = exported(owned);
    fill(owned.bytes(), 1);
    fill(others.bytes(), 2);
    for (const attempt what : {attempt::write, attempt::read, attempt::add, attempt::swap}) {
      CAPTURE(static_cast<int>(what));
      fill(local.bytes(), 3);
      talking right = co_await join_members(&client, &owner);
      talking wrong = co_await join_members(&client, &other);
      const errc refused =
          co_await try_with_foreign_key(wrong.ends.client, what, key.all(), local.all());
      CHECK(name(refused) == "remote_access");
      CHECK(filled(local.bytes(), 3));
      CHECK(filled(owned.bytes(), 1));
      CHECK(filled(others.bytes(), 2));
      CHECK(wrong.ends.client.state() == endpoint_state::closed);
      co_await right.ends.client.read(key, local);  // valid on its own connection
      CHECK(filled(local.bytes(), 1));
    }
  });
}

TEST_CASE("K5: any part of exported memory can be used, and the bytes around it stay") {
  stage s;
  s.play([](stage& on) -> task<> {
    member client(on, "asking");
    member owner(on, "owner");
    MemoryRegion owned = owner.context.allocate(guarded, every_right).value();
    MemoryRegion local = client.context.allocate(guarded).value();
    const RemoteMemory key = exported(owned);
    talking t = co_await join_members(&client, &owner);
    Endpoint& e = t.ends.client;
    dice d(5);
    std::vector<std::byte> expected(guarded);
    for (int round = 0; round < 300; ++round) {
      const std::size_t at = d.below(guarded);
      const std::size_t length = d.below(guarded - at + 1);
      CAPTURE(at);
      CAPTURE(length);
      const RemoteSlice part = key.slice(at, length).value();
      const Slice piece = local.all().first(length);
      fill(piece.bytes(), d.next());
      std::copy(piece.bytes().begin(), piece.bytes().end(),
                expected.begin() + static_cast<std::ptrdiff_t>(at));
      co_await e.write(part, piece);
      std::fill(piece.bytes().begin(), piece.bytes().end(), std::byte{0});
      co_await e.read(part, piece);
      CHECK(std::equal(piece.bytes().begin(), piece.bytes().end(),
                       expected.begin() + static_cast<std::ptrdiff_t>(at)));
      CHECK(std::equal(expected.begin(), expected.end(), owned.bytes().begin()));
      const std::size_t word = d.below(guarded / 8);
      const std::uint64_t before = owned.as<std::uint64_t>()[word];
      const std::uint64_t old = co_await e.fetch_add(key.slice(word * 8, 8).value(), 1);
      CHECK(old == before);
      CHECK(owned.as<std::uint64_t>()[word] == before + 1);
      std::copy(owned.bytes().begin(), owned.bytes().end(), expected.begin());
    }
  });
}

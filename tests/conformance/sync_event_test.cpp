// A SyncEvent that peers publish to and subscribe to: one word of its owner, used over connections.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/memory/blob.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

using namespace cordma;
using namespace cordma::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t most = ~std::uint64_t{0};
constexpr sync_event_options open_to_peers{.publisher = sync_location::remote,
                                           .subscriber = sync_location::remote};
constexpr sync_event_options unannounced{.publisher = sync_location::remote,
                                         .subscriber = sync_location::remote,
                                         .notices = sync_notices::none};

// The server's event as the client imports it, over the client's end of a connection.
RemoteSyncEvent imported(stage& on, const SyncEvent& event, Endpoint& over) {
  const std::vector<std::byte> blob = event.export_remote().value();
  RemoteSyncEvent remote = RemoteSyncEvent::import(on.client_context(), blob).value();
  remote.start(over).value();
  return remote;
}

// A connection, and an event that listens on the server's end.
struct pair_of_ends {
  pair_of_ends(stage& on, wire connected, const task_context& me,
               const sync_event_options& options = open_to_peers)
      : w(std::move(connected)), event(on.server_context(), options), listening(me) {
    event.start(on.server()).value();
    listening.spawn(event.listen(w.server));
    remote.emplace(imported(on, event, w.client));
  }
  wire w;
  SyncEvent event;
  std::optional<RemoteSyncEvent> remote;
  scope listening;
};

task<> hang_up(pair_of_ends* ends) {
  co_await ends->w.client.close();
  co_await ends->listening.join();
}

// Waits until the peer reads this value.
task<> until_equal(stage* on, RemoteSyncEvent* remote, std::uint64_t value) {
  std::uint64_t seen = co_await remote->get();
  while (seen != value) {
    co_await moment(*on);
    seen = co_await remote->get();
  }
}

task<> note(SyncEvent* event, std::uint64_t threshold, std::vector<std::uint64_t>* order) {
  co_await event->wait_gt(threshold);
  order->push_back(threshold);
}

task<errc> outcome(task<std::uint64_t> of) {
  try {
    co_await std::move(of);
  } catch (const error& e) {
    co_return e.condition();
  }
  co_return errc::ok;
}
task<errc> outcome(task<> of) {
  try {
    co_await std::move(of);
  } catch (const error& e) {
    co_return e.condition();
  }
  co_return errc::ok;
}

}  // namespace

TEST_CASE("E9, E10: owner and peer take turns by waiting and reading, with values beyond 2^32") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint64_t first = 0xD0CA'0000'D0CA;
    wire w = co_await connect(on);
    task_context& me = co_await this_task();
    pair_of_ends ends(on, std::move(w), me);
    std::vector<std::uint64_t> seen;
    scope owner(me);
    owner.spawn([](SyncEvent* event, std::vector<std::uint64_t>* values) -> task<> {
      const std::uint64_t set = co_await event->wait_gt(first - 1);
      values->push_back(set);
      co_await event->set(first + 1);
      const std::uint64_t last = co_await event->wait_gt(most - 1);
      values->push_back(last);
    }(&ends.event, &seen));
    const std::uint64_t before = co_await ends.remote->get();
    CHECK(before == 0);
    co_await ends.remote->set(first);
    co_await until_equal(&on, &*ends.remote, first + 1);
    co_await ends.remote->set(most);
    co_await owner.join();
    CHECK(seen == std::vector<std::uint64_t>{first, most});
    co_await hang_up(&ends);
  });
}

namespace {

constexpr std::uint64_t publishers = 4;

task<> add_many(RemoteSyncEvent* remote, std::uint64_t adds, std::vector<std::uint64_t>* fetched) {
  for (std::uint64_t i = 0; i < adds; ++i) {
    const std::uint64_t before = co_await remote->add(1);
    fetched->push_back(before);
  }
}

task<> watch(stage* on, SyncEvent* event, RemoteSyncEvent* remote, std::uint64_t last) {
  std::uint64_t here = 0;
  std::uint64_t there = 0;
  while (here < last || there < last) {
    const std::uint64_t local = co_await event->get();
    const std::uint64_t read = co_await remote->get();
    REQUIRE(local >= here);
    REQUIRE(read >= there);
    REQUIRE(read >= local);
    here = local;
    there = read;
    co_await moment(*on);
  }
}

}  // namespace

TEST_CASE(
    "E5, E6: adds over four connections: none is lost, none fetched twice, none seen undone "
    "[1e5 each]") {
  stage s;
  s.play([](stage& on) -> task<> {
    const std::uint64_t adds_each = rounds_under_test(100'000);
    SyncEvent event(on.server_context(), unannounced);
    event.start(on.server()).value();
    std::vector<wire> wires;
    for (std::uint64_t i = 0; i < publishers + 1; ++i) {
      wire w = co_await connect(on);
      wires.push_back(std::move(w));
    }
    std::vector<RemoteSyncEvent> remotes;
    for (wire& w : wires) remotes.push_back(imported(on, event, w.client));
    std::vector<std::vector<std::uint64_t>> fetched(publishers);
    task_context& me = co_await this_task();
    scope adding(me);
    adding.spawn(watch(&on, &event, &remotes.back(), publishers * adds_each));
    for (std::uint64_t i = 0; i < publishers; ++i) {
      adding.spawn(add_many(&remotes[i], adds_each, &fetched[i]));
    }
    co_await adding.join();
    std::vector<std::uint64_t> all;
    for (const auto& mine : fetched) {
      CHECK(std::is_sorted(mine.begin(), mine.end()));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    bool permutation = all.size() == publishers * adds_each;
    for (std::uint64_t i = 0; i < all.size(); ++i) permutation = permutation && all[i] == i;
    CHECK(permutation);
  });
}

TEST_CASE("E5: adds of the owner and of a peer add up, and wrap at 2^64") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    task_context& me = co_await this_task();
    pair_of_ends ends(on, std::move(w), me);
    co_await ends.remote->set(most - 1);
    const std::uint64_t before = co_await ends.remote->add(4);
    CHECK(before == most - 1);
    const result<std::uint64_t> local = co_await ends.event.add(5).result();
    CHECK(local.code() == (on.caps().atomic_with_cpu ? errc::ok : errc::not_supported));
    if (local) CHECK(*local == 2);
    const std::uint64_t now = co_await ends.remote->get();
    CHECK(now == (local ? 7 : 2));
    co_await hang_up(&ends);
  });
}

namespace {

constexpr std::uint64_t flips = 2000;

task<> flip(RemoteSyncEvent* remote, int* running) {
  for (std::uint64_t i = 0; i < flips; ++i) {
    const std::uint64_t value = i % 2 == 0 ? most : 0;
    co_await remote->set(value);
  }
  --*running;
}

}  // namespace

TEST_CASE("E4: a counter that flips between 0 and all ones is never seen mixed, here or there") {
  stage s;
  s.play([](stage& on) -> task<> {
    SyncEvent event(on.server_context(), unannounced);
    event.start(on.server()).value();
    wire first = co_await connect(on);
    wire second = co_await connect(on);
    RemoteSyncEvent a = imported(on, event, first.client);
    RemoteSyncEvent b = imported(on, event, second.client);
    int running = 2;
    task_context& me = co_await this_task();
    scope flipping(me);
    flipping.spawn(flip(&a, &running));
    flipping.spawn(flip(&b, &running));
    while (running != 0) {
      const std::uint64_t local = co_await event.get();
      const std::uint64_t read = co_await a.get();
      REQUIRE((local == 0 || local == most));
      REQUIRE((read == 0 || read == most));
    }
    co_await flipping.join();
  });
}

namespace {

// One slot of memory, passed back and forth by the counter: the owner's if odd, the peer's if even.
constexpr std::uint64_t rounds = 200;

task<> owner_side(SyncEvent* event, MemoryRegion* memory) {
  for (std::uint64_t i = 1; i < 2 * rounds; i += 2) {
    co_await event->wait_gt(i - 1);
    REQUIRE(filled(memory->bytes(), i));
    fill(memory->bytes(), i + 1);
    co_await event->set(i + 1);
  }
}

}  // namespace

TEST_CASE("E6: what was written before a set is there for whoever saw it, in both directions") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    task_context& me = co_await this_task();
    pair_of_ends ends(on, std::move(w), me);
    MemoryRegion memory = server_memory(on, 4096);
    MemoryRegion local = client_memory(on, 4096);
    const RemoteMemory remote = exported(memory);
    scope owner(me);
    owner.spawn(owner_side(&ends.event, &memory));
    for (std::uint64_t i = 1; i < 2 * rounds; i += 2) {
      fill(local.bytes(), i);
      co_await ends.w.client.write(remote, local);
      co_await ends.remote->set(i);
      co_await until_equal(&on, &*ends.remote, i + 1);
      co_await ends.w.client.read(remote, local);
      REQUIRE(filled(local.bytes(), i + 1));
    }
    co_await owner.join();
    co_await hang_up(&ends);
  });
}

TEST_CASE("E8: peers' sets and adds wake a thousand waiters in the order of their thresholds") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint64_t waiters = 1000;
    wire w = co_await connect(on);
    task_context& me = co_await this_task();
    pair_of_ends ends(on, std::move(w), me);
    std::vector<std::uint64_t> order;
    scope waiting(me);
    for (std::uint64_t i = 0; i < waiters; ++i) {
      waiting.spawn(note(&ends.event, i * 7 % waiters, &order));
    }
    while (ends.event.waiting() != waiters) co_await moment(on);
    co_await ends.remote->set(300);
    while (order.size() < 300) co_await moment(on);
    for (int i = 0; i < 100; ++i) co_await ends.remote->add(2);
    while (order.size() < 500) co_await moment(on);
    for (int i = 0; i < 100; ++i) co_await moment(on);
    CHECK(order.size() == 500);
    co_await ends.remote->add(waiters);
    co_await waiting.join();
    CHECK(order.size() == waiters);
    CHECK(std::is_sorted(order.begin(), order.end()));
    co_await hang_up(&ends);
  });
}

TEST_CASE("E8: who waited too long is not woken by the change that comes after all") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    task_context& me = co_await this_task();
    pair_of_ends ends(on, std::move(w), me);
    errc ended = errc::ok;
    try {
      co_await with_timeout(2ms, ends.event.wait_gt(0));
    } catch (const error& e) {
      ended = e.condition();
    }
    CHECK(ended == errc::timed_out);
    CHECK(ends.event.waiting() == 0);
    co_await ends.remote->set(1);
    const std::uint64_t woken = co_await ends.event.wait_gt(0);
    CHECK(woken == 1);
    co_await hang_up(&ends);
  });
}

namespace {

duration cpu_used() {
  rusage r{};
  ::getrusage(RUSAGE_THREAD, &r);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(r.ru_utime) + of(r.ru_stime);
}

}  // namespace

namespace {

connect_options unasked() {
  connect_options o;
  o.endpoint.peer_timeout = std::chrono::hours(1);  // a probe of the peer would wake the reactor
  return o;
}

// Values that the owner, on a separate thread, passes to the peer.
struct owner_elsewhere {
  std::atomic<int> port{0};
  std::vector<std::byte> blob;  // written before `port`
  std::atomic<bool> asleep{false};
  std::atomic<std::chrono::steady_clock::time_point> woken{};

  template <class T, class Value>
  static void tell(std::atomic<T>& to, Value value) {
    to.store(value);
    to.notify_all();
  }
};

task<> sleep_until_changed(owner_elsewhere* shared, host* h) {
  constexpr std::uint64_t few = 16;  // passes of the reactor, none of which polls
  SyncEvent event(h->context, open_to_peers);
  event.start(h->worker).value();
  shared->blob = event.export_remote().value();
  Listener listener = h->worker.listen(own_host() + ":0").value();
  owner_elsewhere::tell(shared->port, listener.bound().port);
  ConnectionRequest request = co_await listener.next();
  Endpoint e = co_await request.accept(unasked());
  task_context& me = co_await this_task();
  scope listening(me);
  listening.spawn(event.listen(e));
  const reactor& loop = h->worker.loop();
  sync_operation<std::uint64_t> waits = event.wait_gt(0).start();
  // Time taken by other threads counts as this thread's, so one good second of several decides.
  duration used = 1s;
  for (int second = 0; second < 20 && used * 100 >= 1s; ++second) {
    const reactor_counters awake = loop.counters();
    const duration before = cpu_used();
    co_await sleep_for(1s);
    used = cpu_used() - before;
    CHECK(loop.counters().sleeps > awake.sleeps);
    CHECK(loop.counters().turns - awake.turns <= few);
  }
  CHECK(used * 100 < 1s);
  CHECK_FALSE(waits.done());
  const std::uint64_t turns = loop.counters().turns;
  owner_elsewhere::tell(shared->asleep, true);
  const std::uint64_t value = co_await waits;
  shared->woken.store(std::chrono::steady_clock::now());
  CHECK(value == 1);
  CHECK(loop.counters().turns - turns <= few);
  co_await listening.join();
}

task<> change_it(owner_elsewhere* shared, host* h) {
  shared->port.wait(0);
  Endpoint e =
      co_await h->worker.connect(own_host() + ":" + std::to_string(shared->port.load()), unasked());
  RemoteSyncEvent remote = RemoteSyncEvent::import(h->context, shared->blob).value();
  remote.start(e).value();
  shared->asleep.wait(false);
  const auto begun = std::chrono::steady_clock::now();
  co_await remote.set(1);
  co_await e.close();
  while (shared->woken.load() == std::chrono::steady_clock::time_point()) std::this_thread::yield();
  const auto late = shared->woken.load() - begun;
  MESSAGE("woken ", std::chrono::duration_cast<std::chrono::microseconds>(late).count(),
          " us after the change began");
}

}  // namespace

TEST_CASE("E8: in event mode who waits sleeps, and the change of a peer elsewhere wakes it" *
          not_on(transport::kind::sim, "its time is virtual")) {
  owner_elsewhere shared;
  std::thread owner([&shared] {
    host h(wait_mode::event);
    h.worker.run(sleep_until_changed(&shared, &h));
  });
  host h(wait_mode::event);
  h.worker.run(change_it(&shared, &h));
  owner.join();
}

TEST_CASE("E2: what a peer sets and adds shows in the program's own word") {
  stage s;
  s.play([](stage& on) -> task<> {
    alignas(8) std::uint64_t word = 40;
    const MemoryRegion region =
        on.server_context()
            .register_memory(std::as_writable_bytes(std::span(&word, 1)), every_right)
            .value();
    sync_event_options backed = open_to_peers;
    backed.backing = region;
    wire w = co_await connect(on);
    task_context& me = co_await this_task();
    pair_of_ends ends(on, std::move(w), me, backed);
    co_await ends.remote->set(50);
    const std::uint64_t set = co_await ends.event.wait_gt(49);
    CHECK(set == 50);
    CHECK(word == 50);
    co_await ends.remote->add(3);
    const std::uint64_t added = co_await ends.event.wait_gt(50);
    CHECK(added == 53);
    CHECK(word == 53);
    co_await hang_up(&ends);
  });
}

TEST_CASE("E8: a notice comes as its immediate says, for who receives it without listen()") {
  stage s;
  s.play([](stage& on) -> task<> {
    sync_event_options numbered = open_to_peers;
    numbered.notice = 0xABCD'0123;
    wire w = co_await connect(on);
    SyncEvent event(on.server_context(), numbered);
    event.start(on.server()).value();
    RemoteSyncEvent remote = imported(on, event, w.client);
    sync_operation<std::uint64_t> waits = event.wait_gt(11).start();
    std::array<recv_operation, 2> receives{w.server.recv(Slice()), w.server.recv(Slice())};
    for (recv_operation& receive : receives) receive.start();
    co_await remote.set(10);
    co_await remote.add(2);
    for (recv_operation& receive : receives) {
      const Received got = co_await receive;
      CHECK(got.op == transport::opcode::recv_write_imm);
      CHECK(got.imm == numbered.notice);
      CHECK(got.bytes == 0);
      CHECK_FALSE(waits.done());
    }
    event.look();
    const std::uint64_t met = co_await waits;
    CHECK(met == 12);
  });
}

TEST_CASE("E8: what a peer changed unannounced is found by look(), and when listen() begins") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const bool listens : {true, false}) {
      wire w = co_await connect(on);
      SyncEvent event(on.server_context(), unannounced);
      event.start(on.server()).value();
      RemoteSyncEvent remote = imported(on, event, w.client);
      sync_operation<std::uint64_t> waits = event.wait_gt(1).start();
      co_await remote.set(5);
      co_await until_equal(&on, &remote, 5);
      CHECK_FALSE(waits.done());
      task_context& me = co_await this_task();
      scope listening(me);
      if (listens) listening.spawn(event.listen(w.server));
      if (!listens) event.look();
      const std::uint64_t met = co_await waits;
      CHECK(met == 5);
      co_await w.client.close();
      co_await listening.join();
    }
  });
}

TEST_CASE("E8: listen() ends with the connection: well where it was closed, else with the reason") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const errc expected : {errc::ok, errc::flushed, errc::truncated, errc::shutdown}) {
      CAPTURE(name(expected));
      wire w = co_await connect(on);
      SyncEvent event(on.server_context(), open_to_peers);
      event.start(on.server()).value();
      MemoryRegion word = client_memory(on, 8);
      task<> listening = event.listen(w.server);
      task_context& me = co_await this_task();
      scope ending(me);
      ending.spawn([](stage* t, wire* both, SyncEvent* e, MemoryRegion* m, errc how) -> task<> {
        for (int i = 0; i < 10; ++i) co_await moment(*t);
        if (how == errc::ok) co_await both->client.close();
        if (how == errc::flushed) both->client.abort();
        if (how == errc::truncated) static_cast<void>(co_await both->client.send(*m).result());
        if (how == errc::shutdown) e->stop().value();
      }(&on, &w, &event, &word, expected));
      const errc ended = co_await outcome(std::move(listening));
      CHECK(name(ended) == name(expected));
      co_await ending.join();
    }
  });
}

TEST_CASE("E8: listen() is canceled at once, and the connection goes on") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    SyncEvent event(on.server_context(), unannounced);
    event.start(on.server()).value();
    const errc ended = co_await outcome(with_timeout(1ms, event.listen(w.server)));
    CHECK(ended == errc::timed_out);
    RemoteSyncEvent remote = imported(on, event, w.client);
    co_await remote.set(3);
    co_await until_equal(&on, &remote, 3);
    CHECK(w.server.state() == endpoint_state::connected);
  });
}

TEST_CASE("E9: peers get the rights of their location, and no others, whatever they try") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const bool publishes : {true, false}) {
      CAPTURE(publishes);
      wire w = co_await connect(on);
      SyncEvent event(on.server_context(),
                      {.publisher = publishes ? sync_location::remote : sync_location::cpu,
                       .subscriber = publishes ? sync_location::cpu : sync_location::remote,
                       .notices = sync_notices::none});
      event.start(on.server()).value();
      RemoteSyncEvent remote = imported(on, event, w.client);
      const errc set = co_await outcome(remote.set(9));
      const errc added = co_await outcome(remote.add(1));
      const errc got = co_await outcome(remote.get());
      CHECK(set == (publishes ? errc::ok : errc::not_permitted));
      CHECK(added == (publishes ? errc::ok : errc::not_permitted));
      CHECK(got == (publishes ? errc::not_permitted : errc::ok));
      // Uses the key from the blob, without RemoteSyncEvent.
      const std::vector<std::byte> blob = event.export_remote().value();
      const detail::blob word = detail::decode_sync(blob)->word;
      const RemoteSlice raw(word.addr, word.length, word.keys);
      MemoryRegion local = client_memory(on, 8);
      result<void> forced;
      if (publishes) forced = co_await w.client.read(raw, local).result();
      if (!publishes) forced = co_await w.client.write(raw, local).result();
      CHECK(forced.code() == errc::remote_access);
    }
  });
}

TEST_CASE("E9: an imported event is used once it is started, once, over a connection that fits") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    SyncEvent event(on.server_context(), unannounced);
    event.start(on.server()).value();
    const std::vector<std::byte> blob = event.export_remote().value();
    RemoteSyncEvent remote = RemoteSyncEvent::import(on.client_context(), blob).value();
    const errc early = co_await outcome(remote.get());
    CHECK(early == errc::bad_state);
    CHECK(remote.start(w.server).code() == errc::invalid_value);  // of another Context
    Endpoint nobody = on.client().prepare().value();
    CHECK(remote.start(nobody).code() == errc::not_connected);
    CHECK(remote.start(w.client).ok());
    CHECK(remote.start(w.client).code() == errc::bad_state);
    const errc now = co_await outcome(remote.get());
    CHECK(now == errc::ok);
  });
}

namespace {

task<errc> add_until_refused(RemoteSyncEvent* remote, std::uint64_t* added) {
  for (;;) {
    task<std::uint64_t> adding = remote->add(1);
    const errc how = co_await outcome(std::move(adding));
    if (how != errc::ok) co_return how;
    ++*added;
  }
}

}  // namespace

TEST_CASE("E11: an event that is destroyed while a peer adds refuses it, and later ones") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const sync_event_options& options : {open_to_peers, unannounced}) {
      wire w = co_await connect(on);
      wire later = co_await connect(on);
      auto event = std::make_unique<SyncEvent>(on.server_context(), options);
      event->start(on.server()).value();
      RemoteSyncEvent remote = imported(on, *event, w.client);
      RemoteSyncEvent afterwards = imported(on, *event, later.client);
      task_context& me = co_await this_task();
      scope others(me);
      others.spawn([](SyncEvent* e, Endpoint* from) -> task<> {
        const errc ended = co_await outcome(e->listen(*from));
        CHECK(ended == errc::shutdown);
      }(event.get(), &w.server));
      std::uint64_t added = 0;
      others.spawn([](RemoteSyncEvent* r, std::uint64_t* n) -> task<> {
        const errc refused = co_await add_until_refused(r, n);
        CHECK(name(refused) == name(errc::remote_access));
      }(&remote, &added));
      while (added < 20) co_await moment(on);
      event->stop().value();
      CHECK(event->start(on.server()).code() == errc::bad_state);
      event.reset();
      co_await others.join();
      const errc too_late = co_await outcome(afterwards.set(1));
      CHECK(name(too_late) == name(errc::remote_access));
    }
  });
}

namespace {

// The child of the process tests: publishes in every way, the last value last.
constexpr std::uint64_t last_value = 0x1234'5678'9ABC'DEF0;
constexpr std::uint64_t child_flips = 5000;

task<int> publish(host& h, std::string server) {
  Endpoint e = co_await h.worker.connect(server);
  result<RemoteSyncEvent> imported = RemoteSyncEvent::import(h.context, e.peer_data());
  if (!imported) co_return 2;
  RemoteSyncEvent remote = std::move(*imported);
  remote.start(e).value();
  for (std::uint64_t i = 0; i < child_flips; ++i) {
    const std::uint64_t value = i % 2 == 0 ? most : 0;
    co_await remote.set(value);
  }
  const std::uint64_t before = co_await remote.add(last_value);
  if (before != 0) co_return 3;
  const std::uint64_t now = co_await remote.get();
  if (now != last_value) co_return 4;
  co_await e.close();
  co_return 0;
}

// Reads the value as often as it can, and also waits for it.
task<> watch_child(host& h, Listener& listener, child_process& child) {
  SyncEvent event(h.context, open_to_peers);
  event.start(h.worker).value();
  child.wire().tell(own_host() + ":" + std::to_string(listener.bound().port));
  ConnectionRequest request = co_await listener.next();
  const std::vector<std::byte> blob = event.export_remote().value();
  connect_options with;
  with.private_data = blob;
  Endpoint e = co_await request.accept(with);
  task_context& me = co_await this_task();
  scope listening(me);
  listening.spawn(event.listen(e));
  sync_operation<std::uint64_t> last = event.wait_eq(last_value).start();
  while (!last.done()) {
    const std::uint64_t now = co_await event.get();
    REQUIRE((now == 0 || now == most || now == last_value));
    co_await yield();
  }
  co_await listening.join();
}

}  // namespace

TEST_CASE("E4, E9: another process imports the event, and what it sets is never seen mixed" *
          not_on(transport::kind::sim, "the simulator is one process by nature")) {
  child_process child([](wire_to_peer& parent) {
    const std::string server = parent.hear();
    host h(wait_mode::event);
    return h.worker.run(publish(h, server));
  });
  host h;
  Listener listener = h.worker.listen(own_host() + ":0").value();
  h.worker.run(watch_child(h, listener, child));
  CHECK(child.join() == 0);
}

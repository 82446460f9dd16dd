// Remote atomics: four processes synchronize through the memory of a fifth.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint64_t processes = 4;
constexpr std::uint64_t turns_each = 300;

// The words behind one remote key.
struct shared_words {
  std::uint64_t arrived;  // number of processes that arrived; they begin together
  std::uint64_t lock;     // 0, or the number of the process that holds it
  std::uint64_t counter;  // changed by fetch-add
  std::uint64_t guarded;  // changed by read and write, inside the lock
  std::uint64_t echoed;   // equal to `guarded` whenever no process is inside
};

task<int> contend(host& h, wire_to_peer& parent, std::uint64_t who) {
  const std::string server = parent.hear();
  Endpoint e = co_await h.worker.connect(server);
  const RemoteMemory words = RemoteMemory::import(e.peer_data()).value();
  const RemoteSlice lock = words.slice(offsetof(shared_words, lock), 8).value();
  const RemoteSlice counter = words.slice(offsetof(shared_words, counter), 8).value();
  const RemoteSlice both = words.slice(offsetof(shared_words, guarded), 16).value();
  MemoryRegion local = h.context.allocate(16).value();
  const RemoteSlice arrived = words.slice(offsetof(shared_words, arrived), 8).value();
  const std::uint64_t before = co_await e.fetch_add(arrived, 1);
  std::uint64_t here = before + 1;
  while (here < processes) here = co_await e.fetch_add(arrived, 0);
  for (std::uint64_t turn = 0; turn < turns_each; ++turn) {
    for (;;) {
      const std::uint64_t holder = co_await e.compare_swap(lock, 0, who);
      if (holder == 0) break;
      if (holder == who || holder > processes) co_return 2;
    }
    co_await e.read(both, local);
    const std::span<std::uint64_t> inside = local.as<std::uint64_t>();
    if (inside[0] != inside[1]) co_return 3;
    ++inside[0];
    ++inside[1];
    co_await e.write(both, local);
    co_await e.flush();
    const std::uint64_t mine = co_await e.compare_swap(lock, who, 0);
    if (mine != who) co_return 4;
    co_await e.fetch_add(counter, who);
  }
  co_await e.close();
  co_return 0;
}

int contender_life(wire_to_peer& parent, std::uint64_t who) {
  host h(wait_mode::event);
  return h.worker.run(contend(h, parent, who));
}

task<> serve_contenders(Listener& listener, MemoryRegion& memory,
                        std::vector<child_process>& children) {
  const std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  const std::vector<std::byte> blob = memory.export_blob().value();
  connect_options with;
  with.private_data = blob;
  std::vector<Endpoint> endpoints;
  for (child_process& child : children) {
    child.wire().tell(address);
    ConnectionRequest request = co_await listener.next();
    Endpoint e = co_await request.accept(with);
    endpoints.push_back(std::move(e));
  }
  for (Endpoint& e : endpoints) {
    while (e.state() != endpoint_state::closed) co_await e.state_changed();
  }
}

}  // namespace

TEST_CASE(
    "I11: four processes share a spin-lock of compare-swaps and a counter of fetch-adds, and lose "
    "nothing" *
    not_on({transport::kind::sim, transport::kind::test}, "both sides are one process by nature")) {
  std::vector<child_process> children;
  for (std::uint64_t who = 1; who <= processes; ++who) {
    children.emplace_back([who](wire_to_peer& w) { return contender_life(w, who); });
  }
  host h(wait_mode::event);
  Listener listener = h.worker.listen(own_host() + ":0").value();
  MemoryRegion memory = h.context.allocate(sizeof(shared_words), every_right).value();
  std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0});
  h.worker.run(serve_contenders(listener, memory, children));
  for (child_process& c : children) CHECK(c.join() == 0);
  const shared_words& words = memory.as<shared_words>()[0];
  CHECK(words.lock == 0);
  CHECK(words.guarded == processes * turns_each);
  CHECK(words.echoed == processes * turns_each);
  CHECK(words.counter == turns_each * (1 + 2 + 3 + 4));
}

namespace {

// On one host of the simulator: four Workers, each with a separate connection.
task<> contend_here(stage* on, wire* w, RemoteMemory words, std::uint64_t who,
                    std::uint64_t* refused) {
  const RemoteSlice lock = words.slice(offsetof(shared_words, lock), 8).value();
  const RemoteSlice counter = words.slice(offsetof(shared_words, counter), 8).value();
  const RemoteSlice both = words.slice(offsetof(shared_words, guarded), 16).value();
  MemoryRegion local = client_memory(*on, 16);
  for (std::uint64_t turn = 0; turn < turns_each; ++turn) {
    for (;;) {
      const std::uint64_t holder = co_await w->client.compare_swap(lock, 0, who);
      if (holder == 0) break;
      ++*refused;
    }
    co_await w->client.read(both, local);
    const std::span<std::uint64_t> inside = local.as<std::uint64_t>();
    CHECK(inside[0] == inside[1]);
    ++inside[0];
    ++inside[1];
    co_await w->client.write(both, local);
    co_await w->client.flush();
    const std::uint64_t mine = co_await w->client.compare_swap(lock, who, 0);
    CHECK(mine == who);
    co_await w->client.fetch_add(counter, who);
  }
}

}  // namespace

TEST_CASE("I11: four connections share a spin-lock and a counter, and lose nothing") {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion memory = server_memory(on, sizeof(shared_words));
    std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0});
    const RemoteMemory words = exported(memory);
    std::vector<wire> wires;
    for (std::uint64_t i = 0; i < processes; ++i) {
      wire w = co_await connect(on);
      wires.push_back(std::move(w));
    }
    // contention happens here too: one loop, and a lock held over round trips
    std::uint64_t refused = 0;
    task_context& me = co_await this_task();
    scope contenders(me);
    for (std::uint64_t i = 0; i < processes; ++i) {
      contenders.spawn(contend_here(&on, &wires[i], words, i + 1, &refused));
    }
    co_await contenders.join();
    CHECK((refused > 0 || on.caps().remote_access_is_copy));
    const shared_words& now = memory.as<shared_words>()[0];
    CHECK(now.lock == 0);
    CHECK(now.guarded == processes * turns_each);
    CHECK(now.echoed == processes * turns_each);
    CHECK(now.counter == turns_each * (1 + 2 + 3 + 4));
  });
}

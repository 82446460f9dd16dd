// The largest number of endpoints on one adapter: all of them transfer data, and all of them close.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>
#include <cstdio>

using namespace cordma;
using namespace cordma::test;

namespace {

// sim needs no descriptors. For the other transports, a fifth of the process's limit stays unused.
std::size_t as_many_as_fit(transport::kind over) {
  constexpr std::size_t most = 10'000;
  constexpr std::size_t worth_it = 300;
  if (over == transport::kind::sim) return most;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  // shm uses two descriptors on either side, and more during the handshake.
  constexpr std::size_t descriptors_each = 5;
  return std::min(worth_it, static_cast<std::size_t>(limit.rlim_cur) * 4 / 5 / descriptors_each);
}

std::size_t resident_bytes() {
  std::FILE* const f = std::fopen("/proc/self/statm", "r");
  REQUIRE(f != nullptr);
  unsigned long pages = 0;
  REQUIRE(std::fscanf(f, "%*u %lu", &pages) == 1);
  std::fclose(f);
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Shallow queues, so that the connection dominates the memory and not its queues.
endpoint_options shallow() {
  endpoint_options o;
  o.send_depth = 4;
  o.recv_depth = 4;
  return o;
}

task<> crowd(stage& on, std::size_t count) {
  std::vector<Endpoint> clients;
  std::vector<Endpoint> servers;
  clients.reserve(count);
  servers.reserve(count);
  Listener listener = on.server().listen(on.server_address()).value();
  connect_options with;
  with.endpoint = shallow();
  const std::size_t before = resident_bytes();
  while (clients.size() < count) {
    connect_operation connecting = on.client().connect(on.reach(listener), with).start();
    ConnectionRequest request = co_await listener.next();
    Endpoint server = co_await request.accept(with);
    servers.push_back(std::move(server));
    Endpoint client = co_await connecting;
    clients.push_back(std::move(client));
  }
  MemoryRegion out = client_memory(on, count * 8);
  MemoryRegion in = server_memory(on, count * 8);
  std::vector<recv_operation> recvs;
  std::vector<send_operation> sends;
  recvs.reserve(count);
  sends.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.as<std::uint64_t>()[i] = i + 1;
    recvs.push_back(servers[i].recv(in.all().part(i * 8, 8)).start());
    sends.push_back(clients[i].send(out.all().part(i * 8, 8)).start());
  }
  for (recv_operation& op : recvs) co_await op;
  for (send_operation& op : sends) co_await op;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += in.as<std::uint64_t>()[i] == i + 1 ? 0U : 1U;
  CHECK(wrong == 0);
  // Memory of both ends together. On shm the same rings of 256 KiB count eight times: two rings,
  // each mapped twice in a row, on both sides.
  const std::size_t each = (std::max(resident_bytes(), before) - before) / count;
  CAPTURE(each);
  CHECK(each < (on.over() == transport::kind::shm ? std::size_t{3} << 20 : std::size_t{64} << 10));
  CHECK(on.client().counters().endpoints == count);
  std::vector<state_operation> closings;
  closings.reserve(count);
  for (Endpoint& e : clients) closings.push_back(e.close().start());
  for (state_operation& op : closings) co_await op;
  for (Endpoint& e : servers) {
    while (e.state() != endpoint_state::closed) co_await e.state_changed();
  }
  clients.clear();
  servers.clear();
  CHECK(on.client().counters().endpoints == 0);
  CHECK(on.server().counters().endpoints == 0);
}

}  // namespace

TEST_CASE(
    "K2: ten thousand endpoints on one Worker (300 where each has descriptors) all talk and "
    "close") {
  stage_options room;
  room.most_endpoints = 10'000;
  stage s(room);
  s.play([](stage& on) -> task<> {
    const std::size_t count = as_many_as_fit(on.over());
    CAPTURE(count);
    CHECK(count > 100);
    co_await crowd(on, count);
  });
}

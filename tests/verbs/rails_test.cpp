// Messages over two RDMA devices at once (K8), rxe0 and rxe1. The test finally removes the address
// of rxe1, so it runs on a separate machine.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr cordma::access readable = cordma::access::local_write | cordma::access::remote_read;

context_options with(std::uint8_t rails, std::string device = "") {
  context_options c;
  c.transports = {transport::kind::verbs};
  c.verbs.rails = rails;
  c.verbs.device = std::move(device);
  return c;
}

struct side {
  side(const context_options& options, reactor& loop)
      : context(options), worker(context, loop), messages(worker) {}
  Context context;
  Worker worker;
  Messages messages;
};

struct two_sides {
  two_sides(const context_options& of_client, const context_options& of_server)
      : loop({.mode = wait_under_test()}), client(of_client, loop), server(of_server, loop) {}
  reactor loop;
  side client;
  side server;
};

std::string told(const Endpoint& e, const std::string& name) {
  const std::vector<transport::property> all = e.properties();
  const auto at = std::ranges::find(all, name, &transport::property::name);
  return at != all.end() ? at->value : std::string();
}

std::uint64_t packets_of(const std::string& device) {
  std::ifstream in("/sys/class/infiniband/" + device + "/ports/1/hw_counters/sent_pkts");
  std::uint64_t value = 0;
  REQUIRE(static_cast<bool>(in >> value));
  return value;
}

task<wire> join(two_sides* h, std::string rails) {
  const std::string host = h->server.context.own_host(transport::kind::verbs);
  Listener listener = h->server.worker.listen(host + ":0").value();
  connect_options to;
  to.messages = &h->client.messages;
  connect_options accept;
  accept.messages = &h->server.messages;
  const std::string where = host + ":" + std::to_string(listener.bound().port);
  wire w = co_await connect(h->client.worker, listener, where, to, accept);
  while (told(w.server, "rails") != rails || told(w.client, "rails") != rails) co_await yield();
  co_return w;
}

task<> carry(two_sides* h, wire* w, std::size_t bytes, std::size_t count) {
  const MemoryRegion from = h->client.context.allocate(bytes * count, readable).value();
  const MemoryRegion into =
      h->server.context.allocate(bytes * count, cordma::access::local_write).value();
  std::deque<message_send_operation> sends;
  std::deque<tag_recv_operation> receives;
  for (std::size_t i = 0; i < count; ++i) {
    fill(from.bytes().subspan(i * bytes, bytes), i);
    sends.push_back(w->client.tag_send(i, from.all().part(i * bytes, bytes)).start());
    receives.push_back(w->server.tag_recv(i, into.all().part(i * bytes, bytes)).start());
  }
  for (std::size_t i = 0; i < count; ++i) {
    tag_recv_operation& received = receives[i];
    co_await received;
    message_send_operation& sent = sends[i];
    co_await sent;
    CHECK(filled(into.bytes().subspan(i * bytes, bytes), i));
  }
}

}  // namespace

TEST_CASE("K8: a long message comes by both devices, as their own counters tell") {
  two_sides h(with(2), with(8));
  cordma::run(h.loop, [](two_sides* all) -> task<> {
    wire w = co_await join(all, "2");
    const std::string first = told(w.server, "rail_0_device");
    const std::string second = told(w.server, "rail_1_device");
    CHECK(std::min(first, second) == "rxe0");
    CHECK(std::max(first, second) == "rxe1");
    const std::uint64_t before_first = packets_of(first);
    const std::uint64_t before_second = packets_of(second);
    co_await carry(all, &w, 2 * mib, 2);
    CHECK(told(w.server, "rail_0_bytes") == std::to_string(2 * mib));
    CHECK(told(w.server, "rail_1_bytes") == std::to_string(2 * mib));
    // Packets of at most 4 KiB.
    CHECK(packets_of(first) - before_first >= 2 * mib / 4096);
    CHECK(packets_of(second) - before_second >= 2 * mib / 4096);
  }(&h));
}

TEST_CASE("K8: a device that one side does not name, or does not have, carries no rail") {
  for (const std::uint8_t rails : {std::uint8_t{1}, std::uint8_t{2}}) {
    two_sides h(with(2), rails == 1 ? with(1) : with(2, "rxe0"));
    if (h.server.context.own_host(transport::kind::verbs) !=
        h.client.context.own_host(transport::kind::verbs)) {
      continue;  // rxe1 is the client's first
    }
    cordma::run(h.loop, [](two_sides* all) -> task<> {
      wire w = co_await join(all, "1");
      const std::uint64_t before = packets_of("rxe1");
      co_await carry(all, &w, mib, 2);
      CHECK(packets_of("rxe1") - before < 10);
      CHECK(told(w.server, "rail_1_bytes").empty());
    }(&h));
  }
}

namespace {

// Devices that have this GID, as a Context with rails would use them.
std::string devices_with(int gid_index) {
  transport::verbs_options o;
  o.rails = 8;
  o.gid_index = gid_index;
  std::string all;
  const result<std::vector<transport::verbs::device>> found = transport::verbs::open_devices(o);
  if (!found) return std::string(name(found.code()));
  for (const transport::verbs::device& d : *found) all += d.name;
  return all;
}

}  // namespace

TEST_CASE("I1: a device without what is asked for is passed over, whichever comes first") {
  CHECK(devices_with(0).size() == 8);
  CHECK(devices_with(2) == "rxe0");
  REQUIRE(std::system("ip addr add 10.78.0.2/24 dev wire2 && ip addr add 10.78.0.3/24 dev wire2") ==
          0);
  while (devices_with(3) != "rxe1") std::this_thread::yield();
  REQUIRE(std::system("ip addr del 10.78.0.2/24 dev wire2 && ip addr del 10.78.0.3/24 dev wire2") ==
          0);
  CHECK(devices_with(200) == "not_found");
}

TEST_CASE("K8: a device loses its address while messages come: the other one brings the rest") {
  two_sides h(with(2), with(2));
  cordma::run(h.loop, [](two_sides* all) -> task<> {
    wire w = co_await join(all, "2");
    REQUIRE(told(w.server, "rail_0_device") == "rxe0");
    const std::uint64_t before = w.server.counters().sends;
    scope tasks(all->loop);
    tasks.spawn(carry(all, &w, 4 * mib, 2));
    while (w.server.counters().sends < before + 4) co_await yield();
    REQUIRE(std::system("ip addr flush dev wire2") == 0);
    co_await tasks.join();
    while (told(w.server, "rails") != "1") co_await yield();
    CHECK(w.server.state() == endpoint_state::connected);
    co_await carry(all, &w, mib, 2);
  }(&h));
}

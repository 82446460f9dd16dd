// Device events: the port goes down and comes up, an address is added and removed. The test changes
// the network of its machine, so it runs on a separate one.
#include "own_device.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace cordma;
using namespace cordma::test;
using type = device_event::type;

namespace {

void sh(const std::string& command) { REQUIRE(std::system(command.c_str()) == 0); }

std::string netdev() {
  const char* const name = std::getenv("RDMA_NETDEV");
  return name != nullptr ? name : "wire0";
}

// Returns the next event of this type; skips other events that a change of the network causes.
task<device_event> next(Worker* worker, type wanted) {
  for (;;) {
    const device_event e = co_await worker->next_device_event();
    MESSAGE("told: ", name(e.what), ", port ", int{e.port});
    if (e.what == wanted) co_return e;
  }
}

task<> down_and_up(Worker* worker) {
  sh("ip link set " + netdev() + " down");
  const device_event down = co_await next(worker, type::port_down);
  CHECK(down.port == 1);
  sh("ip link set " + netdev() + " up");
  const device_event up = co_await next(worker, type::port_up);
  CHECK(up.port == 1);
}

task<> come_and_go(Worker* worker) {
  sh("ip addr add 10.99.0.1/24 dev " + netdev());
  const device_event came = co_await next(worker, type::gid_change);
  CHECK(came.port == 1);
  sh("ip addr del 10.99.0.1/24 dev " + netdev());
  const device_event gone = co_await next(worker, type::gid_change);
  CHECK(gone.port == 1);
}

task<> message(Worker* worker, Context* context) {
  Listener listener = worker->listen(own_host() + ":0").value();
  const std::string where = own_host() + ":" + std::to_string(listener.bound().port);
  wire w = co_await connect(*worker, listener, where);
  MemoryRegion memory = context->allocate(128).value();
  fill(memory.bytes().first(64), 6);
  recv_operation receiving = w.server.recv(memory.all().part(64, 64)).start();
  co_await w.client.send(memory.all().first(64));
  co_await receiving;
  CHECK(filled(memory.bytes().subspan(64), 6));
}

task<> lose_the_way(Worker* worker, Context* context) {
  wire before = co_await connect_by_descriptors(*worker, *worker);
  DatagramEndpoint port = worker->datagram({}).value();
  MemoryRegion memory = context->allocate(64).value();
  const transport::datagram_peer self = port.self().value();
  co_await port.send_to(self, memory);
  sh("ip link set " + netdev() + " down");
  const result<void> lost = co_await port.send_to(self, memory).result();
  CHECK_FALSE(lost.ok());
  co_await before.client.close();  // the goodbye cannot be sent
  co_await next(worker, type::port_down);
  sh("ip link set " + netdev() + " up");
  co_await next(worker, type::port_up);
  CHECK(port.state() == endpoint_state::closed);
  wire after = co_await connect_by_descriptors(*worker, *worker);
  co_await after.client.close();
  while (after.server.state() != endpoint_state::closed) co_await after.server.state_changed();
  CHECK(after.server.first_cause()->code() == errc::not_connected);  // it received the goodbye
}

}  // namespace

TEST_CASE(
    "Q9, L7: what was sent while the link was down ends a datagram port, and no more: connections "
    "come up and say goodbye when it is back") {
  host h(wait_mode::event);
  h.worker.run(lose_the_way(&h.worker, &h.context));
}

TEST_CASE("Q9: a Worker is told that its port went down and came up, in every mode of waiting") {
  for (const wait_mode mode : {wait_mode::event, wait_mode::adaptive, wait_mode::polling}) {
    CAPTURE(name(mode));
    host h(mode);
    h.worker.run(down_and_up(&h.worker));
    h.worker.run(message(&h.worker, &h.context));
  }
}

TEST_CASE("Q9: a Worker is told that an address came and went") {
  host h(wait_mode::event);
  h.worker.run(come_and_go(&h.worker));
}

TEST_CASE(
    "Q9: after its address has moved, a Context knows itself by the new one, and connects there") {
  host h(wait_mode::event);
  REQUIRE(h.context.own_host(transport::kind::verbs) == own_host());
  h.worker.run([](host* on) -> task<> {
    sh("ip addr add 10.99.0.1/24 dev " + netdev() + " && ip addr del 10.77.0.1/24 dev " + netdev());
    while (on->context.own_host(transport::kind::verbs) != "10.99.0.1") {
      co_await next(&on->worker, type::gid_change);
    }
    const wire w = co_await connect_by_descriptors(on->worker, on->worker);
    sh("ip addr add 10.77.0.1/24 dev " + netdev() + " && ip addr del 10.99.0.1/24 dev " + netdev());
    while (on->context.own_host(transport::kind::verbs) != "10.77.0.1") {
      co_await next(&on->worker, type::gid_change);
    }
  }(&h));
}

namespace {

// Waits for the new address: the kernel updates the device's table some time after it.
void until_known_as(const std::string& address, const Context& context) {
  while (context.own_host(transport::kind::verbs) != address) std::this_thread::yield();
}

}  // namespace

// No event reports the change: the device's events belong to the program.
TEST_CASE("H1: a Context on a borrowed domain knows itself by its new address as well") {
  own_device own;
  context_options o;
  o.transports = {transport::kind::verbs};
  o.verbs.pd = own.pd();
  Context context(o);
  Worker worker(context, reactor_options{.mode = wait_mode::event});
  worker.run([](Context* on, Worker* with) -> task<> {
    CHECK(on->own_host(transport::kind::verbs) == "10.77.0.1");
    sh("ip addr add 10.99.0.1/24 dev " + netdev() + " && ip addr del 10.77.0.1/24 dev " + netdev());
    until_known_as("10.99.0.1", *on);
    co_await connect_by_descriptors(*with, *with);
    sh("ip addr add 10.77.0.1/24 dev " + netdev() + " && ip addr del 10.99.0.1/24 dev " + netdev());
    until_known_as("10.77.0.1", *on);
    co_await connect_by_descriptors(*with, *with);
  }(&context, &worker));
}

TEST_CASE(
    "Q9: of many events that nobody asks for the last are kept, and it is told how many are not") {
  host h(wait_mode::polling);
  for (int i = 0; i < 40; ++i) {
    sh("ip link set " + netdev() + " down");
    sh("ip link set " + netdev() + " up");
    for (int turns = 0; turns < 200; ++turns) static_cast<void>(h.worker.poll());
  }
  h.worker.run([](Worker* worker) -> task<> {
    const device_event oldest = co_await worker->next_device_event();
    CHECK(oldest.missed >= 80 - 64);
    int kept = 1;
    for (;;) {
      device_event_operation op = worker->next_device_event().start();
      if (!op.done()) break;
      ++kept;
      CHECK(op.take_result().value().missed == 0);
    }
    CHECK(kept == 64);
  }(&h.worker));
}

TEST_CASE("Q9: events that are on their way keep neither Worker nor Context from going") {
  for (const bool read : {false, true}) {
    CAPTURE(read);
    host h(wait_mode::polling);
    const Worker other(h.context, h.worker.loop());
    sh("ip link set " + netdev() + " down");
    sh("ip link set " + netdev() + " up");
    if (read) static_cast<void>(h.worker.poll());
  }
}

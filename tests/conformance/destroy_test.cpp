// Objects may be destroyed in any order.
#include "../verbs/told.hpp"

#include <doctest/doctest.h>
#include <support/held.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <array>
#include <functional>
#include <optional>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t size = 12'000;

// Operations in flight and the memory they use, which outlives them.
struct traffic {
  traffic(stage& on, wire& w, const RemoteMemory& remote)
      : client_local(client_memory(on, size)),
        server_local(server_memory(on, size)),
        pool(on.client_context(), size, 4) {
    for (int i = 0; i < 3; ++i) {
      sends.push_back(w.client.send(client_local).start());
      sends.push_back(w.client.write(remote, client_local).start());
      sends.push_back(w.client.read(remote, client_local).start());
      sends.push_back(w.client.send(pool.take().value(), size).start());
      recvs.push_back(w.server.recv(server_local).start());
      atomics.push_back(w.client.fetch_add(remote.slice(0, 8).value(), 1).start());
    }
    messages.push_back(w.client.recv(pool).start());
    states.push_back(w.client.state_changed().start());
    states.push_back(w.server.state_changed().start());
  }
  MemoryRegion client_local;
  MemoryRegion server_local;
  BufferPool pool;
  std::vector<send_operation> sends;
  std::vector<recv_operation> recvs;
  std::vector<atomic_operation> atomics;
  std::vector<message_operation> messages;
  std::vector<state_operation> states;
};

struct shared {
  explicit shared(stage& on, Endpoint& e)
      : pool(on.server_context(), size, 8), arrivals(on.server(), pool, 4) {
    CHECK(arrivals.attach(e).ok());
    next.emplace(arrivals.next().start());
  }
  BufferPool pool;
  SharedReceive arrivals;
  std::optional<arrival_operation> next;
};

// A queue of the transport, a connection that receives from it, and messages in flight.
struct device_queue {
  explicit device_queue(stage& on)
      : pool(on.server_context(), size, 8),
        arrivals(SharedReceive::on_device(on.server(), pool, {.depth = 8}).value()),
        joined(on.play(join, &arrivals)),
        out(client_memory(on, size)) {
    CHECK(arrivals.attach(joined.server).ok());
    for (int i = 0; i < 3; ++i) sends.push_back(joined.client.send(out).start());
  }
  static task<wire> join(stage& s, SharedReceive* arrivals) {
    endpoint_options server;
    server.shared = arrivals->queue();
    const endpoint_options client;
    wire w = co_await connect(s, client, server);
    co_return w;
  }
  BufferPool pool;
  SharedReceive arrivals;
  wire joined;
  MemoryRegion out;
  std::vector<send_operation> sends;
};

// Two datagram ports, and datagrams in flight between them.
struct ports {
  static endpoint_options keyed() {
    endpoint_options o;
    o.qkey = 11;
    return o;
  }
  explicit ports(stage& on)
      : a(on.client().datagram(keyed()).value()),
        b(on.server().datagram(keyed()).value()),
        out(client_memory(on, 64)),
        in(server_memory(on, 64)) {
    for (int i = 0; i < 3; ++i) {
      recvs.push_back(b.recv_from(in).start());
      sends.push_back(a.send_to(b.self().value(), out).start());
    }
  }
  DatagramEndpoint a;
  DatagramEndpoint b;
  MemoryRegion out;
  MemoryRegion in;
  std::vector<datagram_recv_operation> recvs;
  std::vector<datagram_send_operation> sends;
};

task<> wait_for_message(Endpoint* e, MemoryRegion into) {
  static_cast<void>(co_await e->recv(into).result());
}

// Objects of all kinds, alive and busy, each with a function that destroys it.
struct world {
  explicit world(stage& on) {
    wires = on.play([](stage& s) -> task<std::vector<wire>> {
      std::vector<wire> made;
      for (int i = 0; i < 3; ++i) {
        wire w = co_await connect(s);
        made.push_back(std::move(w));
      }
      co_return made;
    });
    target.emplace(server_memory(on, size));
    const RemoteMemory remote = exported(*target);
    for (std::size_t i = 0; i < 2; ++i) busy[i].emplace(on, wires[i], remote);
    queue.emplace(on, wires[2].server);
    from_device.emplace(on);
    if (on.caps().supports(transport::service::ud, transport::opcode::send)) datagrams.emplace(on);
    if (on.caps().supports(transport::service::rc, transport::opcode::bind)) {
      bindable = server_memory(on, size, every_right | transport::access::mw_bind);
      window = on.play(
          [](stage&, world* w) -> task<MemoryWindow> {
            MemoryWindow bound =
                co_await w->wires[0].server.bind(w->bindable, 0, 64, transport::all_remote);
            co_return bound;
          },
          this);
      binding.emplace(
          wires[1].server.bind(bindable, 64, 64, transport::access::remote_read).start());
    }
    extra = client_memory(on, size);
    extra_sends.push_back(wires[2].client.send(extra).start());
    waiting.emplace(on.loop());
    waiting->spawn(wait_for_message(&wires[2].client, client_memory(on, size)));
    listener.emplace(on.server().listen(on.server_address()).value());
    for (int i = 0; i < 2; ++i) {
      connecting.push_back(on.client().connect(on.reach(*listener)).start());
    }
    request = on.play(
        [](stage&, Listener* l) -> task<ConnectionRequest> { co_return co_await l->next(); },
        &*listener);
    coming.emplace(listener->next().start());
    coming_too.emplace(listener->next().start());
  }

  std::vector<std::function<void()>> destroyers(stage& on) {
    std::vector<std::function<void()>> d;
    for (std::size_t i = 0; i < 3; ++i) {
      d.emplace_back([this, i] { wires[i].client = Endpoint(); });
      d.emplace_back([this, i] { wires[i].server = Endpoint(); });
    }
    d.emplace_back([this] { busy[0].reset(); });
    d.emplace_back([this] { busy[1].reset(); });
    d.emplace_back([this] { queue.reset(); });
    d.emplace_back([this] { from_device.reset(); });
    d.emplace_back([this] {
      if (from_device) from_device->joined.client = Endpoint();
    });
    d.emplace_back([this] {
      if (from_device) from_device->joined.server = Endpoint();
    });
    d.emplace_back([this] { datagrams.reset(); });
    d.emplace_back([this] { window = MemoryWindow(); });
    d.emplace_back([this] { binding.reset(); });
    d.emplace_back([this] { bindable = MemoryRegion(); });
    d.emplace_back([this] { extra_sends.clear(); });
    d.emplace_back([this] { waiting.reset(); });
    d.emplace_back([this] { target.reset(); });
    d.emplace_back([this] { listener.reset(); });
    d.emplace_back([this] { connecting.clear(); });
    d.emplace_back([this] { request = ConnectionRequest(); });
    d.emplace_back([this] { coming.reset(); });
    d.emplace_back([this] { coming_too.reset(); });
    d.emplace_back([&on] { on.drop_client(); });
    d.emplace_back([&on] { on.drop_server(); });
    d.emplace_back([&on] { on.drop_contexts(); });
    return d;
  }

  std::vector<wire> wires;
  std::optional<MemoryRegion> target;
  std::array<std::optional<traffic>, 2> busy;
  std::optional<shared> queue;
  std::optional<device_queue> from_device;
  std::optional<ports> datagrams;
  MemoryRegion bindable;
  MemoryWindow window;
  std::optional<bind_operation> binding;
  MemoryRegion extra;
  std::vector<send_operation> extra_sends;
  std::optional<scope> waiting;
  std::optional<Listener> listener;
  std::vector<connect_operation> connecting;
  ConnectionRequest request;
  std::optional<next_operation> coming;
  std::optional<next_operation> coming_too;
};

// Resources that the kernel holds when nothing is in use; librdmacm keeps devices that it opened.
std::string idle_device() {
  {
    stage first;
    const Listener listener = first.server().listen(first.server_address()).value();
  }
  return on_device();
}

}  // namespace

TEST_CASE(
    "G2: all objects destroyed in random orders with traffic in flight: no descriptor, mapping "
    "or name and no object of the device is left behind [1000 orders; 200 on verbs]") {
  const std::uint64_t orders = rounds_under_test(1000, 200);
  const bool device = transport_under_test() == transport::kind::verbs;
  const std::string device_at_first = device ? idle_device() : std::string();
  held at_first;
  for (std::uint64_t seed = 1; seed <= orders; ++seed) {
    CAPTURE(seed);
    // Measured from the second seed on, after allocations that the process makes once and keeps.
    if (seed == 2) at_first = held_now();
    dice d(seed);
    stage s;
    world w(s);
    // the count includes descriptors of live objects
    if (seed == 2) CHECK(held_now().descriptors > at_first.descriptors);
    std::vector<std::function<void()>> order = w.destroyers(s);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[d.below(i)]);
    for (const std::function<void()>& destroy : order) {
      for (std::size_t passes = d.below(4); passes > 0; --passes) s.loop().turn();
      destroy();
    }
    for (int i = 0; i < 10; ++i) s.loop().turn();
  }
  const held in_the_end = held_now();
  CHECK(in_the_end.descriptors == at_first.descriptors);
  CHECK(in_the_end.mappings == at_first.mappings);
  CHECK(in_the_end.names == at_first.names);
  if (!device) return;
  INFO("at first: ", device_at_first, "in the end: ", on_device());
  CHECK(is_again(device_at_first));
}

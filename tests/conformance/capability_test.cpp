// Capabilities are data, and the data is true: the checks are generated, not listed by hand.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <sys/mman.h>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;
using transport::service;

namespace {

constexpr std::array<opcode, 8> posted_operations{
    opcode::send, opcode::send_imm,  opcode::write,        opcode::write_imm,
    opcode::read, opcode::fetch_add, opcode::compare_swap, opcode::flush};

// One operation of each kind, with its effect on the peer. An unsupported operation is refused and
// has no effect.
task<errc> round_trip(stage& on, wire& w, opcode op) {
  MemoryRegion local = client_memory(on, 8);
  MemoryRegion target = server_memory(on, 8);
  MemoryRegion room = server_memory(on, 8);
  const RemoteMemory remote = exported(target);
  fill(local.bytes(), 1);
  const bool receives = op == opcode::send || op == opcode::send_imm || op == opcode::write_imm;
  std::optional<recv_operation> receiving;
  if (receives) receiving.emplace(w.server.recv(room).start());
  if (op == opcode::read) fill(target.bytes(), 2);
  errc code = errc::ok;
  if (op == opcode::fetch_add || op == opcode::compare_swap) {
    atomic_operation atomic = op == opcode::fetch_add ? w.client.fetch_add(remote, 5)
                                                      : w.client.compare_swap(remote, 0, 5);
    const result<std::uint64_t> old = co_await atomic.result();
    code = old.code();
    if (old.ok()) CHECK(target.as<std::uint64_t>()[0] == 5);
  } else {
    std::optional<send_operation> sending;
    switch (op) {
      case opcode::send: sending.emplace(w.client.send(local)); break;
      case opcode::send_imm: sending.emplace(w.client.send_imm(local, 9)); break;
      case opcode::write: sending.emplace(w.client.write(remote, local)); break;
      case opcode::write_imm: sending.emplace(w.client.write_imm(remote, local, 9)); break;
      case opcode::read: sending.emplace(w.client.read(remote, local)); break;
      default: sending.emplace(w.client.flush()); break;
    }
    const result<void> r = co_await sending->result();
    code = r.code();
  }
  if (code != errc::ok) co_return code;
  if (receives) {
    recv_operation& started = *receiving;
    const Received got = co_await started;
    CHECK(got.bytes == 8);
    CHECK(got.has_imm == (op != opcode::send));
    CHECK(filled(op == opcode::write_imm ? target.bytes() : room.bytes(), 1));
  } else if (op == opcode::read) {
    CHECK(filled(local.bytes(), 2));
  } else if (op == opcode::write) {
    co_await w.client.flush();
    CHECK(filled(target.bytes(), 1));
  }
  co_return code;
}

}  // namespace

TEST_CASE("B4: every operation said to be supported works, every other one is refused") {
  stage s;
  s.play([](stage& on) -> task<> {
    const transport::capabilities& caps = on.caps();
    for (opcode op : posted_operations) {
      CAPTURE(transport::name(op));
      wire w = co_await connect(on);
      const errc outcome = co_await round_trip(on, w, op);
      CHECK(outcome == (caps.supports(service::rc, op) ? errc::ok : errc::not_supported));
      CHECK(w.client.state() == endpoint_state::connected);
    }
    // A service with no supported operation does not exist, and using it fails with an error. A
    // datagram port is never connected, whether or not the transport has datagrams.
    for (service type : {service::uc, service::ud}) {
      CAPTURE(transport::name(type));
      Listener listener = on.server().listen(on.server_address()).value();
      connect_options to;
      to.endpoint.type = type;
      connect_operation connecting = on.client().connect(on.reach(listener), to).start();
      if (type == service::uc && caps.supports(type, opcode::send)) {
        ConnectionRequest request = co_await listener.next();
        Endpoint accepted = co_await request.accept(to);
        Endpoint connected = co_await connecting;
        CHECK(connected.actual().type == type);
        continue;
      }
      const result<Endpoint> r = co_await connecting.result();
      const bool has_ports = type == service::ud && caps.max_datagram != 0;
      CHECK(name(r.code()) == name(has_ports ? errc::invalid_value : errc::not_supported));
    }
    const errc port = on.client().datagram().code();
    CHECK(name(port) == name(caps.max_datagram != 0 ? errc::ok : errc::not_supported));
    CHECK((caps.max_datagram != 0) == caps.supports(service::ud, opcode::send));
  });
}

namespace {

// The fields that differ between transports, and those that must be equal.
struct dump {
  std::uint32_t rc, uc, ud;
  std::uint32_t max_inline, max_datagram;
  bool needs_target_progress, event_driven;
};

dump dump_of(transport::kind k) {
  const stage s({}, k);
  const transport::capabilities c = s.caps();
  CHECK(c.transport == k);
  return {.rc = c.operations[0] & ((1U << static_cast<unsigned>(opcode::recv)) - 1),
          .uc = c.operations[1],
          .ud = c.operations[2],
          .max_inline = c.max_inline,
          .max_datagram = c.max_datagram,
          .needs_target_progress = c.needs_target_progress,
          .event_driven = c.event_driven};
}

}  // namespace

TEST_CASE("B4: the capabilities of the transports differ where they should, and nowhere else") {
  const dump shm = dump_of(transport::kind::shm);
  const dump tcp = dump_of(transport::kind::tcp);
  const dump sim = dump_of(transport::kind::sim);
  // Reliable connections support every operation on each transport.
  CHECK(shm.rc == 0xFF);
  CHECK(tcp.rc == shm.rc);
  CHECK(sim.rc == shm.rc);
  // Only the simulator has the unreliable services.
  for (const dump* without : {&shm, &tcp}) {
    CHECK(without->uc == 0);
    CHECK(without->ud == 0);
    CHECK(without->max_datagram == 0);
    CHECK(without->needs_target_progress);
  }
  const auto bit = [](opcode op) { return 1U << static_cast<unsigned>(op); };
  CHECK(sim.ud == (bit(opcode::send) | bit(opcode::send_imm)));
  CHECK(sim.uc == (sim.ud | bit(opcode::write) | bit(opcode::write_imm)));
  CHECK(sim.max_datagram > 0);
  CHECK_FALSE(sim.needs_target_progress);
  CHECK(shm.max_inline > tcp.max_inline);
  for (const dump* each : {&shm, &tcp, &sim}) CHECK(each->event_driven);
}

TEST_CASE("B5: limits hold where they say, and one more is refused before it is posted") {
  stage s;
  s.play([](stage& on) -> task<> {
    const transport::capabilities caps = on.caps();
    endpoint_options most;
    most.send_depth = caps.max_send_depth;
    most.recv_depth = caps.max_recv_depth;
    most.inline_bytes = caps.max_inline;
    most.max_segments = caps.max_segments;
    wire w = co_await connect(on, most, most);
    CHECK(w.client.actual().send_depth >= most.send_depth);
    CHECK(w.client.inline_limit() == caps.max_inline);
    MemoryRegion in = server_memory(on, caps.max_inline);
    std::vector<std::byte> text(caps.max_inline);
    fill(text, 6);
    recv_operation receiving = w.server.recv(in).start();
    co_await w.client.send_inline(text);
    co_await receiving;
    CHECK(filled(in.bytes(), 6));
    Listener listener = on.server().listen(on.server_address()).value();
    std::array<connect_options, 4> beyond;
    beyond[0].endpoint.send_depth = caps.max_send_depth + 1;
    beyond[1].endpoint.recv_depth = caps.max_recv_depth + 1;
    beyond[2].endpoint.inline_bytes = caps.max_inline + 1;
    beyond[3].endpoint.max_segments = caps.max_segments + 1;
    for (const connect_options& to : beyond) {
      const result<Endpoint> r = co_await on.client().connect(on.reach(listener), to).result();
      CHECK(r.code() == errc::invalid_value);
    }
  });
}

namespace {

// A large address range without memory behind it until it is touched, which no test does.
class untouched_memory {
 public:
  explicit untouched_memory(std::size_t bytes)
      : at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        bytes_(bytes) {
    REQUIRE(at_ != MAP_FAILED);
  }
  untouched_memory(const untouched_memory&) = delete;
  untouched_memory& operator=(const untouched_memory&) = delete;
  ~untouched_memory() { ::munmap(at_, bytes_); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(at_), bytes_};
  }

 private:
  void* at_;
  std::size_t bytes_;
};

}  // namespace

TEST_CASE("B5: a byte more than max_message is refused before it is posted, gathered or whole") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t most_locked = 64 << 20;
    if (on.over() == transport::kind::verbs && on.caps().max_message > most_locked) {
      MESSAGE("not tried: registering ", on.caps().max_message, " bytes would lock them");
      co_return;
    }
    wire w = co_await connect(on);
    Endpoint& e = w.client;
    const std::size_t beyond = on.caps().max_message + 1;
    const untouched_memory mine(beyond);
    const untouched_memory theirs(beyond);
    MemoryRegion local =
        on.client_context().register_memory(mine.bytes(), access::local_write).value();
    MemoryRegion target = on.server_context().register_memory(theirs.bytes(), every_right).value();
    const RemoteMemory remote = exported(target);
    const std::array<Slice, 2> halves{local.all().first(beyond / 2),
                                      local.all().part(beyond / 2, beyond - beyond / 2)};
    const Slice all = local.all();
    std::vector<send_operation> refused;
    refused.push_back(e.send(all));
    refused.push_back(e.send(halves));
    refused.push_back(e.send_imm(all, 1));
    refused.push_back(e.write(remote, all));
    refused.push_back(e.write(remote, halves));
    refused.push_back(e.write_imm(remote, all, 1));
    refused.push_back(e.read(remote, all));
    refused.push_back(e.read(remote, halves));
    for (send_operation& op : refused) {
      const result<void> r = co_await op.result();
      CHECK(r.code() == errc::invalid_value);
    }
    CHECK(e.counters().sends == 0);
    CHECK(e.inflight() == 0);
    CHECK(e.state() == endpoint_state::connected);
    // The memory itself is usable.
    recv_operation receiving = w.server.recv(target.all().first(8)).start();
    co_await e.send(local.all().part(beyond - 8, 8));
    co_await receiving;
    CHECK(e.counters().sends == 1);
  });
}

TEST_CASE("A2: what only some transports have is refused with not_supported by the others") {
  stage s;
  s.play([](stage& on) -> task<> {
    const bool on_device = on.over() == transport::kind::verbs;
    const transport::kind absent = on_device ? transport::kind::shm : transport::kind::verbs;
    CHECK(on.client_context().find(absent) == nullptr);
    CHECK(on.client().prepare({}, absent).code() == errc::not_supported);
    CHECK(on.client().datagram({}, absent).code() == errc::not_supported);
    CHECK(on.client().listen(on.server_address(), {.transport = absent}).code() ==
          errc::not_supported);
    endpoint_options port;
    port.type = service::ud;
    CHECK(on.client().prepare(port).code() == errc::invalid_value);
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    const result<ConnectionRequest> moved = request.hand_over(on.client());
    // The client's Worker is of another Context.
    CHECK(moved.code() == errc::invalid_value);
    Endpoint accepted = co_await request.accept();
    Endpoint connected = co_await connecting;
    CHECK(connected.state() == endpoint_state::connected);
    CHECK(on.client_context().transports().size() == 1);
  });
}

TEST_CASE(
    "I3: descriptors carried by the program connect two endpoints, once, and stale ones do not") {
  stage s;
  s.play([](stage& on) -> task<> {
    result<Endpoint> a = on.client().prepare();
    result<Endpoint> b = on.server().prepare();
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    const std::vector<std::byte> of_a = a->descriptor().value();
    const std::vector<std::byte> of_b = b->descriptor().value();
    std::vector<std::byte> damaged = of_b;
    damaged[damaged.size() / 2] ^= std::byte{1};
    CHECK(name(a->connect(damaged).code()) == "connection_aborted");
    const std::span<const std::byte> whole(of_b);
    CHECK(name(a->connect(whole.first(whole.size() - 1)).code()) == "connection_aborted");
    CHECK(a->connect(of_b).ok());
    CHECK(b->connect(of_a).ok());
    while (a->state() == endpoint_state::connecting) co_await a->state_changed();
    while (b->state() == endpoint_state::connecting) co_await b->state_changed();
    REQUIRE(a->state() == endpoint_state::connected);
    CHECK(a->connect(of_b).code() == errc::bad_state);
    MemoryRegion out = client_memory(on, 64);
    MemoryRegion in = server_memory(on, 64);
    fill(out.bytes(), 8);
    recv_operation receiving = b->recv(in).start();
    co_await a->send(out);
    co_await receiving;
    CHECK(filled(in.bytes(), 8));
    *b = Endpoint();
    result<Endpoint> late = on.client().prepare();
    REQUIRE(late.ok());
    if (late->connect(of_b).ok()) {
      const endpoint_state end = co_await late->state_changed();
      CHECK(end == endpoint_state::closed);
    }
  });
}

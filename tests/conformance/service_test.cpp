// Services other than rc: the operations of each, and the guarantees of an unreliable connection.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>

#include <array>
#include <optional>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;
using transport::service;

namespace {

constexpr std::array<opcode, 8> posted_operations{
    opcode::send, opcode::send_imm,  opcode::write,        opcode::write_imm,
    opcode::read, opcode::fetch_add, opcode::compare_swap, opcode::flush};

endpoint_options of(service type) {
  endpoint_options o;
  o.type = type;
  return o;
}

constexpr const char* reliable_only = "this transport has reliable connections only";

task<> settle(stage& on) {
  for (int i = 0; i < 200; ++i) co_await moment(on);
}

struct outcome {
  errc code = errc::ok;
  bool moved = false;  // bytes arrived at their destination
};

task<outcome> execute_atomic(wire& w, opcode op, MemoryRegion target) {
  const RemoteMemory remote = exported(target);
  atomic_operation atomic =
      op == opcode::fetch_add ? w.client.fetch_add(remote, 5) : w.client.compare_swap(remote, 0, 5);
  const result<std::uint64_t> old = co_await atomic.result();
  co_return outcome{.code = old.code(), .moved = target.as<std::uint64_t>()[0] == 5};
}

send_operation make(Endpoint& e, opcode op, const RemoteSlice& remote, const Slice& local) {
  switch (op) {
    case opcode::send: return e.send(local);
    case opcode::send_imm: return e.send_imm(local, 9);
    case opcode::write: return e.write(remote, local);
    case opcode::write_imm: return e.write_imm(remote, local, 9);
    case opcode::read: return e.read(remote, local);
    default: return e.flush();
  }
}

// Executes one cell of the matrix.
task<outcome> execute(stage& on, wire& w, opcode op) {
  MemoryRegion local = client_memory(on, 8);
  MemoryRegion target = server_memory(on, 8);
  MemoryRegion room = server_memory(on, 8);
  if (op == opcode::fetch_add || op == opcode::compare_swap) {
    outcome atomic = co_await execute_atomic(w, op, target);
    co_return atomic;
  }
  const RemoteMemory remote = exported(target);
  fill(local.bytes(), 1);
  if (op == opcode::read) fill(target.bytes(), 2);
  recv_operation receiving = w.server.recv(room).start();
  const result<void> r = co_await make(w.client, op, remote, local).result();
  co_await settle(on);
  outcome o;
  o.code = r.code();
  const bool consumes = op == opcode::send || op == opcode::send_imm || op == opcode::write_imm;
  CHECK(receiving.done() == (consumes && r.ok()));
  switch (op) {
    case opcode::send:
    case opcode::send_imm: o.moved = filled(room.bytes(), 1); break;
    case opcode::write:
    case opcode::write_imm: o.moved = filled(target.bytes(), 1); break;
    case opcode::read: o.moved = filled(local.bytes(), 2); break;
    default: o.moved = r.ok(); break;
  }
  co_return o;
}

}  // namespace

TEST_CASE("L1: every operation of every connected service moves bytes or is refused unposted") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (service type : {service::rc, service::uc}) {
      if (!on.caps().supports(type, opcode::send)) continue;
      for (opcode op : posted_operations) {
        CAPTURE(transport::name(type));
        CAPTURE(transport::name(op));
        const bool legal = on.caps().supports(type, op);
        wire w = co_await connect(on, of(type), of(type));
        const outcome o = co_await execute(on, w, op);
        CHECK(o.code == (legal ? errc::ok : errc::not_supported));
        CHECK(o.moved == legal);
        CHECK(w.client.counters().sends == (legal ? 1U : 0U));
        CHECK(w.client.state() == endpoint_state::connected);
      }
    }
  });
}

TEST_CASE("L8: connecting with a service the transport lacks is not_supported, and names it") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = on.server().listen(on.server_address()).value();
    connect_options to;
    to.endpoint = of(service::uc);
    if (on.caps().supports(service::uc, opcode::send)) {
      // An accept uses the service of the request, or fails.
      connect_operation connecting = on.client().connect(on.reach(listener), to).start();
      ConnectionRequest request = co_await listener.next();
      const result<Endpoint> other = co_await request.accept().result();
      CHECK(other.code() == errc::invalid_value);
      co_return;
    }
    const result<Endpoint> r = co_await on.client().connect(on.reach(listener), to).result();
    REQUIRE(r.code() == errc::not_supported);
    CHECK(r.why().message().find("uc") != std::string::npos);
    CHECK(r.why().message().find(transport::name(on.over())) != std::string::npos);
  });
}

TEST_CASE(
    "M3: peers that know nothing of cordma: as the transport's abilities say, or refused by name") {
  stage s;
  s.play([](stage& on) -> task<> {
    listen_options theirs;
    theirs.peers = transport::peer_kind::plain;
    connect_options to;
    to.endpoint.peer = transport::peer_kind::plain;
    result<Listener> listener = on.server().listen(on.server_address(), theirs);
    REQUIRE(listener.ok() == on.caps().plain_peers);
    if (!listener.ok()) {
      CHECK(listener.code() == errc::not_supported);
      const std::string nobody = on.server_address(1);
      const result<Endpoint> r = co_await on.client().connect(nobody, to).result();
      CHECK(r.code() == errc::not_supported);
      CHECK(r.why().message().find(transport::name(on.over())) != std::string::npos);
      co_return;
    }
    // Two cordma endpoints may each treat the other as such a peer.
    connect_operation connecting = on.client().connect(on.reach(*listener), to).start();
    ConnectionRequest request = co_await listener->next();
    Endpoint server = co_await request.accept();
    Endpoint client = co_await connecting;
    CHECK(server.actual().peer == transport::peer_kind::plain);
    MemoryRegion out = client_memory(on, 16);
    MemoryRegion in = server_memory(on, 16);
    fill(out.bytes(), 5);
    recv_operation receiving = server.recv(in).start();
    co_await client.send(out);
    co_await receiving;
    CHECK(filled(in.bytes(), 5));
    recv_operation left = server.recv(in).start();
    co_await client.close();
    const result<Received> none = co_await left.result();
    CHECK(none.code() == errc::flushed);
    CHECK(server.first_cause()->code() == errc::not_connected);
  });
}

namespace {

constexpr std::size_t message_bytes = 3500;  // several packets
constexpr std::size_t message_count = 1000;

struct lossy_run {
  std::size_t errors = 0;
  std::size_t arrived = 0;
  std::size_t torn = 0;
  std::size_t out_of_order = 0;
};

task<lossy_run> send_over_loss(stage& on) {
  lossy_run run;
  wire w = co_await connect(on, of(service::uc), of(service::uc));
  on.net().set_links({.bits_per_second = 1'000'000'000, .loss = 0.01});
  MemoryRegion out = client_memory(on, message_bytes);
  MemoryRegion in = server_memory(on, message_bytes * message_count);
  std::vector<recv_operation> receiving;
  receiving.reserve(message_count);
  for (std::size_t i = 0; i < message_count; ++i) {
    receiving.push_back(w.server.recv(in.all().part(i * message_bytes, message_bytes)).start());
  }
  for (std::size_t i = 0; i < message_count; ++i) {
    fill(out.bytes(), i);
    const auto number = static_cast<std::uint32_t>(i);
    const result<void> sent = co_await w.client.send_imm(out, number).result();
    if (!sent.ok()) ++run.errors;
  }
  co_await settle(on);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < message_count; ++i) {
    recv_operation& op = receiving[i];
    if (!op.done()) break;
    const Received got = co_await op;
    ++run.arrived;
    const std::span<std::byte> bytes = in.bytes().subspan(i * message_bytes, message_bytes);
    if (got.bytes != message_bytes || !filled(bytes, got.imm)) ++run.torn;
    if (static_cast<std::int64_t>(got.imm) <= last) ++run.out_of_order;
    last = got.imm;
  }
  CHECK(w.client.state() == endpoint_state::connected);
  CHECK(w.server.state() == endpoint_state::connected);
  co_return run;
}

}  // namespace

TEST_CASE("L8: under 1 % loss no send fails, some messages are missing, none is torn, order holds" *
          only_on(transport::kind::sim, "only the simulator loses what it is told to lose")) {
  stage s;
  s.play([](stage& on) -> task<> {
    const lossy_run run = co_await send_over_loss(on);
    CAPTURE(on.net().seed());
    CAPTURE(on.net().faults().text());
    CHECK(run.errors == 0);
    CHECK(run.arrived < message_count);
    CHECK(run.arrived > message_count / 2);
    CHECK(run.arrived + on.net().counters().uc_dropped <= message_count);
    CHECK(run.torn == 0);
    CHECK(run.out_of_order == 0);
  });
}

TEST_CASE("L8: a uc connection that ends says so to everything that waits" *
          not_on({transport::kind::shm, transport::kind::tcp}, reliable_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on, of(service::uc), of(service::uc));
    MemoryRegion in = server_memory(on, 8);
    recv_operation receiving = w.server.recv(in).start();
    co_await on.client().flush();  // flush() has no peer to query on uc
    co_await w.client.close();
    const result<Received> r = co_await receiving.result();
    CHECK(r.code() == errc::flushed);
    CHECK(w.server.state() == endpoint_state::closed);
  });
}

TEST_CASE("L1: a typed endpoint carries what its service does, and takes no endpoint of another") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on, of(service::rc), of(service::rc));
    MemoryRegion local = client_memory(on, 8);
    MemoryRegion target = server_memory(on, 8);
    const RemoteMemory remote = exported(target);
    CHECK(uc_endpoint::from(std::move(w.client)).code() == errc::invalid_value);
    REQUIRE(w.client);  // unchanged
    rc_endpoint typed = rc_endpoint::from(std::move(w.client)).value();
    const std::uint64_t old = co_await typed.fetch_add(remote, 3);
    CHECK(old == 0);
    co_await typed.read(remote, local);
    CHECK(local.as<std::uint64_t>()[0] == 3);
    recv_operation receiving = w.server.recv(target).start();
    co_await typed.send(local);
    co_await receiving;
  });
}

TEST_CASE("L1: a typed endpoint of an unreliable connection writes" *
          not_on({transport::kind::shm, transport::kind::tcp}, reliable_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion local = client_memory(on, 8);
    MemoryRegion target = server_memory(on, 8);
    wire u = co_await connect(on, of(service::uc), of(service::uc));
    uc_endpoint unreliable = uc_endpoint::from(std::move(u.client)).value();
    fill(local.bytes(), 4);
    co_await unreliable.write(exported(target), local);
    while (!filled(target.bytes(), 4)) co_await moment(on);
  });
}

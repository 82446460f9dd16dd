// Capabilities are data, and the data is true: generated, no list by hand.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
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

// One operation of each kind, with its effect on the peer. What is not supported is refused and does
// nothing.
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
    // A service without an operation is not there at all, and says so.
    for (service type : {service::uc, service::ud}) {
      if (caps.operations[static_cast<std::size_t>(type)] != 0) continue;
      CAPTURE(transport::name(type));
      Listener listener = on.server().listen(on.server_address()).value();
      connect_options to;
      to.endpoint.type = type;
      const result<Endpoint> r = co_await on.client().connect(on.reach(listener), to).result();
      CHECK_FALSE(r.ok());
      const bool said = r.code() == errc::not_supported || r.code() == errc::unreachable ||
                        r.code() == errc::invalid_value;
      CHECK(said);
    }
  });
}

TEST_CASE("B5: limits hold where they say, and one more is refused before it is posted") {
  stage s;
  s.play([](stage& on) -> task<> {
    const transport::capabilities caps = on.caps();
    endpoint_options most;
    most.send_depth = std::min(caps.max_send_depth, 4096U);
    most.recv_depth = std::min(caps.max_recv_depth, 4096U);
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
    endpoint_options beyond;
    beyond.inline_bytes = caps.max_inline + 1;
    Listener listener = on.server().listen(on.server_address()).value();
    connect_options to;
    to.endpoint = beyond;
    const result<Endpoint> r = co_await on.client().connect(on.reach(listener), to).result();
    CHECK(r.code() == errc::invalid_value);
  });
}

TEST_CASE("A2: what only some transports have is refused with not_supported by the others") {
  stage s;
  s.play([](stage& on) -> task<> {
    const result<Endpoint> by_descriptor = on.client().prepare();
    if (!by_descriptor.ok()) CHECK(by_descriptor.code() == errc::not_supported);
    Listener listener = on.server().listen(on.server_address()).value();
    connect_operation connecting = on.client().connect(on.reach(listener)).start();
    ConnectionRequest request = co_await listener.next();
    const result<ConnectionRequest> moved = request.hand_over(on.client());
    // The client's Worker is of another Context.
    CHECK_FALSE(moved.ok());
    Endpoint accepted = co_await request.accept();
    Endpoint connected = co_await connecting;
    CHECK(connected.state() == endpoint_state::connected);
    const bool alone = on.over() != transport::kind::verbs;
    if (alone) CHECK(on.client_context().find(transport::kind::verbs) == nullptr);
    CHECK(on.client_context().transports().size() == 1);
  });
}

TEST_CASE(
    "I3: descriptors carried by the program connect two endpoints, once, and stale ones do not") {
  stage s;
  s.play([](stage& on) -> task<> {
    result<Endpoint> a = on.client().prepare();
    result<Endpoint> b = on.server().prepare();
    if (!a.ok()) {
      CHECK(a.code() == errc::not_supported);
      MESSAGE("left out: this transport connects by address only");
      co_return;
    }
    const std::vector<std::byte> of_a = a->descriptor().value();
    const std::vector<std::byte> of_b = b->descriptor().value();
    std::vector<std::byte> damaged = of_b;
    damaged[damaged.size() / 2] ^= std::byte{1};
    CHECK_FALSE(a->connect(damaged).ok());
    const std::span<const std::byte> whole(of_b);
    CHECK_FALSE(a->connect(whole.first(whole.size() - 1)).ok());
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

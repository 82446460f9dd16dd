// Datagram ports: one port with many peers, and datagrams that are lost silently.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <deque>
#include <optional>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;
using transport::service;

namespace {

constexpr std::uint32_t shared_key = 11;

endpoint_options with_key(std::uint32_t qkey) {
  endpoint_options o;
  o.qkey = qkey;
  return o;
}

constexpr const char* connections_only = "this transport carries connections only";

constexpr const char* nothing_is_lost = "only the simulator loses what it is told to lose";

// A separate host if hosts are simulated, otherwise a separate Context. It has one port.
struct station {
  station(stage& on, const std::string& name, std::size_t bytes)
      : context(of(on, name)),
        worker(context, on.loop()),
        port(worker.datagram(with_key(shared_key)).value()),
        memory(context.allocate(bytes, access::local_write).value()) {}
  static context_options of(stage& on, const std::string& name) {
    context_options c;
    if (on.over() == transport::kind::sim) {
      c.domains.push_back(on.net().make_domain(name));
    } else {
      c.transports = {on.over()};
    }
    return c;
  }
  Context context;
  Worker worker;
  DatagramEndpoint port;
  MemoryRegion memory;
};

// Two ports that have each other's key, and memory of each.
struct two_ports {
  two_ports(stage& on, std::size_t bytes, const endpoint_options& receiver = with_key(shared_key))
      : a(on.client().datagram(with_key(shared_key)).value()),
        b(on.server().datagram(receiver).value()),
        out(client_memory(on, bytes)),
        in(server_memory(on, bytes)),
        to(b.self().value()) {}
  DatagramEndpoint a;
  DatagramEndpoint b;
  MemoryRegion out;
  MemoryRegion in;
  datagram_peer to;
};

task<> settle(stage& on) {
  for (int i = 0; i < 200; ++i) co_await moment(on);
}

template <class T>
concept reads_remote_memory =
    requires(T port, RemoteSlice remote, Slice local) { port.read(remote, local); };
template <class T>
concept writes_remote_memory =
    requires(T port, RemoteSlice remote, Slice local) { port.write(remote, local); };
template <class T>
concept flushes = requires(T port) { port.flush(); };

static_assert(reads_remote_memory<Endpoint> && !reads_remote_memory<DatagramEndpoint>);
static_assert(writes_remote_memory<Endpoint> && !writes_remote_memory<DatagramEndpoint>);
static_assert(flushes<Endpoint> && !flushes<DatagramEndpoint>);

}  // namespace

TEST_CASE("L7: a transport has datagrams, or refuses a port for them by its name") {
  stage s;
  s.play([](stage& on) -> task<> {
    const result<DatagramEndpoint> port = on.client().datagram();
    CHECK(port.ok() == on.caps().supports(service::ud, opcode::send));
    const bool as_streams = on.over() == transport::kind::shm || on.over() == transport::kind::tcp;
    CHECK(port.ok() != as_streams);
    if (port.ok()) co_return;
    CHECK(port.code() == errc::not_supported);
    CHECK(port.why().message().find(transport::name(on.over())) != std::string::npos);
  });
}

TEST_CASE("L7: one port talks to 1 to 8 peers, and answers each by the address it came from" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    DatagramEndpoint hub = on.server().datagram(with_key(shared_key)).value();
    MemoryRegion room = server_memory(on, 512);
    const datagram_peer of_hub = hub.self().value();
    std::deque<station> peers;
    while (peers.size() < 8) {
      peers.emplace_back(on, "peer" + std::to_string(peers.size()), 1024);
      CAPTURE(peers.size());
      for (std::size_t i = 0; i < peers.size(); ++i) {
        station& peer = peers[i];
        const Slice out = peer.memory.all().first(512);
        const Slice in = peer.memory.all().part(512, 512);
        fill(out.bytes(), i);
        datagram_recv_operation asked = hub.recv_from(room).start();
        co_await peer.port.send_imm_to(of_hub, out, 7);
        const Datagram got = co_await asked;
        CHECK(got.bytes == 512);
        CHECK(got.has_imm);
        CHECK(got.imm == 7);
        CHECK(filled(room.bytes(), i));
        CHECK(got.from.queue_pair == peer.port.self().value().queue_pair);
        datagram_recv_operation answered = peer.port.recv_from(in).start();
        co_await hub.send_to(got.from, room);
        const Datagram answer = co_await answered;
        CHECK(answer.from.queue_pair == of_hub.queue_pair);
        CHECK_FALSE(answer.has_imm);
        CHECK(filled(in.bytes(), i));
      }
    }
  });
}

TEST_CASE("L7: the longest datagram goes through, one byte more is refused and never posted" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    const std::size_t most = on.caps().max_datagram;
    two_ports p(on, most + 1);
    REQUIRE(most > 0);
    CHECK(p.a.max_datagram() == most);
    fill(p.out.bytes(), 3);
    datagram_recv_operation receiving = p.b.recv_from(p.in).start();
    const result<void> refused = co_await p.a.send_to(p.to, p.out).result();
    CHECK(refused.code() == errc::invalid_value);
    CHECK(p.a.counters().sends == 0);
    co_await p.a.send_to(p.to, p.out.all().first(most));
    const Datagram got = co_await receiving;
    CHECK(got.bytes == most);
    CHECK(filled(p.in.bytes().first(most), 3));
    CHECK(p.a.counters().sends == 1);
    MemoryRegion foreign = server_memory(on, 8);
    const result<void> elsewhere = co_await p.a.send_to(p.to, foreign).result();
    CHECK(elsewhere.code() == errc::invalid_value);
    const datagram_peer nowhere;
    const result<void> nobody = co_await p.a.send_to(nowhere, p.out.all().first(1)).result();
    CHECK(nobody.code() == errc::invalid_value);
    MemoryRegion fixed = server_memory(on, 8, access::local_read);
    const result<Datagram> unwritable = co_await p.b.recv_from(fixed).result();
    CHECK(unwritable.code() == errc::not_permitted);
    CHECK(p.a.state() == endpoint_state::connected);
  });
}

TEST_CASE("L7: a wrong key, no receive and a receive too small drop the datagram in silence" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    two_ports p(on, 64);
    const bool counted = on.over() == transport::kind::sim;
    co_await p.a.send_to(p.to, p.out);  // no receive is posted
    co_await settle(on);
    if (counted) CHECK(on.net().counters().ud_no_receive == 1);
    datagram_recv_operation receiving = p.b.recv_from(p.in.all().first(32)).start();
    co_await p.a.send_to(p.to, p.out);  // the receive is too small
    co_await settle(on);
    CHECK_FALSE(receiving.done());
    if (counted) CHECK(on.net().counters().ud_no_receive == 2);
    datagram_peer stranger = p.to;
    stranger.qkey = shared_key + 1;
    co_await p.a.send_to(stranger, p.out);
    co_await settle(on);
    if (counted) CHECK(on.net().counters().ud_wrong_qkey == 1);
    CHECK_FALSE(receiving.done());
    co_await p.a.send_to(p.to, p.out.all().first(32));
    const Datagram got = co_await receiving;
    CHECK(got.bytes == 32);
  });
}

TEST_CASE("L7: what is sent to a group reaches its three members, and nobody who left" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    const transport::address name{"239.0.0.1", 0};
    DatagramEndpoint speaker = on.client().datagram(with_key(shared_key)).value();
    MemoryRegion out = client_memory(on, 64);
    std::deque<station> members;
    for (int i = 0; i < 3; ++i) {
      members.emplace_back(on, "member" + std::to_string(i), 64);
      CHECK(members.back().port.join(name).ok());
    }
    const datagram_peer everybody = speaker.group(name).value();
    std::vector<datagram_recv_operation> receiving;
    for (station& m : members) receiving.push_back(m.port.recv_from(m.memory).start());
    fill(out.bytes(), 5);
    co_await speaker.send_to(everybody, out);
    for (std::size_t i = 0; i < 3; ++i) {
      datagram_recv_operation& op = receiving[i];
      const Datagram got = co_await op;
      CHECK(got.bytes == 64);
      CHECK(got.from.queue_pair == speaker.self().value().queue_pair);
      CHECK(filled(members[i].memory.bytes(), 5));
    }
    CHECK(members[0].port.leave(name).ok());
    CHECK(members[0].port.leave(name).code() == errc::not_found);
    CHECK(speaker.join(transport::address{"", 0}).code() == errc::invalid_value);
    receiving.clear();
    for (station& m : members) receiving.push_back(m.port.recv_from(m.memory).start());
    co_await speaker.send_to(everybody, out);
    datagram_recv_operation& last = receiving[2];
    co_await last;
    co_await settle(on);
    CHECK_FALSE(receiving[0].done());
    CHECK(receiving[1].done());
  });
}

TEST_CASE("L7: loss is seen as loss: sends succeed, fewer arrive, and nothing ends" *
          only_on(transport::kind::sim, nothing_is_lost)) {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t count = 2000;
    CAPTURE(on.net().seed());
    on.net().set_links({.bits_per_second = 100'000'000, .loss = 0.1});
    endpoint_options deep = with_key(shared_key);
    deep.recv_depth = 16;  // more receives than this wait for a queue entry
    deep.send_depth = 16;
    two_ports p(on, count * 8, deep);
    std::vector<datagram_recv_operation> receiving;
    receiving.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      receiving.push_back(p.b.recv_from(p.in.all().part(i * 8, 8)).start());
    }
    for (std::size_t i = 0; i < count; ++i) {
      p.out.as<std::uint64_t>()[0] = i + 1;
      co_await p.a.send_to(p.to, p.out.all().first(8));
    }
    co_await settle(on);
    std::size_t arrived = 0;
    std::uint64_t last = 0;
    for (const datagram_recv_operation& op : receiving) {
      if (!op.done()) continue;
      const std::uint64_t number = p.in.as<std::uint64_t>()[arrived++];
      CHECK(number > last);
      last = number;
    }
    CHECK(arrived == count - on.net().faults().lost);
    CHECK(arrived > count / 2);
    CHECK(arrived < count);
    CHECK(p.a.state() == endpoint_state::connected);
    CHECK(p.b.state() == endpoint_state::connected);
  });
}

TEST_CASE("L7: a receive destroyed while posted swallows one datagram and touches nothing freed" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    two_ports p(on, 8);
    {
      MemoryRegion gone = server_memory(on, 8);
      datagram_recv_operation abandoned = p.b.recv_from(gone).start();
      CHECK(p.b.inflight() == 1);
    }
    CHECK(p.b.inflight() == 1);
    co_await p.a.send_to(p.to, p.out);  // lands in the buffer kept for the canceled receive
    co_await settle(on);
    CHECK(p.b.inflight() == 0);
    datagram_recv_operation receiving = p.b.recv_from(p.in).start();
    co_await p.a.send_to(p.to, p.out);
    const Datagram got = co_await receiving;
    CHECK(got.from.queue_pair == p.a.self().value().queue_pair);
  });
}

TEST_CASE("L7: canceling withdraws what waits for a place; closing flushes what is posted" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow = with_key(shared_key);
    shallow.recv_depth = 1;
    DatagramEndpoint b = on.server().datagram(shallow).value();
    MemoryRegion in = server_memory(on, 8);
    std::vector<datagram_recv_operation> receiving;
    const std::size_t depth = b.actual().recv_depth;
    for (std::size_t i = 0; i < depth + 1; ++i) receiving.push_back(b.recv_from(in).start());
    receiving[depth].cancel();
    CHECK(receiving[depth].done());
    receiving[0].cancel();
    CHECK_FALSE(receiving[0].done());
    co_await b.close();
    for (std::size_t i = 0; i < depth + 1; ++i) {
      datagram_recv_operation& op = receiving[i];
      const result<Datagram> r = co_await op.result();
      CHECK(r.code() == (i == depth ? errc::canceled : errc::flushed));
    }
    CHECK(b.state() == endpoint_state::closed);
    CHECK(b.self().code() == errc::bad_state);
    const result<Datagram> late = co_await b.recv_from(in).result();
    CHECK(late.code() == errc::not_connected);
  });
}

TEST_CASE("L7: a request that fails ends alone; the port serves its other peers" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    two_ports p(on, 8);
    datagram_peer whom = p.to;
    if (on.over() == transport::kind::sim) {
      on.net().fail_request("client", 1, transport::wc_status::loc_qp_op_err);
    } else {
      whom.address_length = 3;  // no address that a device could send to
    }
    const result<void> failed = co_await p.a.send_to(whom, p.out).result();
    CHECK_FALSE(failed.ok());
    CHECK(p.a.state() == endpoint_state::connected);
    datagram_recv_operation receiving = p.b.recv_from(p.in).start();
    co_await p.a.send_to(p.to, p.out);
    co_await receiving;
    co_await on.client().flush();  // has no peer to query, and succeeds
  });
}

TEST_CASE("L7: a datagram port is not connected, and an Endpoint is no datagram port" *
          not_on({transport::kind::shm, transport::kind::tcp}, connections_only)) {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options ud;
    ud.type = service::ud;
    CHECK(on.client().prepare(ud).code() == errc::invalid_value);
    Listener listener = on.server().listen(on.server_address()).value();
    connect_options to;
    to.endpoint = ud;
    const result<Endpoint> r = co_await on.client().connect(on.reach(listener), to).result();
    CHECK(r.code() == errc::invalid_value);
    on.client().limit_endpoints(1);
    DatagramEndpoint first = on.client().datagram().value();
    CHECK(on.client().datagram().code() == errc::full);
    first = DatagramEndpoint();
    CHECK(on.client().counters().endpoints == 0);
  });
}

TEST_CASE("L7: a port is found at the address that it is bound to, until it closes" *
          only_on(transport::kind::verbs, "it is rdma_cm that finds ports")) {
  stage s;
  s.play([](stage& on) -> task<> {
    two_ports p(on, 64, with_key(transport::bound_qkey));
    const transport::address at = p.b.bind(own_host() + ":0").value();
    CHECK(at.port != 0);
    DatagramEndpoint other = on.server().datagram(with_key(transport::bound_qkey)).value();
    CHECK(other.bind(at.text()).code() == errc::in_use);
    CHECK(p.a.bind(own_host() + ":0").code() == errc::invalid_value);
    // Several lookups at once, and one that is abandoned.
    resolve_operation first = p.a.resolve(at.text()).start();
    resolve_operation second = p.a.resolve(at.text()).start();
    std::optional<resolve_operation> dropped(p.a.resolve(at.text()).start());
    dropped.reset();
    const datagram_peer found = co_await first;
    const datagram_peer again = co_await second;
    CHECK(found.address == again.address);
    // A port reports its IPv4 address if it has both an IPv4 and an IPv6 address.
    const bool by_ipv6 = at.host.find(':') != std::string::npos;
    CHECK((found.address == p.to.address) != by_ipv6);
    CHECK(found.queue_pair == p.to.queue_pair);
    CHECK(found.qkey == transport::bound_qkey);
    CHECK(again.queue_pair == p.to.queue_pair);
    datagram_recv_operation receiving = p.b.recv_from(p.in).start();
    co_await p.a.send_to(found, p.out);
    co_await receiving;
    // The port no longer exists.
    resolve_operation flushed = p.b.resolve(at.text()).start();
    co_await p.b.close();
    const result<datagram_peer> ended = co_await flushed.result();
    CHECK(ended.code() == errc::flushed);
    const result<datagram_peer> gone = co_await p.a.resolve(at.text()).result();
    CHECK(gone.code() == errc::unreachable);
    const result<datagram_peer> unnamed = co_await p.a.resolve("no port").result();
    CHECK(unnamed.code() == errc::invalid_value);
  });
}

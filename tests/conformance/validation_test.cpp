// Errors in a request are always found before it is posted: there is no mode to enable.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <array>

using namespace cordma;
using namespace cordma::test;

namespace {

task<> refused(Endpoint& e, send_operation op, errc expected) {
  const result<void> r = co_await op.result();
  CHECK(r.code() == expected);
  CHECK(e.counters().sends == 0);
}

task<> refused(Endpoint& e, recv_operation op, errc expected) {
  const result<Received> r = co_await op.result();
  CHECK(r.code() == expected);
  CHECK(e.counters().recvs == 0);
}

task<> refused(Endpoint& e, atomic_operation op, errc expected) {
  const result<std::uint64_t> r = co_await op.result();
  CHECK(r.code() == expected);
  CHECK(e.counters().sends == 0);
}

}  // namespace

TEST_CASE("D12: a bad local slice is refused without being posted") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    Endpoint& e = w.client;
    MemoryRegion good = client_memory(on, 64);
    MemoryRegion fixed = client_memory(on, 64, access::local_read);
    MemoryRegion foreign = server_memory(on, 64);
    MemoryRegion target = server_memory(on, 64);
    const RemoteMemory remote = exported(target);
    std::array<std::byte, 64> unregistered{};
    const Slice nobodys(nullptr, unregistered.data(), unregistered.size());
    const std::vector<Slice> pieces(most_segments + 1, good.all().first(1));
    const std::vector<Slice> beyond(w.client.actual().max_segments + 1, good.all().first(1));
    for (const Slice& bad : {nobodys, foreign.all()}) {
      co_await refused(e, e.send(bad), errc::invalid_value);
      co_await refused(e, e.send_imm(bad, 1), errc::invalid_value);
      co_await refused(e, e.write(remote, bad), errc::invalid_value);
      co_await refused(e, e.write_imm(remote, bad, 1), errc::invalid_value);
      co_await refused(e, e.read(remote, bad), errc::invalid_value);
      co_await refused(e, e.recv(bad), errc::invalid_value);
    }
    co_await refused(e, e.read(remote, fixed), errc::not_permitted);
    co_await refused(e, e.recv(fixed), errc::not_permitted);
    co_await refused(e, e.send(pieces), errc::invalid_value);
    co_await refused(e, e.recv(pieces), errc::invalid_value);
    co_await refused(e, e.send(beyond), errc::invalid_value);
    co_await refused(e, e.recv(beyond), errc::invalid_value);
    CHECK(e.inflight() == 0);
    CHECK(e.state() == endpoint_state::connected);
    recv_operation receiving = w.server.recv(target).start();
    co_await e.send(good);
    co_await receiving;
    CHECK(e.counters().sends == 1);
  });
}

TEST_CASE("D12: a bad remote slice is refused without being posted") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    Endpoint& e = w.client;
    MemoryRegion local = client_memory(on, 64);
    MemoryRegion target = server_memory(on, 64);
    const RemoteMemory remote = exported(target);
    const RemoteSlice shorter = remote.slice(0, 63).value();
    const RemoteSlice odd = remote.slice(4, 8).value();
    const RemoteSlice word = remote.slice(0, 8).value();
    const RemoteSlice unexported(0x1000, 64, {});
    CHECK(remote.slice(1, 64).code() == errc::invalid_value);
    co_await refused(e, e.write(shorter, local), errc::invalid_value);
    co_await refused(e, e.write_imm(shorter, local, 1), errc::invalid_value);
    co_await refused(e, e.read(shorter, local), errc::invalid_value);
    co_await refused(e, e.write(unexported, local), errc::not_permitted);
    co_await refused(e, e.read(unexported, local), errc::not_permitted);
    co_await refused(e, e.fetch_add(odd, 1), errc::invalid_value);
    co_await refused(e, e.compare_swap(odd, 0, 1), errc::invalid_value);
    co_await refused(e, e.fetch_add(shorter, 1), errc::invalid_value);
    CHECK(all_zero(target.bytes()));
    CHECK(e.inflight() == 0);
    co_await e.fetch_add(word, 3);
    CHECK(target.as<std::uint64_t>()[0] == 3);
    CHECK(e.counters().sends == 1);
  });
}

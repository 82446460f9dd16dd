// D11: every request failure that a peer or a network can really cause. The failed operation
// reports the failure, earlier ones are done, later ones are flushed, and a new connection works.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>

using namespace cordma;
using namespace cordma::test;
using transport::kind;
using transport::opcode;
using transport::wc_status;

namespace {

constexpr std::size_t size = 16;

struct expected {
  errc code;
  wc_status status;
};

void check_failed(const result<void>& r, const expected& how) {
  REQUIRE_FALSE(r.ok());
  CHECK(r.code() == how.code);
  CHECK(r.why().wc_status() == static_cast<std::uint16_t>(how.status));
}

task<> closed(Endpoint& e) {
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
}

task<> still_works(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion out = client_memory(on, size);
  MemoryRegion in = server_memory(on, size);
  fill(out.bytes(), 7);
  recv_operation receiving = w.server.recv(in).start();
  co_await w.client.send(out);
  const Received got = co_await receiving;
  CHECK(got.bytes == size);
  CHECK(filled(in.bytes(), 7));
}

// `victim` is posted between a completed write and two flushed ones.
task<> fails_between(stage& on, wire& w, send_operation victim, expected how) {
  MemoryRegion out = client_memory(on, size);
  MemoryRegion target = server_memory(on, size);
  const RemoteMemory remote = exported(target);
  fill(out.bytes(), 3);
  send_operation before = w.client.write(remote, out).start();
  victim.start();
  send_operation first_behind = w.client.write(remote, out).start();
  send_operation second_behind = w.client.flush().start();
  const result<void> good = co_await before.result();
  CHECK(good.ok());
  const result<void> bad = co_await victim.result();
  check_failed(bad, how);
  for (send_operation* behind : {&first_behind, &second_behind}) {
    send_operation& op = *behind;
    const result<void> flushed = co_await op.result();
    // On shm a write completes when it is posted, which may be before the peer refuses the victim.
    if (on.over() == kind::shm && flushed.ok()) continue;
    check_failed(flushed, {errc::flushed, wc_status::wr_flush_err});
    CHECK(flushed.why().first_cause().code() == how.code);
  }
  CHECK(filled(target.bytes(), 3));
  co_await closed(w.client);
  co_await closed(w.server);
  CHECK(w.client.first_cause()->code() == how.code);
  co_await still_works(on);
}

}  // namespace

TEST_CASE("D11: REM_ACCESS: a key that nobody gave out, on reads and writes") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const opcode what : {opcode::read, opcode::write, opcode::write_imm}) {
      CAPTURE(transport::name(what));
      wire w = co_await connect(on);
      MemoryRegion mine = client_memory(on, size);
      MemoryRegion theirs = server_memory(on, size);
      const RemoteSlice right = exported(theirs).all();
      const RemoteSlice wrong(right.addr(), size, flipped_keys(right, std::uint64_t{1} << 20));
      // Without a receive, a write with immediate would be retried before its key is checked.
      MemoryRegion in = server_memory(on, size);
      recv_operation waiting = w.server.recv(in).start();
      send_operation victim = what == opcode::read    ? w.client.read(wrong, mine)
                              : what == opcode::write ? w.client.write(wrong, mine)
                                                      : w.client.write_imm(wrong, mine, 1);
      const expected refusal(errc::remote_access, wc_status::rem_access_err);
      co_await fails_between(on, w, std::move(victim), refusal);
      CHECK(all_zero(theirs.bytes()));
      const result<Received> unused = co_await waiting.result();
      // On verbs the write with immediate has consumed the receive before its key is checked.
      const bool taken = what == opcode::write_imm && on.over() == transport::kind::verbs;
      CHECK(unused.code() == (taken ? errc::remote_access : errc::flushed));
    }
  });
}

TEST_CASE("D11: REM_INV_REQ and LOC_LEN: a message longer than its receive, told to both sides") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, size);
    MemoryRegion in = server_memory(on, 2 * size);
    recv_operation fitting = w.server.recv(in.all().first(size)).start();
    recv_operation short_one = w.server.recv(in.all().part(size, size / 2)).start();
    recv_operation behind = w.server.recv(in.all().first(size)).start();
    co_await w.client.send(out);
    const Received got = co_await fitting;
    CHECK(got.bytes == size);
    send_operation sending = w.client.send(out).start();
    const result<Received> cut = co_await short_one.result();
    CHECK(cut.code() == errc::truncated);
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.why().wc_status() == static_cast<std::uint16_t>(wc_status::loc_len_err));
    const result<Received> flushed = co_await behind.result();
    CHECK(flushed.code() == errc::flushed);
    const result<void> refused = co_await sending.result();
    // On shm a send completes when the message is in the ring; the connection reports its failure
    // later.
    if (on.over() != kind::shm)
      check_failed(refused, {errc::truncated, wc_status::rem_inv_req_err});
    co_await closed(w.client);
    CHECK(w.client.first_cause()->code() == errc::truncated);
    CHECK(w.client.first_cause()->wc_status() ==
          static_cast<std::uint16_t>(wc_status::rem_inv_req_err));
    co_await still_works(on);
  });
}

TEST_CASE("D11: RNR_RETRY_EXC: a message that finds no receive for as long as it may be offered") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options hasty;
    hasty.rnr_retry = 2;
    hasty.rnr_timer = std::chrono::milliseconds(1);
    wire w = co_await connect(on, hasty, endpoint_options());
    MemoryRegion out = client_memory(on, size);
    const time_point started = on.loop().now();
    send_operation sending = w.client.send(out).start();
    send_operation behind = w.client.flush().start();
    const result<void> refused = co_await sending.result();
    const result<void> flushed = co_await behind.result();
    CHECK(on.loop().now() - started >= 2 * hasty.rnr_timer);  // not before the requested time
    if (on.over() != kind::shm) {                             // as above, the send completed on shm
      check_failed(refused, {errc::remote_not_ready, wc_status::rnr_retry_exc_err});
    }
    CHECK(flushed.code() == errc::flushed);
    co_await closed(w.client);
    CHECK(w.client.first_cause()->code() == errc::remote_not_ready);
    CHECK(w.client.first_cause()->wc_status() ==
          static_cast<std::uint16_t>(wc_status::rnr_retry_exc_err));
    co_await still_works(on);
  });
}

TEST_CASE(
    "D11: RETRY_EXC: every packet is lost; the first request in line says so, the rest are "
    "flushed" *
    only_on(kind::sim, "only the simulator loses every packet of a link")) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion mine = client_memory(on, size);
    MemoryRegion theirs = server_memory(on, size);
    const RemoteMemory remote = exported(theirs);
    co_await w.client.write(remote, mine);
    on.net().set_links({.loss = 1.0});
    send_operation first = w.client.write(remote, mine).start();
    send_operation second = w.client.read(remote, mine).start();
    recv_operation waiting = w.client.recv(mine).start();
    const result<void> lost = co_await first.result();
    const result<void> behind = co_await second.result();
    const result<Received> none = co_await waiting.result();
    check_failed(lost, {errc::connection_reset, wc_status::retry_exc_err});
    check_failed(behind, {errc::flushed, wc_status::wr_flush_err});
    CHECK(behind.why().first_cause().wc_status() ==
          static_cast<std::uint16_t>(wc_status::retry_exc_err));
    CHECK(none.code() == errc::flushed);
    on.net().set_links({});
    co_await still_works(on);
  });
}

TEST_CASE("D11: WR_FLUSH: what was under way when the peer went names what ended it") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion in = client_memory(on, size);
    recv_operation waiting = w.client.recv(in).start();
    w.server.abort();
    const result<Received> none = co_await waiting.result();
    CHECK(none.code() == errc::flushed);
    REQUIRE_FALSE(none.ok());
    CHECK(none.why().wc_status() == static_cast<std::uint16_t>(wc_status::wr_flush_err));
    CHECK(none.why().first_cause().code() == errc::connection_reset);
    co_await still_works(on);
  });
}

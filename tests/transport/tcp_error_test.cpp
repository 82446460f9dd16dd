// Failures are the same as on an RDMA NIC: the right status, nothing changed, both ends in error.
#include "tcp_support.hpp"

using namespace tcp_test;

namespace {

// The request fails with `status`, later requests are flushed, and both sides receive the event.
void expect_both_down(connected& c, std::uint64_t id, wc_status status) {
  const tp::completion failed = c.next(c.a);
  CHECK(failed.id == id);
  CHECK(failed.status == status);
  const tp::cm_event here = c.event(c.a);
  CHECK(here.what == tp::cm_event::type::disconnected);
  CHECK(here.pair == c.left.get());
  CHECK(here.why.code() == tp::to_errc(status));
  const tp::cm_event there = c.event(c.b);
  CHECK(there.what == tp::cm_event::type::disconnected);
  CHECK(there.why.message().find("127.0.0.1") != std::string::npos);
  memory m(*c.domain, 8);
  const tp::segment s = m.all();
  post(*c.left, request(opcode::send, 100, s));
  post(*c.right, request(opcode::send, 101, s));
  post_recv(*c.left, 102, s);
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
  CHECK(c.next(c.b).status == wc_status::wr_flush_err);
}

constexpr opcode one_sided[] = {opcode::write, opcode::write_imm, opcode::read, opcode::fetch_add,
                                opcode::compare_swap};
tp::access needed(opcode op) {
  if (op == opcode::read) return tp::access::remote_read;
  return op == opcode::write || op == opcode::write_imm ? tp::access::remote_write
                                                        : tp::access::remote_atomic;
}
tp::access all_but(tp::access a) {
  return static_cast<tp::access>(static_cast<unsigned>(tp::all_remote) & ~static_cast<unsigned>(a));
}

}  // namespace

TEST_CASE("tcp: region and connection must both grant the right") {
  for (const opcode op : one_sided) {
    for (const bool region : {false, true}) {
      for (const bool connection : {false, true}) {
        CAPTURE(tp::name(op));
        CAPTURE(region);
        CAPTURE(connection);
        const tp::access right = needed(op);
        connected c({}, {.remote_access = connection ? tp::all_remote : all_but(right)});
        memory own(*c.domain, 8);
        own.fill(1);
        memory remote(*c.domain, 8, region ? tp::all_remote : all_but(right));
        const std::vector<std::byte> before = remote.bytes;
        post_recv(*c.right, 1, remote.all());
        const tp::segment s = own.all();
        tp::send_request r = request(op, 1, s, remote);
        r.operand = op == opcode::fetch_add ? 1 : 0;
        r.swap = 1;
        post(*c.left, r);
        if (region && connection) {
          CHECK(c.next(c.a).status == wc_status::success);
          CHECK((op == opcode::read || remote.bytes != before));
        } else {
          expect_both_down(c, 1, wc_status::rem_access_err);
          CHECK(remote.bytes == before);
        }
      }
    }
  }
}

TEST_CASE("tcp: a wrong key, a range out of bounds and a key no longer valid are refused") {
  for (const opcode op : one_sided) {
    for (int wrong = 0; wrong < 4; ++wrong) {
      CAPTURE(tp::name(op));
      CAPTURE(wrong);
      connected c;
      memory own(*c.domain, 16);
      own.fill(1);
      memory remote(*c.domain, 64, tp::all_remote);
      memory unused(*c.domain, 8);
      const std::vector<std::byte> before = remote.bytes;
      post_recv(*c.right, 1, unused.all());
      const tp::segment s = own.slice(0, 8);
      tp::send_request r = request(op, 1, s, remote);
      if (wrong == 0) r.rkey ^= 1ULL << 40;
      if (wrong == 1) r.remote_addr += 64;
      if (wrong == 2) r.remote_addr = UINT64_MAX - 7;
      if (wrong == 3) {
        memory gone(*c.domain, 8, tp::all_remote);
        r.rkey = gone.keys.rkey;
        r.remote_addr = gone.addr();
      }
      post(*c.left, r);
      expect_both_down(c, 1, wc_status::rem_access_err);
      CHECK(remote.bytes == before);
    }
  }
}

TEST_CASE("tcp: what was posted before a failing request succeeds, what follows is flushed") {
  connected c;
  memory own(*c.domain, 1 << 20);
  memory remote(*c.domain, 1 << 20, tp::all_remote);
  own.fill(1);
  const tp::segment s = own.all();
  post(*c.left, request(opcode::write, 1, s, remote));
  post(*c.left, request(opcode::read, 2, s, remote));
  tp::send_request bad = request(opcode::write, 3, s, remote);
  bad.remote_addr += 1;
  post(*c.left, bad);
  post(*c.left, request(opcode::write, 4, s, remote));
  post(*c.left, request(opcode::read, 5, s, remote));
  c.until([&c] { return c.a.done.size() == 5; });
  const wc_status expected[] = {wc_status::success, wc_status::success, wc_status::rem_access_err,
                                wc_status::wr_flush_err, wc_status::wr_flush_err};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(c.a.done[i].id == i + 1);
    CHECK(c.a.done[i].status == expected[i]);
  }
  CHECK(own.bytes == remote.bytes);
}

TEST_CASE("tcp: misaligned atomics are invalid requests") {
  connected c;
  memory own(*c.domain, 8);
  memory remote(*c.domain, 64, tp::all_remote);
  const tp::segment s = own.all();
  post(*c.left, request(opcode::fetch_add, 1, s, remote, 4));
  expect_both_down(c, 1, wc_status::rem_inv_req_err);
}

TEST_CASE("tcp: a message longer than its receive fails on both sides") {
  for (const std::size_t size : {9U, 100'000U, 8U << 20}) {
    CAPTURE(size);
    connected c;
    memory own(*c.domain, size);
    memory small(*c.domain, 8);
    post_recv(*c.right, 1, small.all());
    post_recv(*c.right, 2, small.all());
    const tp::segment s = own.all();
    post(*c.left, request(opcode::send, 1, s));
    const tp::completion got = c.next(c.b);
    CHECK(got.id == 1);
    CHECK(got.status == wc_status::loc_len_err);
    CHECK(c.next(c.b).status == wc_status::wr_flush_err);
    expect_both_down(c, 1, wc_status::rem_inv_req_err);
  }
}

TEST_CASE("tcp: a request whose local memory is not registered fails in its turn") {
  connected c;
  memory own(*c.domain, 64);
  memory remote(*c.domain, 64, tp::all_remote);
  const tp::segment s = own.all();
  tp::segment bad = s;
  bad.lkey += 1000;
  post(*c.left, request(opcode::write, 1, s, remote));
  post(*c.left, request(opcode::write, 2, bad, remote));
  post(*c.left, request(opcode::write, 3, s, remote));
  CHECK(c.next(c.a).status == wc_status::success);
  const tp::completion failed = c.next(c.a);
  CHECK(failed.id == 2);
  CHECK(failed.status == wc_status::loc_prot_err);
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
  CHECK(c.event(c.b).why.code() == errc::connection_reset);
}

TEST_CASE("tcp: a read into memory that may not be written fails locally") {
  connected c;
  memory own(*c.domain, 64, tp::access::local_read);
  memory remote(*c.domain, 64, tp::all_remote);
  const tp::segment s = own.all();
  post(*c.left, request(opcode::read, 1, s, remote));
  CHECK(c.next(c.a).status == wc_status::loc_prot_err);
}

TEST_CASE("tcp: a message without a receive is offered rnr_retry times [virtual time]") {
  cordma::virtual_clock time;
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{3}}) {
    CAPTURE(static_cast<unsigned>(retries));
    connected c({.rnr_retry = retries, .rnr_timer = std::chrono::milliseconds(10)}, {},
                {.mode = cordma::wait_mode::polling, .time = &time});
    memory own(*c.domain, 8);
    const tp::segment s = own.all();
    const cordma::time_point start = time.now();
    post(*c.left, request(opcode::send, 1, s));
    for (unsigned i = 0; i < retries; ++i) {
      c.settle();
      CHECK(c.a.done.empty());
      time.advance_to(time.now() + std::chrono::milliseconds(10));
    }
    CHECK(c.next(c.a).status == wc_status::rnr_retry_exc_err);
    CHECK(time.now() - start == retries * std::chrono::milliseconds(10));
    CHECK(c.event(c.a).why.code() == errc::remote_not_ready);
    CHECK(c.event(c.b).what == tp::cm_event::type::disconnected);
  }
}

TEST_CASE("tcp: with rnr_retry 7 a message waits for its receive, and reads pass it") {
  connected c;
  memory own(*c.domain, 8);
  memory other(*c.domain, 8, tp::all_remote);
  const tp::segment s = own.all();
  post(*c.left, request(opcode::send, 1, s));
  c.settle();
  CHECK(c.a.done.empty());
  // The other direction still makes progress.
  memory back(*c.domain, 8);
  const tp::segment t = back.all();
  post(*c.right, request(opcode::read, 2, t, other));
  CHECK(c.next(c.b).status == wc_status::success);
  post_recv(*c.right, 3, back.all());
  CHECK(c.next(c.a).status == wc_status::success);
  CHECK(c.next(c.b).id == 3);
}

TEST_CASE("tcp: a receive posted between two offers lets the message through [virtual time]") {
  cordma::virtual_clock time;
  connected c({.rnr_retry = 1, .rnr_timer = std::chrono::milliseconds(10)}, {},
              {.mode = cordma::wait_mode::polling, .time = &time});
  memory own(*c.domain, 8);
  memory in(*c.domain, 8);
  const tp::segment s = own.all();
  for (std::uint64_t i = 0; i < 5; ++i) {
    post(*c.left, request(opcode::send, i, s));
    c.settle(50);
    CHECK(c.a.done.empty());
    post_recv(*c.right, i, in.all());
    CHECK(c.next(c.a).status == wc_status::success);
    CHECK(c.next(c.b).status == wc_status::success);
  }
}

TEST_CASE("tcp: memory deregistered while the peer writes into it stays as it is") {
  connected c;
  memory own(*c.domain, 64U << 20);
  own.fill(2);
  auto remote = std::make_unique<memory>(*c.domain, 64U << 20, tp::all_remote);
  const tp::segment s = own.all();
  post(*c.left, request(opcode::write, 1, s, *remote));
  c.until([&] { return remote->bytes[0] == own.bytes[0]; });
  remote.reset();  // ASan would see any access from here on
  expect_both_down(c, 1, wc_status::rem_access_err);
}

TEST_CASE("tcp: memory deregistered while the peer reads it ends the connection") {
  connected c;
  memory own(*c.domain, 64U << 20);
  auto remote = std::make_unique<memory>(*c.domain, 64U << 20, tp::all_remote);
  remote->fill(2);
  const std::byte first = remote->bytes[0];
  const tp::segment s = own.all();
  post(*c.left, request(opcode::read, 1, s, *remote));
  c.until([&] { return own.bytes[0] == first; });
  remote.reset();
  CHECK(c.next(c.a).status == wc_status::wr_flush_err);
  CHECK(c.event(c.b).why.code() == errc::remote_access);
}

TEST_CASE("tcp: a queue pair destroyed with everything outstanding touches no buffer any more") {
  connected c;
  memory remote(*c.domain, 8U << 20, tp::all_remote);
  {
    memory own(*c.domain, 8U << 20);
    post_recv(*c.left, 1, own.all());
    const tp::segment s = own.all();
    post(*c.left, request(opcode::write, 2, s, remote));
    post(*c.left, request(opcode::read, 3, s, remote));
    c.left.reset();
  }
  CHECK(c.event(c.b).why.code() == errc::connection_reset);
  CHECK(c.a.done.empty());
}

#include <cordma/net/transport/shm/cell.hpp>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {

TEST_CASE("shm: a message longer than its receive fails both sides [eager and fetched]") {
  for (const std::size_t n : {std::size_t{100}, std::size_t{100'000}}) {
    CAPTURE(n);
    couple c;
    memory from(*c.client.d, n, everything, true);
    memory to(*c.server.d, n, everything, true);
    std::memset(to.data, 0x11, n);
    c.server.recv(1, to.at(0, 99));
    c.server.recv(2, to.at(0, 99));
    c.client.recv(9, from.at(0, 8));
    c.client.send(3, from.at(0, n));
    REQUIRE(c.both_down());
    REQUIRE(pump(c.server, c.client,
                 [&] { return c.server.done.size() == 2 && c.client.done.size() == 2; }));
    CHECK(c.server.find(1)->status == wc_status::loc_len_err);
    CHECK(c.server.find(2)->status == wc_status::wr_flush_err);
    CHECK(c.client.find(9)->status == wc_status::wr_flush_err);
    CHECK(c.client.find(3)->status == (n == 100 ? wc_status::success : wc_status::rem_inv_req_err));
    const failure& why = c.client.saw(cm_event::type::disconnected)->why;
    CHECK(why.code() == errc::truncated);
    CHECK(why.wc_status() == static_cast<std::uint16_t>(wc_status::rem_inv_req_err));
    CHECK(c.server.saw(cm_event::type::disconnected)->why.code() == errc::truncated);
    CHECK(to.data[0] == std::byte{0x11});
    c.client.send(10, from.at(0, 8));
    REQUIRE(pump(c.client, [&] { return c.client.find(10) != nullptr; }));
    CHECK(c.client.find(10)->status == wc_status::wr_flush_err);
  }
}

TEST_CASE("shm: a message that never finds a receive fails both sides after the retries") {
  queue_pair_options o;
  o.rnr_retry = 3;
  o.rnr_timer = std::chrono::microseconds(10);
  for (const std::size_t n : {std::size_t{8}, std::size_t{100'000}}) {
    CAPTURE(n);
    couple c({}, o, o);
    memory from(*c.client.d, n, everything, true);
    c.client.send(1, from.at(0, n));
    REQUIRE(c.both_down());
    const failure& why = c.client.saw(cm_event::type::disconnected)->why;
    CHECK(why.code() == errc::remote_not_ready);
    CHECK(why.wc_status() == static_cast<std::uint16_t>(wc_status::rnr_retry_exc_err));
    REQUIRE(pump(c.client, [&] { return c.client.find(1) != nullptr; }));
    CHECK(c.client.find(1)->status == (n == 8 ? wc_status::success : wc_status::rnr_retry_exc_err));
  }
}

TEST_CASE("shm: with rnr_retry 7 a message waits for a late receive") {
  couple c;
  memory from(*c.client.d, 64, everything, true);
  memory to(*c.server.d, 64, everything, true);
  fill(from.at(0, 64), 4);
  c.client.send(1, from.at(0, 64));
  for (int i = 0; i < 1000; ++i) c.server.poll();
  CHECK(c.server.recv(2, to.at(0, 64)) == posted::done);
  CHECK(same(from.at(0, 64), to.at(0, 64)));
}

TEST_CASE("shm: 16 sends of which the peer took 8 give exactly 8 done and 8 flushed") {
  couple c;
  memory from(*c.client.d, 16 * 20000, everything, true);
  memory to(*c.server.d, 16 * 20000, everything, true);
  for (std::uint64_t i = 0; i < 8; ++i) c.server.recv(100 + i, to.at(i * 20000, 20000));
  for (std::uint64_t i = 0; i < 16; ++i) c.client.send(i, from.at(i * 20000, 20000));
  REQUIRE(pump(c.server, c.client, [&] { return c.client.done.size() == 8; }));
  c.client.q->abort();
  REQUIRE(pump(c.server, c.client, [&] { return c.client.done.size() == 16; }));
  for (int i = 0; i < 1000; ++i) c.client.poll();
  CHECK(c.client.done.size() == 16);
  CHECK(c.client.count(wc_status::success) == 8);
  CHECK(c.client.count(wc_status::wr_flush_err) == 8);
  for (std::uint64_t i = 0; i < 16; ++i) CHECK(c.client.done[i].id == i);
}

TEST_CASE("shm: of 255 requests the second fails: one real error, all others flushed") {
  queue_pair_options o;
  o.send_depth = 255;
  couple c({}, {}, o);
  memory mine(*c.client.d, 4096, everything, true);
  memory theirs(*c.server.d, 4096, everything, true);
  for (std::uint64_t i = 0; i < 255; ++i) {
    c.client.rma(i, opcode::write, mine.at(0, 8), theirs.address(i == 1 ? 4095 : 0),
                 theirs.keys.rkey);
  }
  REQUIRE(pump(c.server, c.client, [&] { return c.client.done.size() == 255; }));
  CHECK(c.client.done[0].status == wc_status::success);
  CHECK(c.client.done[1].status == wc_status::rem_access_err);
  CHECK(c.client.count(wc_status::wr_flush_err) == 253);
}

TEST_CASE("shm: disconnect() carries out what was posted, then ends both sides gracefully") {
  couple c;
  memory from(*c.client.d, 1 << 20, everything, true);
  memory to(*c.server.d, 1 << 20, everything, true);
  c.server.recv(50, to.at(0, 8));
  for (std::uint64_t i = 0; i < 10; ++i) c.client.send(i, from.at(i, i % 2 == 0 ? 8 : 50'000));
  c.client.recv(99, from.at(0, 8));
  c.client.q->disconnect();
  c.client.q->disconnect();
  c.client.send(60, from.at(0, 8));  // after it: flushed
  for (std::uint64_t i = 1; i < 10; ++i) c.server.recv(50 + i, to.at(i * 50'000, 50'000));
  c.server.recv(70, to.at(0, 8));
  REQUIRE(c.both_down());
  REQUIRE(pump(c.server, c.client,
               [&] { return c.client.done.size() == 12 && c.server.done.size() == 11; }));
  CHECK(c.client.count(wc_status::success) == 10);
  CHECK(c.client.find(60)->status == wc_status::wr_flush_err);
  CHECK(c.client.find(99)->status == wc_status::wr_flush_err);
  CHECK(c.server.count(wc_status::success) == 10);
  CHECK(c.server.find(70)->status == wc_status::wr_flush_err);
  CHECK(c.client.saw(cm_event::type::disconnected)->why.code() == errc::not_connected);
  CHECK(c.server.saw(cm_event::type::disconnected)->why.code() == errc::not_connected);
}

TEST_CASE("shm: both sides disconnect at once") {
  couple c;
  c.client.q->disconnect();
  c.server.q->disconnect();
  REQUIRE(c.both_down());
  CHECK(c.client.saw(cm_event::type::disconnected)->why.code() == errc::not_connected);
  CHECK(c.server.saw(cm_event::type::disconnected)->why.code() == errc::not_connected);
}

TEST_CASE("shm: a peer that closed and went: its messages wait for receives") {
  couple c;
  memory from(*c.client.d, 64, everything, true);
  memory to(*c.server.d, 64, everything, true);
  c.client.send(1, from.at(0, 8));
  c.client.q->disconnect();
  c.client.q.reset();
  for (int i = 0; i < 10'000; ++i) c.server.poll();
  CHECK(c.server.events.empty());
  c.server.recv(2, to.at(0, 8));
  REQUIRE(pump(c.server, [&] { return c.server.saw(cm_event::type::disconnected) != nullptr; }));
  CHECK(c.server.find(2)->status == wc_status::success);
  CHECK(c.server.saw(cm_event::type::disconnected)->why.code() == errc::not_connected);
}

TEST_CASE("shm: abort() and destroying are a reset for the peer") {
  for (const bool destroy : {false, true}) {
    couple c;
    memory to(*c.server.d, 64, everything, true);
    c.server.recv(1, to.at(0, 8));
    if (destroy) {
      c.client.q.reset();
    } else {
      c.client.q->abort();
    }
    REQUIRE(pump(c.server, c.client, [&] { return c.server.find(1) != nullptr; }));
    CHECK(c.server.find(1)->status == wc_status::wr_flush_err);
    CHECK(c.server.saw(cm_event::type::disconnected)->why.code() == errc::connection_reset);
  }
}

TEST_CASE("shm: a message whose sender failed while it was fetched is not delivered") {
  couple c;
  memory from(*c.client.d, 4 << 20, everything, true);
  memory to(*c.server.d, 4 << 20, everything, true);
  c.server.recv(1, to.at(0, 4 << 20));
  c.client.send(2, from.at(0, 4 << 20));
  c.server.poll();  // begins; a poll copies at most 1 MiB
  CHECK(c.server.done.empty());
  c.client.q->abort();
  REQUIRE(pump(c.server, c.client, [&] { return c.server.find(1) != nullptr; }));
  CHECK(c.server.find(1)->status == wc_status::wr_flush_err);
  CHECK(c.server.saw(cm_event::type::disconnected)->why.code() == errc::connection_reset);
}

}  // namespace cordma::transport::shm_test

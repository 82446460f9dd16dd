#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

void read_write_atomics(couple& c, bool shared) {
  constexpr std::size_t n = 300'001;
  memory mine(*c.client.d, 2 * n, everything, true);
  memory theirs(*c.server.d, n + 64, everything, shared);
  fill(mine.at(0, n), 3);
  c.client.rma(1, opcode::write, mine.at(0, n), theirs.address(7), theirs.keys.rkey);
  REQUIRE(pump(c.server, c.client, [&] { return c.client.find(1) != nullptr; }));
  CHECK(c.client.find(1)->status == wc_status::success);
  CHECK(std::memcmp(mine.data, theirs.data + 7, n) == 0);
  c.client.rma(2, opcode::read, mine.at(n, n), theirs.address(7), theirs.keys.rkey);
  REQUIRE(pump(c.server, c.client, [&] { return c.client.find(2) != nullptr; }));
  CHECK(same(mine.at(0, n), mine.at(n, n)));

  std::uint64_t word = 40;
  std::memcpy(theirs.data + 8, &word, 8);
  c.client.rma(3, opcode::fetch_add, mine.at(0, 8), theirs.address(8), theirs.keys.rkey, 2);
  c.client.rma(4, opcode::compare_swap, mine.at(8, 8), theirs.address(8), theirs.keys.rkey, 42, 99);
  c.client.rma(5, opcode::compare_swap, mine.at(16, 8), theirs.address(8), theirs.keys.rkey, 1, 5);
  REQUIRE(pump(c.server, c.client, [&] { return c.client.find(5) != nullptr; }));
  std::array<std::uint64_t, 3> old;
  std::memcpy(old.data(), mine.data, sizeof old);
  CHECK(old == std::array<std::uint64_t, 3>{40, 42, 99});
  std::memcpy(&word, theirs.data + 8, 8);
  CHECK(word == 99);
}

}  // namespace

TEST_CASE("shm: reads, writes and atomics [shared memory: mapped by the initiator]") {
  couple c;
  read_write_atomics(c, true);
}

TEST_CASE("shm: reads, writes and atomics [private memory]") {
  couple c;
  read_write_atomics(c, false);
}

TEST_CASE("shm: once a key is known, accesses complete at once and need no work by the target") {
  couple c;
  memory mine(*c.client.d, 4096, everything, true);
  memory theirs(*c.server.d, 4096, everything, true);
  c.client.rma(1, opcode::write, mine.at(0, 8), theirs.address(), theirs.keys.rkey);
  REQUIRE(pump(c.server, c.client, [&] { return c.client.find(1) != nullptr; }));
  CHECK(c.client.rma(2, opcode::write, mine.at(0, 8), theirs.address(), theirs.keys.rkey) ==
        posted::done);
  CHECK(c.client.rma(3, opcode::read, mine.at(0, 8), theirs.address(), theirs.keys.rkey) ==
        posted::done);
  CHECK(c.client.rma(4, opcode::fetch_add, mine.at(0, 8), theirs.address(), theirs.keys.rkey, 1) ==
        posted::done);
}

TEST_CASE("shm: a write with immediate consumes a receive and leaves its buffer alone") {
  couple c;
  memory mine(*c.client.d, 4096, everything, true);
  memory theirs(*c.server.d, 4096, everything, true);
  fill(mine.at(0, 100), 5);
  std::memset(theirs.data, 0, 4096);
  c.server.recv(7, theirs.at(2048, 100));
  c.server.recv(8, theirs.at(2048, 100));
  c.client.rma(1, opcode::write_imm, mine.at(0, 100), theirs.address(64), theirs.keys.rkey, 0, 0,
               0x01020304);
  c.client.rma(2, opcode::write_imm, mine.at(0, 0), 0, 0, 0, 0, 9);  // only the immediate
  REQUIRE(pump(c.server, c.client, [&] { return c.server.done.size() == 2; }));
  CHECK(c.server.done[0].op == opcode::recv_write_imm);
  CHECK(c.server.done[0].byte_len == 100);
  CHECK(c.server.done[0].imm == 0x01020304);
  CHECK(c.server.done[1].imm == 9);
  CHECK(c.server.done[1].byte_len == 0);
  CHECK(std::memcmp(theirs.data + 64, mine.data, 100) == 0);
  CHECK(theirs.data[2048] == std::byte{0});
}

TEST_CASE("shm: an access needs the right on the region and on the connection") {
  struct kind_of_access {
    opcode op;
    access right;
  };
  for (const kind_of_access k : {kind_of_access{opcode::write, access::remote_write},
                                 kind_of_access{opcode::read, access::remote_read},
                                 kind_of_access{opcode::fetch_add, access::remote_atomic}}) {
    for (const bool on_region : {false, true}) {
      for (const bool on_connection : {false, true}) {
        for (const bool shared : {false, true}) {
          CAPTURE(name(k.op));
          CAPTURE(on_region);
          CAPTURE(on_connection);
          CAPTURE(shared);
          queue_pair_options so;
          so.remote_access =
              on_connection ? all_remote : static_cast<access>(14 & ~static_cast<int>(k.right));
          couple c({}, so);
          memory mine(*c.client.d, 4096, everything, true);
          const access others = static_cast<access>(15 & ~static_cast<int>(k.right));
          memory theirs(*c.server.d, 4096, on_region ? everything : others, shared);
          std::memset(mine.data, 0xee, 4096);
          std::memset(theirs.data, 0x11, 4096);
          c.client.rma(1, k.op, mine.at(0, 8), theirs.address(8), theirs.keys.rkey, 1);
          REQUIRE(pump(c.server, c.client, [&] { return c.client.find(1) != nullptr; }));
          if (on_region && on_connection) {
            CHECK(c.client.find(1)->status == wc_status::success);
            continue;
          }
          CHECK(c.client.find(1)->status == wc_status::rem_access_err);
          CHECK(theirs.data[8] == std::byte{0x11});
          REQUIRE(c.both_down());
          CHECK(c.client.saw(cm_event::type::disconnected)->why.code() == errc::remote_access);
        }
      }
    }
  }
}

TEST_CASE("shm: wrong keys, ranges out of bounds and misaligned atomics are refused") {
  struct bad {
    const char* what;
    std::uint64_t key_change;
    std::uint64_t offset;
    std::size_t bytes;
    opcode op;
    wc_status expected;
  };
  for (const bool shared : {false, true}) {
    for (const bad& b :
         {bad{"unknown key", 1ULL << 40, 0, 8, opcode::write, wc_status::rem_access_err},
          bad{"one byte over", 0, 4089, 8, opcode::write, wc_status::rem_access_err},
          bad{"before", 0, ~std::uint64_t{7}, 8, opcode::read, wc_status::rem_access_err},
          bad{"wraps", 0, ~std::uint64_t{0} - 4, 4096, opcode::read, wc_status::rem_access_err},
          bad{"misaligned", 0, 4, 8, opcode::fetch_add, wc_status::rem_inv_req_err}}) {
      CAPTURE(b.what);
      CAPTURE(shared);
      couple c;
      memory mine(*c.client.d, 4096, everything, true);
      memory theirs(*c.server.d, 4096, everything, shared);
      std::memset(theirs.data, 0x11, 4096);
      c.client.rma(1, b.op, mine.at(0, b.bytes), theirs.address() + b.offset,
                   theirs.keys.rkey ^ b.key_change);
      c.client.rma(2, opcode::write, mine.at(0, 8), theirs.address(), theirs.keys.rkey);
      REQUIRE(pump(c.server, c.client, [&] { return c.client.done.size() == 2; }));
      CHECK(c.client.done[0].status == b.expected);
      CHECK(c.client.done[1].status == wc_status::wr_flush_err);
      for (std::size_t i = 0; i < 4096; ++i) CHECK(theirs.data[i] == std::byte{0x11});
      CHECK(c.both_down());
    }
  }
}

TEST_CASE("shm: after deregistering, a key that was in use opens nothing") {
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    couple c;
    memory mine(*c.client.d, 4096, everything, true);
    memory theirs(*c.server.d, 4096, everything, shared);
    c.client.rma(1, opcode::write, mine.at(0, 8), theirs.address(), theirs.keys.rkey);
    REQUIRE(pump(c.server, c.client, [&] { return c.client.find(1) != nullptr; }));
    CHECK(c.client.find(1)->status == wc_status::success);
    theirs.deregister();
    memory again(*c.server.d, 4096, everything, shared);  // takes the same slot
    std::memset(theirs.data, 0x11, 4096);
    std::memset(again.data, 0x11, 4096);
    c.client.rma(2, opcode::write, mine.at(0, 8), theirs.address(), theirs.keys.rkey);
    REQUIRE(pump(c.server, c.client, [&] { return c.client.find(2) != nullptr; }));
    CHECK(c.client.find(2)->status == wc_status::rem_access_err);
    CHECK(theirs.data[0] == std::byte{0x11});
    CHECK(again.data[0] == std::byte{0x11});
  }
}

TEST_CASE("shm: local memory is checked, too") {
  couple c;
  memory mine(*c.client.d, 4096, access::local_read, true);
  memory theirs(*c.server.d, 4096, everything, true);
  SUBCASE("a send from memory that is not registered") {
    c.client.send(1, {mine.data, 8, mine.keys.lkey + 77});
    REQUIRE(pump(c.client, [&] { return c.client.find(1) != nullptr; }));
    CHECK(c.client.find(1)->status == wc_status::loc_prot_err);
  }
  SUBCASE("a read into memory without local_write") {
    c.client.rma(1, opcode::read, mine.at(0, 8), theirs.address(), theirs.keys.rkey);
    REQUIRE(pump(c.server, c.client, [&] { return c.client.find(1) != nullptr; }));
    CHECK(c.client.find(1)->status == wc_status::loc_access_err);
  }
  SUBCASE("a receive into memory without local_write") {
    c.client.recv(1, mine.at(0, 8));
    c.server.send(2, theirs.at(0, 8));
    REQUIRE(pump(c.server, c.client, [&] { return c.client.find(1) != nullptr; }));
    CHECK(c.client.find(1)->status == wc_status::loc_prot_err);
  }
  CHECK(c.both_down());
}

}  // namespace cordma::transport::shm_test

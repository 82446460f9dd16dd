// Two-sided messages: sizes, pieces, order, immediates, and queues that never overflow.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

task<void> pass_message(Endpoint& from, Endpoint& to, Slice data, Slice room, std::uint64_t seed) {
  fill(data.bytes(), seed);
  recv_operation receiving = to.recv(room).start();
  co_await from.send(data);
  const Received got = co_await receiving;
  CHECK(got.bytes == data.size());
  CHECK(got.op == opcode::recv);
  CHECK_FALSE(got.has_imm);
  CHECK(filled(room.bytes().first(got.bytes), seed));
}

}  // namespace

TEST_CASE("I7: a message arrives whole, at every size from nothing to 8 MiB") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    const std::size_t largest = std::min<std::size_t>(8 * mib, on.caps().max_message);
    MemoryRegion out = client_memory(on, largest);
    MemoryRegion in = server_memory(on, largest);
    std::uint64_t seed = 1;
    for (std::size_t size : {std::size_t{0},
                             std::size_t{1},
                             std::size_t{2},
                             std::size_t{7},
                             std::size_t{8},
                             std::size_t{63},
                             std::size_t{64},
                             std::size_t{65},
                             std::size_t{1023},
                             std::size_t{1024},
                             std::size_t{4095},
                             std::size_t{4096},
                             std::size_t{4097},
                             std::size_t{8191},
                             std::size_t{8192},
                             std::size_t{8193},
                             std::size_t{65535},
                             std::size_t{65536},
                             std::size_t{65537},
                             mib - 1,
                             mib,
                             mib + 1,
                             3 * mib + 5,
                             largest}) {
      CAPTURE(size);
      co_await pass_message(w.client, w.server, out.all().first(size), in, ++seed);
      co_await pass_message(w.server, w.client, in.all().first(size), out, ++seed);
    }
  });
}

TEST_CASE("I7: a message longer than its receive ends the connection as truncated on both sides") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (std::size_t size : {std::size_t{65}, std::size_t{100'000}}) {
      CAPTURE(size);
      wire w = co_await connect(on);
      MemoryRegion out = client_memory(on, size);
      MemoryRegion in = server_memory(on, size);
      recv_operation short_one = w.server.recv(in.all().first(64)).start();
      recv_operation behind = w.server.recv(in.all()).start();
      // A software send completes when its buffer is free: the flush behind it reports the result.
      send_operation sending = w.client.send(out.all()).start();
      const result<void> fate = co_await w.client.flush().result();
      const result<void> sent = co_await sending.result();
      const result<Received> got = co_await short_one.result();
      const result<Received> next = co_await behind.result();
      CHECK(got.code() == errc::truncated);
      CHECK(next.code() == errc::flushed);
      REQUIRE_FALSE(fate.ok());
      CHECK(fate.why().first_cause().code() == errc::truncated);
      if (!sent.ok()) CHECK(sent.why().first_cause().code() == errc::truncated);
      REQUIRE(w.client.first_cause() != nullptr);
      CHECK(w.client.first_cause()->first_cause().code() == errc::truncated);
      CHECK(w.server.first_cause()->first_cause().code() == errc::truncated);
      CHECK(all_zero(in.bytes().subspan(64)));
    }
  });
}

TEST_CASE("I9: an immediate arrives with its message, in host order, and so does none") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 100'000);
    MemoryRegion in = server_memory(on, 100'000);
    for (std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{100'000}}) {
      for (std::uint32_t imm : {0x01020304U, 0U, 0xFFFFFFFFU}) {
        fill(out.bytes(), imm);
        recv_operation receiving = w.server.recv(in).start();
        co_await w.client.send_imm(out.all().first(size), imm);
        const Received got = co_await receiving;
        CHECK(got.has_imm);
        CHECK(got.imm == imm);
        CHECK(got.op == opcode::recv);
        CHECK(got.bytes == size);
        CHECK(filled(in.bytes().first(size), imm));
      }
    }
  });
}

TEST_CASE("I9: a write with immediate consumes a receive and leaves its buffer alone") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 70'000);
    MemoryRegion target = server_memory(on, 70'000);
    MemoryRegion room = server_memory(on, 16);
    const RemoteMemory remote = exported(target);
    for (std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{70'000}}) {
      fill(out.bytes(), size);
      recv_operation receiving = w.server.recv(room).start();
      const RemoteSlice to = remote.slice(0, size).value();
      co_await w.client.write_imm(to, out.all().first(size), 0x01020304U);
      const Received got = co_await receiving;
      CHECK(got.op == opcode::recv_write_imm);
      CHECK(got.has_imm);
      CHECK(got.imm == 0x01020304U);
      CHECK(got.bytes == size);
      CHECK(filled(target.bytes().first(size), size));
      CHECK(all_zero(room.bytes()));
    }
  });
}

namespace {

// Cuts `whole` into `pieces` uneven slices; every third one is empty.
std::vector<Slice> cut(const Slice& whole, std::size_t pieces, dice& d) {
  std::vector<Slice> cuts;
  std::size_t at = 0;
  for (std::size_t i = 0; i < pieces; ++i) {
    std::size_t length = i % 3 == 1 ? 0 : d.below(whole.size() - at + 1);
    if (i + 1 == pieces) length = whole.size() - at;
    cuts.push_back(whole.part(at, length));
    at += length;
  }
  return cuts;
}

}  // namespace

TEST_CASE("C7: messages are gathered from and scattered to as many pieces as were granted") {
  constexpr std::uint64_t seed = 7;
  CAPTURE(seed);
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options many;
    many.max_segments = std::min<std::uint32_t>(on.caps().max_segments, most_segments);
    wire w = co_await connect(on, many, many);
    const std::size_t granted =
        std::min<std::size_t>(w.client.actual().max_segments, most_segments);
    CHECK(granted >= many.max_segments);
    dice d(seed);
    MemoryRegion out = client_memory(on, 200'000);
    MemoryRegion in = server_memory(on, 200'000);
    for (std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{3000}, std::size_t{200'000}}) {
      for (std::size_t pieces = 1; pieces <= granted; ++pieces) {
        CAPTURE(size);
        CAPTURE(pieces);
        fill(out.bytes(), size + pieces);
        const std::vector<Slice> gathered = cut(out.all().first(size), pieces, d);
        const std::vector<Slice> scattered = cut(in.all().first(size), granted + 1 - pieces, d);
        recv_operation receiving = w.server.recv(scattered).start();
        co_await w.client.send(gathered);
        const Received got = co_await receiving;
        CHECK(got.bytes == size);
        CHECK(filled(in.bytes().first(size), size + pieces));
      }
    }
    std::vector<Slice> too_many(granted + 1, out.all().first(1));
    const result<void> sent = co_await w.client.send(too_many).result();
    const result<Received> got = co_await w.server.recv(too_many).result();
    CHECK(sent.code() == errc::invalid_value);
    CHECK(got.code() == errc::invalid_value);
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

namespace {

task<void> over_post(wire& w, const MemoryRegion& out, const MemoryRegion& in,
                     bool receives_first) {
  const std::span<std::uint64_t> values = out.as<std::uint64_t>();
  const std::span<std::uint64_t> got = in.as<std::uint64_t>();
  std::fill(got.begin(), got.end(), 0);
  std::vector<send_operation> sends;
  std::vector<recv_operation> recvs;
  for (std::size_t i = 0; i < values.size() && receives_first; ++i) {
    recvs.push_back(w.server.recv(in.all().part(i * 8, 8)).start());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i + 1;
    sends.push_back(w.client.send(out.all().part(i * 8, 8)).start());
  }
  for (std::size_t i = 0; i < values.size() && !receives_first; ++i) {
    recvs.push_back(w.server.recv(in.all().part(i * 8, 8)).start());
  }
  for (send_operation& op : sends) co_await op;
  for (recv_operation& op : recvs) co_await op;
  CHECK(std::equal(values.begin(), values.end(), got.begin()));
}

}  // namespace

TEST_CASE("D6: over-posting a queue of depth 2 never fails and keeps the order") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow;
    shallow.send_depth = 2;
    shallow.recv_depth = 2;
    wire w = co_await connect(on, shallow, shallow);
    const std::size_t count = rounds_under_test(500, 200);
    MemoryRegion out = client_memory(on, count * 8);
    MemoryRegion in = server_memory(on, count * 8);
    co_await over_post(w, out, in, false);
    const std::uint64_t before = w.server.counters().waited;
    co_await over_post(w, out, in, true);
    CHECK(w.server.counters().waited - before == count - w.server.actual().recv_depth);
    CHECK(w.client.inflight() == 0);
    CHECK(w.server.inflight() == 0);
  });
}

TEST_CASE("I8: with rnr_retry 7 a message waits for a receive that comes late") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 100'000);
    MemoryRegion in = server_memory(on, 100'000);
    for (std::size_t size : {std::size_t{8}, std::size_t{100'000}}) {
      fill(out.bytes(), size);
      send_operation sending = w.client.send(out.all().first(size)).start();
      for (int i = 0; i < 100; ++i) co_await moment(on);
      recv_operation late = w.server.recv(in).start();
      const Received got = co_await late;
      co_await sending;
      CHECK(got.bytes == size);
      CHECK(filled(in.bytes().first(size), size));
    }
  });
}

TEST_CASE("L6: inline bytes need no registered memory and are the sender's again at once") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion in = server_memory(on, 4096);
    const std::size_t limit = w.client.inline_limit();
    std::size_t size = 0;
    for (; size <= limit; size += size < 4 || size + 13 > limit ? 1 : 13) {
      std::vector<std::byte> local(size);
      fill(local, size);
      recv_operation receiving = w.server.recv(in).start();
      send_operation sending = w.client.send_inline(local).start();
      std::fill(local.begin(), local.end(), std::byte{0});
      co_await sending;
      const Received got = co_await receiving;
      CHECK(got.bytes == size);
      CHECK(filled(in.bytes().first(size), size));
    }
    CHECK(size == limit + 1);  // the limit was sent, and so was the size before it
    std::vector<std::byte> beyond(size);
    const result<void> refused = co_await w.client.send_inline(beyond).result();
    CHECK(refused.code() == errc::invalid_value);
  });
}

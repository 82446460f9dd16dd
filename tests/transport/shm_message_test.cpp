#include <random>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

// Sends one message of each size in both directions and compares every byte.
void exchange(couple& c, bool shared_sender, std::span<const std::size_t> sizes) {
  c.server.done.clear();
  c.client.done.clear();
  std::size_t most = 1;
  for (const std::size_t n : sizes) most = std::max(most, n);
  memory from(*c.client.d, most, access::local_read, shared_sender);
  memory to(*c.server.d, most + 1, access::local_write, true);
  std::uint64_t id = 1;
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const segment s = from.at(0, n);
    fill(s, static_cast<unsigned>(n) + 7);
    std::memset(to.data, 0x5a, to.bytes);
    c.server.recv(id, to.at(0, n + 1));
    c.client.send(id, s, opcode::send_imm, 0, 0x01020304);
    REQUIRE(pump(c.server, c.client,
                 [&] { return c.server.find(id) != nullptr && c.client.find(id) != nullptr; }));
    const completion& got = *c.server.find(id);
    CHECK(got.status == wc_status::success);
    CHECK(got.op == opcode::recv);
    CHECK(got.byte_len == n);
    CHECK(got.has_imm);
    CHECK(got.imm == 0x01020304);
    CHECK(same(to.at(0, n), s));
    CHECK(to.data[n] == std::byte{0x5a});
    ++id;
  }
}

constexpr std::array<std::size_t, 17> sizes{0,    1,     7,      8,       47,           48,
                                            49,   112,   113,    4095,    8191,         8192,
                                            8193, 65536, 100001, 1 << 20, (3 << 20) + 5};

}  // namespace

TEST_CASE("shm: messages of every size arrive whole [shared memory: fetched by the receiver]") {
  couple c;
  exchange(c, true, sizes);
}

TEST_CASE("shm: messages of every size arrive whole [private memory: read through the kernel]") {
  couple c;
  exchange(c, false, sizes);
}

TEST_CASE("shm: a message arrives though no descriptor is left to map what it lies in") {
  couple c;
  constexpr std::size_t bytes = 100'000;
  memory from(*c.client.d, bytes, everything, true);
  memory to(*c.server.d, bytes, everything, true);
  std::memset(from.data, 5, bytes);
  c.client.send(2, from.at(0, bytes));  // the description of the memory is in flight
  for (int i = 0; i < 100; ++i) c.client.poll();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int lowest = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
  ::close(lowest);
  const rlimit none{static_cast<rlim_t>(lowest), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  c.server.recv(1, to.at(0, bytes));
  const bool done = pump(c.server, c.client, [&] { return c.client.find(2) != nullptr; });
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(done);
  CHECK(c.client.find(2)->status == wc_status::success);
  CHECK(std::memcmp(to.data, from.data, bytes) == 0);
  CHECK(c.server.saw(cm_event::type::disconnected) == nullptr);
  CHECK(c.client.saw(cm_event::type::disconnected) == nullptr);
}

TEST_CASE("shm: messages of every size arrive whole [the smallest ring]") {
  shm_options o;
  o.ring_bytes = 4096;
  couple c(o);
  exchange(c, true, sizes);
  exchange(c, false, std::span(sizes).first(12));
}

TEST_CASE("shm: 200,000 messages of random size and segments, byte for byte, in order [seed 1]") {
  shm_options o;
  o.ring_bytes = 1 << 14;
  o.eager_bytes = 2000;
  couple c(o);
  constexpr std::size_t slots = 64;
  constexpr std::size_t most = 5000;
  memory from(*c.client.d, slots * most, access::local_read, true);
  memory to(*c.server.d, slots * most, access::local_write, true);
  fill(from.at(0, slots * most), 1);
  std::mt19937 draw(1);
  std::vector<std::size_t> length(slots);
  std::uint64_t sent = 0;
  std::uint64_t got = 0;
  std::uint64_t posted_receives = 0;
  std::uint64_t completed = 0;
  const std::uint64_t total = 200'000;
  std::size_t wrong = 0;
  const auto receive = [&](const completion& k) {
    const std::size_t slot = got % slots;
    if (k.status != wc_status::success || k.id != got || k.byte_len != length[slot] ||
        std::memcmp(to.data + slot * most, from.data + slot * most, length[slot]) != 0) {
      ++wrong;
    }
    ++got;
  };
  for (long i = 0; i < patience && (got < total || completed < total); ++i) {
    while (posted_receives < total && posted_receives - got < slots) {
      const std::size_t slot = posted_receives % slots;
      const std::array<segment, 3> parts{to.at(slot * most, 100), to.at(slot * most + 100, 0),
                                         to.at(slot * most + 100, most - 100)};
      const recv_request r{posted_receives, 3, parts.data(), nullptr};
      completion now;
      ++posted_receives;
      if (c.server.q->post_recv(r, now) == posted::done) receive(now);
    }
    if (sent < total && sent - got < slots && sent - completed < 100) {
      const std::size_t slot = sent % slots;
      const std::size_t n = draw() % 4 == 0 ? draw() % most : draw() % 200;
      length[slot] = n;
      const std::size_t cut = n == 0 ? 0 : draw() % n;
      const std::array<segment, 2> parts{from.at(slot * most, cut),
                                         from.at(slot * most + cut, n - cut)};
      send_request r;
      r.id = sent++;
      r.segments = parts.data();
      r.segment_count = 2;
      if (draw() % 3 == 0) r.flags = post_flag::more;
      if (c.client.post(r) == posted::done) c.client.done.clear(), ++completed;
      if (draw() % 5 == 0 || sent == total) c.client.q->ring();
    }
    if (draw() % 3 == 0) c.client.q->ring(), c.client.poll();
    completed += c.client.done.size();
    c.client.done.clear();
    c.server.poll();
    for (const completion& k : c.server.done) receive(k);
    c.server.done.clear();
  }
  CHECK(got == total);
  CHECK(completed == total);
  CHECK(wrong == 0);
}

TEST_CASE("shm: what is posted with `more` is unseen until ring()") {
  couple c;
  memory m(*c.client.d, 4096, everything, true);
  memory to(*c.server.d, 4096, everything, true);
  for (std::uint64_t i = 0; i < 8; ++i) c.server.recv(i, to.at(i * 64, 64));
  for (std::uint64_t i = 0; i < 4; ++i)
    c.client.send(i, m.at(0, 64), opcode::send, post_flag::more);
  for (int i = 0; i < 100; ++i) c.server.poll();
  CHECK(c.server.done.empty());
  c.client.q->ring();
  CHECK(pump(c.server, [&] { return c.server.done.size() == 4; }));
  c.client.send(4, m.at(0, 64), opcode::send, post_flag::more);
  c.client.send(5, m.at(0, 64));  // also makes the previous message visible
  CHECK(pump(c.server, [&] { return c.server.done.size() == 6; }));
}

TEST_CASE("shm: inline data is copied before post_send returns, also when the ring is full") {
  shm_options o;
  o.ring_bytes = 4096;
  couple c(o);
  memory to(*c.server.d, 1 << 16, everything, true);
  for (std::uint64_t i = 0; i < 128; ++i) {
    std::array<std::byte, 60> mine;
    mine.fill(static_cast<std::byte>(i));
    c.client.send(i, {mine.data(), 60, 0}, opcode::send, post_flag::inline_data);
    mine.fill(std::byte{0xff});
  }
  for (std::uint64_t i = 0; i < 128; ++i) c.server.recv(i, to.at(i * 64, 64));
  REQUIRE(pump(c.server, c.client,
               [&] { return c.server.done.size() == 128 && c.client.done.size() == 128; }));
  for (std::size_t i = 0; i < 128; ++i) {
    CHECK(to.data[i * 64] == static_cast<std::byte>(i));
    CHECK(to.data[i * 64 + 59] == static_cast<std::byte>(i));
  }
}

TEST_CASE("shm: a flush completes when the peer has taken all earlier messages") {
  couple c;
  memory m(*c.client.d, 1 << 16, everything, true);
  memory to(*c.server.d, 1 << 17, everything, true);
  c.client.send(1, m.at(0, 8));
  c.client.send(2, m.at(0, 60000));
  send_request f;
  f.id = 3;
  f.op = opcode::flush;
  CHECK(c.client.post(f) == posted::pending);
  for (int i = 0; i < 1000; ++i) {
    c.client.poll();
    c.server.poll();
  }
  CHECK(c.client.find(2) == nullptr);
  CHECK(c.client.find(3) == nullptr);
  c.server.recv(1, to.at(0, 100));
  c.server.recv(2, to.at(100, 60000));
  CHECK(pump(c.server, c.client, [&] { return c.client.find(3) != nullptr; }));
  CHECK(c.client.find(2) != nullptr);
  CHECK(c.server.done.size() == 2);
}

TEST_CASE("shm: completions of sends come in the order of posting") {
  couple c;
  memory m(*c.client.d, 1 << 17, everything, true);
  memory to(*c.server.d, 1 << 17, everything, true);
  c.client.send(1, m.at(0, 100000));
  c.client.send(2, m.at(0, 8));
  c.client.rma(3, opcode::write, m.at(0, 8), to.address(), to.keys.rkey);
  CHECK(c.client.done.empty());
  c.server.recv(1, to.at(0, 100000));
  c.server.recv(2, to.at(100000, 8));
  REQUIRE(pump(c.server, c.client, [&] { return c.client.done.size() == 3; }));
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(c.client.done[i].id == i + 1);
}

}  // namespace cordma::transport::shm_test

// Received data equals the sent data: messages, remote memory, atomics, immediates.
#include <random>

#include "tcp_support.hpp"

using namespace tcp_test;

TEST_CASE("tcp: a message arrives with its bytes, its length and its immediate") {
  connected c;
  memory from(*c.domain, 64);
  memory to(*c.domain, 64);
  from.fill(1);
  post_recv(*c.right, 7, to.all());
  const tp::segment s = from.slice(0, 40);
  tp::send_request r = request(opcode::send_imm, 5, s);
  r.imm = 0x01020304;
  post(*c.left, r);
  const tp::completion got = c.next(c.b);
  CHECK(got.id == 7);
  CHECK(got.status == wc_status::success);
  CHECK(got.op == opcode::recv);
  CHECK(got.byte_len == 40);
  CHECK(got.has_imm);
  CHECK(got.imm == 0x01020304);
  CHECK(std::memcmp(from.bytes.data(), to.bytes.data(), 40) == 0);
  const tp::completion sent = c.next(c.a);
  CHECK(sent.id == 5);
  CHECK(sent.status == wc_status::success);
  CHECK(sent.op == opcode::send_imm);
}

TEST_CASE("tcp: messages of every size keep their bytes") {
  connected c;
  for (const std::size_t size :
       {0U, 1U, 7U, 1023U, 1024U, 1025U, 65535U, 65536U, 1U << 20, 9U << 20}) {
    CAPTURE(size);
    memory from(*c.domain, size + 1);
    memory to(*c.domain, size + 1);
    from.fill(static_cast<unsigned>(size));
    post_recv(*c.right, size, to.all());
    const tp::segment s = from.slice(0, size);
    post(*c.left, request(opcode::send, size, s));
    const tp::completion got = c.next(c.b);
    CHECK(got.status == wc_status::success);
    CHECK(got.byte_len == size);
    CHECK(std::memcmp(from.bytes.data(), to.bytes.data(), size) == 0);
    CHECK(to.bytes[size] == std::byte{0});
    CHECK(c.next(c.a).status == wc_status::success);
  }
}

TEST_CASE("tcp: writes and reads move bytes without a completion at the target") {
  connected c;
  for (const std::size_t size : {1U, 100U, 65536U, 5U << 20}) {
    CAPTURE(size);
    memory own(*c.domain, size);
    memory back(*c.domain, size);
    memory remote(*c.domain, size, tp::all_remote);
    own.fill(3);
    const tp::segment s = own.all();
    post(*c.left, request(opcode::write, 1, s, remote));
    CHECK(c.next(c.a).status == wc_status::success);
    CHECK(own.bytes == remote.bytes);
    const tp::segment t = back.all();
    post(*c.left, request(opcode::read, 2, t, remote));
    const tp::completion read = c.next(c.a);
    CHECK(read.status == wc_status::success);
    CHECK(read.byte_len == size);
    CHECK(own.bytes == back.bytes);
  }
  c.settle();
  CHECK(c.b.done.empty());
}

TEST_CASE("tcp: a write with immediate takes a receive and leaves its buffer alone") {
  connected c;
  memory own(*c.domain, 4096);
  memory remote(*c.domain, 4096, tp::all_remote);
  memory untouched(*c.domain, 4096);
  own.fill(9);
  post_recv(*c.right, 1, untouched.all());
  post_recv(*c.right, 2, untouched.all());
  const tp::segment s = own.all();
  tp::send_request r = request(opcode::write_imm, 1, s, remote);
  r.imm = 0xfeedU;
  post(*c.left, r);
  r.segment_count = 0;  // only the immediate, so no key is checked
  r.rkey = 0;
  r.imm = 0xbeefU;
  post(*c.left, r);
  tp::completion got = c.next(c.b);
  CHECK(got.op == opcode::recv_write_imm);
  CHECK(got.byte_len == 4096);
  CHECK(got.imm == 0xfeedU);
  CHECK(remote.bytes == own.bytes);
  got = c.next(c.b);
  CHECK(got.op == opcode::recv_write_imm);
  CHECK(got.byte_len == 0);
  CHECK(got.imm == 0xbeefU);
  CHECK(untouched.bytes == std::vector<std::byte>(4096));
}

TEST_CASE("tcp: atomics return the old value in host order") {
  connected c;
  memory old(*c.domain, 16);
  memory remote(*c.domain, 16, tp::all_remote);
  std::uint64_t word = 40;
  std::memcpy(remote.bytes.data() + 8, &word, sizeof word);
  const tp::segment s = old.slice(0, 8);
  tp::send_request r = request(opcode::fetch_add, 1, s, remote, 8);
  r.operand = 2;
  post(*c.left, r);
  CHECK(c.next(c.a).status == wc_status::success);
  std::memcpy(&word, old.bytes.data(), sizeof word);
  CHECK(word == 40);
  r.op = opcode::compare_swap;
  r.operand = 42;
  r.swap = 7;
  post(*c.left, r);
  post(*c.left, r);  // fails to swap: the word is 7 by now
  CHECK(c.next(c.a).status == wc_status::success);
  CHECK(c.next(c.a).status == wc_status::success);
  std::memcpy(&word, old.bytes.data(), sizeof word);
  CHECK(word == 7);
  std::memcpy(&word, remote.bytes.data() + 8, sizeof word);
  CHECK(word == 7);
}

TEST_CASE("tcp: flush completes after everything posted before it is visible") {
  connected c({.send_depth = 2048});
  memory own(*c.domain, 1000);
  memory remote(*c.domain, 1000, tp::all_remote);
  own.fill(5);
  for (std::size_t i = 0; i < 1000; ++i) {
    const tp::segment s = own.slice(i, 1);
    post(*c.left, request(opcode::write, i, s, remote, i));
  }
  tp::send_request flush;
  flush.id = 5000;
  flush.op = opcode::flush;
  post(*c.left, flush);
  c.until([&c] { return !c.a.done.empty() && c.a.done.back().id == 5000; });
  CHECK(c.a.done.size() == 1001);
  CHECK(own.bytes == remote.bytes);
}

TEST_CASE("tcp: random sizes and segment lists arrive byte by byte [seed 42]") {
  connected c({.max_segments = 8}, {.max_segments = 8});
  std::mt19937 random(42);
  memory from(*c.domain, 1 << 18);
  memory to(*c.domain, 1 << 18, tp::all_remote);
  for (int round = 0; round < 400; ++round) {
    from.fill(static_cast<unsigned>(round));
    std::array<tp::segment, 8> out;
    std::array<tp::segment, 8> in;
    std::size_t bytes = 0;
    const auto parts = static_cast<std::uint16_t>(1 + random() % 8);
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t n = random() % (random() % 4 == 0 ? 30000 : 200);
      out[i] = from.slice(bytes, n);
      bytes += n;
    }
    std::size_t left = bytes;
    const auto pieces = static_cast<std::uint16_t>(1 + random() % 8);
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t n = i + 1U == pieces ? left : random() % (left + 1);
      in[i] = to.slice(bytes - left, n);
      left -= n;
    }
    tp::completion now;
    tp::send_request r = request(opcode::send, 1, out[0]);
    r.segment_count = parts;
    r.segments = out.data();
    const auto kind = random() % 3;
    if (kind == 0) {
      CHECK(c.right->post_recv({.id = 2, .segment_count = pieces, .segments = in.data()}, now) ==
            tp::posted::pending);
      post(*c.left, r);
      CHECK(c.next(c.b).byte_len == bytes);
    } else if (kind == 1) {
      r.op = opcode::write;
      r.remote_addr = to.addr();
      r.rkey = to.keys.rkey;
      post(*c.left, r);
    } else {
      r.op = opcode::write;
      r.remote_addr = to.addr();
      r.rkey = to.keys.rkey;
      post(*c.left, r);
      tp::send_request back = r;
      back.op = opcode::read;
      back.id = 9;
      post(*c.left, back);
      CHECK(c.next(c.a).id == 1);
    }
    CHECK(c.next(c.a).status == wc_status::success);
    REQUIRE(std::memcmp(from.bytes.data(), to.bytes.data(), bytes) == 0);
  }
}

TEST_CASE("tcp: a hundred thousand messages arrive in order") {
  connected c;
  memory from(*c.domain, 128 * 8);
  memory to(*c.domain, 128 * 8);
  constexpr std::uint64_t count = 100'000;
  std::uint64_t sent = 0, received = 0, completed = 0, offered = 0;
  const auto slot = [](std::uint64_t i) { return static_cast<std::size_t>(i % 128) * 8; };
  for (; offered < 128; ++offered) post_recv(*c.right, offered, to.slice(slot(offered), 8));
  c.until([&] {
    while (!c.a.done.empty()) {
      REQUIRE(c.a.done.front().id == completed++);
      c.a.done.pop_front();
    }
    while (!c.b.done.empty()) {
      std::uint64_t value = 0;
      std::memcpy(&value, to.bytes.data() + slot(received), sizeof value);
      REQUIRE(value == received);
      REQUIRE(c.b.done.front().id == received++);
      c.b.done.pop_front();
      post_recv(*c.right, offered, to.slice(slot(offered), 8));
      ++offered;
    }
    for (; sent < count && sent - completed < 128; ++sent) {
      std::memcpy(from.bytes.data() + slot(sent), &sent, sizeof sent);
      const tp::segment s = from.slice(slot(sent), 8);
      tp::send_request r = request(opcode::send, sent, s);
      if (sent % 3 == 0) r.flags = tp::post_flag::inline_data;
      if (sent % 16 != 15) r.flags |= tp::post_flag::more;
      post(*c.left, r);
    }
    c.left->ring();
    return received == count && completed == count;
  });
}

TEST_CASE("tcp: more reads than may be in flight wait in the transport") {
  connected c({.read_depth = 2}, {.read_depth = 4});
  CHECK(c.left->actual().read_depth == 2);
  CHECK(c.right->actual().read_depth == 2);
  memory own(*c.domain, 50 * 100);
  memory remote(*c.domain, 50 * 100, tp::all_remote);
  remote.fill(4);
  for (std::size_t i = 0; i < 50; ++i) {
    const tp::segment s = own.slice(i * 100, 100);
    tp::send_request r = request(opcode::read, i, s, remote, i * 100);
    if (i % 5 == 0) r.flags = tp::post_flag::fence;
    post(*c.left, r);
  }
  c.until([&c] { return c.a.done.size() == 50; });
  for (std::size_t i = 0; i < 50; ++i) CHECK(c.a.done[i].id == i);
  CHECK(own.bytes == remote.bytes);
}

TEST_CASE("tcp: both sides may send large messages at once") {
  connected c;
  constexpr std::size_t size = 16U << 20;
  memory one(*c.domain, size), two(*c.domain, size), one_in(*c.domain, size),
      two_in(*c.domain, size);
  one.fill(1);
  two.fill(2);
  post_recv(*c.left, 1, two_in.all());
  post_recv(*c.right, 1, one_in.all());
  const tp::segment s = one.all();
  const tp::segment t = two.all();
  post(*c.left, request(opcode::send, 2, s));
  post(*c.right, request(opcode::send, 2, t));
  c.until([&c] { return c.a.done.size() == 2 && c.b.done.size() == 2; });
  CHECK(one.bytes == one_in.bytes);
  CHECK(two.bytes == two_in.bytes);
}

TEST_CASE(
    "tcp: requests that leave one by one arrive whole and in order, whatever the socket takes") {
  constexpr std::uint64_t count = 4000;
  for (const std::size_t bytes : {std::size_t{300}, std::size_t{1000}, std::size_t{5000}}) {
    CAPTURE(bytes);
    connected c({.send_depth = 4096});
    memory own(*c.domain, bytes + count);
    memory old(*c.domain, 8 * count);
    memory remote(*c.domain, 8 + bytes, tp::all_remote);
    own.fill(7);
    for (std::uint64_t i = 0; i < count; ++i) {  // b does not poll: the socket is soon full
      const tp::segment s = i % 250 == 3 ? old.slice(8 * i, 8) : own.slice(i, bytes);
      tp::send_request r = i % 250 == 3 ? request(opcode::fetch_add, i, s, remote)
                                        : request(opcode::write, i, s, remote, 8);
      r.operand = 1;
      post(*c.left, r);
    }
    c.until([&c] { return c.a.done.size() == count; });
    std::uint64_t added = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      REQUIRE(c.a.done[i].id == i);
      REQUIRE(c.a.done[i].status == wc_status::success);
      if (i % 250 != 3) continue;
      std::uint64_t value = 0;
      std::memcpy(&value, old.bytes.data() + 8 * i, sizeof value);
      REQUIRE(value == added++);
    }
    CHECK(std::memcmp(remote.bytes.data() + 8, own.bytes.data() + count - 1, bytes) == 0);
  }
}

TEST_CASE("tcp: a request of which the socket takes a part is finished before what is behind it") {
  connected c;
  memory own(*c.domain, 1U << 20);
  memory remote(*c.domain, 1U << 20, tp::all_remote);
  memory back(*c.domain, 1U << 20);
  own.fill(3);
  const tp::segment s = own.all();
  for (std::uint64_t i = 0; i < 3; ++i) post(*c.left, request(opcode::write, i, s, remote));
  const tp::segment t = back.all();
  post(*c.left, request(opcode::read, 3, t, remote));
  c.until([&c] { return c.a.done.size() == 4; });
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(c.a.done[i].id == i);
  CHECK(back.bytes == own.bytes);
}

TEST_CASE("tcp: answers that leave one by one arrive whole, whatever the socket takes [bytes]") {
  constexpr std::size_t reads = 16;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1000}, std::size_t{100'000}}) {
    CAPTURE(bytes);
    connected c;
    memory own(*c.domain, reads * bytes);
    memory remote(*c.domain, reads * bytes, tp::all_remote);
    remote.fill(5);
    for (std::size_t i = 0; i < reads; ++i) {
      const tp::segment s = own.slice(i * bytes, bytes);
      post(*c.left, request(opcode::read, i, s, remote, i * bytes));
      for (int k = 0; k < 200; ++k) c.b.poll();  // a does not poll: the responses are not read
    }
    c.until([&c] { return c.a.done.size() == reads; });
    for (std::size_t i = 0; i < reads; ++i) {
      CHECK(c.a.done[i].id == i);
      CHECK(c.a.done[i].status == wc_status::success);
    }
    CHECK(own.bytes == remote.bytes);
  }
}

TEST_CASE("tcp: memory deregistered before its read is answered is refused, and not read") {
  connected c;
  memory own(*c.domain, 64);
  memory large(*c.domain, 8U << 20, tp::all_remote);
  memory sink(*c.domain, 8U << 20);
  auto remote = std::make_unique<memory>(*c.domain, 64, tp::all_remote);
  remote->fill(1);
  const tp::segment all = sink.all();
  const tp::segment s = own.all();
  post(*c.left, request(opcode::read, 1, all, large));  // fills the socket: a does not poll
  post(*c.left, request(opcode::read, 2, s, *remote));
  for (int i = 0; i < 1000; ++i) c.b.poll();
  remote.reset();
  CHECK(c.next(c.a).status == wc_status::success);
  const tp::completion refused = c.next(c.a);
  CHECK(refused.id == 2);
  CHECK(refused.status == wc_status::rem_access_err);
  CHECK(own.bytes == std::vector<std::byte>(64));
}

TEST_CASE("tcp: a request never leaves before those in front of it [why they wait]") {
  connected c;
  memory own(*c.domain, 16);
  memory remote(*c.domain, 16, tp::all_remote);
  const auto write_byte = [&](std::uint64_t id, std::byte value, std::uint8_t flags) {
    own.bytes[id] = value;
    const tp::segment s = own.slice(id, 1);
    tp::send_request r = request(opcode::write, id, s, remote);
    r.flags = flags;
    post(*c.left, r);
  };
  std::uint64_t done = 0;
  const auto expect = [&](std::uint64_t count, std::byte value) {
    for (; done < count; ++done) CHECK(c.next(c.a).id == done);
    CHECK(remote.bytes[0] == value);
  };
  SUBCASE("they were posted without a ring") {
    write_byte(0, std::byte{1}, tp::post_flag::more);
    write_byte(1, std::byte{2}, tp::post_flag::more);
    write_byte(2, std::byte{3}, 0);
    expect(3, std::byte{3});
  }
  SUBCASE("one waits for an earlier read") {
    const tp::segment s = own.slice(8, 8);
    post(*c.left, request(opcode::read, 0, s, remote, 8));
    write_byte(1, std::byte{4}, tp::post_flag::fence);
    write_byte(2, std::byte{5}, 0);
    expect(3, std::byte{5});
  }
  SUBCASE("one waits for a receive") {
    const tp::segment s = own.slice(8, 8);
    post(*c.left, request(opcode::send, 0, s));
    write_byte(1, std::byte{6}, 0);
    c.settle(200);
    CHECK(c.a.done.empty());
    CHECK(remote.bytes[0] == std::byte{0});
    memory in(*c.domain, 8);
    post_recv(*c.right, 9, in.all());
    expect(2, std::byte{6});
    CHECK(c.next(c.b).id == 9);
  }
}

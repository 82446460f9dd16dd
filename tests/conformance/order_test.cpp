// Batches, fences and flushes: when their effects become visible to a peer.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>

#include <atomic>
#include <cstddef>

using namespace cordma;
using namespace cordma::test;

TEST_CASE("D14: 64 operations in a batch are one doorbell; on shm each is seen at once") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 64 * 8);
    MemoryRegion in = server_memory(on, 64 * 8);
    for (std::size_t i = 0; i < 64; ++i) out.as<std::uint64_t>()[i] = i + 1;
    std::vector<recv_operation> recvs;
    std::vector<send_operation> sends;
    for (std::size_t i = 0; i < 64; ++i) {
      recvs.push_back(w.server.recv(in.all().part(i * 8, 8)).start());
    }
    const std::uint64_t rings = w.client.counters().rings;
    {
      const Endpoint::Batch together = w.client.batch();
      for (std::size_t i = 0; i < 64; ++i) {
        sends.push_back(w.client.send(out.all().part(i * 8, 8)).start());
      }
      if (on.over() == transport::kind::shm) {
        for (recv_operation& op : recvs) co_await op;
      } else {
        // Other transports may post waiting requests early in a pass of the reactor; none runs
        // here.
        CHECK(w.client.counters().rings == rings);
        CHECK(all_zero(in.bytes()));
        for (const recv_operation& op : recvs) CHECK_FALSE(op.done());
      }
    }
    if (on.over() != transport::kind::shm) {
      CHECK(w.client.counters().rings == rings + 1);
      for (recv_operation& op : recvs) co_await op;
    }
    for (send_operation& op : sends) co_await op;
    for (std::size_t i = 0; i < 64; ++i) CHECK(in.as<std::uint64_t>()[i] == i + 1);
  });
}

TEST_CASE("D14: a batch longer than the queue goes out in order") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow;
    shallow.send_depth = 4;
    wire w = co_await connect(on, shallow, endpoint_options());
    MemoryRegion out = client_memory(on, 64 * 8);
    MemoryRegion in = server_memory(on, 64 * 8);
    std::vector<send_operation> sends;
    std::vector<recv_operation> recvs;
    for (std::size_t i = 0; i < 64; ++i) {
      recvs.push_back(w.server.recv(in.all().part(i * 8, 8)).start());
    }
    {
      const Endpoint::Batch outer = w.client.batch();
      const Endpoint::Batch inner = w.client.batch();
      for (std::size_t i = 0; i < 64; ++i) {
        out.as<std::uint64_t>()[i] = i + 1;
        sends.push_back(w.client.send(out.all().part(i * 8, 8)).start());
      }
    }
    for (send_operation& op : sends) co_await op;
    for (recv_operation& op : recvs) co_await op;
    for (std::size_t i = 0; i < 64; ++i) CHECK(in.as<std::uint64_t>()[i] == i + 1);
  });
}

TEST_CASE("D14: what of a batch found no room goes out after it, with nobody ringing again") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t size = 4096;
    constexpr std::size_t many = 200;  // several times the amount that a transport buffers
    endpoint_options deep;
    deep.send_depth = many;  // all of them fit into the transport's queue when the batch ends
    wire w = co_await connect(on, deep, endpoint_options());
    MemoryRegion out = client_memory(on, size);
    MemoryRegion in = server_memory(on, size);
    fill(out.bytes(), 5);
    std::vector<send_operation> sends;
    {
      const Endpoint::Batch together = w.client.batch();
      for (std::size_t i = 0; i < many; ++i) sends.push_back(w.client.send(out).start());
    }
    for (std::size_t i = 0; i < many; ++i) {
      recv_operation receiving = w.server.recv(in);
      const Received got = co_await receiving;
      CHECK(got.bytes == size);
    }
    for (send_operation& op : sends) co_await op;
    CHECK(filled(in.bytes(), 5));
  });
}

// On verbs a batch requests a completion only for the last request of each list.
TEST_CASE("K9: after 1000 writes in a batch, unsignalled, and a flush the peer sees every byte") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (std::size_t size : {std::size_t{8}, std::size_t{1000}, std::size_t{20'000}}) {
      CAPTURE(size);
      constexpr std::size_t many = 1000;
      endpoint_options deep;
      deep.send_depth = many;  // none waits for a queue entry and is posted separately
      wire w = co_await connect(on, deep);
      MemoryRegion data = client_memory(on, many * size);
      MemoryRegion target = server_memory(on, many * size);
      const RemoteMemory remote = exported(target);
      fill(data.bytes(), size);
      std::vector<send_operation> writes;
      writes.reserve(many);
      const std::uint64_t rings = w.client.counters().rings;
      {
        const Endpoint::Batch together = w.client.batch();
        for (std::size_t i = 0; i < many; ++i) {
          const RemoteSlice to = remote.slice(i * size, size).value();
          writes.push_back(w.client.write(to, data.all().part(i * size, size)).start());
        }
      }
      CHECK(w.client.counters().rings == rings + 1);
      co_await w.client.flush();
      CHECK(filled(target.bytes(), size));
      for (send_operation& op : writes) {
        CHECK(op.done());
        co_await op;
      }
    }
  });
}

TEST_CASE("K9: a flush behind a failed operation ends with its cause") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion data = client_memory(on, 8);
    MemoryRegion target = server_memory(on, 64, access::local_write | access::remote_read);
    const RemoteSlice word = exported(target).slice(0, 8).value();
    send_operation refused = w.client.write(word, data).start();
    const result<void> flushed = co_await w.client.flush().result();
    const result<void> written = co_await refused.result();
    CHECK(written.code() == errc::remote_access);
    REQUIRE_FALSE(flushed.ok());
    CHECK(flushed.why().first_cause().code() == errc::remote_access);
  });
}

TEST_CASE(
    "K9, L2: a flush drains: it waits for the last message that is in flight, and no longer") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t messages = 8;
    for (const std::uint32_t depth : {4U, 16U}) {
      CAPTURE(depth);
      endpoint_options client;
      client.send_depth = depth;
      wire w = co_await connect(on, client);
      MemoryRegion out = client_memory(on, 64);
      MemoryRegion in = server_memory(on, 64);
      std::vector<send_operation> sending;
      for (std::size_t i = 0; i < messages; ++i) sending.push_back(w.client.send(out).start());
      send_operation drained = w.client.flush().start();
      send_operation later = w.client.send(out).start();
      for (std::size_t i = 0; i < messages; ++i) {
        for (int k = 0; k < 20; ++k) co_await moment(on);
        CHECK_FALSE(drained.done());
        const auto device = w.client.debug_state();
        if (device) CHECK(name(*device) == "rts");
        co_await w.server.recv(in);
      }
      co_await drained;
      for (send_operation& op : sending) CHECK(op.done());
      co_await w.server.recv(in);
      co_await later;
    }
  });
}

TEST_CASE("K9: a write behind a fence does not overtake the read before it") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    constexpr std::size_t size = 100'000;
    MemoryRegion old_bytes = client_memory(on, size);
    MemoryRegion new_bytes = client_memory(on, size);
    MemoryRegion target = server_memory(on, size);
    const RemoteMemory remote = exported(target);
    for (std::uint64_t round = 0; round < 50; ++round) {
      fill(target.bytes(), round);
      fill(new_bytes.bytes(), round + 1000);
      send_operation reading = w.client.read(remote, old_bytes).start();
      w.client.fence();
      send_operation writing = w.client.write(remote, new_bytes).start();
      co_await writing;
      co_await reading;
      co_await w.client.flush();
      CHECK(filled(old_bytes.bytes(), round));
      CHECK(filled(target.bytes(), round + 1000));
    }
  });
}

namespace {

// Copies `there` to `then` through `between`: a read into it, and a write from it that does not
// wait for the read. True if the write carried the data of the read.
task<bool> relay(wire& w, const RemoteSlice& there, const RemoteSlice& then, const Slice& between,
                 bool fenced) {
  fill(between.bytes(), 1);
  send_operation reading = w.client.read(there, between).start();
  if (fenced) w.client.fence();
  send_operation writing = w.client.write(then, between).start();
  co_await writing;
  co_await reading;
  co_await w.client.flush();
  co_return filled(between.bytes(), 2);
}

}  // namespace

TEST_CASE(
    "K9: a write out of what a read is filling carries the old bytes on tcp and sim, unless a "
    "fence "
    "stands between; shm reads where it is posted") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    constexpr std::size_t size = 3000;
    MemoryRegion between = client_memory(on, size);
    MemoryRegion target = server_memory(on, 2 * size);
    const RemoteMemory remote = exported(target);
    const RemoteSlice there = remote.slice(0, size).value();
    const RemoteSlice then = remote.slice(size, size).value();
    fill(target.bytes().first(size), 2);
    // the first access with a key may send a query to its owner
    co_await w.client.read(there, between);
    for (int round = 0; round < 20; ++round) {
      for (const bool fenced : {false, true}) {
        CAPTURE(fenced);
        const bool read = co_await relay(w, there, then, between, fenced);
        CHECK(read);
        const bool in_order = fenced || on.caps().remote_access_is_copy;
        // Reads are slower on tcp and sim; on the others either order is possible.
        const bool known = on.over() == transport::kind::tcp || on.over() == transport::kind::sim;
        if (!in_order && !known) continue;
        CHECK(filled(target.bytes().subspan(size, size), in_order ? 2 : 1));
      }
    }
  });
}

// The connection guarantees the order of writes. A write behind a read needs a fence, which the
// cases above and below test.
TEST_CASE(
    "K9: of two writes the second is never seen without the first, with a fence between or not") {
  stage s;
  s.play([](stage& on) -> task<> {
    const bool simulated = on.over() == transport::kind::sim;
    if (simulated) {
      on.net().set_links({.loss = 0.02, .duplicate = 0.05, .reorder = 0.2});
    }
    wire w = co_await connect(on);
    constexpr std::size_t size = 20'000;  // many packets, and not a multiple of their size
    MemoryRegion data = client_memory(on, size);
    MemoryRegion flag = client_memory(on, 8);
    MemoryRegion target = server_memory(on, size);
    MemoryRegion told = server_memory(on, 8);
    const RemoteMemory remote = exported(target);
    const RemoteMemory remote_flag = exported(told);
    const std::atomic_ref<std::uint64_t> seen(told.as<std::uint64_t>()[0]);
    for (std::uint64_t round = 1; round <= 400; ++round) {
      const bool fenced = round % 2 == 0;
      CAPTURE(fenced);
      fill(data.bytes(), round);
      flag.as<std::uint64_t>()[0] = round;
      send_operation first = w.client.write(remote, data).start();
      if (fenced) w.client.fence();
      send_operation second = w.client.write(remote_flag, flag).start();
      while (seen.load() != round) co_await moment(on);
      CHECK(filled(target.bytes(), round));
      co_await first;
      co_await second;
    }
    if (simulated) CHECK(on.net().faults().reordered > 100);
  });
}

TEST_CASE("K9: a fence posted while the send queue is full holds for the operation behind it") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options shallow;
    shallow.send_depth = 4;
    wire w = co_await connect(on, shallow);
    constexpr std::size_t size = 100'000;
    constexpr std::size_t before = 10;
    MemoryRegion data = client_memory(on, size);
    MemoryRegion between = client_memory(on, size);
    MemoryRegion rooms = server_memory(on, before * size);
    MemoryRegion target = server_memory(on, 2 * size);
    const RemoteMemory remote = exported(target);
    const RemoteSlice there = remote.slice(0, size).value();
    const RemoteSlice then = remote.slice(size, size).value();
    fill(target.bytes().first(size), 2);
    for (const bool fenced : {true, false}) {
      CAPTURE(fenced);
      fill(between.bytes(), 1);
      std::vector<recv_operation> recvs;
      std::vector<send_operation> sends;
      for (std::size_t i = 0; i < before; ++i) {
        recvs.push_back(w.server.recv(rooms.all().part(i * size, size)).start());
        sends.push_back(w.client.send(data).start());
      }
      send_operation reading = w.client.read(there, between).start();
      if (fenced) w.client.fence();
      send_operation writing = w.client.write(then, between).start();
      CHECK(reading.state() == send_operation::phase::queued);
      CHECK(writing.state() == send_operation::phase::queued);
      co_await writing;
      co_await reading;
      co_await w.client.flush();
      CHECK(filled(between.bytes(), 2));
      // On sim the write is queued only after the read's response arrived.
      const bool in_order = fenced || on.over() != transport::kind::tcp;
      CHECK(filled(target.bytes().subspan(size, 8), 2) == in_order);
      for (send_operation& op : sends) co_await op;
      for (recv_operation& op : recvs) co_await op;
    }
  });
}

TEST_CASE("I10: more reads than may be in flight wait their turn") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options few;
    few.read_depth = 1;
    wire w = co_await connect(on, few, few);
    constexpr std::size_t size = 5000;
    MemoryRegion local = client_memory(on, size * 300);
    MemoryRegion target = server_memory(on, size);
    const RemoteMemory remote = exported(target);
    fill(target.bytes(), 4);
    std::vector<send_operation> reads;
    for (std::size_t i = 0; i < 300; ++i) {
      reads.push_back(w.client.read(remote, local.all().part(i * size, size)).start());
    }
    for (send_operation& op : reads) co_await op;
    for (std::size_t i = 0; i < 300; ++i) {
      CHECK(filled(local.bytes().subspan(i * size, size), 4));
    }
  });
}

namespace {

// Extent of the stack, measured at the calls of note().
class stack_extent {
 public:
  void note() noexcept {
    const char* const here = static_cast<const char*>(__builtin_frame_address(0));
    if (low_ == nullptr || here < low_) low_ = here;
    if (high_ == nullptr || here > high_) high_ = here;
  }
  [[nodiscard]] std::ptrdiff_t bytes() const noexcept { return high_ - low_; }

 private:
  const char* low_ = nullptr;
  const char* high_ = nullptr;
};
constexpr std::ptrdiff_t little_stack = 16 * 1024;
const int many_awaits = static_cast<int>(rounds_under_test(1'000'000));

}  // namespace

TEST_CASE("K7: a million awaits that fail at once do not grow the stack, and each says why") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    std::vector<std::byte> beyond(w.client.inline_limit() + 1);
    int refused = 0;
    stack_extent stack;
    for (int i = 0; i < many_awaits; ++i) {
      const result<void> r = co_await w.client.send_inline(beyond).result();
      if (r.code() == errc::invalid_value) ++refused;
      stack.note();
    }
    CHECK(refused == many_awaits);
    CHECK(stack.bytes() < little_stack);
  });
}

TEST_CASE("K7: a million awaits that succeed at once do not grow the stack [copy]") {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion memory = client_memory(on, 16);
    std::uint64_t wrong = 0;
    stack_extent stack;
    for (int i = 0; i < many_awaits; ++i) {
      memory.as<std::uint64_t>()[0] = static_cast<std::uint64_t>(i);
      co_await on.client().copy(memory.all().part(8, 8), memory.all().first(8));
      if (memory.as<std::uint64_t>()[1] != static_cast<std::uint64_t>(i)) ++wrong;
      stack.note();
    }
    CHECK(wrong == 0);
    CHECK(stack.bytes() < little_stack);
  });
}

TEST_CASE("K7: a million awaits that succeed at once do not grow the stack [send]" *
          only_on(transport::kind::shm,
                  "elsewhere a send is done when the peer has answered, never at once")) {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr int burst = 50;  // a divisor of the rounds
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    stack_extent stack;
    for (int i = 0; i < many_awaits;) {
      for (const int end = i + burst; i < end; ++i) {
        co_await w.client.send(out);
        stack.note();
      }
      for (int received = 0; received < burst; ++received) co_await w.server.recv(in);
    }
    CHECK(w.client.counters().sends == many_awaits);
    CHECK(w.client.counters().immediate == many_awaits);
    CHECK(stack.bytes() < little_stack);
  });
}

TEST_CASE("I10: a read after many thousand operations that want no answer gets its own") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion local = client_memory(on, 8);
    MemoryRegion target = server_memory(on, 8);
    const RemoteMemory remote = exported(target);
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 5000 + round; ++i) co_await w.client.write(remote, local);
      co_await w.client.flush();
      fill(target.bytes(), 3);
      co_await w.client.read(remote, local);
      CHECK(filled(local.bytes(), 3));
      co_await w.client.fetch_add(remote, 1);
    }
  });
}

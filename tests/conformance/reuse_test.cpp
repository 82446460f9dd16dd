// Reuse of slots, operations, and the program's data in an endpoint.
#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/datapath/worker_core.hpp>

#include <algorithm>
#include <csignal>
#include <type_traits>

using namespace cordma;
using namespace cordma::test;

namespace {

// Two parts, so that the operation takes a slot on every transport.
std::array<Slice, 2> halves(const MemoryRegion& m) {
  return {m.all().first(m.size() / 2), m.all().part(m.size() / 2, m.size() - m.size() / 2)};
}

// The completion that a transport would return for the request in this slot, at this generation.
transport::completion forged(std::uint32_t index, std::uint32_t generation) {
  transport::completion c;
  c.id = detail::request_id(index, generation);
  c.op = transport::opcode::recv;
  c.byte_len = 3;
  return c;
}

}  // namespace

TEST_CASE(
    "A3: a completion of the slot's former request is dropped, not taken for its present one") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    detail::worker_core& core = on.server().core();
    detail::adapter_poller& via = *core.adapters().front();
    constexpr std::uint32_t rounds = 20;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      recv_operation present = w.server.recv(halves(in)).start();
      REQUIRE(on.server().counters().inflight == 1);
      std::uint32_t index = 0;
      while (core.at(index).endpoint == nullptr) ++index;
      const std::uint32_t generation = detail::generation_of(core.at(index).id);
      if (round != 0) {
        const std::uint64_t before = on.server().counters().stale_completions;
        for (std::uint32_t age = 1; age <= round; ++age) {
          const auto stale = forged(index, (generation - age) & detail::generation_mask);
          core.on_completions(via, std::span(&stale, 1));
        }
        CHECK(on.server().counters().stale_completions == before + round);
      }
      CHECK_FALSE(present.done());
      fill(out.bytes(), round);
      co_await w.client.send(out);
      const Received got = co_await present;
      CHECK(got.bytes == 8);
      CHECK(filled(in.bytes(), round));
      CHECK(detail::generation_of(core.at(index).id) ==
            ((generation + 1) & detail::generation_mask));
    }
    CHECK(on.server().counters().corrupt_completions == 0);
    CHECK(w.server.state() == endpoint_state::connected);
  });
}

TEST_CASE("A3: a slot's generation wraps around, and tells old from new across it") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 8);
    MemoryRegion in = server_memory(on, 8);
    detail::worker_core& core = on.server().core();
    for (std::uint32_t i = 0; i < detail::slots_per_chunk; ++i) {
      core.at(i).id = detail::request_id(i, detail::generation_mask);
    }
    recv_operation last = w.server.recv(halves(in)).start();
    co_await w.client.send(out);
    co_await last;
    recv_operation first = w.server.recv(halves(in)).start();
    std::uint32_t index = 0;
    while (core.at(index).endpoint == nullptr) ++index;
    REQUIRE(detail::generation_of(core.at(index).id) == 0);
    const auto stale = forged(index, detail::generation_mask);
    core.on_completions(*core.adapters().front(), std::span(&stale, 1));
    CHECK(on.server().counters().stale_completions == 1);
    CHECK_FALSE(first.done());
    co_await w.client.send(out);
    co_await first;
  });
}

TEST_CASE("A3: data of the program's own is found again by its type, and moves with its endpoint") {
  stage s;
  s.play([](stage& on) -> task<> {
    struct session {
      int number;
    };
    session mine{.number = 7};
    wire w = co_await connect(on);
    CHECK(w.client.user_data<session>() == nullptr);
    w.client.set_user_data(&mine);
    CHECK(w.client.user_data<session>() == &mine);
    CHECK(w.client.user_data<int>() == nullptr);
    CHECK(w.client.user_data<const session>() == nullptr);
    Endpoint moved = std::move(w.client);
    CHECK(moved.user_data<session>()->number == 7);
    w.client = std::move(moved);
    CHECK(w.client.user_data<session>() == &mine);
    CHECK(w.server.user_data<session>() == nullptr);
    w.client.set_user_data<session>(nullptr);
    CHECK(w.client.user_data<session>() == nullptr);
    on.client().set_user_data(&mine.number);
    CHECK(on.client().user_data<int>() == &mine.number);
    CHECK(on.server().user_data<int>() == nullptr);
  });
}

static_assert(sizeof(Slice) <= 32);
static_assert(sizeof(Buffer) <= 32);
static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_constructible_v<Message>);

TEST_CASE("C6: a message is as long as it was sent; a buffer that was moved on is refused") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t room = 256;
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, room);
    MemoryRegion in = client_memory(on, room);
    BufferPool pool(on.server_context(), room, 4);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, room - 1, room}) {
      CAPTURE(bytes);
      fill(out.bytes(), bytes);
      message_operation receiving = w.server.recv(pool).start();
      co_await w.client.send(out.all().first(bytes));
      Message message = co_await receiving;
      CHECK(message.info().bytes == bytes);
      CHECK(message.bytes().size() == bytes);
      recv_operation back = w.client.recv(in).start();
      co_await w.server.send(std::move(message.buffer()), bytes);
      const Received got = co_await back;
      CHECK(got.bytes == bytes);
      CHECK(std::equal(in.data(), in.data() + bytes, out.data()));

      CHECK(message.bytes().empty());
      CHECK(message.buffer().bytes().empty());
      CHECK(message.buffer().all().size() == 0);
      CHECK(message.buffer().slice(0, 1).code() == errc::invalid_value);
      send_operation again = w.server.send(std::move(message.buffer()), bytes);
      const result<void> refused = co_await again.result();
      CHECK(refused.code() == errc::invalid_value);
    }
    Buffer short_one = pool.take().value();
    send_operation beyond = w.server.send(std::move(short_one), room + 1);
    const result<void> refused = co_await beyond.result();
    CHECK(refused.code() == errc::invalid_value);
    co_await w.server.flush();
    CHECK(pool.available() == 4);
    CHECK(w.server.state() == endpoint_state::connected);
  });
}

TEST_CASE("C6: what is in flight is not used again: the program ends, and nothing is overwritten") {
  child_process careless([](wire_to_peer&) {
    std::signal(SIGABRT, SIG_DFL);
    stage s;
    s.play([](stage& on) -> task<> {
      wire w = co_await connect(on);
      MemoryRegion in = client_memory(on, 8);
      MemoryRegion other = client_memory(on, 8);
      recv_operation receiving = w.client.recv(in).start();
      receiving.again(other);
      co_await receiving;
    });
    return 0;
  });
  CHECK(careless.join() == 128 + SIGABRT);
}

TEST_CASE("D12: an operation is used again with other memory, and refuses what does not fit") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion here = client_memory(on, 64);
    MemoryRegion there = server_memory(on, 64);
    MemoryRegion foreign = server_memory(on, 64);
    const RemoteMemory remote = exported(there);
    send_operation writing = w.client.write(remote, here);
    MemoryRegion other = client_memory(on, 64);
    for (std::uint64_t round = 0; round < 10; ++round) {
      MemoryRegion& from = round % 2 == 0 ? here : other;
      fill(from.bytes(), round);
      if (round != 0) writing.again(from);
      CHECK(writing.state() == operation_base::phase::idle);
      co_await writing;
      co_await w.client.flush();
      CHECK(filled(there.bytes(), round));
    }
    for (const Slice& unfit : {here.all().first(63), foreign.all()}) {
      writing.again(unfit);
      const result<void> r = co_await writing.result();
      CHECK(r.code() == errc::invalid_value);
    }
    writing.again(here);
    co_await writing;
    send_operation nowhere = w.client.write(RemoteSlice(8, 64, {}), here);
    for (int round = 0; round < 2; ++round) {
      const result<void> r = co_await nowhere.result();
      CHECK(r.code() == errc::not_permitted);
      nowhere.again(here);
    }
    // An operation that failed with its connection fails again.
    w.client.abort();
    writing.again(here);
    const result<void> late = co_await writing.result();
    CHECK(late.code() == errc::not_connected);
  });
}

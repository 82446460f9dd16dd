// Many endpoints that receive from one shared receive queue.
#include "../verbs/told.hpp"

#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

// Number of messages that arrived without a receive, as a device counts them; 0 without a device.
long without_receive() {
  const bool device = transport_under_test() == transport::kind::verbs;
  return device ? std::stol(told("rdma-counter rcvd_rnr_err")) : 0;
}

// Waits long enough for a message without a receive to be retried.
task<> until_refused(stage& on, long before) {
  for (int i = 0; i < 3000; ++i) co_await moment(on);
  while (on.over() == transport::kind::verbs && without_receive() < before + 3) co_await yield();
}

// Resources held by the device; empty without a device.
std::string held_by_device() {
  return transport_under_test() == transport::kind::verbs ? on_device() : std::string();
}

struct crowd {
  std::vector<wire> wires;
};

// `count` connections; their server sides receive from `arrivals`.
task<crowd> gather(stage& on, SharedReceive& arrivals, std::size_t count,
                   endpoint_options client = {}) {
  crowd all;
  all.wires.reserve(count);
  endpoint_options server;
  server.shared = arrivals.queue();
  for (std::size_t i = 0; i < count; ++i) {
    wire w = co_await connect(on, client, server);
    all.wires.push_back(std::move(w));
    CHECK(arrivals.attach(all.wires.back().server).ok());
  }
  co_return all;
}

struct header {
  std::uint64_t sender;
  std::uint64_t number;
};
constexpr std::size_t largest = 3000;  // bytes: several packets

task<> send_some(Endpoint* to, MemoryRegion from, std::uint64_t sender, std::uint64_t count) {
  dice d(sender + 1);
  for (std::uint64_t number = 0; number < count; ++number) {
    const std::size_t bytes = sizeof(header) + d.below(largest - sizeof(header));
    const header h{.sender = sender, .number = number};
    std::memcpy(from.data(), &h, sizeof h);
    fill(from.bytes().subspan(sizeof h, bytes - sizeof h), sender * 1000 + number);
    send_operation op = to->send(from.all().first(bytes));
    const result<void> sent = co_await op.result();
    if (!sent) co_return;  // the connection was ended
    for (std::size_t i = d.below(4); i > 0; --i) co_await yield();
  }
}

// Checks the sender of the message, and that it is the next one of that sender.
void is_next(Arrival& a, const crowd& all, std::vector<std::uint64_t>& expected) {
  REQUIRE(a.ended() == nullptr);
  const std::span<const std::byte> bytes = a.message().bytes();
  REQUIRE(bytes.size() >= sizeof(header));
  header h{};
  std::memcpy(&h, bytes.data(), sizeof h);
  REQUIRE(h.sender < all.wires.size());
  CHECK(a.from() == &all.wires[h.sender].server);
  CHECK(h.number == expected[h.sender]++);
  CHECK(filled(bytes.subspan(sizeof h), h.sender * 1000 + h.number));
}

task<> expect_all(SharedReceive* arrivals, const crowd* all, std::uint64_t each) {
  std::vector<std::uint64_t> expected(all->wires.size());
  for (std::uint64_t i = 0; i < each * all->wires.size(); ++i) {
    Arrival a = co_await arrivals->next();
    is_next(a, *all, expected);
  }
}

// Sends `count` messages from one endpoint, one at a time.
task<> send_words(Endpoint* to, MemoryRegion from, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    from.as<std::uint64_t>()[0] = i;
    co_await to->send(from.all().first(8));
  }
}

std::uint64_t word_of(Arrival& a) {
  REQUIRE(a.ended() == nullptr);
  REQUIRE(a.message().bytes().size() == 8);
  std::uint64_t word = 0;
  std::memcpy(&word, a.message().bytes().data(), 8);
  return word;
}

}  // namespace

TEST_CASE("Q3: of 32 endpoints on one queue each message is told whose it is, in its order") {
  for (const wait_mode mode : {wait_mode::polling, wait_mode::event}) {
    CAPTURE(name(mode));
    stage s({.mode = mode});
    s.play([](stage& on) -> task<> {
      constexpr std::size_t endpoints = 32;
      constexpr std::uint64_t each = 12;
      BufferPool pool(on.server_context(), largest, 96);
      SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = 64}).value();
      crowd all = co_await gather(on, arrivals, endpoints);
      CHECK(arrivals.attached() == endpoints);
      CHECK(pool.available() == 96 - 64);  // not 32 times as many
      task_context& me = co_await this_task();
      scope together(me);
      together.spawn(expect_all(&arrivals, &all, each));
      for (std::size_t i = 0; i < endpoints; ++i) {
        together.spawn(send_some(&all.wires[i].client, client_memory(on, largest), i, each));
      }
      co_await together.join();
      for (wire& w : all.wires) co_await w.client.close();
      for (std::size_t i = 0; i < endpoints; ++i) {
        const Arrival end = co_await arrivals.next();
        REQUIRE(end.ended() != nullptr);
        CHECK(end.ended()->first_cause().code() == errc::not_connected);
      }
      CHECK(arrivals.attached() == 0);
      CHECK(pool.available() == 96 - 64);
    });
  }
}

namespace {

// Keeps received messages until the device reports that its receives run low.
struct keeper {
  std::vector<Arrival> kept;
  int refills = 0;
  bool stop = false;
};

task<> refill(SharedReceive* arrivals, keeper* k) {
  while (!k->stop) {
    const result<void> low = co_await arrivals->low_watermark().result();
    if (!low) co_return;
    k->kept.clear();
    ++k->refills;
    co_await yield();
  }
}

}  // namespace

TEST_CASE("Q3: refilled by nothing but the limit event, no message is lost") {
  for (const wait_mode mode : {wait_mode::polling, wait_mode::event}) {
    CAPTURE(name(mode));
    stage s({.mode = mode});
    s.play([](stage& on) -> task<> {
      constexpr std::uint64_t count = 300;
      BufferPool pool(on.server_context(), 64, 16);
      shared_receive_options o;
      o.depth = 16;
      o.low_watermark = 4;
      SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, o).value();
      crowd all = co_await gather(on, arrivals, 2);
      keeper k;
      k.kept.reserve(16);
      task_context& me = co_await this_task();
      scope together(me);
      together.spawn(refill(&arrivals, &k));
      together.spawn(send_words(&all.wires[0].client, client_memory(on, 8), count));
      for (std::uint64_t i = 0; i < count; ++i) {
        Arrival a = co_await arrivals.next();
        CHECK(word_of(a) == i);
        k.kept.push_back(std::move(a));
      }
      CHECK(k.refills >= static_cast<int>(count / 16));
      CHECK(k.refills <= static_cast<int>(count / 4));
      k.stop = true;
      together.cancel();
      co_await together.join();
    });
  }
}

TEST_CASE(
    "Q3: a limit that is passed is told at once, each time; waiting for it can be withdrawn") {
  stage s;
  s.play([](stage& on) -> task<> {
    BufferPool pool(on.server_context(), 64, 2);
    shared_receive_options o;
    o.depth = o.low_watermark = 2;
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, o).value();
    crowd all = co_await gather(on, arrivals, 1);
    MemoryRegion out = client_memory(on, 8);
    low_operation low = arrivals.low_watermark().start();
    CHECK_FALSE(low.done());
    co_await all.wires[0].client.send(out);
    co_await low;
    {
      const Arrival kept = co_await arrivals.next();
      CHECK(kept.ended() == nullptr);
      co_await arrivals.low_watermark();
      co_await arrivals.low_watermark();
    }
    for (int i = 0; i < 20; ++i) co_await moment(on);  // its buffer is posted again
    low_operation again = arrivals.low_watermark().start();
    CHECK_FALSE(again.done());
    again.cancel();
    CHECK(again.take_result().code() == errc::canceled);
  });
}

TEST_CASE("Q3: starved, a sender without end of patience waits, and nothing is lost") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::uint64_t count = 20;
    BufferPool pool(on.server_context(), 64, 4);
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = 4}).value();
    crowd all = co_await gather(on, arrivals, 2);
    const long before = without_receive();
    task_context& me = co_await this_task();
    scope together(me);
    together.spawn(send_words(&all.wires[0].client, client_memory(on, 8), count));
    std::vector<Arrival> kept;
    for (std::uint64_t i = 0; i < 4; ++i) {
      Arrival a = co_await arrivals.next();
      CHECK(word_of(a) == i);
      kept.push_back(std::move(a));
    }
    CHECK(pool.available() == 0);
    co_await until_refused(on, before);
    kept.clear();
    for (std::uint64_t i = 4; i < count; ++i) {
      Arrival a = co_await arrivals.next();
      CHECK(word_of(a) == i);
    }
    co_await together.join();
    CHECK(all.wires[0].client.state() == endpoint_state::connected);
  });
}

TEST_CASE("Q3: starved, a sender whose patience ends is told so; the others go on") {
  stage s;
  s.play([](stage& on) -> task<> {
    BufferPool pool(on.server_context(), 64, 4);
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = 4}).value();
    endpoint_options impatient;
    impatient.rnr_retry = 2;
    crowd all = co_await gather(on, arrivals, 2, impatient);
    MemoryRegion out = client_memory(on, 8);
    std::vector<Arrival> kept;
    for (int i = 0; i < 4; ++i) {
      co_await all.wires[0].client.send(out);
      Arrival a = co_await arrivals.next();
      REQUIRE(a.ended() == nullptr);
      kept.push_back(std::move(a));
    }
    const long before = without_receive();
    static_cast<void>(
        co_await all.wires[0].client.send(out).result());  // on shm it completes at once
    const result<void> none = co_await all.wires[0].client.flush().result();
    REQUIRE_FALSE(none.ok());
    CHECK(none.why().first_cause().code() == errc::remote_not_ready);
    if (on.over() == transport::kind::verbs) CHECK(without_receive() > before);
    const Arrival end = co_await arrivals.next();
    CHECK(end.from() == &all.wires[0].server);
    CHECK(end.ended() != nullptr);
    kept.clear();
    co_await all.wires[1].client.send(out);
    const Arrival other = co_await arrivals.next();
    CHECK(other.from() == &all.wires[1].server);
    CHECK(other.ended() == nullptr);
  });
}

namespace {

task<> count_others(SharedReceive* arrivals, const crowd* all, std::vector<std::uint64_t>* got,
                    std::vector<int>* ends, int most_ends, std::uint64_t least) {
  std::uint64_t healthy = 0;
  int ended = 0;
  while (healthy < least || ended < most_ends) {
    Arrival a = co_await arrivals->next();
    const auto at = static_cast<std::size_t>(
        std::find_if(all->wires.begin(), all->wires.end(),
                     [&a](const wire& w) { return &w.server == a.from(); }) -
        all->wires.begin());
    REQUIRE(at < all->wires.size());
    if (a.ended() != nullptr) {
      ++(*ends)[at];
      ++ended;
      continue;
    }
    CHECK((*ends)[at] == 0);  // the end is reported last
    if (at < 2) continue;
    is_next(a, *all, *got);
    ++healthy;
  }
}

}  // namespace

TEST_CASE("Q3: endpoints that are killed in the middle take nothing from the others") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t endpoints = 8;
    constexpr std::uint64_t each = 25;
    constexpr std::uint32_t depth = 12;
    constexpr std::size_t long_one = 4U << 20U;
    BufferPool pool(on.server_context(), long_one, depth);
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = depth}).value();
    crowd all = co_await gather(on, arrivals, endpoints);
    task_context& me = co_await this_task();
    std::vector<std::uint64_t> got(endpoints);
    std::vector<int> ends(endpoints);
    {
      // One connection ends on the sender's side and one on the receiver's, during their transfers.
      MemoryRegion out = client_memory(on, long_one);
      std::array<send_operation, 2> halves{all.wires[0].client.send(out).start(),
                                           all.wires[1].client.send(out).start()};
      all.wires[0].client.abort();
      all.wires[1].server.abort();
      scope together(me);
      together.spawn(count_others(&arrivals, &all, &got, &ends, 2, (endpoints - 2) * each));
      for (std::size_t i = 2; i < endpoints; ++i) {
        together.spawn(send_some(&all.wires[i].client, client_memory(on, largest), i, each));
      }
      co_await together.join();
      for (send_operation& half : halves) static_cast<void>(co_await half.result());
    }
    CHECK(ends[0] == 1);
    CHECK(ends[1] == 1);
    for (std::size_t i = 2; i < endpoints; ++i) CHECK(got[i] == each);
    CHECK(arrivals.attached() == endpoints - 2);
    // No receive is missing: the messages use the complete pool.
    std::vector<Arrival> kept;
    task_context& again = co_await this_task();
    scope rest(again);
    rest.spawn(send_words(&all.wires[2].client, client_memory(on, 8), depth));
    for (std::uint64_t i = 0; i < depth; ++i) {
      Arrival a = co_await arrivals.next();
      CHECK(word_of(a) == i);
      kept.push_back(std::move(a));
    }
    co_await rest.join();
    CHECK(pool.available() == 0);
  });
}

TEST_CASE("Q3: receives of its own, and what else a shared queue rules out, are refused") {
  stage s;
  s.play([](stage& on) -> task<> {
    BufferPool pool(on.server_context(), 64, 8);
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = 4}).value();
    crowd all = co_await gather(on, arrivals, 1);
    Endpoint& e = all.wires[0].server;
    MemoryRegion in = server_memory(on, 8);
    const result<Received> own = co_await e.recv(in).result();
    CHECK(own.code() == errc::bad_state);
    CHECK(e.publish_receives(in).code() == errc::bad_state);
    CHECK(e.actual().recv_depth == 0);
    CHECK(e.actual().shared == arrivals.queue());
    CHECK(arrivals.attach(e).code() == errc::bad_state);
    CHECK(arrivals.attach(all.wires[0].client).code() == errc::invalid_value);
    endpoint_options o;
    o.shared = arrivals.queue();
    CHECK(on.client().prepare(o).code() == errc::invalid_value);  // of another Worker
    o.type = transport::service::uc;
    CHECK(on.server().prepare(o).code() == errc::not_supported);
    const auto made = [&](std::uint32_t depth, std::uint32_t low) {
      shared_receive_options q;
      q.depth = depth;
      q.low_watermark = low;
      return SharedReceive::on_device(on.server(), pool, q).code();
    };
    CHECK(made(0, 0) == errc::invalid_value);
    CHECK(made(on.caps().max_shared_depth + 1, 0) == errc::invalid_value);
    CHECK(made(4, 5) == errc::invalid_value);
    CHECK(made(4, 4) == errc::ok);
    const result<void> unasked = co_await arrivals.low_watermark().result();
    CHECK(unasked.code() == errc::invalid_value);
  });
}

TEST_CASE(
    "Q3: what comes before its endpoint is attached is kept; what comes after it is gone, not") {
  stage s;
  s.play([](stage& on) -> task<> {
    BufferPool pool(on.server_context(), 64, 8);
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = 8}).value();
    endpoint_options o;
    o.shared = arrivals.queue();
    std::optional<wire> w;
    {
      wire made = co_await connect(on, endpoint_options(), o);
      w.emplace(std::move(made));
    }
    MemoryRegion out = client_memory(on, 8);
    co_await send_words(&w->client, out, 3);
    arrival_operation next = arrivals.next().start();
    for (int i = 0; i < 200; ++i) co_await moment(on);
    CHECK_FALSE(next.done());
    CHECK(arrivals.attach(w->server).ok());
    Arrival first = co_await next;
    CHECK(word_of(first) == 0);
    Arrival second = co_await arrivals.next();
    CHECK(word_of(second) == 1);
    w->server = Endpoint();
    CHECK(arrivals.attached() == 0);
    wire other = co_await connect(on, endpoint_options(), o);
    CHECK(arrivals.attach(other.server).ok());
    co_await send_words(&other.client, out, 1);
    // not the third message of the destroyed connection
    const Arrival a = co_await arrivals.next();
    CHECK(a.from() == &other.server);
  });
}

TEST_CASE(
    "Q3, Q8: a message that ends a window names it, and is not another endpoint's [early, late]" *
    not_on(transport::kind::shm, "it has no memory windows")) {
  for (const bool early : {true, false}) {
    CAPTURE(early);
    stage s;
    s.play(
        [](stage& on, bool comes_early) -> task<> {
          BufferPool pool(on.server_context(), 64, 4);
          SharedReceive arrivals =
              SharedReceive::on_device(on.server(), pool, {.depth = 4}).value();
          endpoint_options o;
          o.shared = arrivals.queue();
          wire w = co_await connect(on, endpoint_options(), o);
          if (!comes_early) CHECK(arrivals.attach(w.server).ok());
          MemoryRegion target = server_memory(on, 64, every_right | access::mw_bind);
          MemoryWindow kept = co_await w.server.bind(target, 0, 8, access::remote_write);
          MemoryWindow ended = co_await w.server.bind(target, 8, 8, access::remote_write);
          const std::uint64_t key = ended.key();
          const RemoteMemory of_ended = RemoteMemory::import(ended.export_blob().value()).value();
          MemoryRegion out = client_memory(on, 8);
          co_await w.client.send_invalidate(out, of_ended);
          co_await send_words(&w.client, out, 1);
          if (comes_early) {
            while (w.server.counters().recvs < 2) co_await moment(on);
            CHECK(arrivals.attach(w.server).ok());
          }
          Arrival naming = co_await arrivals.next();
          REQUIRE(naming.ended() == nullptr);
          CHECK(naming.message().invalidated() == key);
          CHECK_FALSE(ended);
          CHECK(kept);
          Arrival plain = co_await arrivals.next();
          REQUIRE(plain.ended() == nullptr);
          CHECK(plain.message().invalidated() == 0);
        },
        early);
  }
}

TEST_CASE("Q3: a thousand messages allocate nothing") {
  stage s;
  s.play([](stage& on) -> task<> {
    BufferPool pool(on.server_context(), 64, 32);
    SharedReceive arrivals = SharedReceive::on_device(on.server(), pool, {.depth = 16}).value();
    crowd all = co_await gather(on, arrivals, 4);
    MemoryRegion out = client_memory(on, 8);
    std::uint64_t before = 0;
    for (int i = 0; i < 1100; ++i) {
      if (i == 100) before = allocations();
      wire& w = all.wires[static_cast<std::size_t>(i % 4)];
      send_operation sending = w.client.send(out).start();
      const Arrival a = co_await arrivals.next();
      CHECK_FALSE(a.ended() != nullptr);
      co_await sending;
    }
    CHECK(allocations() == before);
  });
}

namespace {

struct doomed {
  std::optional<BufferPool> pool;
  std::optional<SharedReceive> arrivals;
  std::optional<low_operation> low;
  crowd all;
  std::vector<send_operation> sending;
};

void destroy(stage& s, doomed& d, int what) {
  switch (what) {
    case 0: d.arrivals.reset(); break;
    case 1: d.all.wires[0].client = Endpoint(); break;
    case 2: d.all.wires[0].server = Endpoint(); break;
    case 3: s.drop_server(); break;
    default: s.drop_client(); break;
  }
}

}  // namespace

TEST_CASE("Q3: with traffic in flight all goes in any order, without waiting and without a trace") {
  const std::string before = held_by_device();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    dice d(seed + 1);
    std::array order{0, 1, 2, 3, 4};
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[d.below(i + 1)]);
    stage s;
    doomed world;
    s.play(
        [](stage& on, doomed* w) -> task<> {
          w->pool.emplace(on.server_context(), 64, 8);
          shared_receive_options o;
          o.depth = 8;
          o.low_watermark = 2;
          w->arrivals.emplace(SharedReceive::on_device(on.server(), *w->pool, o).value());
          crowd made = co_await gather(on, *w->arrivals, 2);
          w->all = std::move(made);
          for (wire& each : w->all.wires) CHECK(each.server.state() == endpoint_state::connected);
          MemoryRegion out = client_memory(on, 8);
          w->low.emplace(w->arrivals->low_watermark().start());
          for (int i = 0; i < 6; ++i)
            w->sending.push_back(w->all.wires[0].client.send(out).start());
          for (send_operation& op : w->sending) static_cast<void>(co_await op.result());
          w->sending.clear();
        },
        &world);
    for (const int what : order) destroy(s, world, what);
    CHECK(world.low->done());
    CHECK(world.pool->available() == 8);
  }
  if (!before.empty()) CHECK(is_again(before));
}

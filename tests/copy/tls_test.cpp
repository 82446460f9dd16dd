// A lane with TLS: frames and the bytes of chunks arrive in order and complete, or fail with an
// error.
#include "lane_pair.hpp"

#include <cordma/runtime/timeout.hpp>

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

using namespace copy;
using namespace copy::test;
using cordma::task;
using cordma::test::fill;
using cordma::test::filled;
using cordma::test::stage;

namespace {

constexpr std::uint32_t slot_bytes = 300'000;
constexpr std::uint32_t slots = 3;
constexpr std::uint64_t before = 1000;  // bytes of the memory in front of the slots

struct memory_pair {
  explicit memory_pair(stage& s, lane_pair& p)
      : from(s.client_context().allocate(slot_bytes * slots).value()),
        to(s.server_context()
               .allocate(before + slot_bytes * slots + before, p.server->slot_access())
               .value()) {}
  cordma::MemoryRegion from;
  cordma::MemoryRegion to;
};

// Returns the client's received description of the slots.
task<slot_memory> offered(lane_pair& p, const memory_pair& m) {
  p.server->offer(m.to, {0, slots, slot_bytes, before});
  co_await p.server->say();
  const bool heard = co_await p.client->next();
  CHECK(heard);
  frame_reader in = p.client->frame();
  CHECK(in.kind() == frame_kind::memory);
  co_return decode_memory(in);
}

void append(lane& l, std::uint32_t number) {
  frame_writer(l.out(), frame_kind::credit).u32(number);
  l.kick();
}

task<> expect_number(lane& l, std::uint32_t number) {
  const bool more = co_await l.next();
  REQUIRE(more);
  frame_reader in = l.frame();
  CHECK(in.u32() == number);
  in.end();
}

task<> write_all(lane* l) { co_await l->write_out(); }

// Returns the error of `t`, or ok if it succeeds.
template <class T>
task<cordma::errc> failure_of(task<T> t) {
  cordma::errc code = cordma::errc::ok;
  try {
    static_cast<void>(co_await std::move(t));
  } catch (const cordma::error& e) {
    code = e.condition();
  }
  co_return code;
}

task<> send_to_slots(lane* l, slot_memory m, cordma::MemoryRegion from) {
  fill(from.bytes(), 7);
  append(*l, 100);
  const cordma::Slice all = from.all();
  {
    slot_write first(*l, m, m.offset, all.part(0, slot_bytes));
    append(*l, 101);
    slot_write second(*l, m, m.offset + 2 * slot_bytes, all.part(slot_bytes, 11));
    append(*l, 102);
    append(*l, 103);
    slot_write nothing(*l, m, m.offset + slot_bytes, all.part(0, 0));
    append(*l, 104);
    co_await second.done();
    co_await first.done();
    co_await nothing.done();
  }
  std::ranges::fill(from.bytes(), std::byte{0});  // the caller owns the buffer again
  l->finish();
}

task<> read_slots(lane* l, cordma::MemoryRegion to) {
  const std::span<std::byte> in_slots = to.bytes().subspan(before);
  for (std::uint32_t i = 100; i < 105; ++i) {
    co_await expect_number(*l, i);
    std::vector<std::byte> expected(slot_bytes + 11);
    fill(expected, 7);
    if (i == 101)
      CHECK(std::ranges::equal(in_slots.first(slot_bytes), std::span(expected).first(slot_bytes)));
    if (i == 102) {
      CHECK(std::ranges::equal(in_slots.subspan(2 * slot_bytes, 11),
                               std::span(expected).subspan(slot_bytes)));
    }
  }
  const bool more = co_await l->next();
  CHECK_FALSE(more);
  l->finish();
}

task<> read_to_end(lane* l) {
  const bool more = co_await l->next();
  CHECK_FALSE(more);
}

}  // namespace

TEST_CASE(
    "a frame is read once the bytes that were put before it are in their slot, and the end is told "
    "[TLS]") {
  for (const security with : {security::plain, security::tls}) {
    CAPTURE(with == security::tls);
    stage on({}, cordma::transport::kind::tcp);
    on.play(
        [](stage& s, security how) -> task<> {
          lane_pair p = co_await open_pair(s, {.with = how});
          memory_pair m(s, p);
          const slot_memory told = co_await offered(p, m);
          cordma::task_context& me = co_await cordma::this_task();
          cordma::scope all(me);
          all.spawn(write_all(p.client.get()));
          all.spawn(write_all(p.server.get()));
          all.spawn(send_to_slots(p.client.get(), told, m.from));
          all.spawn(read_slots(p.server.get(), m.to));
          all.spawn(read_to_end(p.client.get()));
          co_await all.join();
          co_await p.client->stream().close();
          CHECK(std::ranges::count(m.to.bytes().first(before), std::byte{0}) == before);
        },
        with);
  }
}

TEST_CASE("frames that are much, both ways at once") {
  stage on({}, cordma::transport::kind::tcp);
  on.play([](stage& s) -> task<> {
    constexpr std::uint32_t count = 20'000;
    lane_pair p = co_await open_pair(s);
    cordma::task_context& me = co_await cordma::this_task();
    cordma::scope all(me);
    const auto talk = [](lane* l) -> task<> {
      for (std::uint32_t i = 0; i < count; ++i) {
        append(*l, i);
        co_await l->room();
      }
      l->finish();
    };
    const auto listen = [](lane* l) -> task<> {
      for (std::uint32_t i = 0; i < count; ++i) co_await expect_number(*l, i);
    };
    for (lane* const l : {p.client.get(), p.server.get()}) {
      all.spawn(write_all(l));
      all.spawn(talk(l));
      all.spawn(listen(l));
    }
    co_await all.join();
  });
}

TEST_CASE("a peer that does not read keeps the bytes that are for it where they are") {
  stage on({}, cordma::transport::kind::tcp);
  on.play([](stage& s) -> task<> {
    lane_pair p = co_await open_pair(s);
    memory_pair m(s, p);
    const slot_memory told = co_await offered(p, m);
    cordma::task_context& me = co_await cordma::this_task();
    cordma::scope all(me);
    all.spawn(write_all(p.client.get()));
    std::vector<std::unique_ptr<slot_write>> under_way;
    constexpr std::uint32_t many = 60;  // more than sockets and windows can buffer
    for (std::uint32_t i = 0; i < many; ++i) {
      under_way.push_back(std::make_unique<slot_write>(*p.client, told, told.offset,
                                                       m.from.all().part(0, slot_bytes)));
      append(*p.client, i);
    }
    using namespace std::chrono_literals;
    task<void> last = under_way.back()->done();
    cordma::errc waited = cordma::errc::ok;
    try {
      co_await cordma::with_timeout(100ms, std::move(last));
    } catch (const cordma::error& e) {
      waited = e.condition();
    }
    CHECK(waited == cordma::errc::timed_out);
    co_await under_way.front()->done();
    // An abandoned write is still sent.
    under_way.pop_back();
    for (std::uint32_t i = 0; i < many; ++i) co_await expect_number(*p.server, i);
    co_await under_way.back()->done();
    p.client->finish();
    co_await all.join();
  });
}

TEST_CASE("bytes for a place that is in no slot are refused, and written nowhere [place]") {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  const slot_data wrong[] = {
      {1, before, 10},
      {0, before - 1, 10},
      {0, 0, 10},
      {0, before, slot_bytes + 1},
      {0, before + slot_bytes - 5, 10},
      {0, before + slots * slot_bytes, 1},
      {0, before + slots * slot_bytes - 5, 6},
      {0, largest, 10},
      {0, largest - 8, 10},
      {0, before, std::numeric_limits<std::uint32_t>::max()},
  };
  for (const slot_data& d : wrong) {
    CAPTURE(d.number);
    CAPTURE(d.offset);
    CAPTURE(d.bytes);
    stage on({}, cordma::transport::kind::tcp);
    on.play(
        [](stage& s, slot_data place) -> task<> {
          lane_pair p = co_await open_pair(s);
          memory_pair m(s, p);
          [[maybe_unused]] const slot_memory told = co_await offered(p, m);
          encode(p.client->out(), place);
          p.client->out().resize(p.client->out().size() + 100, std::byte{1});
          co_await p.client->say();
          task<bool> reading = p.server->next();
          const cordma::errc why = co_await failure_of(std::move(reading));
          CHECK(why == cordma::errc::invalid_value);
          CHECK(std::ranges::count(m.to.bytes(), std::byte{0}) ==
                static_cast<std::ptrdiff_t>(m.to.size()));
        },
        d);
  }
}

TEST_CASE("bytes for slots are refused where none are offered, and on a lane without TLS [TLS]") {
  for (const security with : {security::plain, security::tls}) {
    stage on({}, cordma::transport::kind::tcp);
    on.play(
        [](stage& s, security how) -> task<> {
          lane_pair p = co_await open_pair(s, {.with = how});
          encode(p.client->out(), slot_data{0, 0, 1});
          p.client->out().push_back(std::byte{1});
          co_await p.client->say();
          task<bool> reading = p.server->next();
          const cordma::errc why = co_await failure_of(std::move(reading));
          // Without TLS the frame kind is unknown to the reader.
          CHECK(why == (how == security::tls ? cordma::errc::invalid_value : cordma::errc::ok));
        },
        with);
  }
}

TEST_CASE("a stream that ends without the peer's saying so is truncated, wherever it ends") {
  for (const bool within_chunk : {false, true}) {
    CAPTURE(within_chunk);
    stage on({}, cordma::transport::kind::tcp);
    on.play(
        [](stage& s, bool within) -> task<> {
          lane_pair p = co_await open_pair(s);
          memory_pair m(s, p);
          [[maybe_unused]] const slot_memory told = co_await offered(p, m);
          if (within) encode(p.client->out(), slot_data{0, before, 10});
          co_await p.client->say();
          p.client->stream().shutdown_send().value();
          task<bool> reading = p.server->next();
          const cordma::errc why = co_await failure_of(std::move(reading));
          CHECK(why == cordma::errc::truncated);
        },
        within_chunk);
  }
}

TEST_CASE("a chunk that ends early, by the peer's own word, is truncated") {
  stage on({}, cordma::transport::kind::tcp);
  on.play([](stage& s) -> task<> {
    lane_pair p = co_await open_pair(s);
    memory_pair m(s, p);
    [[maybe_unused]] const slot_memory told = co_await offered(p, m);
    encode(p.client->out(), slot_data{0, before, 10});
    p.client->finish();
    co_await p.client->write_out();
    task<bool> reading = p.server->next();
    const cordma::errc why = co_await failure_of(std::move(reading));
    CHECK(why == cordma::errc::truncated);
  });
}

TEST_CASE("what somebody on the way adds is refused") {
  stage on({}, cordma::transport::kind::tcp);
  on.play([](stage& s) -> task<> {
    lane_pair p = co_await open_pair(s);
    std::vector<std::byte> plain;
    frame_writer(plain, frame_kind::credit).u32(1);
    plain.resize(100);
    co_await p.client->stream().write(plain);
    task<bool> reading = p.server->next();
    const cordma::errc why = co_await failure_of(std::move(reading));
    CHECK(why == cordma::errc::invalid_value);
  });
}

TEST_CASE("with a certificate that is not to be trusted it does not begin [certificate]") {
  for (const pair_options& o :
       {pair_options{.shows = "strange"}, pair_options{.shows = "elsewhere"},
        pair_options{.shows = "expired"}, pair_options{.host = "127.0.0.2"}}) {
    CAPTURE(std::string(o.shows));
    stage on({}, cordma::transport::kind::tcp);
    on.play(
        [](stage& s, pair_options how) -> task<> {
          task<lane_pair> opening = open_pair(s, how);
          cordma::errc why = cordma::errc::ok;
          try {
            [[maybe_unused]] const lane_pair p = co_await std::move(opening);
          } catch (const cordma::error& e) {
            why = e.condition();
          }
          CHECK(why == cordma::errc::rejected);
        },
        o);
  }
}

TEST_CASE("over TLS no memory is open to remote writes") {
  stage on({}, cordma::transport::kind::tcp);
  on.play([](stage& s) -> task<> {
    lane_pair p = co_await open_pair(s);
    memory_pair m(s, p);
    const slot_memory told = co_await offered(p, m);
    CHECK(m.to.rights() == cordma::access::local_write);
    cordma::send_operation write =
        p.client->stream().write_at(told.number, told.offset, m.from.all().part(0, 10));
    const cordma::result<void> written = co_await write.result();
    CHECK(written.code() == cordma::errc::not_found);
  });
}

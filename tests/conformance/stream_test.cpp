// Streams (N1 to N3): bytes in order in pieces of any size, half-close, flow control, mapped
// memory.
#include <doctest/doctest.h>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <cordma/net/stream.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <sys/stat.h>

using namespace cordma;
using namespace cordma::test;

namespace {

// Bytes as a function of their position, in pieces of random size.
std::byte at(std::uint64_t place) { return static_cast<std::byte>(place * 131 >> 3); }

task<> write_all(Stream* to, MemoryRegion room, std::uint64_t bytes, std::uint64_t seed) {
  dice d(seed);
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t n = std::min(bytes - done, 1 + d.below(room.size()));
    for (std::uint64_t i = 0; i < n; ++i) room.data()[i] = at(done + i);
    if (d.below(2) == 0) {
      const std::size_t taken = co_await to->write(room.all().first(n));
      REQUIRE(taken == n);
      done += n;
    } else {
      co_await to->write(room.bytes().first(n));
      done += n;
    }
  }
  CHECK(to->shutdown_send().ok());
}

task<> read_all(Stream* from, std::uint64_t bytes, std::uint64_t seed) {
  dice d(seed);
  std::vector<std::byte> room(100'000);
  std::uint64_t done = 0;
  std::uint64_t wrong = 0;
  for (;;) {
    const std::size_t n = co_await from->read_some(std::span(room).first(1 + d.below(room.size())));
    if (n == 0) break;
    for (std::size_t i = 0; i < n; ++i) wrong += room[i] != at(done + i) ? 1U : 0U;
    done += n;
  }
  CHECK(wrong == 0);
  CHECK(done == bytes);
  const std::size_t again = co_await from->read_some(room);
  CHECK(again == 0);
}

task<> both_ways(stage& s, stream_pair& p, std::uint64_t bytes) {
  task_context& me = co_await this_task();
  scope all(me);
  all.spawn(write_all(&p.client, client_memory(s, 70'000), bytes, 1));
  all.spawn(read_all(&p.server, bytes, 2));
  all.spawn(write_all(&p.server, server_memory(s, 3000), bytes / 4, 3));
  all.spawn(read_all(&p.client, bytes / 4, 4));
  co_await all.join();
}

task<errc> refusal(Context context, Endpoint connected, stream_options o) {
  try {
    const Stream s = co_await Stream::open(context, std::move(connected), o);
  } catch (const error& e) {
    co_return e.why().code();
  }
  co_return errc::ok;
}

}  // namespace

TEST_CASE("N1: what is written is read, in order, whatever the pieces and the windows") {
  for (const std::uint32_t window : {1U, 17U, 4096U, 1U << 18}) {
    CAPTURE(window);
    stage on;
    on.play(
        [](stage& s, std::uint32_t bytes) -> task<> {
          const stream_options o{.window_bytes = bytes, .notices = bytes < 100 ? 16U : 64U};
          stream_pair p = co_await open_streams(s, o);
          const std::uint64_t most = rounds_under_test(std::uint64_t{64} << 20, 1 << 20);
          const std::uint64_t wanted = std::min(most, bytes * std::uint64_t(500));
          co_await both_ways(s, p, wanted);
        },
        window);
  }
}

namespace {

// An endless text: it repeats after a prime number of bytes, which no buffer or window size
// divides.
constexpr std::size_t period = 1'048'583;
constexpr std::size_t longest_piece = 200'000;

MemoryRegion endless_text(stage& s) {
  MemoryRegion text = client_memory(s, period + longest_piece);
  for (std::size_t i = 0; i < text.size(); ++i) text.data()[i] = at(i % period * 0x9E3779B9U);
  return text;
}

task<> tell(Stream* to, const MemoryRegion* text, std::uint64_t bytes) {
  dice d(5);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t n = std::min(bytes - done, 1 + d.below(longest_piece));
    const Slice piece = text->all().part(done % period, n);
    stream_write_operation op = d.below(2) == 0 ? to->write(piece) : to->write_some(piece.bytes());
    const std::size_t taken = co_await op;
    done += taken;
  }
  CHECK(to->shutdown_send().ok());
}

task<> hear(Stream* from, const MemoryRegion* text, std::uint64_t bytes) {
  dice d(6);
  std::vector<std::byte> room(longest_piece);
  std::uint64_t done = 0;
  std::uint64_t wrong = 0;
  for (;;) {
    const std::size_t n = co_await from->read_some(std::span(room).first(1 + d.below(room.size())));
    if (n == 0) break;
    const std::span<const std::byte> told = text->all().part(done % period, n).bytes();
    if (!std::equal(told.begin(), told.end(), room.begin())) ++wrong;
    done += n;
  }
  CHECK(wrong == 0);
  CHECK(done == bytes);
}

task<> echo(Stream* of) {
  dice d(7);
  std::vector<std::byte> room(longest_piece);
  for (;;) {
    const std::size_t n = co_await of->read_some(std::span(room).first(1 + d.below(room.size())));
    if (n == 0) break;
    co_await of->write(std::span(room).first(n));
  }
  CHECK(of->shutdown_send().ok());
}

}  // namespace

TEST_CASE(
    "N1: an echo brings back what was said, in pieces of chance [1 GiB; 16 MiB on verbs, sim]") {
  // The simulator computes each packet.
  const bool simulated = transport_under_test() == transport::kind::sim;
  const std::uint64_t bytes =
      simulated ? rounds_under_test(1 << 24)
                : rounds_under_test(std::uint64_t{1} << 30, std::uint64_t{1} << 24);
  stage on;
  on.play(
      [](stage& s, std::uint64_t most) -> task<> {
        const MemoryRegion text = endless_text(s);
        stream_pair p = co_await open_streams(s);
        task_context& me = co_await this_task();
        scope all(me);
        all.spawn(tell(&p.client, &text, most));
        all.spawn(hear(&p.client, &text, most));
        all.spawn(echo(&p.server));
        co_await all.join();
      },
      bytes);
}

TEST_CASE("N2: a reader that stalls holds its writer at the window, and loses nothing") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options small{.window_bytes = 1000};
    stream_pair p = co_await open_streams(s, stream_options(), small);
    std::vector<std::byte> all(5000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = at(i);
    std::size_t written = 0;
    for (;;) {
      stream_write_operation op = p.client.write_some(std::span(all).subspan(written)).start();
      for (int i = 0; i < 200 && !op.done(); ++i) co_await moment(s);
      if (!op.done()) {
        op.cancel();
        CHECK(op.take_result().code() == errc::canceled);
        break;
      }
      written += op.take_result().value();
    }
    CHECK(written == 1000);
    std::vector<std::byte> got(1000);
    co_await p.server.read(got);
    CHECK(std::ranges::equal(got, std::span(all).first(1000)));
    // A canceled read does not lose bytes either.
    stream_read_operation waits = p.server.read_some(got).start();
    waits.cancel();
    CHECK(waits.take_result().code() == errc::canceled);
    co_await p.client.write(std::span(all).subspan(1000, 500));
    co_await p.server.read(std::span(got).first(500));
    CHECK(std::ranges::equal(std::span(got).first(500), std::span(all).subspan(1000, 500)));
  });
}

TEST_CASE(
    "N3: the end waits for a write that waits, and no longer than somebody wants it written") {
  for (const bool destroyed : {true, false}) {
    CAPTURE(destroyed);
    stage on;
    on.play(
        [](stage& s, bool destroy) -> task<> {
          const stream_options small{.window_bytes = 1000};
          stream_pair p = co_await open_streams(s, stream_options(), small);
          const std::vector<std::byte> all(2000);
          co_await p.client.write(std::span(all).first(1000));
          std::optional<stream_write_operation> waiting(p.client.write_some(all).start());
          task_context& me = co_await this_task();
          scope closing(me);
          closing.spawn(p.client.close());
          for (int i = 0; i < 20; ++i) co_await moment(s);
          CHECK_FALSE(waiting->done());
          CHECK(p.client.endpoint().state() == endpoint_state::connected);
          if (destroy) {
            waiting.reset();
          } else {
            waiting->cancel();
            CHECK(waiting->take_result().code() == errc::canceled);
          }
          co_await closing.join();
          std::vector<std::byte> got(1001);
          const std::size_t read = co_await p.server.read_some(got);
          CHECK(read == 1000);
          const std::size_t end = co_await p.server.read_some(got);
          CHECK(end == 0);
        },
        destroyed);
  }
}

namespace {

// Writes pieces of increasing lengths, all started before the first is done.
task<> write_side_by_side(Stream* to, MemoryRegion all) {
  std::vector<stream_write_operation> under_way;
  std::size_t at = 0;
  for (std::size_t n = 1; at + n <= all.size(); n = 2 * n + 1) {
    under_way.push_back(to->write(all.all().part(at, n)).start());
    at += n;
  }
  under_way.push_back(to->write(all.all().part(at, all.size() - at)).start());
  std::size_t written = 0;
  for (stream_write_operation& op : under_way) {
    const std::size_t n = co_await op;
    written += n;
  }
  CHECK(written == all.size());
  CHECK(to->shutdown_send().ok());
}

}  // namespace

TEST_CASE("N1: uncopied writes that are under way together come whole, in their order") {
  for (const std::uint32_t window : {100U, 5000U, 1U << 18}) {
    CAPTURE(window);
    stage on;
    on.play(
        [](stage& s, std::uint32_t bytes) -> task<> {
          constexpr std::size_t whole = 300'000;
          stream_pair p =
              co_await open_streams(s, stream_options(), stream_options{.window_bytes = bytes});
          MemoryRegion all = client_memory(s, whole);
          for (std::size_t i = 0; i < whole; ++i) all.data()[i] = at(i);
          task_context& me = co_await this_task();
          scope both(me);
          both.spawn(write_side_by_side(&p.client, all));
          both.spawn(read_all(&p.server, whole, 3));
          co_await both.join();
        },
        window);
  }
}

TEST_CASE("N2: an uncopied write that is given up ends with what was posted of it") {
  enum class end : std::uint8_t { canceled, destroyed, turned_away };
  for (const end how : {end::canceled, end::destroyed, end::turned_away}) {
    CAPTURE(static_cast<int>(how));
    stage on;
    on.play(
        [](stage& s, end by) -> task<> {
          const stream_options small{.window_bytes = 1000};
          stream_pair p = co_await open_streams(s, stream_options(), small);
          const MemoryRegion all = client_memory(s, 2000);
          fill(all.bytes(), 4);
          std::optional<stream_write_operation> op(p.client.write(all));
          if (by == end::turned_away) op->or_again();
          op->start();
          if (by == end::destroyed) {
            op.reset();
          } else {
            if (by == end::canceled) op->cancel();
            stream_write_operation& started = *op;
            const std::size_t written = co_await started;
            CHECK(written == 1000);
          }
          stream_write_operation none = p.client.write(all).start();  // no space is free
          none.cancel();
          CHECK(none.take_result().code() == errc::canceled);
          std::array<std::byte, 1000> got{};
          co_await p.server.read(got);
          CHECK(filled(got, 4));
          const std::array<std::byte, 1> next{std::byte{9}};
          co_await p.client.write(next);
          co_await p.server.read(std::span(got).first(1));
          CHECK(got[0] == next[0]);
        },
        how);
  }
}

TEST_CASE("N3: either side ends first, and the other way goes on") {
  for (const bool client_first : {true, false}) {
    CAPTURE(client_first);
    stage on;
    on.play(
        [](stage& s, bool by_client) -> task<> {
          stream_pair p = co_await open_streams(s);
          Stream& first = by_client ? p.client : p.server;
          Stream& second = by_client ? p.server : p.client;
          std::array<std::byte, 100> bytes{};
          fill(bytes, 1);
          co_await first.write(bytes);
          CHECK(first.shutdown_send().ok());
          CHECK(first.shutdown_send().ok());
          const result<std::size_t> late = co_await first.write_some(bytes).result();
          CHECK(late.code() == errc::not_connected);
          std::array<std::byte, 200> got{};
          co_await second.read(std::span(got).first(100));
          CHECK(filled(std::span(got).first(100), 1));
          const std::size_t end = co_await second.read_some(got);
          CHECK(end == 0);
          fill(bytes, 2);
          co_await second.write(bytes);
          co_await first.read(std::span(got).first(100));
          CHECK(filled(std::span(got).first(100), 2));
        },
        client_first);
  }
}

TEST_CASE("N3: what was written before the stream is closed can be read after it") {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_pair p = co_await open_streams(s);
    std::vector<std::byte> bytes(100'000);
    fill(bytes, 5);
    co_await p.client.write(bytes);
    co_await p.client.close();
    CHECK(p.client.endpoint().state() == endpoint_state::closed);
    while (p.server.endpoint().state() != endpoint_state::closed) co_await moment(s);
    std::vector<std::byte> got(bytes.size());
    co_await p.server.read(got);
    CHECK(got == bytes);
    const std::size_t end = co_await p.server.read_some(got);
    CHECK(end == 0);
    const result<std::size_t> late = co_await p.server.write_some(bytes).result();
    CHECK_FALSE(late.ok());
    const result<std::size_t> unread = co_await p.client.read_some(got).result();
    CHECK_FALSE(unread.ok());
  });
}

TEST_CASE("a stream whose peer vanishes fails what waits, and gives what is here first") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options small{.window_bytes = 64};
    stream_pair p = co_await open_streams(s, stream_options(), small);
    std::array<std::byte, 64> bytes{};
    fill(bytes, 6);
    co_await p.client.write(bytes);
    stream_write_operation waits = p.client.write_some(bytes).start();
    std::array<std::byte, 64> got{};
    co_await p.server.read(std::span(got).first(1));
    p.client.endpoint().abort();
    const result<std::size_t> cut = co_await waits.result();
    CHECK_FALSE(cut.ok());
    while (p.server.endpoint().state() != endpoint_state::closed) co_await moment(s);
    co_await p.server.read(std::span(got).subspan(1));
    CHECK(filled(got, 6));
    const result<std::size_t> end = co_await p.server.read_some(got).result();
    CHECK(end.code() == errc::connection_reset);
  });
}

TEST_CASE("a write that is destroyed on its way keeps its memory, also when its Stream goes next") {
  for (int passes = 0; passes < 4; ++passes) {
    CAPTURE(passes);
    stage s;
    s.play(
        [](stage& on, int turns) -> task<> {
          stream_pair p = co_await open_streams(on);
          {
            const MemoryRegion mine = client_memory(on, 100'000);
            stream_write_operation gone = p.client.write(mine.all()).start();
          }
          for (int i = 0; i < turns; ++i) co_await moment(on);
          p.client = Stream();
          std::byte some[1000];
          for (;;) {
            const result<std::size_t> got = co_await p.server.read_some(some).result();
            if (!got || *got == 0) break;
          }
        },
        passes);
  }
}

namespace {

constexpr std::byte the_last{7};

// With few notices: data uses as many as it may, then as many regions are mapped as are allowed.
task<> use_all_notices(stage* on, Stream* s, MemoryRegion memory) {
  const std::byte one[1] = {};
  for (int i = 0; i < 16; ++i) {
    stream_write_operation op = s->write_some(std::span<const std::byte>(one)).start();
    if (!op.done()) break;
  }
  for (int i = 0; i < 16; ++i) CHECK(s->map(memory).ok());
  CHECK(s->map(memory).code() == errc::full);
  co_await moment(*on);
}

}  // namespace

TEST_CASE("N2: two streams that map all they may, with few notices, go on, and close") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options few{.notices = 16};
    stream_pair p = co_await open_streams(s, few, few);
    const cordma::access mine = cordma::access::local_write | cordma::access::remote_write;
    co_await use_all_notices(&s, &p.client, s.client_context().allocate(64, mine).value());
    co_await use_all_notices(&s, &p.server, s.server_context().allocate(64, mine).value());
    task_context& me = co_await this_task();
    scope both(me);
    both.spawn([](Stream* to) -> task<> {
      const std::byte last[1] = {the_last};
      co_await to->write(last);
      co_await to->close();
    }(&p.client));
    both.spawn([](Stream* from) -> task<> {
      std::byte got[1] = {};
      while (got[0] != the_last) co_await from->read(got);
      co_await from->close();
    }(&p.server));
    co_await both.join();
  });
}

TEST_CASE(
    "N3: who reads of mapped memory knows it, though all notices were used when it was mapped") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options few{.notices = 16};
    stream_pair p = co_await open_streams(s, few, few);
    const MemoryRegion from = server_memory(s, 8);
    for (std::size_t used = 8; used < 16; ++used) {
      CAPTURE(used);
      std::vector<std::byte> bytes(used);
      std::vector<stream_write_operation> writes;
      for (const std::byte& one : bytes) {
        writes.push_back(p.client.write_some(std::span(&one, 1)).start());
      }
      const MemoryRegion target = client_memory(s, 8);
      const result<std::uint32_t> number = p.client.map(target);
      REQUIRE(number.ok());
      const std::array<std::byte, 1> told{static_cast<std::byte>(*number)};
      writes.push_back(p.client.write_some(told).start());
      std::vector<std::byte> read(used + 1);
      co_await p.server.read(read);
      CHECK(read[used] == told[0]);
      fill(from.bytes(), used);
      co_await p.server.write_at(*number, 0, from.all());
      co_await p.server.write(told);
      co_await p.client.read(std::span(read).first(1));
      CHECK(filled(target.bytes(), used));
      for (stream_write_operation& op : writes) co_await op;
    }
  });
}

namespace {

constexpr std::uint32_t large = 1U << 26;

// Bytes allocated in all memory files of this process.
std::uint64_t allocated_bytes() {
  std::uint64_t all = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat about{};
    if (!name.starts_with("/memfd:") || ::stat(entry.path().c_str(), &about) != 0) continue;
    all += static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
  return all;
}

}  // namespace

TEST_CASE("N2: a peer that offers a large window gets no more memory of this side's for it") {
  stage on;
  on.play([](stage& s) -> task<> {
    const std::uint64_t before = allocated_bytes();
    stream_pair p = co_await open_streams(s, {.window_bytes = 4096}, {.window_bytes = large});
    const std::uint64_t taken = allocated_bytes() - before;
    CHECK(taken >= large);  // the ring of the side that offers the window
    CHECK(taken < large + large / 2);
    // The complete window is used nevertheless.
    const MemoryRegion out = client_memory(s, large / 16);
    fill(out.bytes(), 3);
    for (int i = 0; i < 2; ++i) {
      std::vector<std::byte> in(out.size());
      task_context& me = co_await this_task();
      scope both(me);
      both.spawn(p.client.write(out.bytes()));
      both.spawn(p.server.read(in));
      co_await both.join();
      CHECK(filled(in, 3));
    }
  });
}

TEST_CASE("N3: bytes that are written to mapped memory are there before the stream's next one") {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_pair p = co_await open_streams(s);
    const MemoryRegion target = server_memory(s, 50'000);
    const MemoryRegion from = client_memory(s, 50'000);
    const MemoryRegion closed = server_memory(s, 64, access::local_write);
    CHECK_FALSE(p.server.map(closed).ok());
    const result<std::uint32_t> number = p.server.map(target);
    REQUIRE(number.ok());
    std::array<std::byte, 1> one{static_cast<std::byte>(*number)};
    co_await p.server.write(one);
    co_await p.client.read(one);
    for (std::uint64_t round = 1; round <= 20; ++round) {
      fill(from.bytes(), round);
      send_operation placed = p.client.write_at(*number, 1000, from.all().first(49'000)).start();
      co_await p.client.write(one);
      co_await p.server.read(one);
      CHECK(std::ranges::equal(target.bytes().subspan(1000), from.bytes().first(49'000)));
      co_await placed;
      co_await p.server.write(one);
      co_await p.client.read(one);
    }
    const result<void> outside =
        co_await p.client.write_at(*number, 49'999, from.all().first(2)).result();
    CHECK(outside.code() == errc::invalid_value);
    const result<void> unknown = co_await p.client.write_at(7, 0, from.all().first(2)).result();
    CHECK(unknown.code() == errc::not_found);
  });
}

TEST_CASE("a peer that is no stream is told so, and so is who asks for too little") {
  stage on;
  on.play([](stage& s) -> task<> {
    wire w = co_await connect(s);
    const MemoryRegion from = client_memory(s, 64);
    send_operation greeting = w.client.send(from.all()).start();
    const errc none = co_await refusal(s.server_context(), std::move(w.server), stream_options());
    CHECK(none == errc::connection_aborted);
    const result<void> greeted = co_await greeting.result();
    CHECK((greeted.ok() || greeted.code() == errc::flushed));
    wire other = co_await connect(s);
    const stream_options tiny{.notices = 1};
    const errc refused = co_await refusal(s.client_context(), std::move(other.client), tiny);
    CHECK(refused == errc::invalid_value);
  });
}

TEST_CASE(
    "a stream whose peer is never opened as one says so in time, and can be given up before") {
  stage on;
  on.play([](stage& s) -> task<> {
    endpoint_options hasty;
    hasty.connect_timeout = std::chrono::milliseconds(300);
    wire w = co_await connect(s, hasty, hasty);
    bool late = false;
    try {
      const Stream alone = co_await Stream::open(s.client_context(), std::move(w.client));
    } catch (const error& e) {
      late = e.condition() == errc::timed_out;
    }
    CHECK(late);
    while (w.server.state() != endpoint_state::closed) co_await moment(s);
    wire other = co_await connect(s);
    bool given_up = false;
    try {
      task<Stream> opening = Stream::open(s.client_context(), std::move(other.client));
      const Stream alone = co_await with_timeout(std::chrono::milliseconds(50), std::move(opening));
    } catch (const error& e) {
      given_up = e.condition() == errc::timed_out;
    }
    CHECK(given_up);
    while (other.server.state() != endpoint_state::closed) co_await moment(s);
  });
}

TEST_CASE(
    "N1: memory of another Context is refused, and the stream goes on as if it had not been") {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_pair p = co_await open_streams(s);
    const MemoryRegion foreign = server_memory(s, 16);
    const result<std::size_t> refused = co_await p.client.write(foreign.all()).result();
    CHECK(refused.code() == errc::invalid_value);
    CHECK(p.client.map(foreign).code() == errc::invalid_value);
    MemoryRegion out = client_memory(s, 16);
    MemoryRegion in = server_memory(s, 16);
    fill(out.bytes(), 7);
    co_await p.client.write(out.bytes());
    co_await p.server.read(in.bytes());
    CHECK(filled(in.bytes(), 7));
  });
}

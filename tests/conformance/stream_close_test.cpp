// The guarantee of a stream's close (N3): all written bytes have arrived at the peer, or it fails.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <cordma/net/stream.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

task<errc> closing(Stream* of) {
  try {
    co_await of->close();
  } catch (const error& e) {
    co_return e.why().code();
  }
  co_return errc::ok;
}

task<> note(errc* place, task<errc> of) { *place = co_await std::move(of); }

}  // namespace

TEST_CASE("N3: closing tells that the network kept back what was written" *
          only_on(transport::kind::sim, "only simulated networks are cut in two")) {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_pair p = co_await open_streams(s);
    s.net().partition("client", "server");
    const std::vector<std::byte> bytes(1000);
    co_await p.client.write(bytes);
    const errc code = co_await closing(&p.client);
    CHECK(code != errc::ok);
    CHECK(code == p.client.endpoint().first_cause()->code());
    CHECK(p.client.endpoint().state() == endpoint_state::closed);
    CHECK(p.server.peek().empty());
    const errc again = co_await closing(&p.client);
    CHECK(again == code);
  });
}

TEST_CASE("N2: an uncopied write that is cut off tells what for, though it would not wait" *
          only_on(transport::kind::sim, "only simulated networks are cut in two")) {
  for (const bool may_wait : {true, false}) {
    CAPTURE(may_wait);
    stage on;
    on.play(
        [](stage& s, bool waits) -> task<> {
          const stream_options small{.window_bytes = 4096};
          stream_pair p = co_await open_streams(s, stream_options(), small);
          const MemoryRegion out = client_memory(s, 10'000);
          s.net().partition("client", "server");
          co_await p.client.write(out.bytes().first(8));  // its request fails on its own
          stream_write_operation writing = p.client.write(out.all());
          if (!waits) writing.or_again();
          writing.start();
          CHECK_FALSE(writing.done());
          const result<std::size_t> cut = co_await writing.result();
          REQUIRE(p.client.endpoint().first_cause() != nullptr);
          CHECK(cut.code() == p.client.endpoint().first_cause()->code());
          CHECK(cut.code() != errc::flushed);
        },
        may_wait);
  }
}

TEST_CASE(
    "N3: closing tells that the peer vanished, with a write waiting, and where it had before") {
  for (const bool before : {true, false}) {
    CAPTURE(before);
    stage on;
    on.play(
        [](stage& s, bool had_vanished) -> task<> {
          const stream_options small{.window_bytes = 64};
          stream_pair p = co_await open_streams(s, stream_options(), small);
          const std::vector<std::byte> all(1000);
          const std::size_t first = co_await p.client.write_some(all);
          CHECK(first == 64);
          stream_write_operation waits = p.client.write_some(std::span(all).subspan(first)).start();
          if (had_vanished) {
            p.server = Stream();
            while (p.client.endpoint().state() != endpoint_state::closed) co_await moment(s);
          }
          errc code = errc::unknown;
          task_context& me = co_await this_task();
          scope beside(me);
          beside.spawn(note(&code, closing(&p.client)));
          for (int i = 0; i < 20; ++i) co_await moment(s);
          CHECK((code != errc::unknown) == had_vanished);
          p.server = Stream();
          co_await beside.join();
          CHECK(code == errc::connection_reset);
          CHECK(p.client.endpoint().state() == endpoint_state::closed);
          const result<std::size_t> cut = co_await waits.result();
          CHECK(cut.code() == errc::connection_reset);
        },
        before);
  }
}

TEST_CASE("N3: closing is well where the peer has all, and its own end was before") {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_pair p = co_await open_streams(s);
    std::vector<std::byte> bytes(1000);
    co_await p.client.write(bytes);
    co_await p.server.read(bytes);
    co_await p.server.close();
    while (p.client.endpoint().state() != endpoint_state::closed) co_await moment(s);
    const std::size_t end = co_await p.client.read_some(bytes);
    CHECK(end == 0);
    const errc code = co_await closing(&p.client);
    CHECK(code == errc::ok);
    const errc again = co_await closing(&p.server);
    CHECK(again == errc::ok);
  });
}

TEST_CASE("N3: closing fails where the peer has all but the end, and did not close") {
  stage on;
  on.play([](stage& s) -> task<> {
    stream_pair p = co_await open_streams(s);
    std::vector<std::byte> bytes(1000);
    co_await p.client.write(bytes);
    co_await p.server.read(bytes);
    CHECK(p.server.shutdown_send().ok());
    const std::size_t end = co_await p.client.read_some(bytes);
    CHECK(end == 0);
    p.server = Stream();
    while (p.client.endpoint().state() != endpoint_state::closed) co_await moment(s);
    const errc code = co_await closing(&p.client);
    CHECK(code == errc::connection_reset);
  });
}

namespace {

// Writes in four pieces.
task<> write_all(Stream* to, std::span<const std::byte> bytes, bool* written) {
  try {
    for (std::size_t at = 0; at < bytes.size(); at += 250) {
      co_await to->write(bytes.subspan(at, 250));
    }
    *written = true;
  } catch (const error&) {}
}

}  // namespace

TEST_CASE("N3: what the peer writes while this side closes can still be read, or was never there") {
  int read_whole = 0;
  for (int turns = 0; turns < 30; ++turns) {
    CAPTURE(turns);
    stage on;
    read_whole += on.play(
        [](stage& s, int before) -> task<int> {
          stream_pair p = co_await open_streams(s);
          std::vector<std::byte> bytes(1000);
          fill(bytes, 4);
          std::vector<std::byte> in(bytes.size());
          // The setup that a first write needs is complete after this.
          co_await p.server.write(bytes);
          co_await p.client.read(in);
          errc outcome = errc::unknown;
          bool written = false;
          task_context& me = co_await this_task();
          scope beside(me);
          if (before == 0) beside.spawn(write_all(&p.server, bytes, &written));
          beside.spawn(note(&outcome, closing(&p.client)));
          for (int i = 0; i < before; ++i) co_await moment(s);
          if (before != 0) beside.spawn(write_all(&p.server, bytes, &written));
          co_await beside.join();
          CHECK(outcome == errc::ok);
          std::ranges::fill(in, std::byte{0});
          const std::size_t there = p.client.peek().size();
          // On the simulator the bytes arrive together.
          CHECK((there == 0 || there == in.size() || s.over() != transport::kind::sim));
          co_await p.client.read(std::span(in).first(there));
          CHECK(filled(std::span(in).first(there), 4));
          const result<std::size_t> end = co_await p.client.read_some(in).result();
          CHECK((!end || *end == 0));
          if (there == in.size()) CHECK(written);
          co_return there == in.size() ? 1 : 0;
        },
        turns);
  }
  CHECK(read_whole > 0);
}

TEST_CASE("N3: a stream that is destroyed while it closes ends that, wherever it waits") {
  for (int turns = 1; turns < 12; ++turns) {  // the close has begun
    CAPTURE(turns);
    stage on;
    on.play(
        [](stage& s, int before) -> task<> {
          stream_pair p = co_await open_streams(s);
          const std::array<std::byte, 100> bytes{};
          co_await p.client.write(bytes);
          errc outcome = errc::unknown;
          task_context& me = co_await this_task();
          scope beside(me);
          beside.spawn(note(&outcome, closing(&p.client)));
          for (int i = 0; i < before; ++i) co_await moment(s);
          if (outcome == errc::unknown) p.client = Stream();
          co_await beside.join();
          CHECK((outcome == errc::ok || outcome == errc::shutdown));
        },
        turns);
  }
}

namespace {

task<errc> write_all(Stream* to, std::span<const std::byte> bytes) {
  try {
    co_await to->write(bytes);
  } catch (const error& e) {
    co_return e.why().code();
  }
  co_return errc::ok;
}

// Resumed in the same pass as the writer, which receives new window in that pass.
task<errc> destroy_at_a_word(std::optional<Stream>* s) {
  std::byte word{};
  co_await (*s)->read_some(std::span(&word, 1));
  s->reset();
  co_return errc::ok;
}

}  // namespace

TEST_CASE("N2: a stream that is destroyed while all of something is being written ends that") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options small{.window_bytes = 4096};
    stream_pair p = co_await open_streams(s, small, small);
    std::optional<Stream> mine(std::move(p.client));
    const std::vector<std::byte> long_one(100'000);
    errc written = errc::ok;
    errc read = errc::again;
    task_context& me = co_await this_task();
    scope both(me);
    both.spawn(note(&written, write_all(&*mine, long_one)));
    both.spawn(note(&read, destroy_at_a_word(&mine)));
    while (p.server.peek().size() < 4096) co_await moment(s);
    const std::byte word{1};
    co_await p.server.write_some(std::span(&word, 1));
    p.server.consume(p.server.peek().size());
    co_await both.join();
    CHECK(written == errc::shutdown);
    CHECK(read == errc::ok);
  });
}

TEST_CASE("N3: the end of a stream comes behind all of something that is being written") {
  stage on;
  on.play([](stage& s) -> task<> {
    const stream_options small{.window_bytes = 1000};
    stream_pair p = co_await open_streams(s, small, small);
    std::vector<std::byte> long_one(10'000);
    fill(long_one, 5);
    errc written = errc::again;
    task_context& me = co_await this_task();
    scope one(me);
    one.spawn(note(&written, write_all(&p.client, long_one)));
    while (p.server.peek().size() < 1000) co_await moment(s);
    CHECK(p.client.shutdown_send().ok());
    std::vector<std::byte> got(long_one.size());
    co_await p.server.read(got);
    CHECK(filled(got, 5));
    const std::size_t behind = co_await p.server.read_some(std::span(got).first(1));
    CHECK(behind == 0);
    co_await one.join();
    CHECK(written == errc::ok);
  });
}

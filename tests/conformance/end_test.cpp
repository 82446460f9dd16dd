// The end of a connection: every operation ends exactly once, with the first cause.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

using namespace cordma;
using namespace cordma::test;

namespace {

struct tally {
  int done = 0;
  int flushed = 0;
  int real = 0;
  int resumed = 0;
  errc first_real = errc::ok;
};

void count(tally& t, const failure* why) {
  ++t.resumed;
  if (why == nullptr) {
    ++t.done;
  } else if (why->code() == errc::flushed) {
    ++t.flushed;
  } else {
    ++t.real;
    t.first_real = why->code();
  }
}

task<> receive_one(Endpoint* at, Slice room, tally* t) {
  const result<Received> r = co_await at->recv(room).result();
  count(*t, r.ok() ? nullptr : &r.why());
}

task<> write_one(Endpoint* at, RemoteSlice to, Slice data, tally* t) {
  const result<void> r = co_await at->write(to, data).result();
  count(*t, r.ok() ? nullptr : &r.why());
}

enum class stop : std::uint8_t { close_here, close_there, abort_here, abort_there, drop_there };

task<> stop_after_eight(stage& on, stop how) {
  wire w = co_await connect(on);
  MemoryRegion out = client_memory(on, 16 * 8);
  MemoryRegion in = server_memory(on, 16 * 8);
  tally t;
  task_context& me = co_await this_task();
  scope receives(me);
  for (std::size_t i = 0; i < 16; ++i) {
    receives.spawn(receive_one(&w.server, in.all().part(i * 8, 8), &t));
  }
  for (std::size_t i = 0; i < 8; ++i) co_await w.client.send(out.all().part(i * 8, 8));
  while (t.done < 8) co_await moment(on);
  CHECK(t.resumed == 8);
  CHECK(w.server.state() == endpoint_state::connected);
  switch (how) {
    case stop::close_here: co_await w.server.close(); break;
    case stop::close_there: co_await w.client.close(); break;
    case stop::abort_here: w.server.abort(); break;
    case stop::abort_there: w.client.abort(); break;
    case stop::drop_there: w.client = Endpoint(); break;
  }
  co_await receives.join();
  CHECK(t.done == 8);
  CHECK(t.flushed == 8);
  CHECK(t.real == 0);
  CHECK(t.resumed == 16);
  CHECK(w.server.state() == endpoint_state::closed);
  CHECK(w.server.inflight() == 0);
  REQUIRE(w.server.first_cause() != nullptr);
  const bool gracefully = how == stop::close_here || how == stop::close_there;
  const errc cause = w.server.first_cause()->code();
  CHECK(cause ==
        (gracefully || how == stop::abort_here ? errc::not_connected : errc::connection_reset));
  const endpoint_state final_state = co_await w.server.state_changed();
  CHECK(final_state == endpoint_state::closed);
  const result<Received> later = co_await w.server.recv(in).result();
  const bool here = how == stop::close_here || how == stop::abort_here;
  CHECK(later.code() == (here ? errc::not_connected : errc::flushed));
}

}  // namespace

TEST_CASE("D13: sixteen receives stopped after eight give eight done and eight flushed") {
  for (stop how : {stop::close_here, stop::close_there, stop::abort_here, stop::abort_there,
                   stop::drop_there}) {
    CAPTURE(static_cast<int>(how));
    stage s;
    s.play([](stage& on, stop chosen) -> task<> { co_await stop_after_eight(on, chosen); }, how);
  }
}

TEST_CASE(
    "D13: of 255 writes with the second invalid, one fails, the rest is flushed, each resumes "
    "once") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion data = client_memory(on, 8);
    MemoryRegion target = server_memory(on, 255 * 8);
    const RemoteSlice whole = exported(target).all();
    const transport::remote_keys wrong = flipped_keys(whole, std::uint64_t{1} << 45);
    fill(data.bytes(), 1);
    tally t;
    task_context& me = co_await this_task();
    scope writes(me);
    for (std::size_t i = 0; i < 255; ++i) {
      const RemoteSlice to =
          i == 1 ? RemoteSlice(whole.addr() + 8, 8, wrong) : whole.slice(i * 8, 8).value();
      writes.spawn(write_one(&w.client, to, data, &t));
    }
    co_await writes.join();
    CHECK(t.resumed == 255);
    CHECK(t.real == 1);
    CHECK(t.first_real == errc::remote_access);
    CHECK(t.done <= 1);
    CHECK(t.flushed == 254 - t.done);
    CHECK(all_zero(target.bytes().subspan(8)));
    REQUIRE(w.client.first_cause() != nullptr);
    CHECK(w.client.first_cause()->code() == errc::remote_access);
    // A flushed operation reports the first cause.
    const result<void> after = co_await w.client.send(data).result();
    REQUIRE(after.code() == errc::flushed);
    CHECK(after.why().first_cause().code() == errc::remote_access);
    CHECK(after.why().describe().find("because") != std::string::npos);
    wire next = co_await connect(on);
    CHECK(next.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("K10: a graceful close carries out what was started, whoever closes") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const bool both : {false, true}) {
      for (std::size_t size : {std::size_t{8}, std::size_t{200'000}}) {
        CAPTURE(both);
        CAPTURE(size);
        endpoint_options shallow;
        shallow.send_depth = 4;
        wire w = co_await connect(on, shallow, endpoint_options());
        MemoryRegion out = client_memory(on, size);
        MemoryRegion in = server_memory(on, size * 20);
        fill(out.bytes(), size);
        std::vector<recv_operation> recvs;
        std::vector<send_operation> sends;
        for (std::size_t i = 0; i < 20; ++i) {
          recvs.push_back(w.server.recv(in.all().part(i * size, size)).start());
        }
        for (std::size_t i = 0; i < 20; ++i) sends.push_back(w.client.send(out).start());
        state_operation closing = w.client.close().start();
        for (send_operation& op : sends) co_await op;
        for (recv_operation& op : recvs) {
          const Received got = co_await op;
          CHECK(got.bytes == size);
        }
        for (std::size_t i = 0; i < 20; ++i) {
          CHECK(filled(in.bytes().subspan(i * size, size), size));
        }
        if (both) co_await w.server.close();
        const endpoint_state here = co_await closing;
        CHECK(here == endpoint_state::closed);
        while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
        CHECK(w.client.first_cause()->code() == errc::not_connected);
        CHECK(w.server.first_cause()->code() == errc::not_connected);
        const endpoint_state again = co_await w.client.close();
        CHECK(again == endpoint_state::closed);
      }
    }
  });
}

TEST_CASE("I8: a message that finds no receive fails as remote_not_ready after the retries") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (std::size_t size : {std::size_t{8}, std::size_t{100'000}}) {
      CAPTURE(size);
      endpoint_options impatient;
      impatient.rnr_retry = 2;
      impatient.rnr_timer = std::chrono::milliseconds(2);
      wire w = co_await connect(on, impatient, endpoint_options());
      MemoryRegion out = client_memory(on, size);
      send_operation sending = w.client.send(out).start();
      const result<void> flushed = co_await w.client.flush().result();
      const result<void> sent = co_await sending.result();
      REQUIRE_FALSE(flushed.ok());
      CHECK(flushed.why().first_cause().code() == errc::remote_not_ready);
      if (!sent.ok()) CHECK(sent.why().first_cause().code() == errc::remote_not_ready);
      while (w.client.state() != endpoint_state::closed) co_await w.client.state_changed();
      CHECK(w.client.first_cause()->first_cause().code() == errc::remote_not_ready);
    }
  });
}

TEST_CASE("K10: what the peer received before it closed is sent, not flushed [8 bytes, 1 MiB]") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const std::size_t size : {std::size_t{8}, std::size_t{1} << 20}) {
      CAPTURE(size);
      wire w = co_await connect(on);
      MemoryRegion out = client_memory(on, size);
      MemoryRegion in = server_memory(on, size);
      recv_operation receiving = w.server.recv(in).start();
      send_operation sending = w.client.send(out).start();
      co_await receiving;
      state_operation closing = w.server.close().start();
      const result<void> sent = co_await sending.result();
      CHECK(sent.ok());
      co_await closing;
    }
  });
}

// Worker::poll: single passes, for programs with their own loop.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <thread>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t burst = 40;  // more than one batch of completions

struct arrivals {
  wire ends;
  MemoryRegion out;
  MemoryRegion in;
  std::vector<recv_operation> receiving;
  [[nodiscard]] std::size_t done() const {
    return static_cast<std::size_t>(std::count_if(
        receiving.begin(), receiving.end(), [](const recv_operation& r) { return r.done(); }));
  }
};

// All messages are sent and none is received by the program yet; the client's operations are done.
arrivals sent_to_the_server(stage& s) {
  arrivals a{.ends = s.play([](stage& on) -> task<wire> {
               wire made = co_await connect(on);
               co_return made;
             }),
             .out = client_memory(s, 8),
             .in = server_memory(s, 8),
             .receiving = {}};
  for (std::size_t i = 0; i < burst; ++i) a.receiving.push_back(a.ends.server.recv(a.in).start());
  for (std::size_t i = 0; i < burst; ++i) {
    send_operation sending = a.ends.client.send(a.out).start();  // its completion is abandoned
  }
  return a;
}

// Time passes only while a reactor runs; these tests run none.
void pass_time(stage& s) {
  s.loop().time().advance_to(s.loop().now() + std::chrono::microseconds(10));
}

}  // namespace

TEST_CASE("D5: poll(n) completes at most n operations, poll(1) one after the other, in order") {
  for (std::size_t most : {std::size_t{1}, std::size_t{3}, std::size_t{33}}) {
    CAPTURE(most);
    stage s;
    arrivals a = sent_to_the_server(s);
    std::size_t done = 0;
    std::size_t passes = 0;  // passes that completed something
    while (done != burst) {
      pass_time(s);
      const std::size_t happened = s.server().poll(most).value();
      const std::size_t now_done = a.done();
      REQUIRE(now_done - done <= most);
      CHECK(happened >= now_done - done);
      if (now_done != done) ++passes;
      done = now_done;
      for (std::size_t i = 0; i < done; ++i) REQUIRE(a.receiving[i].done());
    }
    if (most == 1) CHECK(passes == burst);
    CHECK(passes >= burst / most);
  }
}

TEST_CASE("D5: poll with nothing to do returns 0, on every transport") {
  stage s;
  arrivals a = sent_to_the_server(s);
  // Polls until everything is done, including acknowledgements and notifications: a device is
  // polled for those only now and then.
  int in_vain = 0;
  while (a.done() < burst || s.client().counters().inflight != 0 || in_vain < 1000) {
    pass_time(s);
    in_vain = s.server().poll().value() == 0 ? in_vain + 1 : 0;
  }
  const std::uint64_t idle = s.loop().counters().idle_turns;
  const std::uint64_t sleeps = s.loop().counters().sleeps;  // counted while the two connected
  std::size_t nothing = 0;
  for (int i = 0; i < 1000; ++i) nothing += s.server().poll().value() == 0 ? 1U : 0U;
  CHECK(nothing == 1000);
  CHECK(s.loop().counters().idle_turns == idle + 1000);
  CHECK(s.loop().counters().sleeps == sleeps);
}

TEST_CASE(
    "D5: what poll counts: timers, posted work, events of connections, and what they resume") {
  stage s;
  std::size_t ran = 0;
  s.server().post([&ran] { ++ran; });
  CHECK(s.server().poll().value() == 1);
  CHECK(ran == 1);
  CHECK(s.server().poll().value() == 0);
  Listener listener = s.server().listen(s.server_address()).value();
  next_operation asked = listener.next().start();
  connect_operation connecting = s.client().connect(s.reach(listener)).start();
  std::size_t happened = 0;
  while (!asked.done()) {
    pass_time(s);
    happened += s.server().poll(1).value();
  }
  CHECK(happened >= 1);
}

TEST_CASE("D12: poll from inside a coroutine of the loop is refused, and from another thread") {
  stage s;
  s.play([](stage& on) -> task<> {
    CHECK(on.client().poll().code() == errc::bad_state);
    CHECK(on.loop().poll().code() == errc::bad_state);
    co_await yield();  // resumed now, rather than started
    CHECK(on.server().poll(1).code() == errc::bad_state);
    CHECK(on.server().poll().why().message().find("co_await") != std::string::npos);
    wire w = co_await connect(on);  // the refusal changed nothing
    CHECK(w.client.state() == endpoint_state::connected);
  });
  errc elsewhere = errc::ok;
  std::thread([&] { elsewhere = s.client().poll().code(); }).join();
  CHECK(elsewhere == errc::no_lock);
  CHECK(s.client().poll().ok());
}

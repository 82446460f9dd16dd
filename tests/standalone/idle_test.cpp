// What an idle Worker costs, and that the library has no thread of its own.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <array>
#include <filesystem>
#include <iterator>

#include <sys/resource.h>

using namespace cordma;
using namespace cordma::test;

namespace {

duration cpu_used() {
  rusage r{};
  ::getrusage(RUSAGE_SELF, &r);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(r.ru_utime) + of(r.ru_stime);
}

std::ptrdiff_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

constexpr std::array<transport::kind, 2> with_descriptors{transport::kind::shm,
                                                          transport::kind::tcp};
// Long against the cost of one pass, short against a person's patience.
constexpr duration window = std::chrono::milliseconds(1500);

}  // namespace

TEST_CASE("D7: an idle Worker with a connection uses less than 1 % of a core") {
  for (transport::kind over : with_descriptors) {
    for (wait_mode mode : {wait_mode::event, wait_mode::adaptive}) {
      CAPTURE(transport::name(over));
      CAPTURE(name(mode));
      stage s(stage_options{.mode = mode}, over);
      s.play([](stage& on) -> task<> {
        wire w = co_await connect(on);
        MemoryRegion room = server_memory(on, 8);
        recv_operation waiting = w.server.recv(room).start();
        co_await sleep_for(std::chrono::milliseconds(50));
        const duration before = cpu_used();
        const time_point start = on.loop().now();
        co_await sleep_for(window);
        const duration passed = on.loop().now() - start;
        const duration used = cpu_used() - before;
        CHECK(used * 100 < passed);
        CHECK_FALSE(waiting.done());
      });
    }
  }
}

TEST_CASE("D3: a whole session starts no thread, and nothing moves while nobody polls") {
  const std::ptrdiff_t before = threads();
  for (transport::kind over : {transport::kind::shm, transport::kind::tcp, transport::kind::sim}) {
    CAPTURE(transport::name(over));
    stage s({}, over);
    wire w = s.play([](stage& on) -> task<wire> {
      wire made = co_await connect(on);
      co_return made;
    });
    MemoryRegion out = client_memory(s, 100'000);
    MemoryRegion in = server_memory(s, 100'000);
    recv_operation receiving = w.server.recv(in).start();
    send_operation sending = w.client.send(out).start();
    // What the process did by itself so far: nothing but what was posted.
    CHECK_FALSE(receiving.done());
    CHECK(threads() == before);
    s.play(
        [](stage&, recv_operation* r, send_operation* t) -> task<> {
          recv_operation& received = *r;
          send_operation& sent = *t;
          co_await received;
          co_await sent;
        },
        &receiving, &sending);
    CHECK(threads() == before);
  }
  CHECK(threads() == before);
}

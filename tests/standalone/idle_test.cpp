// CPU time of an idle Worker, and that the library has no threads.
#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <array>
#include <filesystem>
#include <iterator>
#include <string>

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
// Objects of a process.
struct side {
  side(transport::kind over, wait_mode mode)
      : context(only(over)), worker(context, reactor_options{.mode = mode}) {}
  static context_options only(transport::kind over) {
    context_options o;
    o.transports = {over};
    return o;
  }
  Context context;
  Worker worker;
};

// Long compared with one pass, and short for a test.
constexpr duration window = std::chrono::milliseconds(1500);

// CPU time that this process uses while its connection is idle for `window`.
task<duration> idle(side* own, Endpoint* peer) {
  MemoryRegion room = own->context.allocate(8).value();
  recv_operation waiting = peer->recv(room).start();
  co_await sleep_for(std::chrono::milliseconds(50));
  const duration before = cpu_used();
  co_await sleep_for(window);
  const duration used = cpu_used() - before;
  if (waiting.done()) throw_error({errc::unexpected, "somebody sent something"});
  co_return used;
}

task<> serve(side* own, wire_to_peer* client) {
  Listener listener = own->worker.listen("127.0.0.1:0").value();
  client->tell(listener.bound().text());
  ConnectionRequest request = co_await listener.next();
  Endpoint peer = co_await request.accept();
  const duration used = co_await idle(own, &peer);
  client->tell(std::to_string(used.count()));
  while (peer.state() != endpoint_state::closed) co_await peer.state_changed();
}

task<> ask(side* own, wire_to_peer* server, std::string address) {
  Endpoint peer = co_await own->worker.connect(std::move(address));
  const duration used = co_await idle(own, &peer);
  CHECK(used * 100 < window);
  // the server is at the same point, or nearly
  const duration used_there(std::stoll(server->hear()));
  CHECK(used_there * 100 < window);
  co_await peer.close();
}

}  // namespace

TEST_CASE("D7: two processes with an idle connection use less than 1 % of a core each") {
  for (transport::kind over : with_descriptors) {
    for (wait_mode mode : {wait_mode::event, wait_mode::adaptive}) {
      CAPTURE(transport::name(over));
      CAPTURE(name(mode));
      child_process server([over, mode](wire_to_peer& client) {
        side own(over, mode);
        own.worker.run(serve(&own, &client));
        return 0;
      });
      const std::string address = server.wire().hear();
      REQUIRE_FALSE(address.empty());
      side own(over, mode);
      own.worker.run(ask(&own, &server.wire(), address));
      CHECK(server.join() == 0);
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
    // So far the process has done nothing beyond the posted requests.
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

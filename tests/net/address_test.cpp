// The endpoint that an address reaches: the same over shm as over tcp, which uses the kernel.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

bool has_ipv6() {
  const int s = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool bound =
      s >= 0 && ::bind(s, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
  if (s >= 0) ::close(s);
  return bound;
}

// No part of a host name has more than 63 letters, so no lookup is needed.
const std::string unknown(64, 'x');

struct encounter {
  std::string_view listens;
  std::string_view connects;
  bool reached;
};
constexpr encounter encounters[] = {
    {"127.0.0.1", "127.0.0.1", true},
    {"127.0.0.1", "127.0.0.2", false},
    {"127.0.0.2", "127.0.0.2", true},
    {"127.0.0.2", "127.0.0.1", false},
    {"", "127.0.0.1", true},
    {"", "127.0.0.2", true},
    {"0.0.0.0", "127.0.0.1", true},
    {"0.0.0.0", "127.0.0.3", true},
    {"127.0.0.1", "127.000.0.1", true},
};
constexpr encounter by_ipv6[] = {
    {"[::1]", "[::1]", true}, {"[::1]", "127.0.0.1", false},        {"127.0.0.1", "[::1]", false},
    {"[::]", "[::1]", true},  {"[::1]", "[0:0:0:0:0:0:0:1]", true},
};

// Sends one message in each direction; the addresses are such that a program can connect to them.
task<> exchange_words(Context& context, wire& w) {
  MemoryRegion out = context.allocate(8).value();
  MemoryRegion in = context.allocate(8).value();
  for (auto [from, to] : {std::pair(&w.client, &w.server), std::pair(&w.server, &w.client)}) {
    fill(out.bytes(), 7);
    recv_operation receiving = to->recv(in).start();
    co_await from->send(out);
    co_await receiving;
    CHECK(filled(in.bytes(), 7));
  }
}

task<> meet_by(Context* context, Worker* on, const encounter* e) {
  Listener listener = on->listen(std::string(e->listens) + ":0").value();
  const std::string to = std::string(e->connects) + ":" + std::to_string(listener.bound().port);
  if (e->reached) {
    wire w = co_await connect(*on, listener, to);
    co_await exchange_words(*context, w);
  } else {
    const result<Endpoint> refused = co_await on->connect(to).result();
    CHECK(refused.code() == errc::unreachable);
  }
}

// Calls `use(context, worker)` with a Context of each transport alone.
template <class Use>
void over_each(Use use) {
  for (const transport::kind over : {transport::kind::shm, transport::kind::tcp}) {
    CAPTURE(transport::name(over));
    context_options only;
    only.transports = {over};
    Context context(only);
    Worker worker(context, reactor_options{.mode = wait_mode::polling});
    use(context, worker);
  }
}

void meet_by(std::span<const encounter> all) {
  over_each([all](Context& context, Worker& worker) {
    for (const encounter& e : all) {
      CAPTURE(e.listens);
      CAPTURE(e.connects);
      worker.run(meet_by(&context, &worker, &e));
    }
  });
}

}  // namespace

TEST_CASE("a service is reached by the addresses it listens on, and by no other [IPv4]") {
  meet_by(encounters);
}

TEST_CASE("a service is reached by the addresses it listens on, and by no other [IPv6]") {
  if (!has_ipv6()) {
    MESSAGE("skipped: this machine has no ::1");
    return;
  }
  meet_by(by_ipv6);
}

TEST_CASE("a host that nobody knows is unreachable, and is not taken for every address") {
  over_each([](Context&, Worker& worker) {
    const result<Listener> nowhere = worker.listen(unknown + ":0");
    CHECK(nowhere.code() == errc::unreachable);
    CHECK(nowhere.why().message().find(unknown) != std::string::npos);
    worker.run([](Worker* on) -> task<> {
      Listener listener = on->listen(":0").value();
      const std::string to = unknown + ":" + std::to_string(listener.bound().port);
      const result<Endpoint> refused = co_await on->connect(to).result();
      CHECK(refused.code() == errc::unreachable);
    }(&worker));
  });
}

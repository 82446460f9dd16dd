// G3: the n-th allocation fails, for every n: while a Context and its Worker are made, and during a whole
// session. It ends with no_memory on what was hit, never with the end of the program; a connection
// that was up before carries on, the next session goes well, and nothing is left behind.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/fd_count.hpp>
#include <support/stage.hpp>

#include <array>
#include <new>
#include <stdexcept>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::array<std::size_t, 2> sizes{8, 20'000};
constexpr std::array<failing, 2> manners{failing::once, failing::from_then_on};
constexpr std::uint64_t most = 5000;  // allocations; no session takes as many

// As connect(), and it ends where one side ends: a request that was lost is nobody's to wait for.
task<wire> connect_in_time(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener)).start();
  next_operation coming = listener.next().start();
  while (!coming.done() && !connecting.done()) co_await moment(on);
  if (!coming.done()) {
    Endpoint client = co_await connecting;
    throw std::logic_error("connected without a request");
  }
  ConnectionRequest request = co_await coming;
  Endpoint server = co_await request.accept();
  Endpoint client = co_await connecting;
  co_return wire(std::move(client), std::move(server));
}

task<> use(stage& on, wire* w) {
  MemoryRegion out = client_memory(on, sizes.back());
  MemoryRegion in = server_memory(on, sizes.back());
  const RemoteMemory remote = exported(in);
  for (const std::size_t size : sizes) {
    fill(out.bytes().first(size), size);
    recv_operation receiving = w->server.recv(in.all().first(size)).start();
    co_await w->client.send(out.all().first(size));
    co_await receiving;
    if (!filled(in.bytes().first(size), size)) throw std::logic_error("wrong bytes");
    co_await w->client.write(remote.slice(0, size).value(), out.all().first(size));
    co_await w->client.read(remote.slice(0, size).value(), out.all().first(size));
  }
  co_await w->client.fetch_add(remote.slice(0, 8).value(), 1);
  co_await w->client.flush();
}

task<> session(stage& on) {
  wire w = co_await connect_in_time(on);
  co_await use(on, &w);
  co_await w.client.close();
}

struct outcome {
  bool came = false;  // the allocation that was to fail
  bool failed = false;
  bool memory = false;  // what was reported is that there was none
  std::string why;
};

// Whether the peer of who ran out may report this: it has only lost its connection.
bool is_loss(errc code) {
  return code == errc::connection_reset || code == errc::connection_aborted ||
         code == errc::not_connected || code == errc::rejected;
}

template <class Play>
outcome attempt(std::uint64_t n, failing how, Play play) {
  fail_allocation(n, how);
  outcome o;
  try {
    play();
    o.came = allocation_failed();
    fail_allocation(0);
  } catch (const std::bad_alloc&) {
    fail_allocation(0);
    o = {true, true, true, "std::bad_alloc"};
  } catch (const error& e) {
    fail_allocation(0);
    const errc code = e.why().first_cause().code();
    o = {true, true, code == errc::no_memory || is_loss(code), e.what()};
  }
  return o;
}

void fail_each_of_opening(transport::kind over, failing how) {
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = 1;
  for (; n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [over] { const stage s({}, over); });
    CAPTURE(o.why);
    CHECK(o.memory == o.failed);
    CHECK(open_descriptors() == open_before);
    if (!o.came) break;
  }
  CHECK(n > 1);
  CHECK(n < most);
}

void fail_each_of_session(transport::kind over, failing how) {
  stage s({}, over);
  wire healthy = s.play([](stage& on) -> task<wire> { return connect(on); });
  s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
  s.play(session);
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = 1;
  int failures = 0;
  for (; n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [&s] { s.play(session); });
    CAPTURE(o.why);
    CHECK(o.memory == o.failed);
    failures += o.failed ? 1 : 0;
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(session);
    CHECK(open_descriptors() == open_before);
    if (!o.came) break;
  }
  CHECK(n < most);
  CHECK(failures > 0);
}

void each_manner(void (*run)(transport::kind, failing), transport::kind over) {
  REQUIRE(counts_allocations());
  for (const failing how : manners) {
    CAPTURE(how == failing::once);
    run(over, how);
  }
}

}  // namespace

TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [shm]") {
  each_manner(fail_each_of_opening, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [tcp]") {
  each_manner(fail_each_of_opening, transport::kind::tcp);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [shm]") {
  each_manner(fail_each_of_session, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [tcp]") {
  each_manner(fail_each_of_session, transport::kind::tcp);
}

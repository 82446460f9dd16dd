// G3: the n-th allocation of a session fails, for every n: an error or a success, never a crash.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/stage.hpp>

#include <new>
#include <stdexcept>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

// As connect(), and it ends where one side ends: a request that was lost is nobody's to wait for.
task<wire> connect_in_time(stage& on) {
  connect_options patience;
  patience.endpoint.connect_timeout = std::chrono::milliseconds(200);
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener), patience).start();
  next_operation coming = listener.next().start();
  while (!coming.done() && !connecting.done()) co_await moment(on);
  if (!coming.done()) {
    Endpoint client = co_await connecting;
    throw std::logic_error("connected without a request");
  }
  ConnectionRequest request = co_await coming;
  connect_operation accepting = request.accept(patience).start();
  Endpoint server = co_await accepting;
  Endpoint client = co_await connecting;
  co_return wire(std::move(client), std::move(server));
}

// Connects, echoes, reads, writes, adds, and closes.
task<> session(stage& on) {
  wire w = co_await connect_in_time(on);
  MemoryRegion out = client_memory(on, 20'000);
  MemoryRegion in = server_memory(on, 20'000);
  const RemoteMemory remote = exported(in);
  for (std::size_t size : {std::size_t{8}, std::size_t{20'000}}) {
    recv_operation receiving = w.server.recv(in.all().first(size)).start();
    co_await w.client.send(out.all().first(size));
    co_await receiving;
    co_await w.client.write(remote.slice(0, size).value(), out.all().first(size));
    co_await w.client.read(remote.slice(0, size).value(), out.all().first(size));
  }
  co_await w.client.fetch_add(remote.slice(0, 8).value(), 1);
  co_await w.client.flush();
  co_await w.client.close();
}

enum class outcome : std::uint8_t { success, out_of_memory, other_error };

outcome attempt(stage& s, std::uint64_t n, std::string& why) {
  fail_allocation(n);
  outcome o = outcome::success;
  try {
    s.play([](stage& on) -> task<> { co_await session(on); });
  } catch (const std::bad_alloc&) {
    o = outcome::out_of_memory;
  } catch (const error& e) {
    fail_allocation(0);
    why = e.what();
    o = e.why().first_cause().code() == errc::no_memory ? outcome::out_of_memory
                                                        : outcome::other_error;
  }
  return o;
}

void fail_each(transport::kind over) {
  constexpr std::uint64_t most = 5000;
  std::uint64_t n = 1;
  std::uint64_t failures = 0;
  for (; n < most; ++n) {
    CAPTURE(n);
    stage s({}, over);
    std::string why;
    const outcome o = attempt(s, n, why);
    const bool came = allocation_failed();
    fail_allocation(0);
    CAPTURE(why);
    if (o == outcome::success && !came) break;
    if (o != outcome::success) ++failures;
    // What was hit is broken; the next session on the same Workers is not.
    s.play([](stage& on) -> task<> { co_await session(on); });
  }
  CHECK(n < most);
  CHECK(failures > 0);
}

}  // namespace

TEST_CASE("G3: the n-th allocation of a session fails, for every n [shm]") {
  fail_each(transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [tcp]") {
  fail_each(transport::kind::tcp);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [sim]") {
  fail_each(transport::kind::sim);
}

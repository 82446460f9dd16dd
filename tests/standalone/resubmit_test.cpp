// Operations that are made once and reused without limit: a million requests with four objects.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/stage.hpp>

#include <array>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t kept = 4;

// Four receives and four sends stay in flight; each is started again with another buffer than
// before.
task<> resubmit(wire& w, MemoryRegion& out, MemoryRegion& in, std::uint64_t requests) {
  constexpr std::size_t size = 8;
  constexpr std::size_t buffers = kept * 2;
  const auto place = [](const MemoryRegion& region, std::uint64_t number) {
    return region.all().part(number % buffers * size, size);
  };
  std::vector<recv_operation> receiving;
  std::vector<send_operation> sending;
  for (std::uint64_t i = 0; i < kept; ++i) {
    receiving.push_back(w.server.recv(place(in, i)).start());
    sending.push_back(w.client.send(place(out, i)));
  }
  std::uint64_t wrong = 0;
  std::uint64_t before = 0;
  for (std::uint64_t number = 0; number < requests; ++number) {
    if (number == 1000) before = allocations();
    out.as<std::uint64_t>()[number % buffers] = number;
    send_operation& s = sending[number % kept];
    if (number >= kept) s.again(place(out, number));
    co_await s;
    recv_operation& r = receiving[number % kept];
    const Received got = co_await r;
    if (got.bytes != size || in.as<std::uint64_t>()[number % buffers] != number) ++wrong;
    r.again(place(in, number + kept));
    r.start();
  }
  CHECK(allocations() == before);
  CHECK(wrong == 0);
  CHECK(w.client.counters().sends == requests);
  CHECK(w.server.counters().recvs == requests + kept);
}

}  // namespace

TEST_CASE(
    "D12: a million requests (50,000 under a sanitizer) over four operations, buffers swapped, "
    "nothing allocated") {
  // A sanitizer is slow, and it checks memory, for which fewer requests suffice.
  const std::uint64_t requests = sanitized ? 50'000 : rounds_under_test(1'000'000);
  for (transport::kind over : {transport::kind::shm, transport::kind::tcp, transport::kind::sim}) {
    CAPTURE(transport::name(over));
    stage s({}, over);
    s.play(
        [](stage& on, std::uint64_t count) -> task<> {
          wire w = co_await connect(on);
          MemoryRegion out = client_memory(on, 4096);
          MemoryRegion in = server_memory(on, 4096);
          co_await resubmit(w, out, in, count);
        },
        requests);
  }
}

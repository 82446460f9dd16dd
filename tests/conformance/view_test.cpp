// Views of a peer's memory for plain loads: which memory has them, their contents, and their
// lifetime.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <algorithm>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t bytes = 10'000;

constexpr const char* why_shm = "only its memory can be mapped by peers";

bool can_map(const stage& on) { return on.over() == transport::kind::shm; }

}  // namespace

TEST_CASE("a view shows what the peer writes, and elsewhere than on shm there is none") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion mine = client_memory(on, bytes);
    MemoryRegion target = server_memory(on, bytes);
    const RemoteMemory remote = exported(target);
    const errc unknown = can_map(on) ? errc::bad_state : errc::not_supported;
    CHECK(w.client.view(remote).code() == unknown);
    fill(target.bytes(), 1);
    co_await w.client.read(remote, mine);
    const result<RemoteView> whole = w.client.view(remote);
    REQUIRE(whole.code() == (can_map(on) ? errc::ok : errc::not_supported));
    if (!can_map(on)) co_return;
    CHECK(*whole);
    CHECK(filled(whole->bytes(), 1));
    fill(target.bytes(), 2);
    CHECK(filled(whole->bytes(), 2));
    const RemoteView part = w.client.view(remote.slice(1000, 8).value()).value();
    REQUIRE(part.bytes().size() == 8);
    CHECK(part.bytes().data() == whole->bytes().data() + 1000);
    fill(mine.bytes(), 3);
    co_await w.client.write(remote, mine);
    CHECK(filled(whole->bytes(), 3));
  });
}

TEST_CASE("a view is refused where a read would be, and of memory that is no shared one" *
          only_on(transport::kind::shm, why_shm)) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion mine = client_memory(on, bytes);
    MemoryRegion written = server_memory(on, bytes, access::remote_write);
    co_await w.client.write(exported(written), mine);
    CHECK(w.client.view(exported(written)).code() == errc::remote_access);
    MemoryRegion target = server_memory(on, bytes);
    const RemoteSlice whole = exported(target);
    co_await w.client.read(whole, mine);
    const transport::remote_keys& keys = whole.keys();
    for (const RemoteSlice beyond :
         {RemoteSlice(whole.addr() + 1, bytes, keys), RemoteSlice(whole.addr() - 1, 2, keys),
          RemoteSlice(whole.addr(), ~std::uint64_t{0}, keys)}) {
      CHECK(w.client.view(beyond).code() == errc::remote_access);
    }
    std::vector<std::byte> own(bytes);
    MemoryRegion kept = on.server_context().register_memory(own, every_right).value();
    co_await w.client.read(exported(kept), mine);
    CHECK(w.client.view(exported(kept)).code() == errc::not_supported);
    const RemoteMemory gone = exported(target);
    target.deregister().value();
    CHECK(w.client.view(gone).code() == errc::remote_access);
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("a view outlives its endpoint, the connection and the peer's registration" *
          only_on(transport::kind::shm, why_shm)) {
  stage s;
  s.play([](stage& on) -> task<> {
    RemoteView kept;
    {
      wire w = co_await connect(on);
      MemoryRegion mine = client_memory(on, bytes);
      MemoryRegion target = server_memory(on, bytes);
      fill(target.bytes(), 7);
      const RemoteMemory remote = exported(target);
      co_await w.client.read(remote, mine);
      kept = w.client.view(remote).value();
      target.deregister().value();
      // An access to another region releases the mappings of regions that have ended.
      MemoryRegion other = server_memory(on, bytes);
      co_await w.client.read(exported(other), mine);
      co_await w.client.close();
      CHECK(w.client.view(remote).code() != errc::ok);
    }
    CHECK(filled(kept.bytes(), 7));
  });
}

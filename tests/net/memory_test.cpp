// Slices and remote slices never leave their range; registration errors state their reason. Blobs:
// blob_test.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

TEST_CASE("C4: no slice, here or remote, leaves its range, whatever the numbers") {
  context_options o;
  o.transports = {transport::kind::tcp};
  Context context(o);
  MemoryRegion region = context.allocate(100, every_right).value();
  const RemoteMemory remote = exported(region);
  const std::uint64_t top = ~std::uint64_t{0};
  struct row {
    std::uint64_t offset;
    std::uint64_t length;
    bool inside;
  };
  for (const row& r :
       {row{0, 100, true}, row{100, 0, true}, row{99, 1, true}, row{0, 0, true}, row{0, 101, false},
        row{100, 1, false}, row{101, 0, false}, row{1, 100, false}, row{top, 1, false},
        row{1, top, false}, row{top, top, false}, row{50, top - 49, false}}) {
    CAPTURE(r.offset);
    CAPTURE(r.length);
    CHECK(region.slice(r.offset, r.length).code() == (r.inside ? errc::ok : errc::invalid_value));
    CHECK(remote.slice(r.offset, r.length).code() == (r.inside ? errc::ok : errc::invalid_value));
  }
  const RemoteSlice part = remote.slice(40, 20).value();
  CHECK(part.slice(0, 20).ok());
  CHECK(part.slice(0, 21).code() == errc::invalid_value);
}

TEST_CASE("C1: what cannot be registered or allocated says why") {
  context_options o;
  o.transports = {transport::kind::tcp};
  Context context(o);
  CHECK(context.allocate(0).code() == errc::invalid_value);
  CHECK(context.allocate(~std::size_t{0}).code() == errc::invalid_value);
  CHECK(context.register_memory({}, access::local_write).code() == errc::invalid_value);
  const result<MemoryRegion> far_too_much = context.allocate(std::size_t{1} << 60);
  REQUIRE_FALSE(far_too_much.ok());
  CHECK(far_too_much.why().message().find("bytes") != std::string::npos);
  const MemoryRegion none;
  CHECK(none.export_blob().code() == errc::bad_state);
  CHECK(none.size() == 0);
}

TEST_CASE(
    "C1: memory that is not mapped as its rights need is refused, not found out by a signal") {
  context_options o;
  o.transports = {transport::kind::shm, transport::kind::tcp};
  Context context(o);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const at =
      ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  const std::span<std::byte> all(static_cast<std::byte*>(at), 4 * page);
  REQUIRE(::mprotect(at, page, PROT_READ) == 0);                            // page 0
  REQUIRE(::mprotect(all.subspan(2 * page).data(), page, PROT_NONE) == 0);  // page 2
  CHECK(context.register_memory(all.first(page), access::remote_read).ok());
  CHECK(context.register_memory(all.subspan(page, page), every_right).ok());
  const result<MemoryRegion> read_only =
      context.register_memory(all.first(2 * page), access::remote_write);
  CHECK(read_only.code() == errc::not_permitted);
  CHECK(read_only.why().message().find("at offset 0 it may not be written") != std::string::npos);
  CHECK(context.register_memory(all.first(page), access::local_write).code() ==
        errc::not_permitted);
  const result<MemoryRegion> hidden = context.register_memory(all, access::remote_read);
  CHECK(hidden.code() == errc::not_permitted);
  CHECK(hidden.why().message().find("at offset " + std::to_string(2 * page)) != std::string::npos);
  REQUIRE(::munmap(all.subspan(3 * page).data(), page) == 0);
  const result<MemoryRegion> gone =
      context.register_memory(all.subspan(3 * page - 1, 2), access::remote_read);
  CHECK(gone.code() == errc::not_permitted);
  REQUIRE(::munmap(at, 3 * page) == 0);
}

TEST_CASE("I1: bits that are no right are refused") {
  Context context;
  const auto unknown = static_cast<cordma::access>(32);
  CHECK(context.allocate(64, unknown | access::local_write).code() == errc::invalid_value);
  std::vector<std::byte> mine(64);
  CHECK(context.register_memory(mine, unknown).code() == errc::invalid_value);
}

namespace {

context_options on(std::vector<transport::kind> kinds) {
  context_options o;
  o.transports = std::move(kinds);
  return o;
}

task<> over_both(Worker* client, Listener* listener, MemoryRegion* mine, MemoryRegion* theirs,
                 RemoteMemory of_tcp_alone) {
  const RemoteMemory remote = exported(*theirs);
  for (const transport::kind over : {transport::kind::shm, transport::kind::tcp}) {
    CAPTURE(transport::name(over));
    connect_options by;
    by.transport = over;
    wire w = co_await connect(*client, *listener, listener->bound().text(), by);
    REQUIRE(w.client.transport() == over);
    fill(mine->bytes(), static_cast<std::uint64_t>(over));
    co_await w.client.write(remote, *mine);
    co_await w.client.flush();
    CHECK(filled(theirs->bytes(), static_cast<std::uint64_t>(over)));
    std::fill(mine->bytes().begin(), mine->bytes().end(), std::byte{});
    co_await w.client.read(remote, *mine);
    CHECK(filled(mine->bytes(), static_cast<std::uint64_t>(over)));
    if (over == transport::kind::tcp) continue;
    const result<void> unknown = co_await w.client.write(of_tcp_alone, *mine).result();
    CHECK(unknown.code() == errc::not_permitted);
    CHECK(unknown.why().message().find("not exported for the shm") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("C1, C4: one region serves two transports; a blob serves those it was made for") {
  reactor loop(reactor_options{.mode = wait_mode::polling});
  Context one(on({transport::kind::shm, transport::kind::tcp}));
  Context other(on({transport::kind::shm, transport::kind::tcp}));
  Context tcp_alone(on({transport::kind::tcp}));
  Worker client(one, loop);
  Worker server(other, loop);
  Listener listener = server.listen("127.0.0.1:0").value();
  MemoryRegion mine = one.allocate(5000, every_right).value();
  MemoryRegion theirs = other.allocate(5000, every_right).value();
  MemoryRegion elsewhere = tcp_alone.allocate(5000, every_right).value();
  run(loop, over_both(&client, &listener, &mine, &theirs, exported(elsewhere)));
}

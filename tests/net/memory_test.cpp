// Memory blobs, slices and remote slices: nothing damaged is accepted, nothing leaves its range.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/memory/blob.hpp>

#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

detail::blob sample() {
  detail::blob b;
  b.addr = 0x7F00'1234'5000;
  b.length = 123'456;
  b.rights = cordma::access::remote_read | access::remote_write | access::local_write;
  b.rkeys = {0x8000'0000'0000'0001, 7, 0, 0xFFFF'FFFF'FFFF'FFFF};
  return b;
}

std::vector<std::byte> encoded(const detail::blob& b) {
  std::vector<std::byte> bytes(detail::blob::bytes);
  detail::encode(b, std::span<std::byte, detail::blob::bytes>(bytes));
  return bytes;
}

}  // namespace

TEST_CASE("C3: CRC32C is the one of RFC 3720") {
  std::vector<std::byte> zeros(32);
  CHECK(detail::crc32c(zeros) == 0x8A9136AAU);
  std::vector<std::byte> ones(32, std::byte{0xFF});
  CHECK(detail::crc32c(ones) == 0x62A8AB43U);
}

TEST_CASE("C3: a blob says on the other side what it was made from") {
  const detail::blob b = sample();
  const std::vector<std::byte> bytes = encoded(b);
  CHECK(bytes.size() == RemoteMemory::blob_bytes);
  const RemoteMemory m = RemoteMemory::import(bytes).value();
  CHECK(m.size() == b.length);
  CHECK(m.rights() == b.rights);
  CHECK(m.all().addr() == b.addr);
  for (std::size_t k = 0; k < transport::kind_count; ++k) {
    CHECK(m.all().rkey(static_cast<transport::kind>(k)) == b.rkeys[k]);
  }
}

TEST_CASE("C3: a blob cut at any place, or longer, is refused") {
  const std::vector<std::byte> bytes = encoded(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CAPTURE(n);
    const result<RemoteMemory> r = RemoteMemory::import(std::span(bytes).first(n));
    REQUIRE(r.code() == errc::invalid_value);
    CHECK_FALSE(r.why().message().empty());
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(RemoteMemory::import(longer).code() == errc::invalid_value);
}

TEST_CASE("C3: a blob with any one bit flipped is refused") {
  const std::vector<std::byte> bytes = encoded(sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CAPTURE(bit);
    const result<RemoteMemory> r = RemoteMemory::import(damaged);
    const bool in_version = bit / 8 == 4 || bit / 8 == 5;
    CHECK(r.code() == (in_version ? errc::unsupported_version : errc::invalid_value));
  }
}

TEST_CASE("C3: a blob of another version is unsupported_version, naming theirs and ours") {
  std::vector<std::byte> bytes = encoded(sample());
  bytes[4] = std::byte{9};
  const result<RemoteMemory> r = RemoteMemory::import(bytes);
  REQUIRE(r.code() == errc::unsupported_version);
  CHECK(r.why().message().find("version 9") != std::string::npos);
  CHECK(r.why().message().find("version 1") != std::string::npos);
}

TEST_CASE("C3: a blob whose checksum is right and whose content cannot be is refused") {
  detail::blob wraps = sample();
  wraps.addr = ~std::uint64_t{0} - 10;
  CHECK(RemoteMemory::import(encoded(wraps)).code() == errc::invalid_value);
  detail::blob empty = sample();
  empty.length = 0;
  CHECK(RemoteMemory::import(encoded(empty)).code() == errc::invalid_value);
  detail::blob odd = sample();
  odd.rights = access::remote_write;
  CHECK(RemoteMemory::import(encoded(odd)).code() == errc::invalid_value);
}

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

// One-sided access: its limits, and that refused accesses leave every byte unchanged.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <csignal>
#include <cstring>

#include <sys/time.h>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t target_bytes = 4096;

// True if a read, a write or an atomic of eight bytes succeeded. Otherwise checks that it failed
// with remote_access and that no byte changed on either side.
task<bool> reaches(stage& on, wire& w, MemoryRegion& target, const RemoteSlice& where, opcode how) {
  MemoryRegion local = client_memory(on, 8);
  fill(local.bytes(), 99);
  fill(target.bytes(), 5);
  result<void> outcome;
  if (how == opcode::read) {
    outcome = co_await w.client.read(where, local).result();
  } else if (how == opcode::write) {
    outcome = co_await w.client.write(where, local).result();
    const result<void> flushed = co_await w.client.flush().result();
    if (outcome.ok()) outcome = flushed;
  } else {
    const result<std::uint64_t> old = co_await w.client.fetch_add(where, 1).result();
    if (!old) outcome = old.why();
  }
  if (outcome.ok()) co_return true;
  CHECK(outcome.why().first_cause().code() == errc::remote_access);
  CHECK(filled(target.bytes(), 5));
  CHECK(filled(local.bytes(), 99));
  CHECK(w.client.state() == endpoint_state::closed);
  REQUIRE(w.client.first_cause() != nullptr);
  CHECK(w.client.first_cause()->first_cause().code() == errc::remote_access);
  co_return false;
}

cordma::access granted_for(opcode how) {
  if (how == opcode::read) return access::remote_read;
  return how == opcode::write ? access::remote_write : access::remote_atomic;
}

}  // namespace

TEST_CASE("I10: reads and writes of every size move exactly the bytes they name") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    const std::size_t largest = 5 * mib;
    MemoryRegion local = client_memory(on, largest);
    MemoryRegion back = client_memory(on, largest);
    MemoryRegion target = server_memory(on, largest + 128);
    const RemoteMemory remote = exported(target);
    std::uint64_t seed = 0;
    for (std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{64},
          std::size_t{4095}, std::size_t{4096}, std::size_t{8193}, std::size_t{65535},
          std::size_t{65536}, mib, mib + 1, largest}) {
      for (std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{63}}) {
        CAPTURE(size);
        CAPTURE(offset);
        const RemoteSlice part = remote.slice(offset + 1, size).value();
        fill(local.bytes().first(size), ++seed);
        const std::byte before = target.bytes()[offset];
        const std::byte behind = target.bytes()[offset + 1 + size];
        co_await w.client.write(part, local.all().first(size));
        co_await w.client.flush();
        CHECK(filled(target.bytes().subspan(offset + 1, size), seed));
        CHECK(target.bytes()[offset] == before);
        CHECK(target.bytes()[offset + 1 + size] == behind);
        co_await w.client.read(part, back.all().first(size));
        CHECK(filled(back.bytes().first(size), seed));
      }
    }
  });
}

TEST_CASE("C1: memory of the user's own serves like the library's") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    for (std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{9000}, mib}) {
      CAPTURE(size);
      std::vector<std::byte> mine(size);
      std::vector<std::byte> yours(size);
      MemoryRegion local = on.client_context().register_memory(mine, every_right).value();
      MemoryRegion target = on.server_context().register_memory(yours, every_right).value();
      const RemoteMemory remote = exported(target);
      fill(mine, size);
      co_await w.client.write(remote, local);
      co_await w.client.flush();
      CHECK(filled(yours, size));
      std::fill(mine.begin(), mine.end(), std::byte{0});
      co_await w.client.read(remote, local);
      CHECK(filled(mine, size));
      recv_operation receiving = w.server.recv(target).start();
      std::fill(yours.begin(), yours.end(), std::byte{0});
      co_await w.client.send(local);
      co_await receiving;
      CHECK(filled(yours, size));
    }
  });
}

TEST_CASE("A4, I2: an access needs its right on the region and on the connection") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (unsigned region_bits = 0; region_bits < 8; ++region_bits) {
      const auto region_rights =
          static_cast<cordma::access>(region_bits << 1U) | access::local_write;
      MemoryRegion target = server_memory(on, target_bytes, region_rights);
      const result<std::vector<std::byte>> blob = target.export_blob();
      CHECK(blob.ok() == (region_bits != 0));
      if (!blob.ok()) CHECK(blob.code() == errc::not_permitted);
      if (!blob.ok()) continue;
      const RemoteMemory remote = RemoteMemory::import(*blob).value();
      for (unsigned connection_bits = 0; connection_bits < 8; ++connection_bits) {
        for (opcode how : {opcode::read, opcode::write, opcode::fetch_add}) {
          endpoint_options server;
          server.remote_access = static_cast<cordma::access>(connection_bits << 1U);
          CAPTURE(region_bits);
          CAPTURE(connection_bits);
          CAPTURE(transport::name(how));
          const cordma::access needed = granted_for(how);
          const bool expected = has(region_rights, needed) && has(server.remote_access, needed);
          wire w = co_await connect(on, endpoint_options(), server);
          const RemoteSlice word = remote.slice(8, 8).value();
          const bool reached = co_await reaches(on, w, target, word, how);
          CHECK(reached == expected);
        }
      }
    }
  });
}

TEST_CASE("D11, C4: a wrong key and a range outside end in remote_access, the target unchanged") {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion target = server_memory(on, target_bytes);
    const RemoteSlice whole = exported(target).all();
    const transport::remote_keys keys = whole.keys();
    const auto wrong_in = [&whole](unsigned bit) {
      return flipped_keys(whole, std::uint64_t{1} << bit);
    };
    const std::uint64_t start = whole.addr();
    const std::array<RemoteSlice, 8> outside{
        RemoteSlice(start + 8, 8, wrong_in(0)),
        RemoteSlice(start + 8, 8, wrong_in(20)),
        RemoteSlice(start + 8, 8, wrong_in(40)),  // beyond the bits of a device's key
        RemoteSlice(start + target_bytes, 8, keys),
        RemoteSlice(start + target_bytes + 8, 8, keys),
        RemoteSlice(start - 8, 8, keys),
        RemoteSlice(0, 8, keys),
        RemoteSlice(~std::uint64_t{7}, 8, keys),
    };
    for (std::size_t i = 0; i < outside.size(); ++i) {
      for (opcode how : {opcode::read, opcode::write, opcode::fetch_add}) {
        CAPTURE(i);
        CAPTURE(transport::name(how));
        wire w = co_await connect(on);
        wire other = co_await connect(on);
        const bool reached = co_await reaches(on, w, target, outside[i], how);
        CHECK_FALSE(reached);
        const bool unharmed =
            co_await reaches(on, other, target, whole.slice(8, 8).value(), opcode::write);
        CHECK(unharmed);
      }
    }
  });
}

TEST_CASE("C5: from deregistration on access is refused, and the key never fits again") {
  stage s;
  s.play([](stage& on) -> task<> {
    std::vector<std::byte> storage(target_bytes);
    MemoryRegion target = on.server_context().register_memory(storage, every_right).value();
    const RemoteMemory before = exported(target);
    wire w = co_await connect(on);
    const bool reached = co_await reaches(on, w, target, before.slice(0, 8).value(), opcode::write);
    CHECK(reached);
    MemoryRegion copy = target;
    CHECK(target.deregister().code() == errc::in_use);
    copy = MemoryRegion();
    CHECK(target.deregister().ok());
    CHECK_FALSE(target);
    // The same range again gets different keys.
    MemoryRegion again = on.server_context().register_memory(storage, every_right).value();
    for (opcode how : {opcode::read, opcode::write, opcode::fetch_add}) {
      wire next = co_await connect(on);
      const bool stale = co_await reaches(on, next, again, before.slice(0, 8).value(), how);
      CHECK_FALSE(stale);
    }
  });
}

TEST_CASE("C7: writes are gathered and reads are scattered, empty pieces included") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options many;
    many.max_segments = std::min<std::uint32_t>(on.caps().max_segments, most_segments);
    wire w = co_await connect(on, many, many);
    const std::size_t granted =
        std::min<std::size_t>(w.client.actual().max_segments, most_segments);
    CHECK(granted == many.max_segments);
    MemoryRegion local = client_memory(on, 100'000);
    MemoryRegion back = client_memory(on, 100'000);
    MemoryRegion target = server_memory(on, 100'000);
    const RemoteMemory remote = exported(target);
    for (std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{100'000}}) {
      for (std::size_t pieces = 1; pieces <= granted; ++pieces) {
        CAPTURE(size);
        CAPTURE(pieces);
        fill(local.bytes(), size + pieces);
        std::vector<Slice> out;
        std::vector<Slice> in;
        std::size_t at = 0;
        for (std::size_t i = 0; i < pieces; ++i) {
          const std::size_t length = i + 1 == pieces ? size - at : i % 2 == 0 ? 0 : size / pieces;
          out.push_back(local.all().part(at, length));
          in.push_back(back.all().part(at, length));
          at += length;
        }
        const RemoteSlice to = remote.slice(0, size).value();
        co_await w.client.write(to, out);
        co_await w.client.flush();
        CHECK(filled(target.bytes().first(size), size + pieces));
        co_await w.client.read(to, in);
        CHECK(filled(back.bytes().first(size), size + pieces));
      }
    }
    const std::vector<Slice> too_many(granted + 1, local.all().first(1));
    const RemoteSlice to = remote.slice(0, granted + 1).value();
    const result<void> written = co_await w.client.write(to, too_many).result();
    CHECK(written.code() == errc::invalid_value);
    const result<void> unequal =
        co_await w.client.write(remote.slice(0, 9).value(), local.all().first(8)).result();
    CHECK(unequal.code() == errc::invalid_value);
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("A4: reads and receives need local_write on the memory they land in") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion read_only = client_memory(on, 64, access::local_read);
    MemoryRegion target = server_memory(on, 64);
    const RemoteSlice from = exported(target).all();
    const result<void> r = co_await w.client.read(from, read_only).result();
    const result<Received> m = co_await w.client.recv(read_only).result();
    CHECK(r.code() == errc::not_permitted);
    CHECK(m.code() == errc::not_permitted);
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("C2: memory of another Context is refused") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion foreign = server_memory(on, 64);
    const result<void> sent = co_await w.client.send(foreign).result();
    CHECK(sent.code() == errc::invalid_value);
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE("I11: fetch-add and compare-swap return the old value and change the word") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, 64);
    const std::span<std::uint64_t> words = target.as<std::uint64_t>();
    const RemoteMemory remote = exported(target);
    for (std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{7}}) {
      const RemoteSlice word = remote.slice(at * 8, 8).value();
      words[at] = 0x0102030405060708ULL;
      const std::uint64_t first = co_await w.client.fetch_add(word, 0x10);
      CHECK(first == 0x0102030405060708ULL);
      const std::uint64_t second = co_await w.client.compare_swap(word, 0x0102030405060718ULL, 42);
      CHECK(second == 0x0102030405060718ULL);
      const std::uint64_t third = co_await w.client.compare_swap(word, 41, 1);
      CHECK(third == 42);
      const std::uint64_t fourth = co_await w.client.fetch_add(word, ~0ULL);
      CHECK(fourth == 42);
      const std::uint64_t fifth = co_await w.client.fetch_add(word, 0);
      CHECK(fifth == 41);
    }
    std::vector<atomic_operation> many;
    const RemoteSlice counter = remote.slice(8, 8).value();
    words[1] = 0;
    for (int i = 0; i < 1000; ++i) many.push_back(w.client.fetch_add(counter, 1).start());
    for (std::uint64_t i = 0; i < many.size(); ++i) {
      atomic_operation& one = many[i];
      const std::uint64_t old = co_await one;
      CHECK(old == i);
    }
    CHECK(words[1] == 1000);
  });
}

TEST_CASE("I11: an atomic on a misaligned word or of another size is refused") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, 64);
    const RemoteMemory remote = exported(target);
    for (std::size_t offset : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{7}}) {
      const RemoteSlice word = remote.slice(offset, 8).value();
      const result<std::uint64_t> added = co_await w.client.fetch_add(word, 1).result();
      const result<std::uint64_t> swapped = co_await w.client.compare_swap(word, 0, 1).result();
      CHECK(added.code() == errc::invalid_value);
      CHECK(swapped.code() == errc::invalid_value);
    }
    for (std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{16}}) {
      const RemoteSlice other = remote.slice(0, size).value();
      const result<std::uint64_t> added = co_await w.client.fetch_add(other, 1).result();
      CHECK(added.code() == errc::invalid_value);
    }
    CHECK(all_zero(target.bytes()));
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

namespace {

// Sends SIGALRM periodically until the end of its scope.
class signals {
 public:
  explicit signals(suseconds_t microseconds) {
    struct sigaction noted{};
    noted.sa_handler = [](int) {};
    noted.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &noted, &before_);
    const itimerval often{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
  }
  signals(const signals&) = delete;
  signals& operator=(const signals&) = delete;
  ~signals() {
    const itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_{};
};

}  // namespace

// Kernels before 6.18 undo work that a signal interrupts; the virtual machine has such a kernel.
TEST_CASE("C1: memory is made, and made whole, while signals come all the time") {
  stage s;
  constexpr std::size_t bytes = std::size_t{48} << 20;
  const signals coming(2000);
  const result<MemoryRegion> made = s.client_context().allocate(bytes);
  REQUIRE(made.ok());
  CHECK(made->size() == bytes);
}

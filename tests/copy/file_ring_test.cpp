// File operations by io_uring and by system calls: their effects and their errors.
#include <support/alloc_count.hpp>
#include <support/applies.hpp>
#include <support/fd_count.hpp>

#include <cordma/runtime/frame_pool.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>

#include <sys/mman.h>

#include "ring_ground.hpp"

using namespace copy;
using namespace copy::test;
using namespace cordma::test;
using cordma::errc;
using cordma::task;
using cordma::unique_fd;

namespace {

task<void> round_trip(ground* g) {
  constexpr open_how create{
      .flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, .mode = 0600, .resolve = RESOLVE_BENEATH};
  const int opened = co_await g->ring.open(g->files.get(), "a", create);
  unique_fd file(opened);
  CHECK(file.get() >= 0);
  const int reserved = co_await g->ring.allocate(file.get(), 0, 0, 8192);
  CHECK(reserved == 0);
  const int wrote = co_await g->ring.write(file.get(), bytes_of("contents"), 4096);
  CHECK(wrote == 8);
  const int synced = co_await g->ring.sync_data(file.get());
  CHECK(synced == 0);
  struct statx about{};
  const int looked = co_await g->ring.statx(g->files.get(), "a", AT_SYMLINK_NOFOLLOW,
                                            STATX_SIZE | STATX_MODE, &about);
  CHECK(looked == 0);
  CHECK(about.stx_size == 8192);
  CHECK((about.stx_mode & 07777) == 0600);
  std::array<std::byte, 16> into{};
  const int got = co_await g->ring.read(file.get(), std::span(into).first(8), 4096);
  CHECK(got == 8);
  CHECK(text_of(std::span(into).first(8)) == "contents");
  const int at_end = co_await g->ring.read(file.get(), into, 8192);
  CHECK(at_end == 0);
  const int short_one = co_await g->ring.read(file.get(), into, 8190);
  CHECK(short_one == 2);
  const int fd = file.get();
  const int closed = co_await g->ring.close(std::move(file));
  CHECK(closed == 0);
  CHECK(::fcntl(fd, F_GETFD) == -1);
}

// Expects the operation to fail with this errno and to name the failed call.
task<void> fails(file_operation operation, int os_errno, std::string_view call) {
  const cordma::result<int> r = co_await operation.result();
  CAPTURE(call);
  REQUIRE_FALSE(r.ok());
  CHECK(r.why().os_errno() == os_errno);
  CHECK(r.code() == cordma::from_errno(os_errno));
  CHECK(r.why().describe().find(call) != std::string::npos);
}

task<void> all_fail(ground* g) {
  constexpr open_how plain{.flags = O_RDONLY | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_BENEATH};
  co_await fails(g->ring.open(g->files.get(), "missing", plain), ENOENT, "openat2");
  co_await fails(g->ring.open(g->files.get(), "../..", plain), EXDEV, "openat2");
  co_await fails(g->ring.open(g->files.get(), "/etc/passwd", plain), EXDEV, "openat2");
  std::array<std::byte, 4> memory{};
  struct statx about{};
  co_await fails(g->ring.statx(g->files.get(), "missing", 0, STATX_SIZE, &about), ENOENT, "statx");
  co_await fails(g->ring.read(-1, memory, 0), EBADF, "read");
  co_await fails(g->ring.write(-1, memory, 0), EBADF, "write");
  co_await fails(g->ring.write(g->files.get(), memory, 0), EBADF, "write");
  co_await fails(g->ring.sync_data(-1), EBADF, "fdatasync");
  co_await fails(g->ring.allocate(-1, 0, 0, 1), EBADF, "fallocate");
  co_await fails(g->ring.close(unique_fd(-1)), EBADF, "close");
}

task<void> one(file_operation operation, int* outcome) { *outcome = co_await operation; }

}  // namespace

TEST_CASE("what is written, is read back, and closed") {
  for (const bool kernel_ring : ways_under_test()) {
    for (const cordma::wait_mode mode :
         {cordma::wait_mode::polling, cordma::wait_mode::event, cordma::wait_mode::adaptive}) {
      CAPTURE(kernel_ring);
      CAPTURE(name(mode));
      ground g({.kernel_ring = kernel_ring}, {.mode = mode});
      CHECK(g.ring.obstacle().empty());
      cordma::run(g.loop, round_trip(&g));
      CHECK(g.ring.counters().operations == 9);
      CHECK((g.ring.counters().submissions != 0) == kernel_ring);
    }
  }
}

TEST_CASE("what fails, fails with the errno and the name of the call") {
  for (const bool kernel_ring : ways_under_test()) {
    CAPTURE(kernel_ring);
    ground g({.kernel_ring = kernel_ring});
    cordma::run(g.loop, all_fail(&g));
  }
}

TEST_CASE("where no io_uring is to be had, system calls do, and it says so") {
  ground g;
  std::optional<file_ring> without;
  {
    const no_descriptors none;
    without.emplace(g.loop);
  }
  CHECK(without->obstacle().find("io_uring_setup") != std::string::npos);
  const unique_fd file = g.files.make("a");
  int wrote = 0;
  cordma::run(g.loop, one(without->write(file.get(), bytes_of("abc"), 0), &wrote));
  CHECK(wrote == 3);
  CHECK(without->counters().submissions == 0);
}

TEST_CASE("more than the depth wait their turn, and wherever they are moved meanwhile") {
  for (const bool kernel_ring : ways_under_test()) {
    CAPTURE(kernel_ring);
    ground g({.depth = 4, .kernel_ring = kernel_ring});
    const unique_fd file = g.files.make("a");
    constexpr std::uint32_t count = 100;
    std::array<std::uint32_t, count> numbers{};
    std::vector<file_operation> all;  // grows, and moves them
    for (std::uint32_t i = 0; i < count; ++i) {
      numbers[i] = i;
      all.push_back(
          g.ring.write(file.get(), std::as_bytes(std::span(numbers)).subspan(i * 4, 4), i * 4)
              .start());
      if (i % 8 == 0) g.loop.turn();
    }
    for (file_operation& operation : all) {
      int wrote = 0;
      cordma::run(g.loop, one(std::move(operation), &wrote));
      CHECK(wrote == 4);
    }
    std::array<std::uint32_t, count> back{};
    CHECK(::pread(file.get(), back.data(), sizeof back, 0) == sizeof back);
    CHECK(back == numbers);
  }
}

TEST_CASE("what one pass starts goes to the kernel at once" *
          applies(has_io_uring(), no_io_uring)) {
  ground g;
  const unique_fd file = g.files.make("a");
  std::vector<file_operation> all;
  for (std::uint64_t i = 0; i < 100; ++i) {
    all.push_back(g.ring.write(file.get(), bytes_of("x"), i).start());
  }
  CHECK(g.ring.counters().submissions == 0);
  g.loop.turn();
  CHECK(g.ring.counters().submissions == 1);
  for (file_operation& operation : all) {
    int wrote = 0;
    cordma::run(g.loop, one(std::move(operation), &wrote));
    CHECK(wrote == 1);
  }
  CHECK(g.ring.counters().submissions == 1);
}

TEST_CASE("transfers go by registered memory where theirs lies inside a piece of it") {
  constexpr std::size_t piece = 8192;
  for (const bool kernel_ring : ways_under_test()) {
    CAPTURE(kernel_ring);
    ground g({.kernel_ring = kernel_ring, .piece_bytes = piece});
    const unique_fd file = g.files.make("a");
    std::vector<std::byte> memory(5 * piece);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(i % 251);
    const std::vector<std::byte> before = memory;
    const std::span<std::byte> inside = std::span(memory).subspan(piece, 2 * piece + 100);
    g.ring.register_memory(inside);
    CHECK(g.ring.obstacle().empty());
    struct place {
      std::size_t from;
      std::size_t bytes;
      bool registered;
    };
    constexpr std::array<place, 10> places{{{piece, piece, true},
                                            {2 * piece, 1, true},
                                            {3 * piece - 1, 1, true},
                                            {3 * piece, 100, true},
                                            {3 * piece, 101, false},
                                            {2 * piece - 1, 2, false},
                                            {piece - 1, 2, false},
                                            {0, 1, false},
                                            {4 * piece, 10, false},
                                            {2 * piece, 0, false}}};
    for (const place& p : places) {
      CAPTURE(p.from);
      CAPTURE(p.bytes);
      const std::span<std::byte> part = std::span(memory).subspan(p.from, p.bytes);
      const std::uint64_t already = g.ring.counters().registered;
      int wrote = -1;
      cordma::run(g.loop, one(g.ring.write(file.get(), part, p.from), &wrote));
      CHECK(wrote == static_cast<int>(p.bytes));
      std::fill(part.begin(), part.end(), std::byte{0});
      int got = -1;
      cordma::run(g.loop, one(g.ring.read(file.get(), part, p.from), &got));
      CHECK(got == static_cast<int>(p.bytes));
      CHECK(memory == before);
      CHECK(g.ring.counters().registered - already == (p.registered && kernel_ring ? 2U : 0U));
    }
  }
}

TEST_CASE("memory that cannot be registered is done without" *
          applies(has_io_uring(), no_io_uring)) {
  ground g;
  constexpr std::size_t bytes = 8192;
  void* const nothing = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(nothing != MAP_FAILED);
  g.ring.register_memory({static_cast<std::byte*>(nothing), bytes});
  CHECK(g.ring.obstacle().find("io_uring_register") != std::string::npos);
  REQUIRE(::mprotect(nothing, bytes, PROT_READ | PROT_WRITE) == 0);
  const unique_fd file = g.files.make("a");
  int wrote = 0;
  const std::span<const std::byte> memory(static_cast<const std::byte*>(nothing), bytes);
  cordma::run(g.loop, one(g.ring.write(file.get(), memory, 0), &wrote));
  CHECK(wrote == static_cast<int>(bytes));
  CHECK(g.ring.counters().registered == 0);
  ::munmap(nothing, bytes);
}

namespace {
task<void> read_and_write(ground* g, int fd, int rounds) {
  std::array<std::byte, 8> memory{};
  for (int i = 0; i < rounds; ++i) {
    co_await g->ring.write(fd, memory, 0);
    co_await g->ring.read(fd, memory, 0);
    co_await g->ring.sync_data(fd);
  }
}
}  // namespace

TEST_CASE("an operation takes nothing from the heap") {
  if (!counts_allocations || !cordma::frame_pool::keeps_frames()) return;
  for (const bool kernel_ring : ways_under_test()) {
    CAPTURE(kernel_ring);
    ground g({.depth = 2, .kernel_ring = kernel_ring});
    const unique_fd file = g.files.make("a");
    cordma::run(g.loop, read_and_write(&g, file.get(), 10));
    const std::uint64_t before = allocations();
    cordma::run(g.loop, read_and_write(&g, file.get(), 100));
    CHECK(allocations() == before);
  }
}

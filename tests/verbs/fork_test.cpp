// A process that forks while its memory is registered: the child writes to it and exits, the parent
// continues.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t bytes = 64 << 10;

// Private memory, like that of malloc.
class pages {
 public:
  pages()
      : at_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(at_ != MAP_FAILED);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() { ::munmap(at_, bytes); }
  [[nodiscard]] std::span<std::byte> all() const noexcept { return {at_, bytes}; }

 private:
  std::byte* at_;
};

// Overwrites the memory in a child, as a child before exec might. True if the child read `seed`
// first.
bool fork_and_scribble(std::span<std::byte> memory, std::uint64_t seed) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool same = filled(memory, seed);
    std::memset(memory.data(), 0xEE, memory.size());
    ::_exit(same ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

task<> pass(wire* w, Slice from, Slice to) {
  recv_operation receiving = w->server.recv(to).start();
  co_await w->client.send(from);
  co_await receiving;
}

}  // namespace

TEST_CASE(
    "Q12: registered memory is the parent's, before and after a fork, whatever the child writes") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    const pages out;
    const pages in;
    MemoryRegion local = on.client_context().register_memory(out.all(), every_right).value();
    MemoryRegion target = on.server_context().register_memory(in.all(), every_right).value();
    for (std::uint64_t round = 1; round <= 5; ++round) {
      CAPTURE(round);
      fill(out.all(), round);
      recv_operation posted = w.server.recv(target).start();  // before the fork
      CHECK(fork_and_scribble(out.all(), round));
      co_await w.client.send(local);
      co_await posted;
      CHECK(filled(out.all(), round));
      CHECK(filled(in.all(), round));
      CHECK(fork_and_scribble(in.all(), round));
      fill(out.all(), round + 100);  // after the fork: the device must see the parent's new bytes
      co_await pass(&w, local, target);
      CHECK(filled(in.all(), round + 100));
    }
  });
}

TEST_CASE("Q12: memory of allocate() is shared with a child: what it writes is seen, and sent") {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion out = client_memory(on, 4096);
    MemoryRegion in = server_memory(on, 4096);
    fill(out.bytes(), 1);
    CHECK(fork_and_scribble(out.bytes(), 1));
    co_await pass(&w, out, in);
    for (const std::byte b : in.bytes()) CHECK(b == std::byte{0xEE});
  });
}

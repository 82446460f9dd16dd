// The time to register memory does not depend on the number of other mappings in the process.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/text_file.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t page = 4096;
constexpr unsigned long query_one = _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104);  // PROCMAP_QUERY

// Bytes that this process has read by system calls so far.
std::uint64_t bytes_read() {
  const std::string io = read_text("/proc/self/io");
  return std::strtoull(io.c_str() + io.find("rchar:") + 6, nullptr, 10);
}

bool kernel_finds_mappings() {
  const unique_fd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  return ::ioctl(maps.get(), query_one, nullptr) != 0 && errno != ENOTTY;
}

// A writable page, followed by an inaccessible one, so that no two objects share a mapping.
class guarded {
 public:
  guarded() : at_(::mmap(nullptr, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(at_ != MAP_FAILED);
    REQUIRE(::mprotect(at_, page, PROT_READ | PROT_WRITE) == 0);
  }
  guarded(guarded&& other) noexcept : at_(std::exchange(other.at_, MAP_FAILED)) {}
  guarded& operator=(guarded&&) = delete;
  ~guarded() { unmap(); }
  void unmap() noexcept {
    if (at_ != MAP_FAILED) ::munmap(std::exchange(at_, MAP_FAILED), 2 * page);
  }
  [[nodiscard]] std::span<std::byte> bytes(std::size_t n = page) const {
    return {static_cast<std::byte*>(at_), n};
  }

 private:
  void* at_;
};

std::uint64_t read_for_one(Context& context, const guarded& memory) {
  const std::uint64_t before = bytes_read();
  const auto region = context.register_memory(memory.bytes(), access::local_write);
  REQUIRE(region.ok());
  return bytes_read() - before;
}

// Makes PROCMAP_QUERY fail in this thread, as on a kernel without it.
void forbid_query() {
  std::array<sock_filter, 6> rules{
      {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
       {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_ioctl},
       {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args[1])},
       {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(query_one)},
       {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOTTY},
       {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

void check_refusals() {
  host h;
  std::vector<guarded> many(1000);
  guarded& one = many[500];
  const auto beyond = h.context.register_memory(one.bytes(2 * page), access::local_write);
  REQUIRE(beyond.code() == errc::not_permitted);
  CHECK(beyond.why().message().find("at offset 4096 it may not be read") != std::string::npos);
  REQUIRE(::mprotect(one.bytes().data(), page, PROT_READ) == 0);
  const auto written = h.context.register_memory(one.bytes(), access::local_write);
  REQUIRE(written.code() == errc::not_permitted);
  CHECK(written.why().message().find("may not be written") != std::string::npos);
  CHECK(h.context.register_memory(one.bytes(), access::local_read).ok());
  const std::span<std::byte> was = one.bytes();
  one.unmap();
  const auto gone = h.context.register_memory(was, access::local_read);
  REQUIRE(gone.code() == errc::not_permitted);
  CHECK(gone.why().message().find("is not mapped") != std::string::npos);
}

}  // namespace

TEST_CASE("registering reads as much with thousands of other mappings as with none" *
          applies(kernel_finds_mappings(), "PROCMAP_QUERY needs Linux 6.11")) {
  host h;
  const guarded first;
  const std::uint64_t with_none = read_for_one(h.context, first);
  std::vector<guarded> others(4000);
  CHECK(read_for_one(h.context, others.back()) <= with_none + 64);
  CHECK(read_for_one(h.context, first) <= with_none + 64);
}

TEST_CASE("what may not be touched is refused among thousands of other mappings, and named") {
  check_refusals();
}

TEST_CASE("a kernel that does not find single mappings refuses the same") {
  std::thread([] {
    forbid_query();
    CHECK(!kernel_finds_mappings());
    check_refusals();
  }).join();
}

// Memory that the CPU cannot touch is refused by transports in which the CPU copies the bytes.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/memory/context_core.hpp>

#include <string>

#include <sys/mman.h>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t bytes = 4096;
constexpr memory_place of_a_device{.kind = memory_kind::device, .device = 1};

// Memory that no code may touch: an access ends the process by a signal.
class untouchable {
 public:
  untouchable() : at_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(at_ != MAP_FAILED);
  }
  untouchable(const untouchable&) = delete;
  untouchable& operator=(const untouchable&) = delete;
  ~untouchable() { ::munmap(at_, bytes); }
  [[nodiscard]] std::span<std::byte> all() const noexcept {
    return {static_cast<std::byte*>(at_), bytes};
  }

 private:
  void* at_;
};

constexpr const char* takes_it = "device memory is for verbs to take";

}  // namespace

TEST_CASE("device memory is not supported, which names the transport and the kind" *
          not_on(transport::kind::verbs, takes_it)) {
  stage s;
  const untouchable memory;
  const std::string self(transport::name(transport_under_test()));
  for (const cordma::access rights : {access::local_write, every_right}) {
    const result<MemoryRegion> made =
        s.client_context().register_memory(memory.all(), rights, of_a_device);
    CHECK(made.code() == errc::not_supported);
    CHECK(made.why().message().find(self) != std::string::npos);
    CHECK(made.why().message().find("device memory") != std::string::npos);
    CHECK(made.why().message().find("verbs alone") != std::string::npos);
  }
}

TEST_CASE("the transport itself refuses device memory, and its capabilities say so" *
          not_on(transport::kind::verbs, takes_it)) {
  stage s;
  const untouchable memory;
  for (const auto& domain : s.client_context().core()->domains) {
    CHECK(domain->caps().takes(memory_kind::host));
    CHECK_FALSE(domain->caps().takes(memory_kind::device));
    const result<transport::memory_keys> keys =
        domain->register_memory({.addr = memory.all().data(),
                                 .length = bytes,
                                 .rights = access::local_write,
                                 .memory = memory_kind::device,
                                 .device = 1});
    CHECK(keys.code() == errc::not_supported);
    CHECK(keys.why().message() == std::string(transport::name(domain->caps().transport)) +
                                      " takes no device memory: the CPU carries its bytes");
  }
}

TEST_CASE("host memory is the default, and says so") {
  stage s;
  std::vector<std::byte> mine(bytes);
  const MemoryRegion region = s.client_context().register_memory(mine, every_right).value();
  const MemoryRegion made = client_memory(s, bytes);
  for (const MemoryRegion& each : {region, made}) {
    CHECK(each.kind() == memory_kind::host);
    CHECK(each.device() == 0);
    CHECK(each.all().kind() == memory_kind::host);
  }
  CHECK(region.bytes().data() == mine.data());
  CHECK(region.as<std::uint64_t>().size() == bytes / 8);
}

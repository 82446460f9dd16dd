#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/random.hpp>
#include <cordma/net/transport/reserve_file.hpp>
#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shortage.hpp>
#include <cordma/runtime/check.hpp>
#include <cstdio>
#include <string>

namespace cordma::transport::shm {
namespace {

failure no_room(int os_errno, const char* what, std::size_t bytes) {
  const std::string size = std::to_string(bytes / 1024) + " KiB";
  if (at_descriptor_limit(os_errno)) {
    return failure(errc::no_memory, std::string("no file descriptor left for ") + what +
                                        ": raise the limit with ulimit -n")
        .with_errno(os_errno);
  }
  if (os_errno == ENOSPC || os_errno == ENOMEM) {
    return failure(errc::no_memory, "no memory for " + size + " of " + what +
                                        ": free memory, raise the memory limit of the container, "
                                        "or make the rings smaller")
        .with_errno(os_errno);
  }
  return failure::from_os(os_errno, "allocating " + size + " of " + what);
}

bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

mapped_view::~mapped_view() {
  if (at_ != nullptr) ::munmap(at_, bytes_);
}

result<unique_fd> create_shared(const char* name, std::size_t bytes) {
  CORDMA_REQUIRE_OP(bytes % page_bytes, ==, 0U);
  // Beyond this limit the kernel does not only fail the call: it sends SIGXFSZ.
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur) {
    return no_room(EFBIG, name, bytes);
  }
  unique_fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return no_room(errno, name, bytes);
  const int no_space = reserve_file(fd.get(), bytes);
  if (no_space != 0) return no_room(no_space, name, bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return failure::from_os(errno, std::string("sealing ") + name);
  }
  return fd;
}

void seal_against_writers(int fd) noexcept {
  static_cast<void>(::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
}

bool is_safe_to_map(int fd, std::size_t bytes) noexcept {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat s{};
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(fd, &s) == 0 && s.st_size >= 0 &&
         static_cast<std::size_t>(s.st_size) >= bytes;
}

unique_fd reopen_read_only(int fd) noexcept {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return unique_fd(::open(path, O_RDONLY | O_CLOEXEC));
}

result<mapped_view> map_shared(int fd, std::size_t bytes, protection how) {
  CORDMA_REQUIRE_OP(fd, >=, 0);
  const int rights = how == protection::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const at = ::mmap(nullptr, bytes, rights, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    const int saved = errno;
    return failure(errc::no_memory, "mapping " + std::to_string(bytes) +
                                        " bytes of shared memory failed: raise vm.max_map_count "
                                        "or the address space limit (ulimit -v)")
        .with_errno(saved);
  }
  return mapped_view(static_cast<std::byte*>(at), bytes);
}

result<channel> map_channel(int fd, std::uint32_t ring_bytes, side mine) {
  CORDMA_REQUIRE_OP(ring_bytes % least_ring_bytes, ==, 0U);
  CORDMA_REQUIRE_OP(ring_bytes, <=, most_ring_bytes);
  const std::size_t file = channel_bytes(ring_bytes);
  const std::size_t total = file + 2 * std::size_t{ring_bytes};
  void* const reserved =
      ::mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return no_room(errno, "address space for a channel", total);
  channel c;
  c.view = mapped_view(static_cast<std::byte*>(reserved), total);
  std::byte* const base = c.view.data();
  const auto place = [&](std::size_t at, std::size_t bytes, std::size_t from) {
    return ::mmap(base + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                  fd, static_cast<off_t>(from)) != MAP_FAILED;
  };
  // Control, slots and ring 0; then ring 0 again and ring 1, which follows it in the file; then
  // ring 1 again.
  const std::size_t ring = ring_bytes;
  if (!place(0, rings_at + ring, 0) || !place(rings_at + ring, 2 * ring, rings_at) ||
      !place(rings_at + 3 * ring, ring, rings_at + ring)) {
    return no_room(errno, "a channel's mapping", total);
  }
  c.control = reinterpret_cast<control_page*>(base);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t n = mine == side::connects ? i : 1 - i;
    c.ring[i] = &c.control->direction[n];
    c.slot[i] = reinterpret_cast<service_slot*>(base + slots_at + n * sizeof(service_slot));
    c.cells[i] = base + rings_at + n * 2 * ring;
    CORDMA_ASSERT_OP(c.cells[i] + 2 * ring - base, <=, static_cast<std::ptrdiff_t>(total));
  }
  return c;
}

bool join_barriers() noexcept {
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) &&
         membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
bool barrier_joined() noexcept { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }
bool barrier_all() noexcept { return membarrier(MEMBARRIER_CMD_GLOBAL); }

result<std::uint64_t> random_number() {
  std::uint64_t r = 0;
  const int failed = draw_random(std::as_writable_bytes(std::span(&r, 1)));
  if (failed != 0) return failure::from_os(failed, "drawing a random number");
  return r;
}

}  // namespace cordma::transport::shm

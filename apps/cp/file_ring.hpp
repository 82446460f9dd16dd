// File operations as awaitables, by io_uring, on the reactor that carries the network too.
#pragma once

#include <cordma/runtime/operation.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

namespace copy {

class file_ring;

// Resolves with what the system call returns: bytes, a descriptor, or 0. Errors: operating_system, with errno and
// the name of the call; shutdown (the ring is gone before it was started). Memory and names are yours again when
// it is done. On cancellation: it goes on, and resolves with its own outcome (files do not wait for anybody).
// Destroyed while it is under way, it is waited for.
class [[nodiscard]] file_operation final : public cordma::operation<file_operation, int> {
 public:
  // One system call: as io_uring knows it, and its arguments there.
  struct request {
    std::uint8_t opcode = 0;  // IORING_OP_...
    int fd = -1;
    std::uint64_t offset = 0;  // or a second address
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t flags = 0;
    const char* name = "";  // of the call, for errors
  };
  file_operation(file_ring& ring, const request& what) noexcept;
  file_operation(file_operation&&) noexcept;
  ~file_operation();

 private:
  template <class, class, class>
  friend class cordma::operation;
  friend class file_ring;
  void do_start() noexcept;
  void do_cancel() noexcept;
  [[nodiscard]] const cordma::failure* why() const noexcept;
  int take() const noexcept;
  // ...
};

struct file_ring_options {
  std::uint32_t depth = 256;  // operations under way; what is more waits its turn, in order
  bool kernel_ring = true;    // false: system calls one by one, as where io_uring is not to be had
};

// Belongs to one reactor, which it outlives not. Never allocates per operation. Where the kernel or its rules have
// no io_uring (seccomp), each operation is carried out by a system call when it is started; obstacle() says why.
class file_ring {
 public:
  explicit file_ring(cordma::reactor& loop, const file_ring_options& options = {});
  file_ring(const file_ring&) = delete;
  file_ring& operator=(const file_ring&) = delete;
  // REQUIRES that no operation is under way.
  ~file_ring();

  // Memory that reads and writes go by without being pinned anew each time, whenever theirs lies inside. Once.
  // Where the system does not let it (RLIMIT_MEMLOCK), all goes on without, and obstacle() says so.
  void register_memory(std::span<std::byte> memory) noexcept;
  // What it had to do without; empty: nothing.
  [[nodiscard]] const std::string& obstacle() const noexcept;

  // At most 2^30 bytes each. May be short, as pread() and pwrite() may.
  file_operation read(int fd, std::span<std::byte> into, std::uint64_t offset) noexcept;
  file_operation write(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept;
  // `how` and `path` stay as they are until it is done. The descriptor is the caller's: wrap it at once.
  file_operation open(int directory, const char* path, const open_how& how) noexcept;
  file_operation close(cordma::unique_fd fd) noexcept;
  file_operation statx(int directory, const char* path, int flags, unsigned mask,
                       struct statx* into) noexcept;
  file_operation sync_data(int fd) noexcept;  // fdatasync()
  file_operation allocate(int fd, int mode, std::uint64_t offset, std::uint64_t length) noexcept;

 private:
  // ...
};

}  // namespace copy

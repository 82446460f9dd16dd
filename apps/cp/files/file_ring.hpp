// File operations as awaitables, by io_uring, on the reactor that carries the network too.
#pragma once

#include <cordma/runtime/list.hpp>
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
class kernel_ring;

// Resolves with what the system call returns: bytes, a descriptor, or 0. Errors: by errno, as failure::from_os has
// it, with os_errno() and the name of the call; shutdown (the ring is gone before it was started). Memory and names
// are yours again when it is done. On cancellation: it goes on, and resolves with its own outcome (files do not wait
// for anybody). Destroyed before the kernel has it, it is not carried out; destroyed while the kernel has it, it is
// asked to stop, and waited for, so that a pipe does not hold anybody up. A descriptor is never lost: what close()
// was given is closed whatever becomes of it, and so is one that was opened and nobody took.
class [[nodiscard]] file_operation final : public cordma::operation<file_operation, int> {
 public:
  // One system call: as io_uring knows it, and its arguments there.
  struct request {
    std::uint8_t opcode = 0;  // IORING_OP_...
    std::uint16_t buffer =
        0;  // of IORING_OP_READ_FIXED and _WRITE_FIXED: which piece of registered memory
    int fd = -1;
    std::uint64_t offset = 0;  // or a second address
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t flags = 0;
    const char* name = "";  // of the call, for errors
  };
  file_operation(file_ring& ring, const request& what) noexcept;
  file_operation(file_operation&& other) noexcept;
  ~file_operation();

 private:
  template <class, class, class>
  friend class cordma::operation;
  friend class file_ring;
  friend class kernel_ring;
  static constexpr std::uint32_t no_slot = UINT32_MAX;
  // What becomes of descriptors hangs on it.
  enum class stage : std::uint8_t { fresh, begun, taken };

  void do_start() noexcept;
  void do_cancel() noexcept {}
  int take() noexcept;
  // With what the kernel says: what the call returned, or a negative errno.
  void complete(int outcome) noexcept;
  // Without having begun.
  void refuse(cordma::errc code) noexcept;

  file_ring* ring_;  // null: it is gone
  request what_;
  int outcome_ = 0;
  std::uint32_t slot_ = no_slot;  // the kernel has it
  stage stage_ = stage::fresh;
};

struct file_ring_options {
  std::uint32_t depth = 256;  // operations under way; what is more waits its turn, in order
  bool kernel_ring = true;    // false: system calls one by one, as where io_uring is not to be had
  // Memory is registered in pieces, of which the kernel takes none above 1 GiB. For tests.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

struct file_ring_counters {
  std::uint64_t operations = 0;   // started
  std::uint64_t registered = 0;   // ... that go by registered memory
  std::uint64_t submissions = 0;  // system calls that handed operations to the kernel
};

// Belongs to one reactor, which it outlives not, and to its thread. Never allocates per operation. What is started in
// one pass of the reactor is handed to the kernel by one system call in the next. Where the kernel or its rules have
// no io_uring (seccomp), each operation is carried out by a system call when it is started; obstacle() says why.
class file_ring {
 public:
  explicit file_ring(cordma::reactor& loop, const file_ring_options& options = {});
  file_ring(const file_ring&) = delete;
  file_ring& operator=(const file_ring&) = delete;
  // REQUIRES that no operation is under way. Those that were not started end with shutdown when they are.
  ~file_ring();

  // Memory that reads and writes go by without being pinned anew each time, whenever theirs lies inside. Once; it
  // stays as it is until the ring is destroyed. Where the system does not let it (RLIMIT_MEMLOCK), all goes on
  // without, and obstacle() says so.
  void register_memory(std::span<std::byte> memory) noexcept;
  // What it had to do without, in a sentence; empty: nothing.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }
  [[nodiscard]] const file_ring_counters& counters() const noexcept { return counters_; }

  // At most 2^30 bytes each. May be short, as pread() and pwrite() may. Of a pipe or a terminal, which have no
  // places, `offset` says nothing.
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
  friend class file_operation;
  // To or from memory of its caller, by the opcode for the registered where it is that.
  struct ways {
    std::uint8_t plain;
    std::uint8_t registered;
  };
  [[nodiscard]] file_operation::request transfer(ways by, int fd, const std::byte* memory,
                                                 std::size_t bytes, std::uint64_t offset,
                                                 const char* name) const noexcept;

  cordma::reactor& loop_;
  const std::size_t piece_bytes_;
  cordma::list<file_operation> fresh_;   // made, and not started
  std::unique_ptr<kernel_ring> kernel_;  // null: system calls
  std::span<const std::byte> registered_;
  std::string obstacle_;
  file_ring_counters counters_;
};

}  // namespace copy

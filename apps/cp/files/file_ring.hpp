// File operations as awaitables, by io_uring, on the reactor of the network.
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

// Completes with the result of the system call: bytes, a descriptor, or 0. Errors: that of the
// call, with os_errno() and its name, as from failure::from_os(); shutdown (the ring was destroyed
// before the start). The caller owns memory and names again on completion. Cancellation has no
// effect: the operation completes with its own result, because files do not block for long. An
// operation destroyed before its submission is not carried out. One destroyed after its submission
// is canceled in the kernel and waited for, so that a pipe does not block the caller. No descriptor
// is leaked: that of close() is closed in any case, and so is an opened one if its result was not
// consumed.
class [[nodiscard]] file_operation final : public cordma::operation<file_operation, int> {
 public:
  // One system call: its io_uring opcode and arguments.
  struct request {
    std::uint8_t opcode = 0;  // IORING_OP_...
    std::uint16_t buffer =
        0;  // for IORING_OP_READ_FIXED and _WRITE_FIXED: index of the piece of registered memory
    int fd = -1;
    std::uint64_t offset = 0;  // or a second address
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t flags = 0;
    const char* name = "";  // name of the call, for errors
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
  // Determines the treatment of descriptors.
  enum class stage : std::uint8_t { fresh, begun, taken };

  void do_start() noexcept;
  void do_cancel() noexcept {}
  int take() noexcept;
  // Completes with the kernel's result: that of the call, or a negative errno.
  void complete(int outcome) noexcept;
  // Fails without a start.
  void refuse(cordma::errc code) noexcept;

  file_ring* ring_;  // null: the ring was destroyed
  request what_;
  int outcome_ = 0;
  std::uint32_t slot_ = no_slot;  // slot of a submitted operation
  stage stage_ = stage::fresh;
};

struct file_ring_options {
  std::uint32_t depth = 256;  // operations in flight; further ones wait in order
  bool kernel_ring = true;    // false: one system call at a time, as without io_uring
  // Size of a piece of registered memory; the kernel accepts at most 1 GiB. For tests.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

struct file_ring_counters {
  std::uint64_t operations = 0;   // started operations
  std::uint64_t registered = 0;   // ... that use registered memory
  std::uint64_t submissions = 0;  // system calls that submitted operations
};

// Runs file operations on one reactor. REQUIRES: the reactor outlives it. Bound to the reactor's
// thread. Never allocates per operation. Operations started in one pass of the reactor are
// submitted by one system call in the next. Without io_uring (old kernel, seccomp) each operation
// is carried out by a system call at its start; obstacle() contains the reason.
class file_ring {
 public:
  explicit file_ring(cordma::reactor& loop, const file_ring_options& options = {});
  file_ring(const file_ring&) = delete;
  file_ring& operator=(const file_ring&) = delete;
  // REQUIRES: no operation is in flight. Operations that were not started fail with shutdown at
  // their start.
  ~file_ring();

  // Registers memory, so that reads and writes inside it need no pinning each time. Called once.
  // The memory must stay valid until the ring is destroyed. If the system does not permit it
  // (RLIMIT_MEMLOCK), operations use unregistered memory, and obstacle() reports that.
  void register_memory(std::span<std::byte> memory) noexcept;
  // A sentence about a missing feature of the system; empty: none is missing.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }
  [[nodiscard]] const file_ring_counters& counters() const noexcept { return counters_; }

  // At most 2^30 bytes each. May be short, as pread() and pwrite(). For a pipe or a terminal
  // `offset` has no meaning.
  file_operation read(int fd, std::span<std::byte> into, std::uint64_t offset) noexcept;
  file_operation write(int fd, std::span<const std::byte> bytes, std::uint64_t offset) noexcept;
  // `how` and `path` must stay valid until completion. The caller owns the descriptor and must wrap
  // it at once.
  file_operation open(int directory, const char* path, const open_how& how) noexcept;
  file_operation close(cordma::unique_fd fd) noexcept;
  file_operation statx(int directory, const char* path, int flags, unsigned mask,
                       struct statx* into) noexcept;
  file_operation sync_data(int fd) noexcept;  // fdatasync()
  file_operation allocate(int fd, int mode, std::uint64_t offset, std::uint64_t length) noexcept;

 private:
  friend class file_operation;
  // The opcodes of a transfer, for other memory and for registered memory.
  struct ways {
    std::uint8_t plain;
    std::uint8_t registered;
  };
  [[nodiscard]] file_operation::request transfer(ways by, int fd, const std::byte* memory,
                                                 std::size_t bytes, std::uint64_t offset,
                                                 const char* name) const noexcept;

  cordma::reactor& loop_;
  const std::size_t piece_bytes_;
  cordma::list<file_operation> fresh_;   // constructed, and not started
  std::unique_ptr<kernel_ring> kernel_;  // null: system calls
  std::span<const std::byte> registered_;
  std::string obstacle_;
  file_ring_counters counters_;
};

}  // namespace copy

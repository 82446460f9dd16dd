#include "file_ring.hpp"

#include "kernel_ring.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace copy {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 30;  // of one read or write

std::uint64_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

template <class T>
T* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

ssize_t read_there(const file_operation::request& r) noexcept {
  const ssize_t n =
      ::pread(r.fd, pointer_to<void>(r.address), r.length, static_cast<off_t>(r.offset));
  if (n >= 0 || errno != ESPIPE) return n;
  return ::read(r.fd, pointer_to<void>(r.address), r.length);
}

ssize_t write_there(const file_operation::request& r) noexcept {
  const ssize_t n =
      ::pwrite(r.fd, pointer_to<const void>(r.address), r.length, static_cast<off_t>(r.offset));
  if (n >= 0 || errno != ESPIPE) return n;
  return ::write(r.fd, pointer_to<const void>(r.address), r.length);
}

// Makes the system call of the operation.
ssize_t call(const file_operation::request& r) noexcept {
  switch (r.opcode) {
    case IORING_OP_READ: return read_there(r);
    case IORING_OP_WRITE: return write_there(r);
    case IORING_OP_OPENAT2:
      return ::syscall(SYS_openat2, r.fd, pointer_to<const char>(r.address),
                       pointer_to<open_how>(r.offset), std::size_t{r.length});
    case IORING_OP_CLOSE: return ::close(r.fd);
    case IORING_OP_STATX:
      return ::statx(r.fd, pointer_to<const char>(r.address), static_cast<int>(r.flags), r.length,
                     pointer_to<struct statx>(r.offset));
    case IORING_OP_FSYNC: return ::fdatasync(r.fd);
    case IORING_OP_FALLOCATE:
      return ::fallocate(r.fd, static_cast<int>(r.length), static_cast<off_t>(r.offset),
                         static_cast<off_t>(r.address));
    default: errno = EINVAL; return -1;
  }
}

// Returns the result as io_uring does: that of the call, or a negative errno.
int call_system(const file_operation::request& r) noexcept {
  for (;;) {
    const ssize_t outcome = call(r);
    if (outcome >= 0) return static_cast<int>(outcome);
    if (errno != EINTR || r.opcode == IORING_OP_CLOSE) return -errno;
  }
}

}  // namespace

file_operation::file_operation(file_ring& ring, const request& what) noexcept
    : operation(&ring.loop_), ring_(&ring), what_(what) {
  ring.fresh_.push_back(*this);
}

file_operation::file_operation(file_operation&& other) noexcept
    : operation(std::move(other)),
      ring_(std::exchange(other.ring_, nullptr)),
      what_(std::exchange(other.what_, request{})),
      outcome_(other.outcome_),
      slot_(std::exchange(other.slot_, no_slot)),
      stage_(std::exchange(other.stage_, stage::fresh)) {
  if (slot_ != no_slot) ring_->kernel_->moved(*this);
}

file_operation::~file_operation() {
  if (slot_ != no_slot) ring_->kernel_->stop(*this);
  if (state() == phase::queued || state() == phase::posted) ring_->kernel_->withdraw(*this);
  if (what_.opcode == IORING_OP_CLOSE && stage_ == stage::fresh) ::close(what_.fd);
  const bool opened = what_.opcode == IORING_OP_OPENAT2 && done() && outcome_ >= 0;
  if (opened && stage_ == stage::begun) ::close(outcome_);
}

void file_operation::do_start() noexcept {
  unlink();
  if (ring_ == nullptr) return refuse(cordma::errc::shutdown);
  ++ring_->counters_.operations;
  if (what_.opcode == IORING_OP_READ_FIXED || what_.opcode == IORING_OP_WRITE_FIXED) {
    ++ring_->counters_.registered;
  }
  if (kernel_ring* const kernel = ring_->kernel_.get()) {
    if (kernel->full() && would_not_wait()) return refuse(cordma::errc::again);
    kernel->start(*this);
  } else {
    stage_ = stage::begun;
    complete(call_system(what_));
  }
}

void file_operation::complete(int outcome) noexcept {
  outcome_ = outcome;
  if (outcome < 0) failure_ = cordma::failure::from_os(-outcome, what_.name);
  finish();
}

void file_operation::refuse(cordma::errc code) noexcept {
  failure_.emplace(code);
  failure_->with_operation(what_.name);
  finish();
}

int file_operation::take() noexcept {
  stage_ = stage::taken;
  return outcome_;
}

file_ring::file_ring(cordma::reactor& loop, const file_ring_options& options)
    : loop_(loop), piece_bytes_(options.piece_bytes) {
  CORDMA_REQUIRE_OP(piece_bytes_, >, 0U);
  if (!options.kernel_ring) return;
  cordma::result<std::unique_ptr<kernel_ring>> made =
      kernel_ring::make(loop, options.depth, counters_);
  if (made) {
    kernel_ = std::move(*made);
  } else {
    obstacle_ = "files are read and written by system calls that wait, one by one, for " +
                support::why_no_ring(made.why());
  }
}

file_ring::~file_ring() {
  while (!fresh_.empty()) fresh_.pop_front().ring_ = nullptr;
}

void file_ring::register_memory(std::span<std::byte> memory) noexcept {
  CORDMA_REQUIRE(registered_.empty());
  if (kernel_ == nullptr || memory.empty()) return;
  try {
    const int failed = kernel_->register_memory(memory, piece_bytes_);
    if (failed == 0) {
      registered_ = memory;
      return;
    }
    obstacle_ =
        "files are read and written by memory that is pinned anew each time, for io_uring took "
        "none for good (" +
        cordma::failure::from_os(failed, "io_uring_register").message() +
        "): raise the limit on locked memory (ulimit -l)";
  } catch (const std::bad_alloc&) {
    // Continues without registered memory, and without a message.
  }
}

file_operation::request file_ring::transfer(ways by, int fd, const std::byte* memory,
                                            std::size_t bytes, std::uint64_t offset,
                                            const char* name) const noexcept {
  CORDMA_REQUIRE_OP(bytes, <=, most_bytes);
  file_operation::request r{.opcode = by.plain,
                            .fd = fd,
                            .offset = offset,
                            .address = address_of(memory),
                            .length = static_cast<std::uint32_t>(bytes),
                            .name = name};
  // An address below the region wraps around to a large offset.
  const std::uint64_t from = r.address - address_of(registered_.data());
  if (bytes == 0 || from >= registered_.size() || bytes > registered_.size() - from) return r;
  const std::uint64_t piece = from / piece_bytes_;
  if ((from + bytes - 1) / piece_bytes_ != piece) return r;
  r.opcode = by.registered;
  r.buffer = static_cast<std::uint16_t>(piece);
  return r;
}

file_operation file_ring::read(int fd, std::span<std::byte> into, std::uint64_t offset) noexcept {
  constexpr ways by{.plain = IORING_OP_READ, .registered = IORING_OP_READ_FIXED};
  return {*this, transfer(by, fd, into.data(), into.size(), offset, "read")};
}

file_operation file_ring::write(int fd, std::span<const std::byte> bytes,
                                std::uint64_t offset) noexcept {
  constexpr ways by{.plain = IORING_OP_WRITE, .registered = IORING_OP_WRITE_FIXED};
  return {*this, transfer(by, fd, bytes.data(), bytes.size(), offset, "write")};
}

file_operation file_ring::open(int directory, const char* path, const open_how& how) noexcept {
  return {*this,
          {.opcode = IORING_OP_OPENAT2,
           .fd = directory,
           .offset = address_of(&how),
           .address = address_of(path),
           .length = sizeof how,
           .name = "openat2"}};
}

file_operation file_ring::close(cordma::unique_fd fd) noexcept {
  return {*this, {.opcode = IORING_OP_CLOSE, .fd = fd.release(), .name = "close"}};
}

file_operation file_ring::statx(int directory, const char* path, int flags, unsigned mask,
                                struct statx* into) noexcept {
  return {*this,
          {.opcode = IORING_OP_STATX,
           .fd = directory,
           .offset = address_of(into),
           .address = address_of(path),
           .length = mask,
           .flags = static_cast<std::uint32_t>(flags),
           .name = "statx"}};
}

file_operation file_ring::sync_data(int fd) noexcept {
  return {
      *this,
      {.opcode = IORING_OP_FSYNC, .fd = fd, .flags = IORING_FSYNC_DATASYNC, .name = "fdatasync"}};
}

file_operation file_ring::allocate(int fd, int mode, std::uint64_t offset,
                                   std::uint64_t length) noexcept {
  return {*this,
          {.opcode = IORING_OP_FALLOCATE,
           .fd = fd,
           .offset = offset,
           .address = length,
           .length = static_cast<std::uint32_t>(mode),
           .name = "fallocate"}};
}

}  // namespace copy

// Anonymous shared files, mappings and cross-process barriers, as values.
#pragma once

#include <cordma/net/transport/shm/cell.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>
#include <cstddef>
#include <utility>

namespace cordma::transport::shm {

// Unmaps on destruction.
class mapped_view {
 public:
  mapped_view() noexcept = default;
  mapped_view(std::byte* at, std::size_t bytes) noexcept : at_(at), bytes_(bytes) {}
  mapped_view(mapped_view&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  mapped_view& operator=(mapped_view&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~mapped_view();
  [[nodiscard]] std::byte* data() const noexcept { return at_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return at_ != nullptr; }

 private:
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

// Creates an anonymous file with all pages allocated (no SIGBUS later) that cannot shrink.
// no_memory: the pages cannot be allocated; the message names the limit to raise.
[[nodiscard]] result<unique_fd> create_shared(const char* name, std::size_t bytes);
// Prevents all later writable mappings of the file.
void seal_against_writers(int fd) noexcept;
// True if accessing the first `bytes` bytes of a peer's file cannot raise SIGBUS.
[[nodiscard]] bool is_safe_to_map(int fd, std::size_t bytes) noexcept;
// Returns a read-only descriptor of the same file; empty if /proc is missing.
[[nodiscard]] unique_fd reopen_read_only(int fd) noexcept;

enum class protection : std::uint8_t { read, read_write };
[[nodiscard]] result<mapped_view> map_shared(int fd, std::size_t bytes, protection how);

enum class side : std::uint8_t { connects = 0, accepts = 1 };
static_assert(static_cast<std::size_t>(side::accepts) <
              std::extent_v<decltype(control_page::direction)>);

// The shared memory of one connection, from the view of one side; see cell.hpp.
struct channel {
  mapped_view view;
  control_page* control = nullptr;
  // Index 0 is the direction in which this side sends and requests, index 1 the other one.
  ring_control* ring[2] = {nullptr, nullptr};
  service_slot* slot[2] = {nullptr, nullptr};
  std::byte* cells[2] = {nullptr, nullptr};  // each mapped twice in a row
};
[[nodiscard]] result<channel> map_channel(int fd, std::uint32_t ring_bytes, side mine);

// A barrier issued by one side for both: it runs on every processor that executes a process that
// called join_barriers(). False: not available here; both sides must fence themselves.
[[nodiscard]] bool join_barriers() noexcept;
[[nodiscard]] bool barrier_joined() noexcept;
// The same for every process of the machine; takes milliseconds.
[[nodiscard]] bool barrier_all() noexcept;

[[nodiscard]] result<std::uint64_t> random_number();

}  // namespace cordma::transport::shm

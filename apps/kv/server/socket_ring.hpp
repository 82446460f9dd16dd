// socket_ring: an io_uring for sockets, and the buffers that the kernel receives into.
#pragma once

#include "../../support/io_ring.hpp"

#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace kv {

// Bound to the thread that makes it. The ring works when_asked (io_ring): a sleep has to be in wait().
class socket_ring {
 public:
  static constexpr unsigned entries = 1024;
  static constexpr unsigned buffers = 256;
  static constexpr std::size_t buffer_bytes = 16 << 10;

  // Errors: not_supported, with what the kernel says.
  [[nodiscard]] static cordma::result<std::unique_ptr<socket_ring>> make();
  ~socket_ring();
  socket_ring(const socket_ring&) = delete;
  socket_ring& operator=(const socket_ring&) = delete;

  // For the next operation; asks the kernel to take what is there where there is no room.
  [[nodiscard]] io_uring_sqe& entry() noexcept;
  // There is something to hand over, or to be had by asking.
  [[nodiscard]] bool worth_asking() const noexcept { return ring_.worth_asking(); }
  [[nodiscard]] bool has_completions() const noexcept { return ring_.has_completions(); }

  // Hands over what there is, and has the kernel do what it can do now. After that no entry is left: what it would not
  // take, being short of memory, comes back as a completion of its user_data with -EINVAL.
  void ask() noexcept { enter(0); }
  // ... and sleeps until something has been done.
  void wait() noexcept { enter(1); }

  // As io_ring has it.
  template <class Function>
  std::size_t reap(Function&& each) noexcept {
    return ring_.reap(std::forward<Function>(each));
  }

  // Of a completion that has one. It is the kernel's again after give_back().
  [[nodiscard]] std::span<const char> buffer(const io_uring_cqe& of) const noexcept {
    return {memory_ + number(of) * stride, static_cast<std::size_t>(of.res)};
  }
  void give_back(const io_uring_cqe& of) noexcept;
  static constexpr int buffer_group = 0;

 private:
  // Apart from each other by other than a power of two: else all their first lines compete for the same places in
  // the cache.
  static constexpr std::size_t stride = buffer_bytes + 5 * 64;

  socket_ring() noexcept = default;
  [[nodiscard]] int set_up_buffers() noexcept;
  void enter(unsigned wait_for) noexcept;
  void take_back() noexcept;
  [[nodiscard]] static std::uint16_t number(const io_uring_cqe& of) noexcept {
    return static_cast<std::uint16_t>(of.flags >> IORING_CQE_BUFFER_SHIFT);
  }

  support::io_ring ring_;
  io_uring_buf_ring* shared_ = nullptr;  // which buffers the kernel may use
  char* memory_ = nullptr;
};

}  // namespace kv

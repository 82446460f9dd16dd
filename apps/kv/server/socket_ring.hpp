// socket_ring: an io_uring for sockets, with the buffers that the kernel receives into.
#pragma once

#include "../../support/io_ring.hpp"

#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace kv {

// Bound to the thread that makes it. The ring runs in mode when_asked (io_ring): a sleep must be in
// wait().
class socket_ring {
 public:
  static constexpr unsigned entries = 1024;
  static constexpr unsigned buffers = 256;
  static constexpr std::size_t buffer_bytes = 16 << 10;

  // Errors: not_supported, with the kernel's reason.
  [[nodiscard]] static cordma::result<std::unique_ptr<socket_ring>> make();
  ~socket_ring();
  socket_ring(const socket_ring&) = delete;
  socket_ring& operator=(const socket_ring&) = delete;

  // Returns the entry for the next operation; submits the earlier ones if the ring is full.
  [[nodiscard]] io_uring_sqe& entry() noexcept;
  // True if entries are to be submitted or completions can be fetched.
  [[nodiscard]] bool worth_asking() const noexcept { return ring_.worth_asking(); }
  [[nodiscard]] bool has_completions() const noexcept { return ring_.has_completions(); }

  // Submits all entries and lets the kernel do what it can do now. No entry remains: one that the
  // kernel did not take for lack of memory completes with -EINVAL for its user_data.
  void ask() noexcept { enter(0); }
  // ... and sleeps until an operation has completed.
  void wait() noexcept { enter(1); }

  // As in io_ring.
  template <class Function>
  std::size_t reap(Function&& each) noexcept {
    return ring_.reap(std::forward<Function>(each));
  }

  // The buffer of a completion that has one. It is valid until give_back().
  [[nodiscard]] std::span<const char> buffer(const io_uring_cqe& of) const noexcept {
    return {memory_ + number(of) * stride, static_cast<std::size_t>(of.res)};
  }
  void give_back(const io_uring_cqe& of) noexcept;
  static constexpr int buffer_group = 0;

 private:
  // The distance of buffers is no power of two: otherwise their first lines would share the same
  // sets of the cache.
  static constexpr std::size_t stride = buffer_bytes + 5 * 64;

  socket_ring() noexcept = default;
  [[nodiscard]] int set_up_buffers() noexcept;
  void enter(unsigned wait_for) noexcept;
  void take_back() noexcept;
  [[nodiscard]] static std::uint16_t number(const io_uring_cqe& of) noexcept {
    return static_cast<std::uint16_t>(of.flags >> IORING_CQE_BUFFER_SHIFT);
  }

  support::io_ring ring_;
  io_uring_buf_ring* shared_ = nullptr;  // the buffers that the kernel may use
  char* memory_ = nullptr;
};

}  // namespace kv

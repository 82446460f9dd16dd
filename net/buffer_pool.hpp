// BufferPool: registered buffers of one size, for the data path.
#pragma once

#include <cordma/net/memory.hpp>
#include <cordma/runtime/operation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace cordma {

class Context;
class buffer_operation;

namespace detail {

// Whether an operation waits for a buffer. Read by the threads that return buffers.
enum class pool_alarm : std::uint8_t {
  off,
  set,   // notify waiter_home
  rung,  // notified; the item is in its inbox
};

struct pool_core;
// Inbox item that notifies the pool's thread of a returned buffer. Holds a reference to the pool
// while it is queued.
struct pool_bell final : inbox_item {
  explicit pool_bell(pool_core& rung_for) noexcept;
  pool_core& pool;
};

// Shared state of a pool. Lives until the pool and its last buffer are destroyed. While the pool
// lives, its own thread takes and returns buffers without counting references; the pool's one
// reference covers them. Destroying the pool counts the buffers that are still on loan.
struct pool_core {
  // Value of returned_head once the pool is destroyed.
  static constexpr std::uint32_t closed = UINT32_MAX;

  MemoryRegion region;
  std::size_t buffer_bytes = 0;
  std::size_t stride = 0;
  std::uint32_t count = 0;
  std::unique_ptr<std::uint32_t[]> next;  // free list by index + 1; 0 ends it
  std::unique_ptr<bool[]> taken;          // detects a buffer that is returned twice
  std::uint32_t free_head = 0;            // owner thread
  std::uint32_t available = 0;
  std::uint64_t owner_thread = 0;  // detail::thread_identity
  process_mark process;
  std::atomic<std::uint32_t> returned_head{0};  // returned by other threads, by index + 1
  std::atomic<std::uint32_t> references{1};
  list<buffer_operation> waiting;  // owner thread
  reactor* waiter_home = nullptr;  // written by the owner thread before it sets the alarm
  std::atomic<pool_alarm> alarm{pool_alarm::off};
  pool_bell bell{*this};
};
void give_back(pool_core& pool, std::uint32_t index) noexcept;
void release(pool_core& pool) noexcept;

}  // namespace detail

// One buffer on loan. Move-only. Destroying it returns it to its pool, on any thread. A Buffer that
// was moved from or returned is empty: it has no bytes, and every operation on it fails with
// invalid_value.
class Buffer {
 public:
  Buffer() noexcept = default;
  Buffer(detail::pool_core* pool, std::uint32_t index) noexcept : pool_(pool), index_(index) {}
  Buffer(Buffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      pool_ = std::exchange(other.pool_, nullptr);
      index_ = other.index_;
    }
    return *this;
  }
  ~Buffer() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return pool_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept {
    return pool_ == nullptr ? nullptr : pool_->region.data() + std::size_t{index_} * pool_->stride;
  }
  [[nodiscard]] std::size_t size() const noexcept {
    return pool_ == nullptr ? 0 : pool_->buffer_bytes;
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data(), size()}; }
  [[nodiscard]] Slice all() const noexcept {
    return pool_ == nullptr ? Slice() : Slice(pool_->region.all().region(), data(), size());
  }
  [[nodiscard]] Slice first(std::size_t length) const noexcept { return all().first(length); }
  // Errors: invalid_value if the range is not inside the buffer.
  [[nodiscard]] result<Slice> slice(std::size_t offset, std::size_t length) const;
  // Returns the buffer to its pool now.
  void reset() noexcept {
    if (pool_ != nullptr) detail::give_back(*std::exchange(pool_, nullptr), index_);
  }

 private:
  detail::pool_core* pool_ = nullptr;
  std::uint32_t index_ = 0;
};
static_assert(sizeof(Buffer) <= 32);

// Resolves with a buffer. It resolves at once if one is free and no other operation waits;
// otherwise when a buffer is returned, on any thread. Waiting operations are served in FIFO order.
// Errors: shutdown (the pool was destroyed meanwhile), no_lock. On cancellation: withdrawn; fails
// with canceled. REQUIRES that the pool lives when it is started.
class [[nodiscard]] buffer_operation final : public operation<buffer_operation, Buffer> {
 public:
  explicit buffer_operation(detail::pool_core& pool, reactor* home = nullptr) noexcept
      : operation(home), pool_(&pool) {}
  buffer_operation(buffer_operation&&) noexcept = default;
  ~buffer_operation();

 private:
  friend struct buffer_waiters;
  template <class, class, class>
  friend class operation;
  void do_start() noexcept;
  void do_cancel() noexcept;
  Buffer take() noexcept { return std::move(buffer_); }

  detail::pool_core* pool_;
  Buffer buffer_;
};

// Bound to the thread that created it (take(), get(), available()). Buffers may be returned on any
// thread. Never allocates after construction. Buffers may outlive the pool. Destroy the pool on its
// thread, or when that thread no longer uses its buffers.
class BufferPool {
 public:
  // Allocates `count` buffers of `buffer_bytes` each, aligned to 64 bytes, in one region of host
  // memory. The region has `rights` and local_write, because messages are received into it. Throws
  // cordma::error: invalid_value, no_memory.
  BufferPool(Context& context, std::size_t buffer_bytes, std::uint32_t count,
             access rights = access::local_write);
  BufferPool(BufferPool&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  BufferPool& operator=(BufferPool&& other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~BufferPool();

  // Returns a free buffer. Errors: no_memory if all are on loan.
  [[nodiscard]] result<Buffer> take() noexcept;
  // Waits for a free buffer. A thread that returns a buffer while an operation waits posts to the
  // reactor of that operation; this reactor must outlive the post.
  buffer_operation get() noexcept { return buffer_operation(*core_); }
  // The same for callers that are not coroutines: the operation completes on the loop `home`.
  buffer_operation get(reactor& home) noexcept { return buffer_operation(*core_, &home); }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return core_->buffer_bytes; }
  [[nodiscard]] std::uint32_t count() const noexcept { return core_->count; }
  [[nodiscard]] std::uint32_t available() noexcept;
  [[nodiscard]] const MemoryRegion& region() const noexcept { return core_->region; }

 private:
  detail::pool_core* core_ = nullptr;
};

}  // namespace cordma

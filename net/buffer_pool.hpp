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

// Whether somebody waits for a buffer, as threads see it that give one back.
enum class pool_alarm : std::uint8_t {
  off,
  set,   // tell waiter_home
  rung,  // it was told; the item is on its way
};

struct pool_core;
// Tells the pool's thread that a buffer came back; holds a reference while it is under way.
struct pool_bell final : inbox_item {
  explicit pool_bell(pool_core& rung_for) noexcept;
  pool_core& pool;
};

// Lives until the pool and the last buffer are gone. While the pool lives, what its thread takes and
// gives back counts nothing: the pool holds it for all. Its end counts what is on loan.
struct pool_core {
  static constexpr std::uint32_t closed = UINT32_MAX;  // returned_head, once the pool is gone

  MemoryRegion region;
  std::size_t buffer_bytes = 0;
  std::size_t stride = 0;
  std::uint32_t count = 0;
  std::unique_ptr<std::uint32_t[]> next;  // free list by index + 1; 0 ends it
  std::unique_ptr<bool[]> taken;          // catches a buffer given back twice
  std::uint32_t free_head = 0;            // owner thread
  std::uint32_t available = 0;
  std::uint64_t owner_thread = 0;  // detail::thread_identity
  process_mark process;
  std::atomic<std::uint32_t> returned_head{0};  // given back by other threads, by index + 1
  std::atomic<std::uint32_t> references{1};
  list<buffer_operation> waiting;  // owner thread
  reactor* waiter_home = nullptr;  // written by the owner thread before it sets the alarm
  std::atomic<pool_alarm> alarm{pool_alarm::off};
  pool_bell bell{*this};
};
void give_back(pool_core& pool, std::uint32_t index) noexcept;
void release(pool_core& pool) noexcept;

}  // namespace detail

// One buffer on loan. Move-only; goes back to its pool when destroyed, on any thread. What was moved
// from, or given back, is empty: of no bytes, and an error (invalid_value) to every operation.
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
  // invalid_value where it does not lie inside.
  [[nodiscard]] result<Slice> slice(std::size_t offset, std::size_t length) const;
  // Gives it back now.
  void reset() noexcept {
    if (pool_ != nullptr) detail::give_back(*std::exchange(pool_, nullptr), index_);
  }

 private:
  detail::pool_core* pool_ = nullptr;
  std::uint32_t index_ = 0;
};
static_assert(sizeof(Buffer) <= 32);

// Resolves with a buffer: at once where one is free and nobody waits, else when one comes back, from
// whatever thread; first come, first served. Errors: shutdown (the pool was destroyed meanwhile),
// no_lock. On cancellation: withdrawn, canceled. REQUIRES that the pool lives when it is started.
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

// Bound to the thread that made it (take(), get(), available()); buffers may be given back anywhere.
// Never allocates after construction. Buffers may outlive the pool. Destroy it on that thread, or when
// that one does nothing with its buffers any more.
class BufferPool {
 public:
  // `count` buffers of `buffer_bytes` each, 64-byte aligned, in one region of host memory with `rights`,
  // and local_write, for messages are received into them. Throws
  // cordma::error: invalid_value, no_memory.
  BufferPool(Context& context, std::size_t buffer_bytes, std::uint32_t count,
             access rights = access::local_write);
  BufferPool(BufferPool&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  BufferPool& operator=(BufferPool&& other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~BufferPool();

  // no_memory when all are on loan.
  [[nodiscard]] result<Buffer> take() noexcept;
  // Waits for one instead. Threads that give a buffer back while somebody waits post to the waiter's
  // reactor, which must outlive that.
  buffer_operation get() noexcept { return buffer_operation(*core_); }
  // The same for what is no coroutine: `home` is the loop that tells of it.
  buffer_operation get(reactor& home) noexcept { return buffer_operation(*core_, &home); }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return core_->buffer_bytes; }
  [[nodiscard]] std::uint32_t count() const noexcept { return core_->count; }
  [[nodiscard]] std::uint32_t available() noexcept;
  [[nodiscard]] const MemoryRegion& region() const noexcept { return core_->region; }

 private:
  detail::pool_core* core_ = nullptr;
};

}  // namespace cordma

#include <cordma/net/buffer_pool.hpp>

#include <cordma/net/context.hpp>

#include <bit>
#include <string>

namespace cordma {
namespace {

constexpr std::size_t alignment = 64;
static_assert(std::has_single_bit(alignment));
static_assert(detail::pool_core::closed != 0, "an empty list is not a closed one");

}  // namespace

// Serves waiting operations, on the pool's thread.
struct buffer_waiters {
  static bool is_closed(const detail::pool_core& pool) noexcept {
    return pool.returned_head.load(std::memory_order_relaxed) == detail::pool_core::closed;
  }
  // Collects the buffers that other threads returned, and passes them to waiting operations in FIFO
  // order.
  static void collect(detail::pool_core& pool) noexcept {
    if (is_closed(pool)) return;
    std::uint32_t head = pool.returned_head.exchange(0, std::memory_order_seq_cst);
    while (head != 0) {
      CORDMA_ASSERT_OP(head, <=, pool.count);
      const std::uint32_t index = std::exchange(head, pool.next[head - 1]) - 1;
      if (!hand_on(pool, index)) put_back(pool, index);
    }
  }
  static void put_back(detail::pool_core& pool, std::uint32_t index) noexcept {
    pool.next[index] = pool.free_head;
    pool.free_head = index + 1;
    ++pool.available;
  }
  static Buffer lend(detail::pool_core& pool, std::uint32_t index) noexcept {
    pool.taken[index] = true;
    return Buffer(&pool, index);
  }
  // Returns false if no operation waits.
  static bool hand_on(detail::pool_core& pool, std::uint32_t index) noexcept {
    if (pool.waiting.empty()) return false;
    buffer_operation& first = pool.waiting.pop_front();
    first.buffer_ = lend(pool, index);
    first.finish();
    if (pool.waiting.empty()) stand_down(pool);
    return true;
  }
  // Both sides use seq_cst: either the other thread sees the alarm, or this one sees the buffer.
  static void set_alarm(detail::pool_core& pool) noexcept {
    CORDMA_ASSERT(!pool.waiting.empty());
    CORDMA_ASSERT_OP(pool.free_head, ==, 0U);  // otherwise the operation would have a buffer
    // While it is set or rung, another thread may be reading waiter_home. Only this thread sets it.
    if (pool.alarm.load() == detail::pool_alarm::off) {
      pool.waiter_home = pool.waiting.front().home();
      pool.alarm.store(detail::pool_alarm::set);
    }
    collect(pool);
  }
  static void stand_down(detail::pool_core& pool) noexcept {
    auto set = detail::pool_alarm::set;
    pool.alarm.compare_exchange_strong(set, detail::pool_alarm::off);
  }
  static void on_alarm(detail::pool_core& pool) noexcept {
    pool.alarm.store(detail::pool_alarm::off);
    collect(pool);
    if (!pool.waiting.empty()) set_alarm(pool);
  }
  static void shut_down(detail::pool_core& pool) noexcept {
    if (!pool.waiting.empty()) pool.waiting.front().home()->enter_to_destroy();
    while (!pool.waiting.empty()) {
      buffer_operation& op = pool.waiting.pop_front();
      op.failure_.emplace(errc::shutdown, "the BufferPool was destroyed");
      op.finish();
    }
    stand_down(pool);
    CORDMA_ASSERT_OP(pool.available, <=, pool.count);
    CORDMA_ASSERT(!is_closed(pool));
    // Counts the buffers on loan before a thread can see that the pool closed and release its
    // buffers.
    pool.references.fetch_add(pool.count - pool.available, std::memory_order_relaxed);
    std::uint32_t head =
        pool.returned_head.exchange(detail::pool_core::closed, std::memory_order_seq_cst);
    while (head != 0) {
      head = pool.next[head - 1];
      detail::release(pool);
    }
  }
};

namespace detail {
pool_bell::pool_bell(pool_core& rung_for) noexcept
    : inbox_item(
          [](inbox_item& i) noexcept {
            pool_core& p = static_cast<pool_bell&>(i).pool;
            buffer_waiters::on_alarm(p);
            release(p);
          },
          [](inbox_item& i) noexcept { release(static_cast<pool_bell&>(i).pool); }),
      pool(rung_for) {}

void release(pool_core& pool) noexcept {
  const std::uint32_t before = pool.references.fetch_sub(1, std::memory_order_acq_rel);
  CORDMA_ASSERT_OP(before, >, 0U);
  if (before == 1) delete &pool;
}

void give_back(pool_core& pool, std::uint32_t index) noexcept {
  CORDMA_REQUIRE(pool.taken[index]);
  pool.taken[index] = false;
  if (pool.owner_thread == detail::thread_identity) {
    if (buffer_waiters::is_closed(pool)) {
      release(pool);
    } else if (!buffer_waiters::hand_on(pool, index)) {
      buffer_waiters::put_back(pool, index);
    }
    return;
  }
  // Once the buffer is on the list, it no longer keeps the core alive.
  pool.references.fetch_add(1, std::memory_order_relaxed);
  std::uint32_t head = pool.returned_head.load(std::memory_order_relaxed);
  do {
    if (head == pool_core::closed) {
      release(pool);
      release(pool);
      return;
    }
    pool.next[index] = head;
  } while (!pool.returned_head.compare_exchange_weak(head, index + 1, std::memory_order_seq_cst,
                                                     std::memory_order_relaxed));
  auto set = pool_alarm::set;
  if (pool.alarm.compare_exchange_strong(set, pool_alarm::rung)) {
    pool.waiter_home->post(pool.bell);  // passes the reference above to the bell
  } else {
    release(pool);
  }
}

}  // namespace detail

result<Slice> Buffer::slice(std::size_t offset, std::size_t length) const {
  if (offset > size() || length > size() - offset) {
    return failure{errc::invalid_value, "slice of " + std::to_string(length) + " bytes at offset " +
                                            std::to_string(offset) + " leaves the buffer of " +
                                            std::to_string(size()) + " bytes"};
  }
  return all().part(offset, length);
}

buffer_operation::~buffer_operation() {
  if (state() != phase::queued) return;
  unlink();
  if (pool_->waiting.empty()) buffer_waiters::stand_down(*pool_);
}

void buffer_operation::do_start() noexcept {
  if (pool_->owner_thread != detail::thread_identity) {
    if (pool_->process.inherited()) {
      failure_ = made_before_fork();
    } else {
      failure_.emplace(errc::no_lock, "a BufferPool may only be used on its own thread");
    }
    finish();
    return;
  }
  if (pool_->free_head == 0) buffer_waiters::collect(*pool_);
  if (pool_->free_head != 0) {
    const std::uint32_t index = pool_->free_head - 1;
    pool_->free_head = pool_->next[index];
    --pool_->available;
    buffer_ = buffer_waiters::lend(*pool_, index);
    finish();
    return;
  }
  set_phase(phase::queued);
  pool_->waiting.push_back(*this);
  buffer_waiters::set_alarm(*pool_);
}

void buffer_operation::do_cancel() noexcept {
  unlink();
  if (pool_->waiting.empty()) buffer_waiters::stand_down(*pool_);
  failure_.emplace(errc::canceled);
  finish();
}

BufferPool::BufferPool(Context& context, std::size_t buffer_bytes, std::uint32_t count,
                       access rights) {
  if (buffer_bytes == 0 || count == 0) {
    throw_error({errc::invalid_value, "a BufferPool needs at least one buffer of one byte"});
  }
  const std::size_t stride = (buffer_bytes + alignment - 1) / alignment * alignment;
  if (stride < buffer_bytes || stride > SIZE_MAX / count) {
    throw_error({errc::invalid_value, "a BufferPool of " + std::to_string(count) + " buffers of " +
                                          std::to_string(buffer_bytes) +
                                          " bytes is larger than any address space"});
  }
  result<MemoryRegion> region = context.allocate(stride * count, rights | access::local_write);
  if (!region) throw_error(region.why());
  auto core = std::make_unique<detail::pool_core>();
  core->region = std::move(*region);
  core->buffer_bytes = buffer_bytes;
  core->stride = stride;
  core->count = count;
  core->next = std::make_unique<std::uint32_t[]>(count);
  core->taken = std::make_unique<bool[]>(count);
  for (std::uint32_t i = 0; i < count; ++i) core->next[i] = i + 1 < count ? i + 2 : 0;
  core->free_head = 1;
  core->available = count;
  core->owner_thread = detail::name_thread();
  core_ = core.release();
}

BufferPool::~BufferPool() {
  if (core_ == nullptr) return;
  buffer_waiters::shut_down(*core_);
  detail::release(*core_);
}

result<Buffer> BufferPool::take() noexcept {
  detail::pool_core& pool = *core_;
  if (pool.process.inherited()) return made_before_fork();
  CORDMA_REQUIRE(pool.owner_thread == detail::thread_identity);
  if (pool.free_head == 0) buffer_waiters::collect(pool);
  if (pool.free_head == 0) return errc::no_memory;
  const std::uint32_t index = pool.free_head - 1;
  pool.free_head = pool.next[index];
  --pool.available;
  return buffer_waiters::lend(pool, index);
}

std::uint32_t BufferPool::available() noexcept {
  if (core_->process.inherited()) return 0;
  CORDMA_REQUIRE(core_->owner_thread == detail::thread_identity);
  buffer_waiters::collect(*core_);
  return core_->available;
}

}  // namespace cordma

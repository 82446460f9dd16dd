#include <cordma/net/buffer_pool.hpp>

#include <cordma/net/context.hpp>

namespace cordma {
namespace {

constexpr std::size_t alignment = 64;
thread_local char thread_mark;  // its address names the thread

// Takes over what other threads gave back.
void collect(detail::pool_core& pool) noexcept {
  std::uint32_t head = pool.returned_head.exchange(0, std::memory_order_acquire);
  while (head != 0) {
    const std::uint32_t after = pool.next[head - 1];
    pool.next[head - 1] = pool.free_head;
    pool.free_head = head;
    ++pool.available;
    head = after;
  }
}

}  // namespace

namespace detail {

void release(pool_core& pool) noexcept {
  if (pool.references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &pool;
}

void give_back(pool_core& pool, std::uint32_t index) noexcept {
  CORDMA_REQUIRE(pool.taken[index]);
  pool.taken[index] = false;
  if (pool.owner_thread == &thread_mark) {
    pool.next[index] = pool.free_head;
    pool.free_head = index + 1;
    ++pool.available;
  } else {
    std::uint32_t head = pool.returned_head.load(std::memory_order_relaxed);
    do {
      pool.next[index] = head;
    } while (!pool.returned_head.compare_exchange_weak(head, index + 1, std::memory_order_release,
                                                       std::memory_order_relaxed));
  }
  release(pool);
}

}  // namespace detail

BufferPool::BufferPool(Context& context, std::size_t buffer_bytes, std::uint32_t count,
                       access rights) {
  if (buffer_bytes == 0 || count == 0) {
    throw_error({errc::invalid_value, "a BufferPool needs at least one buffer of one byte"});
  }
  const std::size_t stride = (buffer_bytes + alignment - 1) / alignment * alignment;
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
  core->owner_thread = &thread_mark;
  core_ = core.release();
}

BufferPool::~BufferPool() {
  if (core_ != nullptr) detail::release(*core_);
}

result<Buffer> BufferPool::take() noexcept {
  detail::pool_core& pool = *core_;
  CORDMA_REQUIRE(pool.owner_thread == &thread_mark);
  if (pool.free_head == 0) collect(pool);
  if (pool.free_head == 0) return errc::no_memory;
  const std::uint32_t index = pool.free_head - 1;
  pool.free_head = pool.next[index];
  --pool.available;
  pool.taken[index] = true;
  pool.references.fetch_add(1, std::memory_order_relaxed);
  return Buffer(&pool, index);
}

std::uint32_t BufferPool::available() noexcept {
  collect(*core_);
  return core_->available;
}

}  // namespace cordma

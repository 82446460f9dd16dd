#include <cordma/net/transport/random.hpp>
#include <cordma/net/transport/region_table.hpp>

#include <cerrno>
#include <thread>

namespace cordma::transport {
namespace {

constexpr unsigned index_bits = 24;
constexpr std::uint64_t index_mask = (std::uint64_t{1} << index_bits) - 1;
static_assert(region_table::entries_per_chunk * region_table::most_chunks <= index_mask);
static_assert(index_bits < 32, "an index and one more is a local key");

result<std::uint64_t> random_bits() {
  std::uint64_t r = 0;
  const int failed = draw_random(std::as_writable_bytes(std::span(&r, 1)));
  if (failed != 0) return failure::from_os(failed, "drawing a random memory key");
  return r;
}

}  // namespace

region_table::~region_table() {
  for (auto& c : chunks_) delete c.load(std::memory_order_relaxed);
}

result<memory_keys> region_table::add(const memory_range& range, const void* owner) {
  const auto addr = reinterpret_cast<std::uintptr_t>(range.addr);
  if (range.addr == nullptr || range.length == 0 || addr + range.length < addr) {
    return failure{errc::invalid_value, "a memory region must not be empty"};
  }
  const result<std::uint64_t> bits = random_bits();
  if (!bits) return bits.why();
  const std::lock_guard lock(mutex_);
  std::size_t index = next_;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (index / entries_per_chunk >= most_chunks) {
      return failure{errc::no_memory,
                     "262,144 memory regions are registered already: register "
                     "fewer, larger ones, or use a BufferPool"};
    }
    free_.reserve(index + 1);  // so that remove() never allocates
    auto& c = chunks_[index / entries_per_chunk];
    if (c.load(std::memory_order_relaxed) == nullptr) c.store(new chunk, std::memory_order_release);
    ++next_;
  }
  CORDMA_ASSERT_OP(index, <, next_);
  entry& e = *at(index);
  CORDMA_ASSERT_OP(e.rkey.load(std::memory_order_relaxed), ==, 0U);
  e.range = range;
  e.range.rights = normalized(range.rights);
  e.addr.store(addr, std::memory_order_relaxed);
  e.length.store(range.length, std::memory_order_relaxed);
  e.rights.store(e.range.rights, std::memory_order_relaxed);
  e.owner.store(owner, std::memory_order_relaxed);
  const std::uint64_t rkey = ((*bits | (std::uint64_t{1} << 63)) & ~index_mask) | index;
  e.rkey.store(rkey, std::memory_order_seq_cst);
  used_.fetch_add(1, std::memory_order_relaxed);
  CORDMA_ASSERT_OP(rkey & index_mask, ==, index);
  return memory_keys{.lkey = static_cast<std::uint32_t>(index + 1), .rkey = rkey};
}

void region_table::remove(std::uint32_t lkey) noexcept {
  CORDMA_REQUIRE_OP(lkey, !=, 0U);
  entry* const e = at(lkey - 1);
  CORDMA_REQUIRE(e != nullptr);
  CORDMA_REQUIRE_OP(e->rkey.load(std::memory_order_relaxed), !=, 0U);
  // Later look-ups find no key; earlier ones that found it are counted in `users`.
  e->rkey.store(0, std::memory_order_seq_cst);
  while (e->users.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  const std::size_t used = used_.fetch_sub(1, std::memory_order_relaxed);
  CORDMA_ASSERT_OP(used, >, 0U);
  const std::lock_guard lock(mutex_);
  CORDMA_ASSERT_OP(free_.size(), <, free_.capacity());
  free_.push_back(lkey - 1);
}

bool region_table::revoke(std::uint64_t rkey, const void* owner) noexcept {
  const entry* const e = at(rkey & index_mask);
  if (e == nullptr || rkey == 0 || e->rkey.load(std::memory_order_acquire) != rkey) return false;
  if (e->owner.load(std::memory_order_relaxed) != owner) return false;
  remove(static_cast<std::uint32_t>(rkey & index_mask) + 1);
  return true;
}

region_table::pin region_table::resolve(std::uint64_t rkey, std::uint64_t addr,
                                        std::uint64_t length, access wanted,
                                        const void* from) noexcept {
  entry* const e = at(rkey & index_mask);
  if (e == nullptr || rkey == 0) return {};
  e->users.fetch_add(1, std::memory_order_seq_cst);
  pin held(e, nullptr);
  if (e->rkey.load(std::memory_order_seq_cst) != rkey) return {};
  const void* const owner = e->owner.load(std::memory_order_relaxed);
  if (owner != nullptr && owner != from) return {};
  const std::uint64_t start = e->addr.load(std::memory_order_relaxed);
  const std::uint64_t size = e->length.load(std::memory_order_relaxed);
  if (!has(e->rights.load(std::memory_order_relaxed), wanted)) return {};
  if (addr < start || length > size || addr - start > size - length) return {};
  held.addr_ = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(addr));
  return held;
}

region_table::registration region_table::look_up(std::uint64_t rkey) noexcept {
  entry* const e = at(rkey & index_mask);
  if (e == nullptr || rkey == 0) return {};
  e->users.fetch_add(1, std::memory_order_seq_cst);
  pin held(e, nullptr);
  if (e->rkey.load(std::memory_order_seq_cst) != rkey) return {};
  return {std::move(held), &e->range, static_cast<std::uint32_t>(rkey & index_mask) + 1};
}

}  // namespace cordma::transport

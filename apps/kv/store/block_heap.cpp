#include "block_heap.hpp"

#include <sys/mman.h>
#include <cstdlib>
#include <new>

namespace kv {

// Header in front of the blocks of a slab.
struct block_heap::slab {
  slab* next = nullptr;
  slab* previous = nullptr;
  void* free = nullptr;      // first returned block; each one points to the next
  std::uint32_t room = 0;    // usable bytes of each block
  std::uint32_t blocks = 0;  // total number
  std::uint32_t used = 0;
  std::uint32_t touched = 0;  // blocks that were ever allocated: those behind them are free too
  list on = list::none;

  [[nodiscard]] std::byte* at(std::uint32_t i) noexcept {
    return reinterpret_cast<std::byte*>(this) + head_bytes + std::size_t{i} * room;
  }
  [[nodiscard]] bool is_full() const noexcept { return used == blocks; }
  [[nodiscard]] bool has_many_free() const noexcept { return blocks - used > blocks / 8; }

  static constexpr std::size_t head_bytes = 64;
};

block_heap::~block_heap() {
  for (const auto& [at, bytes] : mapped_) ::munmap(at, bytes);
}

block_heap::slab* block_heap::slab_of(const void* block) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(block) / slab_bytes * slab_bytes;
  return reinterpret_cast<slab*>(at);
}

// Inserts a sparse slab behind the first one, so that one slab at a time is filled.
void block_heap::link(size_class& in, slab& s, list where) noexcept {
  slab*& head = where == list::dense ? in.dense : in.sparse;
  s.on = where;
  if (where == list::sparse && head != nullptr) {
    s.previous = head;
    s.next = head->next;
    head->next = &s;
  } else {
    s.previous = nullptr;
    s.next = head;
    head = &s;
  }
  if (s.next != nullptr) s.next->previous = &s;
}

void block_heap::unlink(size_class& in, slab& s) noexcept {
  if (s.on == list::none) return;
  slab*& head = s.on == list::dense ? in.dense : in.sparse;
  if (s.previous != nullptr) s.previous->next = s.next;
  if (s.next != nullptr) s.next->previous = s.previous;
  if (head == &s) head = s.next;
  s.next = s.previous = nullptr;
  s.on = list::none;
}

// Moves the slab to the list for its current state.
void block_heap::sort(size_class& in, slab& s) noexcept {
  const list wanted = s.is_full() ? list::none : s.has_many_free() ? list::sparse : list::dense;
  if (wanted == s.on) return;
  unlink(in, s);
  if (wanted != list::none) link(in, s, wanted);
}

bool block_heap::map_more() noexcept try {
  constexpr std::size_t bytes = slabs_at_a_time * slab_bytes;
  const std::size_t all = (mapped_.size() + 1) * slabs_at_a_time;
  if (cold_.capacity() < all) cold_.reserve(2 * all);
  warm_.reserve(most_warm);
  mapped_.reserve(mapped_.size() + 1);
  void* const at = ::mmap(nullptr, bytes + slab_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;  // NOLINT
  mapped_.emplace_back(at, bytes + slab_bytes);
  auto* const first =
      reinterpret_cast<std::byte*>(slab_of(static_cast<std::byte*>(at) + slab_bytes - 1));
  for (std::size_t i = slabs_at_a_time; i-- > 0;) cold_.push_back(first + i * slab_bytes);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

block_heap::slab* block_heap::new_slab(std::size_t room) noexcept {
  std::vector<void*>& from = warm_.empty() ? cold_ : warm_;
  if (from.empty() && !map_more()) return nullptr;
  std::vector<void*>& now = warm_.empty() ? cold_ : warm_;
  auto* const s = new (now.back()) slab;
  now.pop_back();
  s->room = static_cast<std::uint32_t>(room);
  s->blocks = static_cast<std::uint32_t>((slab_bytes - slab::head_bytes) / room);
  ++slabs_;
  link(class_of(room), *s, list::sparse);
  return s;
}

// The vectors have capacity for all slabs.
void block_heap::release(slab& s) noexcept {
  --slabs_;
  if (warm_.size() < most_warm) {
    warm_.push_back(&s);
    return;
  }
  ::madvise(&s, slab_bytes, MADV_DONTNEED);
  cold_.push_back(&s);
}

void* block_heap::take(std::size_t room) noexcept {
  if (room > longest) return std::malloc(room);
  size_class& in = class_of(room);
  slab* s = in.dense != nullptr ? in.dense : in.sparse;
  if (s == nullptr) s = new_slab(room);
  if (s == nullptr) return nullptr;
  void* block = s->free;
  if (block != nullptr) {
    s->free = *static_cast<void**>(block);
  } else {
    block = s->at(s->touched++);
  }
  ++s->used;
  live_ += room;
  sort(in, *s);
  return block;
}

void block_heap::give(void* block, std::size_t room) noexcept {
  if (room > longest) return std::free(block);
  if (block == nullptr) return;
  size_class& in = class_of(room);
  slab& s = *slab_of(block);
  *static_cast<void**>(block) = s.free;
  s.free = block;
  --s.used;
  live_ -= room;
  given_ += room;
  if (s.used != 0) return sort(in, s);
  unlink(in, s);
  release(s);
}

bool block_heap::is_sparse(const void* block, std::size_t room) const noexcept {
  if (room > longest || block == nullptr) return false;
  const slab* const s = slab_of(block);
  return s->on == list::sparse && s != classes_[number_of(room)].sparse;
}

bool block_heap::is_loose() const noexcept {
  constexpr std::size_t allowed = std::size_t{4} << 20;  // for slabs with few blocks, of many sizes
  return held_bytes() > live_ + live_ / 8 + allowed && given_ > held_bytes() / 16;
}

}  // namespace kv

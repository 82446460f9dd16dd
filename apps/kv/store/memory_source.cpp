#include "memory_source.hpp"

#include <sys/mman.h>

namespace kv {

plain_memory::~plain_memory() {
  for (const std::span<std::byte> piece : given_) ::munmap(piece.data(), piece.size());
}

std::span<std::byte> plain_memory::more(std::size_t bytes) noexcept {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return {};  // NOLINT
  // Huge pages reduce page walks in a table of a million cache lines. If they are unavailable,
  // nothing changes.
  ::madvise(at, bytes, MADV_HUGEPAGE);
  given_.emplace_back(static_cast<std::byte*>(at), bytes);
  return given_.back();
}

bool plain_memory::discard(std::span<std::byte> piece) noexcept {
  return ::madvise(piece.data(), piece.size(), MADV_DONTNEED) == 0;
}

std::span<std::byte> shared_memory::more(std::size_t bytes) noexcept {
  cordma::result<cordma::MemoryRegion> made =
      context_.allocate(bytes, cordma::access::local_read | cordma::access::local_write |
                                   cordma::access::remote_read);
  if (!made) return {};
  regions_.push_back(std::move(made).value());
  return regions_.back().bytes();
}

}  // namespace kv

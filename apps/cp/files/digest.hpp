// Digests of chunks, and of a complete transfer.
#pragma once

#include <xxhash.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace copy {

// XXH3, 64 bits, seed 0 (xxhash.com; `xxhsum -H3` prints the same).
[[nodiscard]] std::uint64_t digest_of(std::span<const std::byte> bytes) noexcept;

// XXH3, 128 bits, seed 0, of a complete file (`xxhsum -H2`).
struct file_digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const file_digest&, const file_digest&) = default;
};
// Reads a file from its beginning, and blocks. Returns 0, or errno; ECANCELED after a cancellation.
[[nodiscard]] int digest_of_file(int fd, file_digest& into,
                                 const std::atomic<bool>& canceled) noexcept;

// A sum over all chunks of their file, index and digest. Both sides add their chunks in the order
// of arrival, and subtract damaged ones. The sums differ if a chunk was lost, arrived twice or went
// elsewhere.
class manifest {
 public:
  void add(std::uint32_t file, std::uint64_t chunk, std::uint64_t digest) noexcept {
    sum_ += term(file, chunk, digest);
  }
  void take_back(std::uint32_t file, std::uint64_t chunk, std::uint64_t digest) noexcept {
    sum_ -= term(file, chunk, digest);
  }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }

 private:
  [[nodiscard]] static std::uint64_t term(std::uint64_t file, std::uint64_t chunk,
                                          std::uint64_t digest) noexcept {
    // never sent, so the byte order does not matter
    const std::uint64_t words[] = {file, chunk, digest};
    return XXH3_64bits(words, sizeof words);
  }
  std::uint64_t sum_ = 0;
};

}  // namespace copy

// The sidecar of an incomplete file: its source, and which of its chunks are present.
#pragma once

#include "../tree/entry.hpp"

#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace copy {

// Identifies the source of the present chunks.
struct source_identity {
  std::uint64_t size = 0;
  file_time modified;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t version = 0;  // see entry
  friend bool operator==(const source_identity&, const source_identity&) = default;
};

// Shorter files have no sidecar: a new transfer of them is as fast.
inline constexpr std::uint64_t smallest_resumed = 8U << 20;  // bytes of a file

// The file ".NAME.cordma-state" beside the part. It has a head with the identity, and one appended
// record for each written chunk. A record that is cut off or damaged, and all records after it, are
// ignored. Nothing is synced: if vouches() is false the caller compares each chunk with its digest,
// and chunks lost in a crash of the machine are sent again. Little-endian:
//   head    magic "cordmacp", u32 version, u32 chunk_bytes, u64 size, i64 s, u32 ns, u32 of the
//           source; u64 of the part: its identity and the period in which unsynced data persists
//           (part_life(); 0: unknown, or not checked yet); i64 time of change of the part at the
//           time of this write; u64 XXH3 of the 56 bytes before
//   record  u64 index, u64 digest of the chunk, i64 time of change of the part, u64 XXH3 of the 24
//           bytes before; an index with its highest bit set: this chunk is not present
// Times are in ns. The later of two records of one chunk is valid. Resuming takes time for the
// records and the compared chunks, and one bit per chunk, independent of the file's size.
//
// Used by one thread at a time.
class resume_state {
 public:
  static constexpr std::uint64_t most_chunks = std::uint64_t{1}
                                               << 28;  // of one file: 32 MiB of bits

  // Reads the sidecar of an earlier transfer. No chunk is present if it is empty, of another
  // source, or has a damaged head; it is begun anew then. `fd` is the sidecar, open for reading and
  // writing. `part` is the part; it stays open while this object is used, and was not changed by
  // this transfer. Errors: system errors, with errno; invalid_value (chunk_bytes is 0, or results
  // in more than `most_chunks`).
  [[nodiscard]] static cordma::result<resume_state> open(cordma::unique_fd fd, int part,
                                                         const source_identity& of);

  // True if a file, open for reading, begins as a sidecar does, of any source.
  [[nodiscard]] static bool is_one(int fd) noexcept;

  // For each chunk: whether it is present.
  [[nodiscard]] const std::vector<bool>& here() const noexcept { return here_; }
  [[nodiscard]] std::uint64_t count_here() const noexcept { return count_; }
  // Returns the digest from add(). REQUIRES: the chunk is present.
  [[nodiscard]] std::uint64_t digest(std::uint64_t chunk) const noexcept {
    return (*digests_[chunk / page])[chunk % page];
  }

  // True if the part was unchanged at open() since the last chunk was added, so that no comparison
  // is needed. This requires: it is the same file and has the source's size; no write, truncation
  // or change of mode, owner or names happened later than 20 ms after that chunk; since then the
  // machine has not rebooted and the file system has not been remounted; and the file system is
  // local. Written data outlives its process, but not a crash of the machine or the removal of a
  // disk. Before Linux 6.8 a mount cannot be distinguished from the next, and only parts in memory
  // are vouched for. The part is not vouched for again before confirm().
  [[nodiscard]] bool vouches() const noexcept { return vouches_; }
  // Removes the chunks of here() that `here` does not contain, and vouches for the others from now
  // on. REQUIRES: before the first add(). Errors: system errors, with errno; a later transfer
  // begins anew then.
  [[nodiscard]] cordma::result<void> confirm(const std::vector<bool>& here);

  // Records that a chunk was written. Errors: system errors, with errno; the chunk is then present
  // for this transfer only. REQUIRES: the file has such a chunk.
  [[nodiscard]] cordma::result<void> add(std::uint64_t chunk, std::uint64_t digest);

 private:
  resume_state(cordma::unique_fd fd, int part, std::uint64_t chunks);
  void note(std::uint64_t chunk, std::uint64_t digest);
  void forget(std::uint64_t chunk) noexcept;
  [[nodiscard]] int begin(std::uint64_t size) noexcept;
  [[nodiscard]] int write_head(std::uint64_t life) noexcept;
  [[nodiscard]] int read_records();
  [[nodiscard]] bool is_as_noted(std::uint64_t life) const noexcept;
  [[nodiscard]] int append(std::uint64_t index, std::uint64_t digest) noexcept;

  cordma::unique_fd fd_;
  int part_;
  std::vector<bool> here_;
  // Allocated for pages with present chunks only.
  static constexpr std::size_t page = 512;  // chunks
  std::vector<std::unique_ptr<std::array<std::uint64_t, page>>> digests_;
  std::uint64_t count_ = 0;
  source_identity of_;
  std::uint64_t life_ = 0;         // of the part, at present
  std::int64_t noted_change_ = 0;  // latest noted change of the part
  bool vouches_ = false;
  std::uint64_t end_ = 0;  // of the sidecar, in bytes
};

}  // namespace copy

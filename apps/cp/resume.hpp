// The sidecar of a file that is half here: which of its chunks are, and of which source.
#pragma once

#include "entry.hpp"

#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace copy {

// What tells that the source is the one of which there are chunks already.
struct source_identity {
  std::uint64_t size = 0;
  file_time modified;
  std::uint32_t chunk_bytes = 0;
  friend bool operator==(const source_identity&, const source_identity&) = default;
};

// The file ".NAME.cordma-state" beside the part: a head with the identity, then one record for each chunk that is
// durable, appended (a record that is cut off or damaged is not read, nor what follows). Little-endian:
//   head    magic "cordmacp", u32 version, u32 chunk_bytes, u64 size, i64 s, u32 ns, u32 0, u64 XXH3 of the 40 bytes before
//   record  u64 index, u64 digest of the chunk, u64 XXH3 of the 16 bytes before
// Resuming costs what the records cost, whatever the file's size.
class resume_state {
 public:
  // Of the part that a transfer before this one left; nothing: there is none, or it is of another source, or damaged
  // in its head; it is begun anew then. `fd` is the sidecar, open for reading and writing.
  [[nodiscard]] static cordma::result<resume_state> open(cordma::unique_fd fd,
                                                         const source_identity& of);

  // By chunk: whether it is here.
  [[nodiscard]] const std::vector<bool>& here() const noexcept { return here_; }
  [[nodiscard]] std::uint64_t count_here() const noexcept { return count_; }
  // The digest of a chunk that is here.
  [[nodiscard]] std::uint64_t digest(std::uint64_t chunk) const noexcept { return digests_[chunk]; }

  // A chunk was written; it is in the sidecar after the next flush(). REQUIRES that flush() follows the file's own
  // fdatasync().
  void add(std::uint64_t chunk, std::uint64_t digest);
  [[nodiscard]] bool dirty() const noexcept { return !pending_.empty(); }
  // Appends what was added by one write, and syncs the sidecar. Errors: operating_system.
  [[nodiscard]] cordma::result<void> flush();

 private:
  struct record {
    std::uint64_t chunk = 0;
    std::uint64_t digest = 0;
  };
  cordma::unique_fd fd_;
  std::vector<bool> here_;
  std::vector<std::uint64_t> digests_;
  std::vector<record> pending_;
  std::uint64_t count_ = 0;
  std::uint64_t end_ = 0;  // of the file, in bytes
};

}  // namespace copy

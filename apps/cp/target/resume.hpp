// The sidecar of a file that is half here: which of its chunks are, and of which source.
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

// What tells that the source is the one of which there are chunks already.
struct source_identity {
  std::uint64_t size = 0;
  file_time modified;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t version = 0;  // see entry
  friend bool operator==(const source_identity&, const source_identity&) = default;
};

// Of what is shorter nothing is kept: it comes anew as quickly.
inline constexpr std::uint64_t smallest_resumed = 8U << 20;  // bytes of a file

// The file ".NAME.cordma-state" beside the part: a head with the identity, then one record for each chunk that was
// written, appended (a record that is cut off or damaged is not read, nor what follows). Nothing is synced: whoever goes
// on where vouches() is false compares each chunk with its digest, and what a sudden end of the machine took away comes
// again. Little-endian:
//   head    magic "cordmacp", u32 version, u32 chunk_bytes, u64 size, i64 s, u32 ns, u32 of the source; u64 of the part:
//           which file it is, and until when it is so unsynced (part_life(); 0: that is not known, or yet to be looked
//           at); i64 time of change of the part, as that was written; u64 XXH3 of the 56 bytes before
//   record  u64 index, u64 digest of the chunk, i64 time of change of the part, u64 XXH3 of the 24 bytes before; an index
//           with its highest bit set: that chunk is not here
// Times are in ns. Of two records of one chunk the later holds. Resuming costs what the records cost, whatever the file's
// size, but for one bit per chunk, and what has to be compared.
//
// One thread at a time.
class resume_state {
 public:
  static constexpr std::uint64_t most_chunks = std::uint64_t{1}
                                               << 28;  // of one file: 32 MiB of bits

  // Of what a transfer before this one left; nothing is here where there is none, or it is of another source, or damaged
  // in its head: it is begun anew then. `fd` is the sidecar, open for reading and writing, `part` the part, which stays
  // open as long as this is used, and was not changed by this transfer. Errors: those of the system, with errno;
  // invalid_value (chunk_bytes is 0, or makes more than `most_chunks`).
  [[nodiscard]] static cordma::result<resume_state> open(cordma::unique_fd fd, int part,
                                                         const source_identity& of);

  // Whether a file that is open for reading begins as a sidecar does, of whatever source.
  [[nodiscard]] static bool is_one(int fd) noexcept;

  // By chunk: whether it is here.
  [[nodiscard]] const std::vector<bool>& here() const noexcept { return here_; }
  [[nodiscard]] std::uint64_t count_here() const noexcept { return count_; }
  // As it was added. REQUIRES that the chunk is here.
  [[nodiscard]] std::uint64_t digest(std::uint64_t chunk) const noexcept {
    return (*digests_[chunk / page])[chunk % page];
  }

  // Whether the part was, as this was opened, as it was when the last chunk was added, and so need not be compared: it is
  // the same file, has the source's size, nobody wrote to it, cut it or changed its mode, owner or names later than 20 ms
  // after, and since then the machine was not started, nor its file system mounted, which must be one of the machine itself:
  // what a process wrote outlives its death, but not that of the machine, nor that of a disk that is pulled out. (Before
  // Linux 6.8 a mount is not told from the next: there only what lies in memory is vouched for.) In any case it
  // is not vouched for again before confirm().
  [[nodiscard]] bool vouches() const noexcept { return vouches_; }
  // Before the first add(): `here` tells which of here() were found so; the others go, and what stays is vouched for from
  // now on. Errors: those of the system, with errno; a transfer after this one begins anew then.
  [[nodiscard]] cordma::result<void> confirm(const std::vector<bool>& here);

  // A chunk was written: it is here. Errors: those of the system, with errno; it is here for this transfer alone then.
  // REQUIRES that the file has such a chunk.
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
  // Made for the chunks that are here: far apart, they cost no more.
  static constexpr std::size_t page = 512;  // chunks
  std::vector<std::unique_ptr<std::array<std::uint64_t, page>>> digests_;
  std::uint64_t count_ = 0;
  source_identity of_;
  std::uint64_t life_ = 0;         // of the part, now
  std::int64_t noted_change_ = 0;  // of the part, as it was opened: the last
  bool vouches_ = false;
  std::uint64_t end_ = 0;  // of the file, in bytes
};

}  // namespace copy

#include "resume.hpp"

#include "../files/write_at.hpp"
#include "../tree/describe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

namespace copy {

using cordma::errc;
using cordma::failure;
using cordma::result;
using cordma::unique_fd;

namespace {

constexpr std::uint32_t format_version = 3;
constexpr std::array<char, 8> magic{'c', 'o', 'r', 'd', 'm', 'a', 'c', 'p'};

// Offsets in bytes.
namespace head_at {
constexpr std::size_t version = 8;
constexpr std::size_t chunk_bytes = 12;
constexpr std::size_t size = 16;
constexpr std::size_t s = 24;
constexpr std::size_t ns = 32;
constexpr std::size_t source = 36;
constexpr std::size_t life = 40;
constexpr std::size_t change = 48;
constexpr std::size_t hash = 56;
}  // namespace head_at
namespace record_at {
constexpr std::size_t chunk = 0;
constexpr std::size_t digest = 8;
constexpr std::size_t change = 16;
constexpr std::size_t hash = 24;
}  // namespace record_at
constexpr std::size_t head_bytes = head_at::hash + 8;
constexpr std::size_t record_bytes = record_at::hash + 8;
static_assert(magic.size() == head_at::version && head_at::source + 4 == head_at::life);
constexpr std::uint64_t not_here = std::uint64_t{1} << 63;  // flag in the index of a record
static_assert(resume_state::most_chunks < not_here);
constexpr std::int64_t late =
    20'000'000;  // ns; for writes in progress when the last chunk was added

void put(std::byte* to, std::uint64_t value, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}
std::uint64_t get(const std::byte* from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

// True for file systems that show written data to other processes at once, and that no other
// machine changes.
bool is_of_this_machine(long type) noexcept {
  constexpr long f2fs = 0xF2F52010, bcachefs = 0xCA451A4E, zfs = 0x2FC12FC1;
  for (const long known : {long{EXT4_SUPER_MAGIC}, long{XFS_SUPER_MAGIC}, long{BTRFS_SUPER_MAGIC},
                           long{TMPFS_MAGIC}, long{OVERLAYFS_SUPER_MAGIC}, f2fs, bcachefs, zfs}) {
    if (type == known) return true;
  }
  return false;
}

// Identifies the part, and the period in which written data persists without a sync: while this
// machine runs and the file system stays mounted. Returns 0 if unknown.
std::uint64_t part_life(int part) noexcept {
  struct {
    std::uint64_t boot = this_boot();
    std::uint64_t mount = 0;
    std::uint64_t device = 0;
    std::uint64_t file = 0;
    std::int64_t made_s = 0;
    std::uint64_t made_ns = 0;
  } is;
  static_assert(sizeof is == 48);  // no padding, which would be undefined
  if (is.boot == 0) return 0;
  struct statfs s{};
  if (::fstatfs(part, &s) != 0 || !is_of_this_machine(static_cast<long>(s.f_type))) return 0;
  constexpr unsigned unique_mount = 0x4000;  // STATX_MNT_ID_UNIQUE, since Linux 6.8
  struct statx about{};
  if (::statx(part, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME | unique_mount, &about) != 0)
    return 0;
  if (s.f_type != TMPFS_MAGIC) {  // tmpfs does not outlive its mount
    if ((about.stx_mask & unique_mount) == 0) return 0;
    is.mount = about.stx_mnt_id;
  }
  is.device = std::uint64_t{about.stx_dev_major} << 32 | about.stx_dev_minor;
  is.file = about.stx_ino;
  if ((about.stx_mask & STATX_BTIME) != 0) {
    is.made_s = about.stx_btime.tv_sec;
    is.made_ns = about.stx_btime.tv_nsec;
  }
  return XXH3_64bits(&is, sizeof is);
}

std::int64_t changed_at(const struct stat& s) noexcept {
  return s.st_ctim.tv_sec * 1'000'000'000 + s.st_ctim.tv_nsec;
}

using head_block = std::array<std::byte, head_bytes>;

head_block head_of(const source_identity& of, std::uint64_t life, std::int64_t change) noexcept {
  head_block head{};
  std::byte* const p = head.data();
  std::memcpy(p, magic.data(), magic.size());
  put(p + head_at::version, format_version, 4);
  put(p + head_at::chunk_bytes, of.chunk_bytes, 4);
  put(p + head_at::size, of.size, 8);
  put(p + head_at::s, static_cast<std::uint64_t>(of.modified.s), 8);
  put(p + head_at::ns, of.modified.ns, 4);
  put(p + head_at::source, of.version, 4);
  put(p + head_at::life, life, 8);
  put(p + head_at::change, static_cast<std::uint64_t>(change), 8);
  put(p + head_at::hash, XXH3_64bits(p, head_at::hash), 8);
  return head;
}

// True for a head of this source; the time at which it was written does not matter.
bool is_head_of(const head_block& head, const source_identity& of) noexcept {
  const head_block expected = head_of(of, 0, 0);
  return std::memcmp(head.data(), expected.data(), head_at::life) == 0 &&
         get(head.data() + head_at::hash) == XXH3_64bits(head.data(), head_at::hash);
}

// Returns the number of bytes read, less at the end of the file; or a negative errno.
ssize_t read_sidecar_at(int fd, std::span<std::byte> into, std::uint64_t offset) noexcept {
  std::size_t got = 0;
  while (got < into.size()) {
    const ssize_t n =
        ::pread(fd, into.data() + got, into.size() - got, static_cast<off_t>(offset + got));
    if (n == 0) break;
    if (n > 0) {
      got += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      return -errno;
    }
  }
  return static_cast<ssize_t>(got);
}

}  // namespace

resume_state::resume_state(unique_fd fd, int part, std::uint64_t chunks)
    : fd_(std::move(fd)),
      part_(part),
      here_(chunks, false),
      digests_((chunks + page - 1) / page),
      life_(part_life(part)) {}

result<resume_state> resume_state::open(unique_fd fd, int part, const source_identity& of) {
  CORDMA_REQUIRE(static_cast<bool>(fd));
  if (of.chunk_bytes == 0) return failure(errc::invalid_value, "chunks of 0 bytes");
  const std::uint64_t chunks = of.size / of.chunk_bytes + (of.size % of.chunk_bytes != 0);
  if (chunks > most_chunks) {
    return failure::of(errc::invalid_value, {"a file of ", chunks,
                                             " chunks can be resumed only in larger ones: at most ",
                                             most_chunks, " are kept track of"});
  }
  const auto fails = [](int why) { return failure::from_os(why, "reading a sidecar"); };
  resume_state made(std::move(fd), part, chunks);
  struct stat s{};
  if (::fstat(made.fd_.get(), &s) != 0) return fails(errno);
  head_block head{};
  const ssize_t got = read_sidecar_at(made.fd_.get(), head, 0);
  if (got < 0) return fails(static_cast<int>(-got));
  made.of_ = of;
  const bool known = static_cast<std::size_t>(got) == head.size() && is_head_of(head, of);
  if (!known) {
    if (const int why = made.begin(static_cast<std::uint64_t>(s.st_size)); why != 0)
      return fails(why);
    return made;
  }
  made.noted_change_ = static_cast<std::int64_t>(get(head.data() + head_at::change));
  if (const int why = made.read_records(); why != 0) return fails(why);
  made.vouches_ = made.is_as_noted(get(head.data() + head_at::life));
  // Until confirm() the head does not vouch for the part, so that later changes of the part or of
  // the records are not mistaken for noted ones.
  const int why = made.write_head(made.count_ != 0 ? 0 : made.life_);
  if (why != 0 && ::ftruncate(made.fd_.get(), 0) != 0) return fails(why);
  return made;
}

// Returns 0, or errno.
int resume_state::begin(std::uint64_t size) noexcept {
  if (size != 0 && ::ftruncate(fd_.get(), 0) != 0) return errno;
  end_ = head_bytes;
  return write_head(life_);
}

bool resume_state::is_one(int fd) noexcept {
  std::array<std::byte, magic.size()> begin{};
  return read_sidecar_at(fd, begin, 0) == static_cast<ssize_t>(begin.size()) &&
         std::memcmp(begin.data(), magic.data(), magic.size()) == 0;
}

// Returns 0, or errno. Overwrites the head in its place, so it needs no further space.
int resume_state::write_head(std::uint64_t life) noexcept {
  struct stat now{};
  if (::fstat(part_, &now) != 0) return errno;
  return write_at(fd_.get(), head_of(of_, life, changed_at(now)), 0);
}

// Returns 0, or errno. Stops after the last complete record.
int resume_state::read_records() {
  constexpr std::size_t at_once = 2048;  // records
  std::vector<std::byte> block(at_once * record_bytes);
  end_ = head_bytes;
  for (;;) {
    const ssize_t got = read_sidecar_at(fd_.get(), block, end_);
    if (got < 0) return static_cast<int>(-got);
    const std::size_t records = static_cast<std::size_t>(got) / record_bytes;
    std::size_t good = 0;
    for (; good < records; ++good) {
      const std::byte* const p = block.data() + good * record_bytes;
      if (get(p + record_at::hash) != XXH3_64bits(p, record_at::hash)) break;
      const std::uint64_t chunk = get(p + record_at::chunk);
      const std::uint64_t index = chunk & ~not_here;
      const auto change = static_cast<std::int64_t>(get(p + record_at::change));
      noted_change_ = std::max(noted_change_, change);
      if (index >= here_.size()) continue;
      if (index == chunk) {
        note(index, get(p + record_at::digest));
      } else {
        forget(index);
      }
    }
    end_ += good * record_bytes;
    if (good == at_once) continue;
    const bool all = static_cast<std::size_t>(got) == good * record_bytes;
    return all || ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0 ? 0 : errno;
  }
}

void resume_state::note(std::uint64_t chunk, std::uint64_t digest) {
  auto& of = digests_[chunk / page];
  if (of == nullptr) of = std::make_unique<std::array<std::uint64_t, page>>();
  (*of)[chunk % page] = digest;
  if (!here_[chunk]) ++count_;
  here_[chunk] = true;
}

void resume_state::forget(std::uint64_t chunk) noexcept {
  if (here_[chunk]) --count_;
  here_[chunk] = false;
}

bool resume_state::is_as_noted(std::uint64_t life) const noexcept {
  struct stat s{};
  return life_ != 0 && life == life_ && ::fstat(part_, &s) == 0 &&
         static_cast<std::uint64_t>(s.st_size) >= of_.size &&
         std::abs(changed_at(s) - noted_change_) <= late;
}

result<void> resume_state::confirm(const std::vector<bool>& here) {
  CORDMA_REQUIRE_OP(here.size(), ==, here_.size());
  int why = 0;
  for (std::size_t i = 0; i < here.size() && why == 0; ++i) {
    if (!here_[i] || here[i]) continue;
    forget(i);
    why = append(i | not_here, 0);
  }
  if (why == 0) why = write_head(life_);
  if (why == 0) return {};
  // Otherwise the missing chunks would count as present.
  [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), 0);
  return failure::from_os(why, "writing a sidecar");
}

// Returns 0, or errno.
int resume_state::append(std::uint64_t index, std::uint64_t digest) noexcept {
  struct stat now{};
  if (::fstat(part_, &now) != 0) return errno;
  std::array<std::byte, record_bytes> record{};
  std::byte* const p = record.data();
  put(p + record_at::chunk, index, 8);
  put(p + record_at::digest, digest, 8);
  put(p + record_at::change, static_cast<std::uint64_t>(changed_at(now)), 8);
  put(p + record_at::hash, XXH3_64bits(p, record_at::hash), 8);
  const int why = write_at(fd_.get(), record, end_);
  if (why == 0) end_ += record_bytes;
  return why;
}

result<void> resume_state::add(std::uint64_t chunk, std::uint64_t digest) {
  CORDMA_REQUIRE_OP(chunk, <, here_.size());
  note(chunk, digest);
  const int why = append(chunk, digest);
  if (why != 0) return failure::from_os(why, "writing a sidecar");
  return {};
}

}  // namespace copy

// Opens the file to write: its part, with the remains of an earlier transfer, or the file itself.
#include "../files/unfinished.hpp"
#include "../tree/describe.hpp"
#include "incoming.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <vector>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace copy {
namespace {

// How to find out whether there is space for a complete file. A compressed file takes less than its
// length, by an unknown amount, and space allocated for it in advance is not compressed.
enum class room_by : unsigned char { allocation, counting, nothing };

room_by room_is_known_by(const struct statfs& s) noexcept {
  constexpr decltype(s.f_type) zfs = 0x2fc12fc1;
  constexpr decltype(s.f_type) bcachefs = 0xca451a4e;
  switch (s.f_type) {
    case TMPFS_MAGIC:  // allocates memory; without a limit it counts nothing
      return s.f_blocks != 0 ? room_by::counting : room_by::nothing;
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case zfs:
    case bcachefs: return room_by::nothing;
    default: return room_by::allocation;
  }
}

// True if the free space, including reserved blocks, is enough. Errs towards a later failure, not
// towards refusing a file that fits.
bool has_room(const struct statfs& s, const struct stat& now, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t block = 512;  // unit of st_blocks, in bytes
  const auto free = static_cast<std::uint64_t>(s.f_bfree) * static_cast<std::uint64_t>(s.f_bsize);
  return free + static_cast<std::uint64_t>(now.st_blocks) * block >= bytes;
}

// Returns 0, or errno.
int find_room(int fd, std::uint64_t bytes, int allocation_mode) noexcept {
  struct statfs s{};
  struct stat now{};
  if (::fstatfs(fd, &s) != 0 || ::fstat(fd, &now) != 0) return 0;
  room_by by = room_is_known_by(s);
  // With --inplace the space is also allocated: several files at once would each count the same
  // space.
  if (by == room_by::counting && allocation_mode != 0) by = room_by::allocation;
  switch (by) {
    case room_by::counting: return has_room(s, now, bytes) ? 0 : ENOSPC;
    case room_by::allocation:
      if (::fallocate(fd, allocation_mode, 0, static_cast<off_t>(bytes)) == 0) return 0;
      return errno == ENOSPC || errno == EDQUOT ? errno : 0;
    case room_by::nothing: break;
  }
  return 0;
}

// Fills `into`; returns false at the end of the file or on an error.
bool read_at(int fd, std::span<std::byte> into, std::uint64_t offset) noexcept {
  while (!into.empty()) {
    const ssize_t n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

// Compares bytes with a digest. Digest 0 stands for a hole.
bool is_of(std::span<const std::byte> bytes, std::uint64_t digest) noexcept {
  if (digest != 0) return digest_of(bytes) == digest;
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

bool receiver::has_part(const incoming& f) {
  const std::string& path = f.what->path;
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const cordma::result<std::optional<struct stat>> there =
      target_.look(directory + target::part_name(path));
  return there && there.value();
}

// Resumes a file: keeps the chunks of an earlier transfer that still match its notes. The process
// that wrote them may still be ending: the loss of a sender without a close is detected after two
// peer_timeouts, 10 s.
cordma::task<void> receiver::go_on(std::shared_ptr<incoming> f) {
  constexpr int most = 300;
  constexpr auto a_while = std::chrono::milliseconds(50);
  cordma::result<void> opened = open(*f, target_);
  for (int i = 0; i < most && !opened && opened.why().os_errno() == EBUSY; ++i) {
    co_await cordma::sleep_for(a_while);
    opened = open(*f, target_);
  }
  if (opened) {
    std::vector<bool> here = f->sidecar->here();
    if (f->sidecar->count_here() != 0 && !f->vouched) {
      const bool compared = co_await compare_part(f, &here);
      if (!compared) co_return;
    }
    keep_part(*f, here);
    say_want(f);
  } else {
    fail(*f, describe(opened.why()));
    forget(f->number);
  }
  lanes_.front()->kick();
  finish_if_due();
}

// Reads the part if it may differ from the noted state; this is cheaper than a new transmission of
// its chunks. Returns false if the transfer ended meanwhile; then the existence of the noted chunks
// is not confirmed.
cordma::task<bool> receiver::compare_part(std::shared_ptr<incoming> f, std::vector<bool>* here) {
  co_await comparing_.acquire();
  std::vector<std::byte> buffer(options_.chunk_bytes);
  bool compared = true;
  auto work = [&](std::size_t, const std::atomic<bool>& canceled) noexcept {
    const std::span<std::byte> all(buffer);
    for (std::size_t i = 0; i < here->size() && compared; ++i) {
      compared = !canceled;
      if (!(*here)[i]) continue;
      const std::span<std::byte> chunk = all.first(f->bytes_of(i, options_.chunk_bytes));
      (*here)[i] = read_at(f->fd.get(), chunk, i * std::uint64_t{options_.chunk_bytes}) &&
                   is_of(chunk, f->sidecar->digest(i));
    }
    if (f->direct.get() >= 0) ::posix_fadvise(f->fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  };
  crew_job reading = crew_.run(work);
  co_await reading;
  comparing_.release();
  co_return compared;
}

// If the sidecar cannot be written, a later transfer finds none, and this one continues without it.
void receiver::keep_part(incoming& f, const std::vector<bool>& here) {
  [[maybe_unused]] const cordma::result<void> noted = f.sidecar->confirm(here);
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!here[i]) continue;
    f.missing[i] = false;
    --f.left;
    const std::uint32_t bytes = f.bytes_of(i, options_.chunk_bytes);
    f.resumed += bytes;
    progress_.bytes_done += bytes;
  }
}

cordma::result<void> receiver::open(incoming& f, target& into) {
  const std::string& path = f.what->path;
  if (output_ >= 0) {
    f.fd.reset(::fcntl(output_, F_DUPFD_CLOEXEC, 0));
    if (!f.fd) return cordma::failure::from_os(errno, "fcntl");
    return {};
  }
  if (f.in_place) {
    const cordma::result<void> opened = open_inplace(f, into);
    if (!opened) return opened;
  } else {
    cordma::result<cordma::unique_fd> part =
        into.open_part(path, f.resumable ? O_RDWR : O_WRONLY | O_TRUNC);
    if (!part) return part.why();
    f.fd = std::move(part).value();
  }
  if (f.resumable) {
    const cordma::result<void> begun = open_sidecar(f, into);
    if (!begun) return begun;
  }
  const cordma::result<void> has_room =
      f.in_place ? cordma::result<void>() : make_room(f, f.fd.get());
  if (has_room && options_.direct && f.what->size >= direct_way::smallest) {
    f.direct = direct_way(f.fd.get(), direct_way::purpose::writing);
  }
  return has_room;
}

// With a mark at its end the file is longer than its final size until it is complete, so that it is
// not mistaken for the source's.
cordma::result<void> receiver::open_inplace(incoming& f, target& into) const {
  const auto begin_new = [&](int fd) {
    struct stat made{};
    if (::fstat(fd, &made) != 0)
      return cordma::result<void>(cordma::failure::from_os(errno, "fstat"));
    return begin_inplace(f, fd, made);
  };
  cordma::result<target::opened> opened = into.open_inplace(f.what->path, f.what->mode, begin_new);
  if (!opened) return opened.why();
  f.fd = std::move(opened.value().fd);
  const std::optional<struct stat>& before = opened.value().before;
  return before ? begin_inplace(f, f.fd.get(), *before) : cordma::result<void>();
}

// The mark is written first: a process killed while it makes room leaves the file with a newer
// time.
cordma::result<void> receiver::mark_and_make_room(incoming& f, int fd) const {
  const auto failed = [](int why) { return cordma::failure::from_os(why, "marking it"); };
  if (f.is_stream()) {
    if (const int why = cut_to(fd, 0); why != 0) return failed(why);
    return make_room(f, fd);
  }
  marking m(fd, f.what->size);
  if (const int why = m.begin(); why != 0) return failed(why);
  const cordma::result<void> room = make_room(f, fd);
  if (!room) {
    m.undo();
    return room;
  }
  if (const int why = m.end(); why != 0) return failed(why);
  return {};
}

// If it fails, the file is as before.
cordma::result<void> receiver::begin_inplace(incoming& f, int fd, const struct stat& before) const {
  const entry there = copy::describe(before, entry_kind::file);
  f.bytes_here = f.is_stream() ? 0 : there.size;
  if (!f.is_stream() && there.device == f.what->device) {
    return cordma::failure(cordma::errc::invalid_value, "it is the source itself");
  }
  // Users without read access in the end have none during the transfer, except the owner, because
  // the mark has to be read.
  const mode_t mode = before.st_mode & 07777;
  const mode_t others = options_.mode ? f.what->mode | ~mode_t{S_IRWXG | S_IRWXO} : ~mode_t{0};
  const mode_t meanwhile = (mode & others) | S_IRUSR;
  const auto become = [fd](mode_t m) { [[maybe_unused]] const int made = ::fchmod(fd, m); };
  if (meanwhile != mode) become(meanwhile);
  const cordma::result<void> done = mark_and_make_room(f, fd);
  if (done) return {};
  const std::array<timespec, 2> times{before.st_atim, before.st_mtim};
  [[maybe_unused]] const int kept = ::futimens(fd, times.data());
  if (meanwhile != mode) become(mode);
  return done;
}

// Allocates or checks the space of a file. A file with holes has none allocated: holes remain where
// nothing is written.
cordma::result<void> receiver::make_room(incoming& f, int fd) const {
  const std::uint64_t size = f.what->size;
  const bool has_holes = options_.sparse || f.what->allocated < size;
  const bool is_long = size >= smallest_resumed;
  struct stat now{};
  if (!f.in_place && ::fstat(fd, &now) == 0) {
    f.bytes_here = static_cast<std::uint64_t>(now.st_size);
  }
  if ((has_holes || is_long) && !f.in_place && ::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return cordma::failure::from_os(errno, "ftruncate");
  }
  // Fails now rather than after most of the file has arrived. With --inplace the earlier contents
  // would be lost by then, so short files are checked too, and space for the mark is included.
  const bool in_place = f.in_place && !f.is_stream();
  const int mode = f.in_place ? FALLOC_FL_KEEP_SIZE : 0;
  const std::uint64_t needed = in_place ? size + unfinished_mark.size() : size;
  const int why = !has_holes && (is_long || in_place) ? find_room(fd, needed, mode) : 0;
  if (why != 0) return cordma::failure::from_os(why, "room");
  return {};
}

// Accepts the notes if the sidecar vouches for the part; otherwise the part is compared with them.
cordma::result<void> receiver::open_sidecar(incoming& f, target& into) {
  cordma::result<cordma::unique_fd> side = into.open_state(f.what->path);
  if (!side) return side.why();
  cordma::result<resume_state> state =
      resume_state::open(std::move(side).value(), f.fd.get(), identity_of(*f.what));
  if (!state) return state.why();
  f.vouched = !options_.checksum && state.value().vouches();
  // The notes are of another source, or there are none.
  if (state.value().count_here() == 0 && ::ftruncate(f.fd.get(), 0) != 0) {
    return cordma::failure::from_os(errno, "ftruncate");
  }
  f.sidecar.emplace(std::move(state).value());
  return {};
}

}  // namespace copy

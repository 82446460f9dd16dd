// Small files: many in one slot, and up to hundreds in flight with io_uring.
#include "../../support/op_ring.hpp"
#include "outgoing.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::task;

void sender::add_small(bundle& b, std::uint32_t file) {
  small_file s;
  s.file = file;
  s.bytes = static_cast<std::uint32_t>(entries_[file].size);
  s.source = std::make_shared<outgoing>(*this);
  b.push_back(std::move(s));
}

task<void> sender::start_bundle(bundle b) {
  if (b.empty()) co_return;
  std::uint64_t bytes = 0;
  for (const small_file& s : b) bytes += s.bytes;
  co_await pace(bytes);
  const place to = co_await free_place();
  const cordma::Slice buffer = co_await free_buffer();
  scope_->spawn(send_bundle(std::move(b), to, buffer));
}

// Opens all files of the bundle. A file that cannot be opened gets an error.
task<void> sender::open_all(bundle* b) {
  static constexpr open_how usual{.flags = scanner::open_flags, .mode = 0, .resolve = 0};
  static constexpr open_how following{
      .flags = scanner::open_flags & ~O_NOFOLLOW, .mode = 0, .resolve = 0};
  const open_how& how = sources_.follows() ? following : usual;
  // Directories stay open until the files in them are open.
  std::vector<cordma::unique_fd> directories;
  std::string_view parent;
  std::uint32_t origin = 0;
  support::op_ring<file_operation> opening(static_cast<std::uint32_t>(b->size()));
  for (small_file& s : *b) {
    const entry& e = entries_[s.file];
    const scanner::position at = sources_.find(e);
    if (at.directory < 0) {
      s.error = -at.directory;
      continue;
    }
    const std::string_view above(e.path.data(), at.name);
    if (directories.empty() || above != parent || e.origin != origin) {
      const int held = ::fcntl(at.directory, F_DUPFD_CLOEXEC, 0);
      if (held < 0) {
        s.error = errno;
        continue;
      }
      directories.emplace_back(held);
      parent = above;
      origin = e.origin;
    }
    const int directory = directories.back().get();
    opening.start([&] { return files_.open(directory, at.name, how); });
  }
  for (small_file& s : *b) {
    if (s.error != 0) continue;
    file_operation& oldest = opening.oldest();
    const cordma::result<int> opened = co_await oldest.result();
    opening.pop();
    if (opened) {
      s.source->fd.reset(opened.value());
    } else {
      s.error = opened.why().os_errno();
    }
  }
}

// Returns 0, an errno, or ESTALE if the file is not as it was when it was listed. One check after
// the read is enough: a file that is unchanged then was unchanged during the read.
int sender::error_of(const small_file& s, const cordma::result<int>& got) const noexcept {
  struct stat now{};
  if (::fstat(s.source->fd.get(), &now) != 0) return errno;
  if (!S_ISREG(now.st_mode)) return ENOENT;
  if (!got) return got.why().os_errno();
  const bool all = static_cast<std::uint32_t>(got.value()) == s.bytes;
  return all && is_as_found(entries_[s.file], now) ? 0 : ESTALE;
}

// Reads each file directly behind the one before it, and closes it.
task<void> sender::read_all(bundle* b, std::span<std::byte> into) {
  support::op_ring<file_operation> reading(static_cast<std::uint32_t>(b->size()));
  std::size_t at = 0;
  for (const small_file& s : *b) {
    const std::span<std::byte> room = into.subspan(at, s.bytes);
    if (s.error == 0) reading.start([&] { return files_.read(s.source->fd.get(), room, 0); });
    at += s.bytes;
  }
  for (small_file& s : *b) {
    if (s.error == 0) {
      file_operation& oldest = reading.oldest();
      const cordma::result<int> got = co_await oldest.result();
      reading.pop();
      s.error = error_of(s, got);
    }
    s.source.reset();
  }
}

task<void> sender::send_bundle(bundle b, place to, cordma::Slice buffer) {
  co_await open_all(&b);
  const std::span<std::byte> room = buffer.bytes();
  co_await read_all(&b, room);
  // Files that could not be read leave no gap.
  bundle_frame frame;
  frame.slot = to.slot;
  std::size_t from = 0;
  std::size_t end = 0;
  for (const small_file& s : b) {
    if (s.error == 0) {
      const std::span<std::byte> bytes = buffer.bytes();
      if (from != end) std::memmove(bytes.data() + end, bytes.data() + from, s.bytes);
      frame.files.push_back({s.file, s.bytes});
      answered(s.file);
      sent_.add(s.file, 0, s.bytes);
      end += s.bytes;
    } else {
      const bool changed = s.error == ESTALE;
      const auto how = changed             ? file_end::how::changed
                       : s.error == ENOENT ? file_end::how::vanished
                                           : file_end::how::failed;
      end_file(s.file, how, changed ? changed_meanwhile : std::strerror(s.error));
    }
    from += s.bytes;
  }
  const cordma::Slice part = buffer.first(end);
  frame.digest = digest_of(part.bytes());
  lane& l = *lanes_[to.lane];
  slot_write written = put(to, part);
  encode(l.out(), frame);
  l.kick();
  progress_.bytes_moved += end;
  progress_.bytes_done += end;
  progress_.files_done += frame.files.size();
  co_await written.done();
  give_back(buffer);
}

}  // namespace copy

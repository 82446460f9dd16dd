// Holes in the files of the receiver: those of the source, and with --sparse those for zeros.
#include "../files/zeros.hpp"
#include "incoming.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>

namespace copy {

using cordma::task;

// Returns 0, or errno.
task<int> receiver::write_bytes(std::shared_ptr<incoming> f, std::span<const std::byte> bytes,
                                std::uint64_t offset) {
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const stretch next =
        options_.sparse ? first_stretch(bytes) : stretch{bytes.size(), stretch::of::data};
    const std::span<const std::byte> part = bytes.first(next.bytes);
    if (next.what == stretch::of::zeros) {
      error = co_await write_hole(f, offset, next.bytes);
    } else {
      error = co_await write_data(f, part, offset);
    }
    bytes = bytes.subspan(next.bytes);
    offset += next.bytes;
  }
  co_return error;
}

task<int> receiver::write_data(std::shared_ptr<incoming> f, std::span<const std::byte> bytes,
                               std::uint64_t offset) {
  if (f->direct.takes(bytes, offset)) {
    const int error = co_await write_whole(f->direct.get(), bytes, offset);
    if (error != EINVAL) co_return error;
    f->direct.give_up();
  }
  const int error = co_await write_whole(f->fd.get(), bytes, offset);
  co_return error;
}

// Does nothing beyond the previous end of the file. Writes zeros if the file system has no holes.
task<int> receiver::write_hole(std::shared_ptr<incoming> f, std::uint64_t offset,
                               std::uint64_t bytes) {
  static constexpr std::array<std::byte, smallest_chunk> zeros{};
  if (offset >= f->bytes_here) co_return 0;
  constexpr int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  file_operation punching = files_.allocate(f->fd.get(), how, offset, bytes);
  const cordma::result<int> punched = co_await punching.result();
  if (punched) co_return 0;
  const int why = punched.why().os_errno();
  if (why != EOPNOTSUPP && why != ENOSYS) co_return why;
  std::uint64_t left = std::min(bytes, f->bytes_here - offset);
  int error = 0;
  while (left != 0 && error == 0) {
    const std::span<const std::byte> some =
        std::span(zeros).first(std::min<std::uint64_t>(left, zeros.size()));
    error = co_await write_whole(f->fd.get(), some, offset);
    left -= some.size();
    offset += some.size();
  }
  co_return error;
}

}  // namespace copy

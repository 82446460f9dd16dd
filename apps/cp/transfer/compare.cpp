// --checksum: compares files of the same length. The receiver sends the digest of its file, and the
// sender reports whether its file has this digest.
#include "incoming.hpp"
#include "sender.hpp"

#include <cerrno>

#include <fcntl.h>

namespace copy {

using cordma::task;

task<void> receiver::compare(std::uint32_t number) {
  co_await comparing_.acquire();
  const entry& e = *compared_.at(number).what;
  compare_frame mine;
  mine.file = number;
  int error = 0;
  auto work = [&](std::size_t thread, const std::atomic<bool>& canceled) noexcept {
    const cordma::result<void> have = view_of(thread);
    const cordma::result<cordma::unique_fd> fd =
        have ? targets_[thread]->open_file(e.path) : cordma::result<cordma::unique_fd>(have.why());
    error = fd ? digest_of_file(fd.value().get(), mine.digest, canceled) : EIO;
  };
  crew_job reading = crew_.run(work);
  co_await reading;
  comparing_.release();
  if (error == ECANCELED) co_return;
  if (error == 0) {
    encode(lanes_.front()->out(), mine);
  } else if (const auto found = compared_.find(number); found != compared_.end()) {
    const struct stat now = found->second.now;
    compared_.erase(found);
    want_file(number, e, item::change::updated, &now);  // an unreadable file counts as different
    finish_if_due();
  }
  lanes_.front()->kick();
}

void receiver::take_compared(const compared_frame& c) {
  const auto found = compared_.find(c.file);
  if (found == compared_.end()) refuse(frame_kind::compared, "a file that was not asked about");
  const entry& e = *found->second.what;
  const struct stat now = found->second.now;
  compared_.erase(found);
  if (c.same) {
    keep_same(e, now);
  } else {
    want_file(c.file, e, item::change::updated, &now);
  }
  lanes_.front()->kick();
  finish_if_due();
}

// Each file is open during its comparison, so their number is limited.
task<void> sender::start_compare(std::uint32_t file, file_digest theirs) {
  co_await comparing_.acquire();
  cordma::unique_fd fd(sources_.open(entries_[file], 0));
  scope_->spawn(compare(file, std::move(fd), theirs));
}

// A file that cannot be read counts as different. The error is reported when the receiver wants the
// file.
task<void> sender::compare(std::uint32_t file, cordma::unique_fd fd, file_digest theirs) {
  file_digest mine;
  int error = EBADF;
  auto work = [&](std::size_t, const std::atomic<bool>& canceled) noexcept {
    if (fd) error = digest_of_file(fd.get(), mine, canceled);
  };
  crew_job reading = crew_.run(work);
  co_await reading;
  comparing_.release();
  encode(lanes_.front()->out(), compared_frame{file, error == 0 && mine == theirs});
  lanes_.front()->kick();
}

}  // namespace copy

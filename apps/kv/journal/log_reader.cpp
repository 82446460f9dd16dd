#include "log_reader.hpp"

#include "../files/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>

namespace kv {
namespace {

constexpr std::size_t read_bytes = std::size_t{1} << 20;
// A maliciously made file could have an apparent record at every byte: after checksums over this
// many bytes the rest is treated as if it contained records.
constexpr std::uint64_t most_examined = std::uint64_t{4} << 30;

}  // namespace

cordma::result<log_reader> log_reader::open(const std::string& path) {
  cordma::unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return cordma::failure::from_os(errno, {"opening ", path});
  return of(std::move(fd), path);
}

cordma::result<log_reader> log_reader::of(cordma::unique_fd fd, std::string path) {
  log_reader made;
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return cordma::failure::from_os(errno, {"reading ", path});
  made.fd_ = std::move(fd);
  made.path_ = std::move(path);
  made.size_ = static_cast<std::uint64_t>(status.st_size);
  const auto there =
      static_cast<std::size_t>(std::min<std::uint64_t>(made.size_, log_header_bytes));
  if (!made.have(0, there)) return cordma::failure::from_os(errno, {"reading ", made.path_});
  const cordma::result<log_header> header = decode_log_header({made.window(0), there});
  if (!header) {
    return cordma::failure(header.code(), made.path_ + " " + header.why().message());
  }
  made.header_ = *header;
  made.offset_ = log_header_bytes;
  // Records of a base are counted from 1: its `first` refers to the increment that follows.
  made.sequence_ = made.header_.kind == log_kind::increment ? made.header_.first - 1 : 0;
  return made;
}

bool log_reader::have(std::uint64_t at, std::size_t bytes) {
  if (at >= window_at_ && at + bytes <= window_at_ + window_.size()) return true;
  std::size_t kept = 0;
  if (at >= window_at_ && at < window_at_ + window_.size()) {
    const auto skipped = static_cast<std::size_t>(at - window_at_);
    kept = window_.size() - skipped;
    std::memmove(window_.data(), window_.data() + skipped, kept);
  }
  window_at_ = at;
  const auto wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(std::max(bytes, read_bytes), size_ - at));
  window_.resize(std::max(wanted, kept));
  const std::ptrdiff_t n = read_fully(fd_.get(), std::span(window_).subspan(kept), at + kept);
  window_.resize(kept + static_cast<std::size_t>(std::max<std::ptrdiff_t>(n, 0)));
  if (n >= 0 && window_.size() >= bytes) return true;
  if (n >= 0) errno = EIO;  // the file has become shorter
  failed_ = true;
  return false;
}

log_reader::outcome log_reader::next() {
  if (final_ != outcome::record) return final_;
  const std::uint64_t left = size_ - offset_;
  if (left == 0) return final_ = outcome::end;
  if (left < record_header_bytes) {
    return judge_rest("the file ends within the head of a record");
  }
  if (!have(offset_, record_header_bytes)) return judge_rest("");
  const record_header head = decode_record_header(window(offset_));
  if (head.length == 0 || head.length > max_record_bytes) {
    return judge_rest("a record of " + std::to_string(head.length) + " bytes cannot be");
  }
  if (head.length > left - record_header_bytes) {
    return judge_rest("a record of " + std::to_string(head.length) +
                      " bytes goes beyond the file's end");
  }
  if (!whole(offset_, sequence_ + 1, sequence_ + 1)) {
    return judge_rest(head.sequence == sequence_ + 1
                          ? "the checksum of a record is wrong"
                          : "record " + std::to_string(sequence_ + 1) + " should be here, not " +
                                std::to_string(head.sequence));
  }
  changes_ = {window(offset_) + record_header_bytes, head.length};
  sequence_ = head.sequence;
  offset_ += record_header_bytes + head.length;
  return outcome::record;
}

bool log_reader::whole(std::uint64_t at, std::uint64_t lowest, std::uint64_t highest) {
  if (size_ - at < record_header_bytes || !have(at, record_header_bytes)) return false;
  const record_header head = decode_record_header(window(at));
  if (head.length == 0 || head.length > max_record_bytes ||
      head.length > size_ - at - record_header_bytes || head.sequence < lowest ||
      head.sequence > highest || !have(at, record_header_bytes + head.length)) {
    return false;
  }
  const std::string_view body(window(at) + record_header_bytes, head.length);
  examined_ += head.length;
  return record_crc(crc_more(crc_begin, body), head.length, header_.salt, head.sequence) ==
         head.crc;
}

log_reader::outcome log_reader::judge_rest(std::string why) {
  changes_ = {};
  why_ = std::move(why);
  examined_ = 0;
  const bool behind = !failed_ && find_record() != size_;
  if (failed_) {
    why_ = std::strerror(errno);
    return final_ = outcome::unreadable;
  }
  return final_ = behind ? outcome::broken : outcome::torn;
}

std::uint64_t log_reader::find_record() {
  const std::uint64_t rest = size_ - offset_;
  const std::uint64_t most_records = rest / (record_header_bytes + 1) + 1;
  for (std::uint64_t at = offset_; at + record_header_bytes < size_; ++at) {
    if (whole(at, sequence_ + 1, sequence_ + most_records)) return at;
    if (failed_) return size_;
    if (examined_ > most_examined) return at;
  }
  return size_;
}

}  // namespace kv

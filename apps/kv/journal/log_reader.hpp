// log_reader: the records of a file, one after the other, whatever the file holds.
#pragma once

#include "record.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <string>
#include <vector>

namespace kv {

// Not thread-safe. Memory: a megabyte, or the largest record.
class log_reader {
 public:
  // Reads the header. Errors: the system's, with errno; invalid_value: it is no such file, and why, with its name.
  [[nodiscard]] static cordma::result<log_reader> open(const std::string& path);
  // As open(), of a file that is open already and called so.
  [[nodiscard]] static cordma::result<log_reader> of(cordma::unique_fd fd, std::string path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const log_header& header() const noexcept { return header_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  enum class outcome : std::uint8_t {
    record,      // changes() and sequence() say which
    end,         // of the file
    torn,        // what is left is no record, and nothing behind it is one
    broken,      // what is left is no record, and there are records behind it
    unreadable,  // the system failed: why()
  };
  // After anything but `record`, always the same.
  [[nodiscard]] outcome next();
  // Valid until next().
  [[nodiscard]] std::string_view changes() const noexcept { return changes_; }
  // Of the record read last; before the first, the one before it.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  // Where the records read so far end.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  // For torn, broken and unreadable: what is wrong at offset(), and after `unreadable` the errno.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  log_reader() = default;
  // At least `bytes` from `at` on are in the window. False: they cannot be read.
  [[nodiscard]] bool have(std::uint64_t at, std::size_t bytes);
  [[nodiscard]] const char* window(std::uint64_t at) const noexcept {
    return window_.data() + (at - window_at_);
  }
  // Whether what is at `at` is a record, whose sequence is in that range.
  [[nodiscard]] bool whole(std::uint64_t at, std::uint64_t lowest, std::uint64_t highest);
  [[nodiscard]] outcome judge_rest(std::string why);
  // Where a record begins in the rest; the file's size: nowhere.
  [[nodiscard]] std::uint64_t find_record();

  cordma::unique_fd fd_;
  std::string path_;
  log_header header_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t sequence_ = 0;
  std::string_view changes_;
  std::vector<char> window_;  // what is at window_at_ in the file
  std::uint64_t window_at_ = 0;
  std::uint64_t examined_ = 0;  // bytes that find_record() made checksums of
  bool failed_ = false;
  outcome final_ = outcome::record;
  std::string why_;
};

}  // namespace kv

// log_reader: reads the records of a file in order, and accepts any content.
#pragma once

#include "record.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <string>
#include <vector>

namespace kv {

// Not thread-safe. Memory: one megabyte, or the size of the largest record.
class log_reader {
 public:
  // Reads the header. Errors: the system's, with errno; invalid_value, with the name and the
  // reason, if it is no such file.
  [[nodiscard]] static cordma::result<log_reader> open(const std::string& path);
  // Like open(), for an open file with this name.
  [[nodiscard]] static cordma::result<log_reader> of(cordma::unique_fd fd, std::string path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const log_header& header() const noexcept { return header_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  enum class outcome : std::uint8_t {
    record,      // see changes() and sequence()
    end,         // end of the file
    torn,        // the rest is no record, and no record follows in it
    broken,      // the rest is no record, but records follow in it
    unreadable,  // a system call failed: why()
  };
  // Once it has returned anything other than `record`, it always returns the same.
  [[nodiscard]] outcome next();
  // Valid until next().
  [[nodiscard]] std::string_view changes() const noexcept { return changes_; }
  // Number of the last record read; before the first call, the number before the first record's.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  // End of the records read so far.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  // For torn, broken and unreadable: the fault at offset(); for `unreadable` also the errno.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  log_reader() = default;
  // Reads at least `bytes` from `at` on into the window. False: they cannot be read.
  [[nodiscard]] bool have(std::uint64_t at, std::size_t bytes);
  [[nodiscard]] const char* window(std::uint64_t at) const noexcept {
    return window_.data() + (at - window_at_);
  }
  // True if a record with a sequence in that range begins at `at`.
  [[nodiscard]] bool whole(std::uint64_t at, std::uint64_t lowest, std::uint64_t highest);
  [[nodiscard]] outcome judge_rest(std::string why);
  // Offset of the next record in the rest; the file's size if there is none.
  [[nodiscard]] std::uint64_t find_record();

  cordma::unique_fd fd_;
  std::string path_;
  log_header header_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t sequence_ = 0;
  std::string_view changes_;
  std::vector<char> window_;  // bytes of the file from window_at_ on
  std::uint64_t window_at_ = 0;
  std::uint64_t examined_ = 0;  // bytes that find_record() has computed checksums of
  bool failed_ = false;
  outcome final_ = outcome::record;
  std::string why_;
};

}  // namespace kv

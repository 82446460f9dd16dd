// A directory tree as a list of entries: found, written, and compared.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace demo {

enum class entry_kind : std::uint8_t { directory = 1, file = 2, link = 3 };

struct entry {
  entry_kind kind = entry_kind::file;
  std::uint32_t mode = 0;        // permission bits
  std::uint64_t size = 0;        // bytes; 0 unless it is a file
  std::int64_t modified_ns = 0;  // when; stays with who looked
  std::string path;              // relative to the root, '/' between the parts
  std::string target;            // of a link
};

// Whether a file is what it was when it became this entry, by size and time.
[[nodiscard]] bool is_as_found(const entry& e, const struct stat& s) noexcept;

// What is no file, directory or link, and what cannot be read; of a directory, with all that is in it.
struct omission {
  std::string path;  // as of an entry
  std::string why;
};

struct scanned {
  std::vector<entry> entries;  // a directory stands before what is in it
  std::uint64_t bytes = 0;     // of all files together
  std::vector<omission> left_out;
};
// Throws std::runtime_error where `root` itself cannot be read.
[[nodiscard]] scanned scan(const std::filesystem::path& root);

// Relative, without "." or "..", without an empty part: it cannot lead out of where it is put.
[[nodiscard]] bool stays_inside(const std::string& path) noexcept;

// Differences between two trees in kind, permissions, size, contents or target, one sentence each;
// at most `most` are looked for. Only what `entries` names is looked at.
[[nodiscard]] std::vector<std::string> differences(const std::filesystem::path& left,
                                                   const std::filesystem::path& right,
                                                   const std::vector<entry>& entries,
                                                   std::size_t most);

// What is in the tree at `root` and neither in `entries` nor below something in `left_out`, one
// sentence each, at most `most`; what is in a directory that is named is not. Throws
// std::runtime_error where `root` itself cannot be read.
[[nodiscard]] std::vector<std::string> strangers(const std::filesystem::path& root,
                                                 const std::vector<entry>& entries,
                                                 const std::vector<omission>& left_out,
                                                 std::size_t most);

// Writes entries in order, as their contents arrive as one stream of bytes. Links come last, and
// permissions of directories after what is in them.
class tree_writer {
 public:
  // `root` is made; throws std::runtime_error where it exists and is not empty.
  tree_writer(std::filesystem::path root, const std::vector<entry>& entries);
  tree_writer(const tree_writer&) = delete;
  tree_writer& operator=(const tree_writer&) = delete;

  // The next bytes of the stream. Throws std::runtime_error where they cannot be written, or where
  // they are more than the entries have.
  void write(const void* data, std::size_t bytes);
  // After the last byte. Throws where some are missing.
  void finish();

 private:
  void open_next();
  void close_current();

  std::filesystem::path root_;
  const std::vector<entry>& entries_;
  std::size_t next_ = 0;
  cordma::unique_fd fd_;
  std::uint64_t left_ = 0;  // bytes of the current file
};

}  // namespace demo

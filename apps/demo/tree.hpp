// A directory tree as a list of entries: scanned, written and compared.
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
  std::int64_t modified_ns = 0;  // modification time; not sent
  std::string path;              // relative to the root, with '/' between the parts
  std::string target;            // of a link
};

// True if the size and the time of the file still match the entry.
[[nodiscard]] bool is_as_found(const entry& e, const struct stat& s) noexcept;

// A path that is no file, directory or link, or that cannot be read; a directory stands for all its
// content.
struct omission {
  std::string path;  // as in an entry
  std::string why;
};

struct scanned {
  std::vector<entry> entries;  // a directory precedes its content
  std::uint64_t bytes = 0;     // total size of all files
  std::vector<omission> left_out;
};
// Throws std::runtime_error if `root` itself cannot be read.
[[nodiscard]] scanned scan(const std::filesystem::path& root);

// True if the path is relative, without "." or "..", and without an empty part: it cannot lead out
// of its root.
[[nodiscard]] bool stays_inside(const std::string& path) noexcept;

// Returns differences between two trees in kind, permissions, size, content or target, one sentence
// each, at most `most`. Only paths in `entries` are compared.
[[nodiscard]] std::vector<std::string> differences(const std::filesystem::path& left,
                                                   const std::filesystem::path& right,
                                                   const std::vector<entry>& entries,
                                                   std::size_t most);

// Returns the paths under `root` that are neither in `entries` nor below a path in `left_out`, one
// sentence each, at most `most`. The content of a reported directory is not reported. Throws
// std::runtime_error if `root` itself cannot be read.
[[nodiscard]] std::vector<std::string> strangers(const std::filesystem::path& root,
                                                 const std::vector<entry>& entries,
                                                 const std::vector<omission>& left_out,
                                                 std::size_t most);

// Writes entries in order, while their content arrives as one stream of bytes. Links are created
// last, and permissions of directories are set after their content was written.
class tree_writer {
 public:
  // Creates `root`. Throws std::runtime_error if it exists and is not empty.
  tree_writer(std::filesystem::path root, const std::vector<entry>& entries);
  tree_writer(const tree_writer&) = delete;
  tree_writer& operator=(const tree_writer&) = delete;

  // Writes the next bytes of the stream. Throws std::runtime_error if they cannot be written, or if
  // they exceed the total size of the entries.
  void write(const void* data, std::size_t bytes);
  // Call it after the last byte. Throws if bytes are missing.
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

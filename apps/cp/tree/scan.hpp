// Walks the sources and lists the entries to send, in order.
#pragma once

#include "entry.hpp"
#include "filter.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

namespace copy {

struct scan_options {
  bool recursive = false;   // without: directories are left out, with a problem
  bool links = false;       // sent as symlinks; without: left out, with a problem
  bool hard_links = false;  // further names of files other than directories become hard_link
  bool devices = false;     // without: left out, with a problem
  bool specials = false;    // FIFOs and sockets; without: left out, with a problem
  bool attributes = false;  // extended attributes, including ACLs
  bool one_file_system =
      false;  // a mount point below a source is sent as an empty directory, with a problem
  // Follows all symlinks, except one to a directory that contains it.
  bool follow = false;
};

// Either the entry itself, with its last name, or, with `contents`, the contents of a directory,
// with the path ".". A path that ends with '/', "." or ".." always denotes contents. Only in this
// case a symlink as the last name is followed; symlinks in its parents are always followed.
struct source {
  std::string path;
  bool contents = false;
  bool is_stream = false;   // standard input; named "stdin" until it is renamed
  std::string called = "";  // user's name of it, for messages; empty: as `path`
  // Sends only this entry of the contents, with the directories above it: "a/b" is sent as a, and
  // a/b. The sources of a scanner are distinct. In byte order an entry below another follows it,
  // and has been sent with it if that one was sent with all its contents. ".": nothing, if it
  // exists. Empty: all.
  std::string listed = "";
};

// Walks through open directories: a name that is exchanged meanwhile leads nowhere else, and
// symlinks below a source are not followed, unless requested. Calls block as long as the file
// system does: for at most `most` entries, and for all names of each visited directory. Keeps a few
// dozen descriptors at any depth of the tree, and one for each directory that contains sources.
// Used by one thread; while it is in next(), another thread may use the other functions for entries
// found before.
class scanner {
 public:
  // A source that cannot be examined becomes a problem, with its path as given. REQUIRES: `chosen`
  // outlives the scanner.
  scanner(std::vector<source> sources, const filter& chosen, const scan_options& options);
  scanner(const scanner&) = delete;
  scanner& operator=(const scanner&) = delete;
  ~scanner();

  // Appends at most `most` entries; it may append fewer, or none, to let the caller do other work.
  // Returns false at the end. The order is: sources in their order; a directory before its
  // contents; names in byte order, each directory with all its contents before the next name. No
  // path is listed twice, unless the trees change meanwhile. The contents of directories of the
  // same name in several sources are merged, and a directory takes precedence over other kinds. Any
  // other entry that an earlier source has is left out, with a problem if it is not the same file.
  bool next(std::size_t most, std::vector<entry>& into);
  // Returns the problems since the last call.
  [[nodiscard]] std::vector<problem> take_problems();

  // O_NONBLOCK: opening a FIFO that replaced a file would block. O_NOCTTY: a terminal would become
  // the controlling terminal of this process.
  static constexpr int open_flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // True if it follows symlinks; files are then opened without O_NOFOLLOW.
  [[nodiscard]] bool follows() const noexcept;
  // Opens a listed file or directory for reading, without following a symlink below its source,
  // unless requested. The caller owns the descriptor. Returns a negative errno on failure; also
  // -ENOENT if it is no longer a file. `now` receives its present attributes. REQUIRES: this
  // scanner found it.
  [[nodiscard]] int open(const entry& found, int extra_flags,
                         struct stat* now = nullptr) const noexcept;
  // Returns the directory of an entry and its name there, which points into `found`, for other ways
  // to open it. The caller uses open_flags, with O_NONBLOCK against a FIFO in its place.
  // `directory` stays open until find() or open() has used `directories_kept` other directories; it
  // is a negative errno if it no longer exists.
  static constexpr std::size_t directories_kept = 32;
  struct position {
    int directory = -1;
    const char* name = nullptr;
  };
  [[nodiscard]] position find(const entry& found) const;

 private:
  class state;
  std::unique_ptr<state> state_;
};

}  // namespace copy

// The sources, walked: what is to be sent, in order.
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
  bool recursive = false;   // without: directories are left out, with a problem that says so
  bool links = false;       // symlinks as such; without: left out, with a problem
  bool hard_links = false;  // further names of what is no directory become hard_link
  bool devices = false;     // without: left out, with a problem
  bool specials = false;    // FIFOs and sockets, likewise
  bool attributes = false;  // extended attributes, ACLs among them
  bool one_file_system =
      false;  // what is mounted below a source is an empty directory, and a problem says so
  // Symlinks are what they lead to, wherever that is, save a directory that they are in.
  bool follow = false;
};

// What is sent of a source: itself, by its last name, or, where `contents`, what is in it: then its path is ".". A
// path that ends with '/', "." or ".." is contents in any case, and only then is a symlink followed that is the source;
// on the way to it they are.
struct source {
  std::string path;
  bool contents = false;
  bool is_stream = false;   // standard input: "stdin", until it is called otherwise
  std::string called = "";  // by its user, in what is said of it; empty: as `path`
  // Of the contents this alone, with the directories that lead to it: "a/b" is sent as a, and a/b. No source of a scanner
  // comes twice; in the order of their bytes what is below another comes after it, and has come with it where that has all
  // that is in it. ".": nothing, if it is there. Empty: all.
  std::string listed = "";
};

// Walks with what it has open: a name that is exchanged meanwhile leads nowhere else, and no symlink below a source is
// followed, unless that was asked for. Blocks, for as long as the file system does: for at most `most` entries, and for all names of each
// directory that is come to. Keeps a few dozen descriptors however deep the tree, and one for each directory that
// sources are in. Used by one thread; while next() goes on by another, which may be as well, for what it has found before.
class scanner {
 public:
  // Sources that cannot be looked at become problems, under the path they were given by. `filter` outlives it.
  scanner(std::vector<source> sources, const filter& chosen, const scan_options& options);
  scanner(const scanner&) = delete;
  scanner& operator=(const scanner&) = delete;
  ~scanner();

  // Appends at most `most` entries, or less, even none, for that the caller may look up. False: there are no more.
  // Sources in their order; a directory, then what is in it, its names in the order of their bytes, each directory among them with all that is in it before the next name.
  // No path comes twice, unless the trees change meanwhile: of sources with a directory of the same name its contents
  // are merged, which prevail over what is none; what else another source had before is left out, with a problem where it is not the same file.
  bool next(std::size_t most, std::vector<entry>& into);
  // Since the last call.
  [[nodiscard]] std::vector<problem> take_problems();

  // A FIFO in a file's place would let nobody go on, and a terminal would become this process's own.
  static constexpr int open_flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // Whether it follows symlinks: what it opens it opens without O_NOFOLLOW then.
  [[nodiscard]] bool follows() const noexcept;
  // Opens a file or directory that was found, for reading, without following a symlink anywhere below its source, unless
  // that was asked for. The
  // descriptor is the caller's. Negative errno where that fails; -ENOENT, too, where it is no file any more. `now` becomes
  // how it is. REQUIRES that this scanner found it.
  [[nodiscard]] int open(const entry& found, int extra_flags,
                         struct stat* now = nullptr) const noexcept;
  // For opening it in another way: its directory, and its name there, which points into `found`. The caller opens with
  // open_flags, which have O_NONBLOCK against a FIFO in its place. `directory` stays open until so many other
  // directories were asked for, by find() or open(); it is a negative errno where there is none any more.
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

// The sources, walked: what is to be sent, in order.
#pragma once

#include "entry.hpp"
#include "filter.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace copy {

struct scan_options {
  bool recursive = false;   // without: directories are left out, with a problem that says so
  bool links = false;       // symlinks as such; without: left out
  bool hard_links = false;  // further names of one file become hard_link
  bool attributes = false;  // extended attributes, ACLs among them
};

// What is sent of a source: itself, by its last name, or, where `contents`, what is in it: then its path is ".".
struct source {
  std::string path;
  bool contents = false;
};

// Walks with what it has open: a name that is exchanged meanwhile leads nowhere else. Blocks, for as long as the
// file system does; `most` bounds it.
class scanner {
 public:
  // Sources that cannot be looked at become problems. `filter` outlives it.
  scanner(std::vector<source> sources, const filter& chosen, const scan_options& options);
  scanner(const scanner&) = delete;
  scanner& operator=(const scanner&) = delete;
  ~scanner();

  // Appends at most `most` entries: a directory before what is in it; names of one directory in their byte order;
  // directories' contents behind all its other entries' order as they come. False: there are no more.
  bool next(std::size_t most, std::vector<entry>& into);
  // Since the last call.
  [[nodiscard]] std::vector<problem> take_problems();

  // Opens a file that was found, for reading, without following a symlink anywhere below its source. Negative
  // errno where that fails.
  [[nodiscard]] int open(const entry& found, int extra_flags) const noexcept;
  // For opening it in another way: the directory descriptor and the path from there. Valid while this lives.
  struct position {
    int directory = -1;
    std::string path;
  };
  [[nodiscard]] position find(const entry& found) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace copy

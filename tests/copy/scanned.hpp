// A scan, from its beginning to its end.
#pragma once

#include "../../apps/cp/tree/scan.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace copy::test {

inline constexpr scan_options recursive = {.recursive = true, .links = true};

// The scan of some sources with one filter; `all()` walks to the end.
class scanned {
 public:
  explicit scanned(std::vector<source> sources, const scan_options& options = recursive,
                   filter chosen = {})
      : chosen_(std::move(chosen)), walk_(std::move(sources), chosen_, options) {}

  [[nodiscard]] scanner& walk() noexcept { return walk_; }
  // Scans until this number of entries has been found in total. Returns false if there are no more.
  bool until(std::size_t entries) {
    bool more = true;
    while (more && found.size() < entries) more = walk_.next(entries - found.size(), found);
    take();
    return more;
  }
  scanned& all(std::size_t at_once = 100) {
    while (walk_.next(at_once, found)) {}
    take();
    return *this;
  }

  // Returns the paths, one per line; directories end with '/'.
  [[nodiscard]] std::string paths() const {
    std::string text;
    for (const entry& e : found) {
      text += e.path + (e.kind == entry_kind::directory ? "/\n" : "\n");
    }
    return text;
  }
  // Returns the entry, or nullptr if it was not found.
  [[nodiscard]] const entry* at(std::string_view path) const {
    const auto e =
        std::find_if(found.begin(), found.end(), [&](const entry& f) { return f.path == path; });
    return e == found.end() ? nullptr : &*e;
  }
  // Returns the problems, such as "left out a: is a FIFO\n".
  [[nodiscard]] std::string said() const {
    std::string text;
    for (const problem& p : problems) {
      text += p.what == problem::kind::left_out ? "left out "
              : p.what == problem::kind::failed ? "failed "
                                                : "vanished ";
      text += p.path + ": " + p.why + '\n';
    }
    return text;
  }

  std::vector<entry> found;
  std::vector<problem> problems;

 private:
  void take() {
    for (problem& p : walk_.take_problems()) problems.push_back(std::move(p));
  }
  filter chosen_;
  scanner walk_;
};

// A source that stands for the contents of a directory.
[[nodiscard]] inline source contents(std::string path) {
  return {.path = std::move(path), .contents = true};
}

[[nodiscard]] inline filter without(std::initializer_list<const char*> patterns) {
  filter f;
  for (const char* pattern : patterns) f.add(filter::decision::exclude, pattern);
  return f;
}

}  // namespace copy::test

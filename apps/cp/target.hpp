// The directory that is written to. Nothing that a peer says leads out of it.
#pragma once

#include "entry.hpp"

#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace copy {

// What is kept of an entry beside its contents.
struct keep_options {
  bool mode = false;  // without: as the umask has it, as with cp
  bool times = false;
  bool owner = false;  // as far as this process may; else a problem
  bool group = false;
  bool attributes = false;
};

// Names relative to a directory that is open, each resolved beneath it without following symlinks
// (openat2: RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS); a symlink in the place of a directory of
// the path is an error (ELOOP), whoever put it there. REQUIRES stays_inside() of every path. Errors: operating_system
// with errno, and the path.
class target {
 public:
  // `root` is opened, which may be a symlink itself. With `make`: created, with its parents, where it is missing.
  enum class missing : unsigned char { is_error, is_made };
  [[nodiscard]] static cordma::result<target> open(const std::string& root, missing m);
  target(target&&) noexcept;
  target& operator=(target&&) noexcept;
  ~target();

  // The directory in which `path` has its last name, open as long as this lives and until the next call with another
  // parent; the most recent few are kept.
  struct position {
    int directory = -1;
    const char* name = nullptr;  // points into `path`
  };
  [[nodiscard]] cordma::result<position> find(const std::string& path);

  // Nothing: it is not there.
  [[nodiscard]] cordma::result<std::optional<struct stat>> look(const std::string& path);
  // Fine where it exists already; what else is in its place is removed first, if it is no directory with
  // something in it.
  [[nodiscard]] cordma::result<void> make_directory(const std::string& path);
  // Made beside it, and renamed: whatever is there is replaced at once.
  [[nodiscard]] cordma::result<void> make_symlink(const std::string& path, const std::string& text);
  [[nodiscard]] cordma::result<void> make_hard_link(const std::string& path, const std::string& to);

  // The name under which `path` is written until it is whole: ".NAME.cordma-part", shortened where NAME is long, in
  // the same directory.
  [[nodiscard]] static std::string part_name(const std::string& path);
  [[nodiscard]] cordma::result<cordma::unique_fd> open_part(const std::string& path, int flags);
  // Takes the place of what is at `path`, atomically. A directory there is EISDIR, unless it is empty.
  [[nodiscard]] cordma::result<void> publish(const std::string& path);
  [[nodiscard]] cordma::result<void> drop_part(const std::string& path) noexcept;

  // Files by descriptor, everything else by name. What could not be kept, as sentences ("owner: Operation not
  // permitted"); the rest is kept nevertheless. Times last.
  [[nodiscard]] std::vector<std::string> keep(int fd, const entry& from, const keep_options& what);
  [[nodiscard]] std::vector<std::string> keep(const std::string& path, const entry& from,
                                              const keep_options& what);

  // --delete: what is in `directory` and not among `names` goes, with all that is in it; returns the paths that went
  // (or, with `dry`, would go). Problems for what cannot be removed. Part files and sidecars of others' transfers go as well.
  enum class removal : unsigned char { dry, real };
  [[nodiscard]] std::vector<std::string> remove_others(const std::string& directory,
                                                       const std::vector<std::string_view>& names,
                                                       removal how, std::vector<problem>& problems);

 private:
  struct state;
  explicit target(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace copy

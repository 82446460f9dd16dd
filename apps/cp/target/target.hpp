// The directory that is written to. Nothing that a peer says leads out of it.
#pragma once

#include "../tree/entry.hpp"
#include "../tree/filter.hpp"

#include <cordma/runtime/result.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace copy {

// What is kept of an entry beside its contents.
struct keep_options {
  // Without: a file's as the default ACL of its directory has it, or else the umask, as with cp; a directory's as it is.
  bool mode = false;
  // It was made with the mode that it asks for, or was there before: without `mode` it keeps that.
  bool is_made = false;
  bool times = false;
  bool owner = false;  // as far as this process may; else a problem
  bool group = false;
  // As rsync has it: only root is asked for the owner, and who is in that group for it; of all else that is no problem.
  bool owner_if_may = false;
  bool group_if_may = false;
  bool attributes = false;  // what the entry has not is removed, of user.*, ACLs and capabilities
};

// One thread at a time. Names relative to a directory that is open, each resolved beneath it without following symlinks
// (openat2: RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS); a symlink in the place of a directory of
// the path is an error (ELOOP), whoever put it there; as to the last name, "there" is the symlink itself. REQUIRES
// stays_inside() of every path. Errors: what the system says, with errno, and the path. Where the kernel or its rules
// (seccomp) have no openat2, paths are walked part by part, with the same outcome.
class target {
 public:
  // `root` is opened, which may be a symlink itself. With `make`: created, with its parents, where it is missing.
  enum class missing : unsigned char { is_error, is_made };
  [[nodiscard]] static cordma::result<target> open(const std::string& root, missing m);
  // Whether it was made so.
  [[nodiscard]] bool is_new() const noexcept;
  // Another view of the same directory, for another thread.
  [[nodiscard]] cordma::result<target> clone();
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
  // A file that is there, for reading; EINVAL where it is none.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_file(const std::string& path);
  // Fine where it exists already; what is there and no directory is removed first. One that is made has of `mode`
  // what the umask leaves, and is its owner's to write in.
  [[nodiscard]] cordma::result<void> make_directory(const std::string& path,
                                                    std::uint32_t mode = 0777);
  // Made beside it, and renamed: whatever is there is replaced at once. A directory there is EISDIR, unless it is
  // empty; a text that a symlink cannot have is EINVAL.
  [[nodiscard]] cordma::result<void> make_symlink(const std::string& path, const std::string& text);
  // A FIFO, socket or device, likewise, with the mode that the umask leaves of the entry's.
  [[nodiscard]] cordma::result<void> make_special(const std::string& path, const entry& from);
  // Of what is no directory, and of a symlink itself. Fine where both are one file already.
  [[nodiscard]] cordma::result<void> make_hard_link(const std::string& path, const std::string& to);

  // The name under which `path` is written until it is whole: ".NAME.cordma-part", in the directory of find(). Where
  // NAME is long its end gives way to a hash: no two names share one. The sidecar's likewise: ".NAME.cordma-state".
  [[nodiscard]] static std::string part_name(const std::string& path);
  [[nodiscard]] static std::string state_name(const std::string& path);
  // Whether `name` is of that kind: a file of a sender's that is called so would get into the way of its neighbour.
  [[nodiscard]] static bool is_work_name(std::string_view name) noexcept;

  // The part that a transfer before this one left, as it is, or a new one, of mode 0600, without a sidecar. `flags`
  // are O_WRONLY or O_RDWR, with O_TRUNC, O_DIRECT and their like. Not taken over but removed, never followed: what is
  // no file (a directory is EISDIR, and stays), has another name too, belongs to another user, or cannot be opened so.
  // Locked (flock) as long as it is open: another transfer, or another open_part(), of the same file is EBUSY meanwhile, with a sentence that says whose
  // it is.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_part(const std::string& path, int flags);
  // The sidecar, for reading and writing; empty where there was none to take over, as above.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_state(const std::string& path);
  // --inplace: the file that is there, or a new one, for writing, and locked likewise. One that is made has of `mode` what a
  // new one gets, is its owner's to read and write, and has its name once `begin_new` has succeeded with it. What is there
  // and no file is EEXIST, and stays: nothing is written to a device or FIFO, nor where a symlink leads.
  using beginning = std::function<cordma::result<void>(int fd)>;
  struct opened {
    cordma::unique_fd fd;
    std::optional<struct stat> before;  // what was there; none where it is new
  };
  [[nodiscard]] cordma::result<opened> open_inplace(
      const std::string& path, std::uint32_t mode = 0666,
      const beginning& begin_new = [](int) { return cordma::result<void>(); });
  // A file without a name, in the directory of `path`, of `mode` as far as a new one gets it: what is written in one go needs no part,
  // and is in nobody's way. not_supported where the file system has none.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_unnamed(const std::string& path,
                                                               std::uint32_t mode);
  // It takes the place of what is at `path`, as publish() has it.
  [[nodiscard]] cordma::result<void> publish_unnamed(int fd, const std::string& path);
  // The part, as open_part() has opened it, takes the place of what is at `path`, atomically; its sidecar goes. A directory
  // there is EISDIR, unless it is empty; EBUSY where the part was removed and is another transfer's now. Close the part
  // afterwards only: once it is closed, another transfer may be writing it.
  [[nodiscard]] cordma::result<void> publish(int part, const std::string& path);
  // And its sidecar. Fine where there is none. EBUSY, and nothing goes, while a transfer has it open.
  [[nodiscard]] cordma::result<void> drop_part(const std::string& path) noexcept;
  // Likewise, of what is whole, where no transfer has it open, as far as can be known. By default only what a transfer of
  // this user's has left, as its sidecar shows.
  enum class whose : unsigned char { ours, anyones };
  void drop_left(const std::string& path, whose which = whose::ours) noexcept;

  // Files by descriptor, everything else by name; nothing is kept by a hard link's. What could not be kept, as
  // sentences ("owner: Operation not permitted"); the rest is kept nevertheless. A set-id bit is kept only where the
  // file's owner (or group) is the entry's: else a sentence. Times last.
  [[nodiscard]] std::vector<std::string> keep(int fd, const entry& from, const keep_options& what);
  [[nodiscard]] std::vector<std::string> keep(const std::string& path, const entry& from,
                                              const keep_options& what);

  // Whether keep() would change extended attributes, or ACLs, of what is there.
  [[nodiscard]] bool differs_in_attributes(const std::string& path, const entry& from);

  // --delete: what is in `directory` and not among `names` goes, with all that is in it; returns the paths that went
  // (or, with `dry`, would go), what is in a directory before it. Problems for what cannot be removed; another file
  // system that is mounted there stays, and is one. Part files and sidecars go as well; of those of `names` those for
  // whose path `is_whole` says so, without a word, unless somebody writes them (empty: none). What `spared` excludes
  // stays, with the directories that lead there, and is no problem; null: nothing.
  enum class removal : unsigned char { dry, real };
  // --max-delete: how many more may go, and how many had to stay for it, each with what is in it.
  struct removal_limit {
    std::uint64_t left = ~std::uint64_t{0};
    std::uint64_t stayed = 0;
  };
  using path_predicate = std::function<bool(const std::string& path)>;
  [[nodiscard]] std::vector<std::string> remove_others(const std::string& directory,
                                                       const std::vector<std::string_view>& names,
                                                       removal how, std::vector<problem>& problems,
                                                       const filter* spared = nullptr,
                                                       removal_limit* limit = nullptr,
                                                       const path_predicate& is_whole = {});
  // Likewise a directory at `path`, where another thing shall go; what else is there stays.
  [[nodiscard]] std::vector<std::string> make_way(const std::string& path, removal how,
                                                  std::vector<problem>& problems,
                                                  const filter* spared);

 private:
  struct state;
  explicit target(std::unique_ptr<state> s) noexcept;
  // `make` (0, or errno) makes under the name of the part what then takes the place of `path`. Whoever else writes there
  // is not disturbed, and waited for a tenth of a second: EBUSY.
  [[nodiscard]] cordma::result<void> put_in_place(const std::string& path, const position& at,
                                                  const std::function<int(const char*)>& make);
  // Whether another transfer has it open as its part, or, where it cannot be opened, may have.
  [[nodiscard]] static bool is_being_written(int directory, const std::string& name) noexcept;
  // A file that is new, and locked; EEXIST where there is anything.
  [[nodiscard]] cordma::result<cordma::unique_fd> make_inplace(const std::string& path,
                                                               const position& at,
                                                               std::uint32_t mode,
                                                               const beginning& begin_new);
  // `from`, in the same directory, takes the place of `path`.
  [[nodiscard]] cordma::result<void> replace(const std::string& path, const position& at,
                                             const char* from);
  // What is there goes, a directory where it is empty: else EISDIR. 0, or errno.
  [[nodiscard]] int give_way(const std::string& path, const position& at) noexcept;
  [[nodiscard]] std::uint32_t umask_here() const noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace copy

// The target directory. No path from a peer leads out of it.
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

// Selects the metadata of an entry to keep.
struct keep_options {
  // Without it: a file gets the mode of the default ACL of its directory, or else of the umask, as
  // with cp; a directory keeps its mode.
  bool mode = false;
  // The file was created with its requested mode, or existed before: without `mode` it keeps its
  // mode.
  bool is_made = false;
  bool times = false;
  bool owner = false;  // if permitted; else a problem
  bool group = false;
  // As with rsync: the owner is requested as root only, a group as root or as its member. For other
  // entries this is no problem.
  bool owner_if_may = false;
  bool group_if_may = false;
  bool attributes = false;  // removes those that the entry lacks: user.*, ACLs, capabilities
};

// Accesses names relative to an open directory. Used by one thread at a time. Each name is resolved
// beneath the directory without following symlinks (openat2: RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS
// | RESOLVE_NO_MAGICLINKS). A symlink in place of a directory of the path is an error (ELOOP),
// independent of its creator. The last name of a path denotes the symlink itself. REQUIRES:
// stays_inside() is true for every path. Errors: system errors, with errno and the path. Without
// openat2 (old kernel, seccomp) paths are walked part by part, with the same result.
class target {
 public:
  // Opens `root`, which may be a symlink. With `missing::is_made` it is created, with its parents,
  // if it does not exist.
  enum class missing : unsigned char { is_error, is_made };
  [[nodiscard]] static cordma::result<target> open(const std::string& root, missing m);
  // True if open() created the root.
  [[nodiscard]] bool is_new() const noexcept;
  // Returns another view of the same directory, for another thread.
  [[nodiscard]] cordma::result<target> clone();
  target(target&&) noexcept;
  target& operator=(target&&) noexcept;
  ~target();

  // The directory that contains the last name of `path`. It stays open during the life of the
  // target, until a later call with another parent; the most recent few are kept.
  struct position {
    int directory = -1;
    const char* name = nullptr;  // points into `path`
  };
  [[nodiscard]] cordma::result<position> find(const std::string& path);

  // Returns nothing if `path` does not exist.
  [[nodiscard]] cordma::result<std::optional<struct stat>> look(const std::string& path);
  // Opens an existing file for reading; EINVAL if it is not a regular file.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_file(const std::string& path);
  // Creates a directory. Succeeds if it exists; another entry at `path` is removed first. A new
  // directory gets the part of `mode` that the umask leaves, and is writable by its owner.
  [[nodiscard]] cordma::result<void> make_directory(const std::string& path,
                                                    std::uint32_t mode = 0777);
  // Creates a symlink beside `path`, and renames it: an existing entry is replaced atomically.
  // EISDIR if a directory is there that is not empty; EINVAL if `text` is not a valid text of a
  // symlink.
  [[nodiscard]] cordma::result<void> make_symlink(const std::string& path, const std::string& text);
  // Creates a FIFO, socket or device in the same way, with the part of the entry's mode that the
  // umask leaves.
  [[nodiscard]] cordma::result<void> make_special(const std::string& path, const entry& from);
  // Links to any entry except a directory; links to a symlink itself. Succeeds if both are one file
  // already.
  [[nodiscard]] cordma::result<void> make_hard_link(const std::string& path, const std::string& to);

  // Returns the name under which `path` is written until it is complete: ".NAME.cordma-part", in
  // the directory of find(). The end of a long NAME is replaced by a hash; no two names share one.
  // state_name() is that of the sidecar: ".NAME.cordma-state".
  [[nodiscard]] static std::string part_name(const std::string& path);
  [[nodiscard]] static std::string state_name(const std::string& path);
  // True if `name` is such a name. A sender's file of that name would collide with its neighbour's.
  [[nodiscard]] static bool is_work_name(std::string_view name) noexcept;

  // Opens the part of an earlier transfer with its contents, or a new one, of mode 0600, without a
  // sidecar. `flags` are O_WRONLY or O_RDWR, with O_TRUNC, O_DIRECT and similar ones. An existing
  // part is removed, not taken over, and never followed, if it is not a file (a directory is
  // EISDIR, and stays), has another name too, belongs to another user, or cannot be opened with
  // `flags`. The part is locked (flock) while it is open: another transfer, or another open_part(),
  // of the same file fails with EBUSY, with a message that names the process.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_part(const std::string& path, int flags);
  // Opens the sidecar for reading and writing; empty if there was none to take over, as above.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_state(const std::string& path);
  // --inplace: opens the existing file, or a new one, for writing, and locks it in the same way. A
  // new file gets the part of `mode` that new files get, is readable and writable by its owner, and
  // has its name after `begin_new` has succeeded with it. An entry that is not a file is EEXIST,
  // and stays: devices and FIFOs are not written, symlinks are not followed.
  using beginning = std::function<cordma::result<void>(int fd)>;
  struct opened {
    cordma::unique_fd fd;
    std::optional<struct stat> before;  // the existing file; none if it is new
  };
  [[nodiscard]] cordma::result<opened> open_inplace(
      const std::string& path, std::uint32_t mode = 0666,
      const beginning& begin_new = [](int) { return cordma::result<void>(); });
  // Opens a file without a name, in the directory of `path`, with the part of `mode` that new files
  // get. A file written by one call needs no part, and collides with no name. not_supported if the
  // file system has no such files.
  [[nodiscard]] cordma::result<cordma::unique_fd> open_unnamed(const std::string& path,
                                                               std::uint32_t mode);
  // Gives it the name `path`, and replaces an existing entry as publish() does.
  [[nodiscard]] cordma::result<void> publish_unnamed(int fd, const std::string& path);
  // Replaces the entry at `path` atomically by the part, as opened by open_part(), and removes its
  // sidecar. EISDIR if a directory is there that is not empty; EBUSY if the part was removed and
  // its name now belongs to another transfer. The part must stay open during the call: once it is
  // closed, another transfer may write it.
  [[nodiscard]] cordma::result<void> publish(int part, const std::string& path);
  // Removes the part and its sidecar. Succeeds if there is none. EBUSY, without a removal, while a
  // transfer has it open.
  [[nodiscard]] cordma::result<void> drop_part(const std::string& path) noexcept;
  // Does the same for a complete file, if no transfer is known to have the part open. By default
  // only for a part that a transfer of this user has left, as shown by its sidecar.
  enum class whose : unsigned char { ours, anyones };
  void drop_left(const std::string& path, whose which = whose::ours) noexcept;

  // Keep the metadata of files by descriptor, of all other entries by name; nothing for a hard
  // link. Return messages for the metadata that could not be kept ("owner: Operation not
  // permitted"); the rest is kept nevertheless. A set-id bit is kept only if the owner (or group)
  // of the file is the entry's; else a message results. Times are set last.
  [[nodiscard]] std::vector<std::string> keep(int fd, const entry& from, const keep_options& what);
  [[nodiscard]] std::vector<std::string> keep(const std::string& path, const entry& from,
                                              const keep_options& what);

  // True if keep() would change extended attributes, or ACLs, of the existing entry.
  [[nodiscard]] bool differs_in_attributes(const std::string& path, const entry& from);

  // --delete: removes the entries of `directory` that are not among `names`, with all their
  // contents. Returns the removed paths (with `dry`, those that would be removed), contents before
  // their directory. Adds a problem for each failure; a mounted file system stays, and is a
  // problem. Part files and sidecars are removed too. Those that belong to `names` are removed
  // without a report if `is_whole` is true for their path and no transfer is writing them (empty
  // `is_whole`: none). Entries that `spared` excludes stay, with the directories above them, and
  // are no problem; null: none are spared.
  enum class removal : unsigned char { dry, real };
  // --max-delete: number of further removals, and of entries that stayed because of it; contents
  // count.
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
  // Removes a directory at `path` in the same way, to make way for another entry. Other entries at
  // `path` stay.
  [[nodiscard]] std::vector<std::string> make_way(const std::string& path, removal how,
                                                  std::vector<problem>& problems,
                                                  const filter* spared);

 private:
  struct state;
  explicit target(std::unique_ptr<state> s) noexcept;
  // Calls `make` (returns 0, or errno) to create an entry under the name of the part, which then
  // replaces `path`. Does not disturb another writer; waits for it up to a tenth of a second:
  // EBUSY.
  [[nodiscard]] cordma::result<void> put_in_place(const std::string& path, const position& at,
                                                  const std::function<int(const char*)>& make);
  // True if another transfer has it open as its part, or, if it cannot be opened, may have.
  [[nodiscard]] static bool is_being_written(int directory, const std::string& name) noexcept;
  // Creates and locks a new file; EEXIST if an entry exists.
  [[nodiscard]] cordma::result<cordma::unique_fd> make_inplace(const std::string& path,
                                                               const position& at,
                                                               std::uint32_t mode,
                                                               const beginning& begin_new);
  // Replaces `path` by `from`, in the same directory.
  [[nodiscard]] cordma::result<void> replace(const std::string& path, const position& at,
                                             const char* from);
  // Removes an existing entry; a directory only if it is empty, else EISDIR. Returns 0, or errno.
  [[nodiscard]] int give_way(const std::string& path, const position& at) noexcept;
  [[nodiscard]] std::uint32_t umask_here() const noexcept;
  std::unique_ptr<state> state_;
};

}  // namespace copy

#include "scan.hpp"

#include "../files/listing.hpp"
#include "../files/origins.hpp"
#include "describe.hpp"
#include "linked_files.hpp"
#include "read_attributes.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {
namespace {

constexpr std::size_t open_levels = 16;  // limit of the open directories, which are the deepest
constexpr std::size_t listing_bytes = 64UL << 10;  // size of one read of a directory
constexpr std::size_t longest_path = PATH_MAX - 1;

// A directory on the path to the present entry, and its remaining names.
struct level {
  cordma::unique_fd fd;  // none if it was closed for deeper ones
  std::string path{};    // of the entry; empty if its names begin without '/'
  listing names{};
  struct stat self{};
  bool had_before = false;   // an earlier source may have entries in it
  bool comes_again = false;  // a later source may
};

// A name that was found.
struct candidate {
  int directory = -1;
  const char* name = "";
  std::string path{};
  const std::string* given = nullptr;  // of a source: its user's name
  listing::guess kind = listing::guess::unknown;
  bool had_before = false;
  bool comes_again = false;

  [[nodiscard]] const std::string& called() const noexcept {
    return given != nullptr ? *given : path;
  }
};

bool fits(const std::vector<attribute>& all) noexcept {
  constexpr std::size_t beside = 8;  // bytes of a frame for the lengths
  std::size_t bytes = 0;
  for (const attribute& a : all) bytes += a.name.size() + a.value.size() + beside;
  return all.size() <= most_attributes && bytes <= most_attribute_bytes;
}

}  // namespace

class scanner::state {
 public:
  state(std::vector<source> sources, const filter& chosen, const scan_options& options)
      : sources_(std::move(sources)),
        chosen_(chosen),
        options_(options),
        origins_(options.follow),
        walked_(origins_.directories()),
        found_(origins_.directories()),
        listing_buffer_(listing_bytes) {}

  bool next(std::size_t most, std::vector<entry>& into) {
    constexpr int most_names = 1024;  // limit of the examined names
    const std::size_t before = into.size();
    for (int i = 0; i < most_names && into.size() - before < most; ++i) {
      if (!levels_.empty()) {
        step(into);
      } else if (begun_ < sources_.size()) {
        begin_source(into);
      } else {
        return false;
      }
    }
    return true;
  }
  std::vector<problem> take_problems() { return std::exchange(problems_, {}); }
  [[nodiscard]] bool follows() const noexcept { return options_.follow; }
  position find(const entry& found) {
    return {.directory = origins_.find_parent(found.origin, found.path, found_),
            .name = found.path.c_str() + (found.path.rfind('/') + 1)};
  }

 private:
  void say(problem::kind what, const std::string& path, std::string why) {
    problems_.push_back({.what = what, .path = path, .why = std::move(why)});
  }
  // `error` is that of a system call. A missing entry that the user named counts as failed, not as
  // vanished.
  void say(const candidate& c, int error) {
    const bool vanished = is_gone(error) && c.given == nullptr;
    say(vanished ? problem::kind::vanished : problem::kind::failed, c.called(), reason(error));
  }

  // Reports an expected omission. An existing entry at the target stays.
  void say_left_out(const candidate& c, std::string why) {
    problems_.push_back({problem::kind::left_out, c.called(), std::move(why), c.path});
  }

  void open_all();
  void begin_source(std::vector<entry>& into);
  void begin_listed(const source& s, const std::string& called, std::vector<entry>& into);
  [[nodiscard]] bool is_in_itself(const struct stat& directory) const noexcept;
  void step(std::vector<entry>& into);
  void leave();
  void visit(candidate c, std::vector<entry>& into);
  [[nodiscard]] std::optional<entry_kind> kind_of(mode_t mode) const noexcept;
  [[nodiscard]] bool look(const candidate& c, struct stat& self);
  [[nodiscard]] const origin& here() const noexcept { return origins_of_[begun_ - 1]; }
  [[nodiscard]] std::optional<struct stat> look_in(std::size_t source, const std::string& path);
  enum class with : unsigned char { anything, directories };
  [[nodiscard]] std::optional<struct stat> from_earlier(const candidate& c, with which);
  [[nodiscard]] bool may_come_again(const std::string& first_part) const;
  [[nodiscard]] bool is_directory_later(const candidate& c);
  enum class mention : unsigned char { yes, no };
  void enter(const candidate& c, const struct stat& self, mention itself, std::vector<entry>& into);
  void add(const candidate& c, const struct stat& self, entry_kind kind, std::vector<entry>& into);

  std::vector<source> sources_;
  const filter& chosen_;
  scan_options options_;
  origins origins_;
  directory_cache walked_;          // for next()
  directory_cache found_;           // for find()
  std::vector<origin> origins_of_;  // by source; empty name: it cannot be opened
  std::vector<int> errors_;         // by source
  std::size_t begun_ = 0;           // number of sources begun
  std::vector<level> levels_;       // directories of the present source, from its top down
  // First parts of all paths so far, if there are several sources.
  std::unordered_set<std::string> first_parts_;
  std::unordered_map<std::string, std::size_t>
      last_with_;  // by name ("." is any): index of the last source that has it
  linked_files linked_;
  std::vector<problem> problems_;
  std::vector<char> listing_buffer_;
  std::vector<char> attribute_buffer_;
  std::unordered_set<std::string> led_;  // directories sent as parents of listed entries, or alone
  // Listed directories sent with all their contents, and their file systems.
  std::unordered_map<std::string, dev_t> whole_;
};

void scanner::state::open_all() {
  for (const source& s : sources_) {
    origin o;
    errors_.push_back(s.is_stream ? 0 : origins_.open(s.path, s.contents, o));
    if (errors_.back() != 0) o.name.clear();
    // Listed entries belong to one tree.
    if (!o.name.empty() && s.listed.empty()) last_with_[o.name] = origins_of_.size();
    origins_of_.push_back(std::move(o));
  }
}

void scanner::state::begin_source(std::vector<entry>& into) {
  if (begun_ == 0) open_all();
  const source& s = sources_[begun_++];
  if (s.is_stream) {
    entry e;
    e.kind = entry_kind::stream;
    e.mode = 0666;  // less the target's umask
    e.path = "stdin";
    into.push_back(std::move(e));
    return;
  }
  const std::string& called = s.called.empty() ? s.path : s.called;
  const origin& o = here();
  const int error = errors_[begun_ - 1];
  if (error != 0) return say(problem::kind::failed, called, reason(error));
  if (s.listed == ".") return;
  if (!s.listed.empty()) return begin_listed(s, called, into);
  visit({.directory = origins_.directory(o.number),
         .name = o.name.c_str(),
         .path = o.name,
         .given = &called},
        into);
}

// Sends the directories above a listed entry first, once each, independent of the rules, as with
// rsync.
void scanner::state::begin_listed(const source& s, const std::string& called,
                                  std::vector<entry>& into) {
  const std::uint32_t number = here().number;
  candidate itself{
      .name = s.listed.c_str() + (s.listed.rfind('/') + 1), .path = s.listed, .given = &called};
  const auto find_itself = [&] {
    itself.directory = origins_.find_parent(number, s.listed, walked_);
    if (itself.directory < 0) say(itself, -itself.directory);
    return itself.directory >= 0;
  };
  struct stat self{};
  bool comes = false;
  for (std::size_t end = s.listed.find('/'); end != std::string::npos;
       end = s.listed.find('/', end + 1)) {
    candidate c{.path = s.listed.substr(0, end), .given = &called};
    // The entry was sent with this directory.
    if (const auto w = whole_.find(c.path); w != whole_.end()) {
      if (!find_itself() || !look(itself, self) || !options_.one_file_system) return;
      // For a file the device number may differ, as with overlayfs.
      if (!S_ISDIR(self.st_mode) && ::fstat(itself.directory, &self) != 0) return say(c, errno);
      if (self.st_dev == w->second) return;
      return say(problem::kind::failed, called, "is on another file system than " + c.path);
    }
    if (led_.contains(c.path)) continue;
    // Parents of an entry that is not sent are not sent either.
    comes = comes || (find_itself() && look(itself, self));
    if (!comes) return;
    const int fd = origins_.open_at(number, c.path, O_PATH | O_DIRECTORY);
    if (fd < 0) return say(c, -fd);
    const cordma::unique_fd held(fd);
    if (::fstat(held.get(), &self) != 0) return say(c, errno);
    c.directory = origins_.find_parent(number, c.path, walked_);
    c.name = c.path.c_str() + (c.path.rfind('/') + 1);
    led_.insert(c.path);
    add(c, self, entry_kind::directory, into);
  }
  if (led_.contains(s.listed) || !find_itself()) return;
  const std::size_t before = into.size();
  visit(std::move(itself), into);
  const bool came = into.size() != before && into.back().kind == entry_kind::directory;
  if (came && levels_.empty()) led_.insert(s.listed);
  if (came && !levels_.empty()) whole_.emplace(s.listed, levels_.back().self.st_dev);
}

void scanner::state::step(std::vector<entry>& into) {
  level& top = levels_.back();
  if (top.names.at_end()) return leave();
  const listing::name n = top.names.take();
  candidate c{.directory = top.fd.get(),
              .name = n.text,
              .kind = n.kind,
              .had_before = top.had_before,
              .comes_again = top.comes_again};
  c.path.reserve(top.path.size() + 1 + n.size);
  c.path = top.path;
  if (!c.path.empty()) c.path += '/';
  c.path.append(n.text, n.size);
  visit(c, into);
}

// Returns to the directory above, which may have been closed for deeper ones.
void scanner::state::leave() {
  levels_.pop_back();
  if (levels_.empty()) return;
  level& top = levels_.back();
  if (top.fd || top.names.at_end()) return;
  const std::string path = top.path.empty() ? "." : top.path;
  const int fd = origins_.open_at(here().number, path, O_PATH | O_DIRECTORY);
  top.fd.reset(fd);
  struct stat now{};
  if (fd >= 0 && ::fstat(fd, &now) == 0 && same_file(now, top.self)) return;
  top.names = {};
  if (fd >= 0) {
    say(problem::kind::failed, path, "was exchanged while it was read");
  } else if (is_gone(-fd)) {
    say(problem::kind::vanished, path, "was moved while it was read");
  } else {
    say(problem::kind::failed, path, reason(-fd));
  }
}

// Returns none for a kind that is not sent.
std::optional<entry_kind> scanner::state::kind_of(mode_t mode) const noexcept {
  if (S_ISREG(mode)) return entry_kind::file;
  const bool is_listed = levels_.empty() && !sources_[begun_ - 1].listed.empty();
  if (S_ISDIR(mode) && (options_.recursive || is_listed)) return entry_kind::directory;
  if (S_ISLNK(mode) && options_.links) return entry_kind::symlink;
  const bool is_device = S_ISCHR(mode) || S_ISBLK(mode);
  if (is_device && options_.devices) return entry_kind::special;
  if ((S_ISFIFO(mode) || S_ISSOCK(mode)) && options_.specials) return entry_kind::special;
  return std::nullopt;
}

// Returns false if the entry is not sent; a problem has been reported, if there is one.
bool scanner::state::look(const candidate& c, struct stat& self) {
  const bool seems_directory = c.kind == listing::guess::directory;
  const bool guessed = c.kind != listing::guess::unknown;
  if (guessed && chosen_.excludes(c.path, seems_directory)) return false;
  if (c.path.size() > longest_path) {
    say(c, ENAMETOOLONG);
    return false;
  }
  const int flags = AT_NO_AUTOMOUNT | (options_.follow ? 0 : AT_SYMLINK_NOFOLLOW);
  if (::fstatat(c.directory, c.name, &self, flags) != 0) {
    const bool leads_nowhere = options_.follow && is_gone(errno) &&
                               ::faccessat(c.directory, c.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (leads_nowhere) {
      say(problem::kind::failed, c.called(), "is a symlink that leads nowhere");
    } else {
      say(c, errno);
    }
    return false;
  }
  const bool is_directory = S_ISDIR(self.st_mode);
  if (guessed && is_directory == seems_directory) return true;
  return !chosen_.excludes(c.path, is_directory);
}

void scanner::state::visit(candidate c, std::vector<entry>& into) {
  struct stat self{};
  if (!look(c, self)) return;
  const std::optional<entry_kind> kind = kind_of(self.st_mode);
  if (!kind) return say_left_out(c, why_left_out(self.st_mode));
  if (sources_.size() > 1 && c.path.find('/') == std::string::npos) {
    c.had_before = !first_parts_.insert(c.path).second;
    c.comes_again = may_come_again(c.path);
  }
  const bool is_directory = *kind == entry_kind::directory;
  if (!is_directory && c.comes_again && is_directory_later(c)) {
    return say(problem::kind::left_out, c.called(), "another source has a directory of this name");
  }
  mention itself = mention::yes;
  if (c.had_before) {
    const with which = is_directory ? with::directories : with::anything;
    if (const std::optional<struct stat> other = from_earlier(c, which)) {
      const bool merged = is_directory && S_ISDIR(other->st_mode);
      if (!merged && !same_file(*other, self)) {
        say(problem::kind::left_out, c.called(), "another source has this name already");
      }
      if (!merged) return;
      itself = mention::no;
    }
  }
  const bool is_mounted = is_directory && options_.one_file_system && !levels_.empty() &&
                          levels_.front().self.st_dev != self.st_dev;
  if (is_mounted) {
    say_left_out(c, "what is in it is on another file system, as -x has it");
    if (itself == mention::no) return;
  }
  if (is_directory && is_in_itself(self)) {
    return say(problem::kind::failed, c.called(), "leads to a directory that it is in");
  }
  if (is_directory && !is_mounted && options_.recursive) return enter(c, self, itself, into);
  add(c, self, *kind, into);
}

bool scanner::state::is_in_itself(const struct stat& directory) const noexcept {
  return options_.follow && std::any_of(levels_.begin(), levels_.end(), [&](const level& l) {
           return same_file(l.self, directory);
         });
}

// Returns the attributes of this path in that source, if the source sends it.
std::optional<struct stat> scanner::state::look_in(std::size_t source, const std::string& path) {
  if (!origins_of_[source].may_hold(path)) return std::nullopt;
  const int flags = O_PATH | (options_.follow ? 0 : O_NOFOLLOW);
  const cordma::unique_fd fd(origins_.open_at(origins_of_[source].number, path, flags));
  struct stat s{};
  if (!fd || ::fstat(fd.get(), &s) != 0) return std::nullopt;
  if (!kind_of(s.st_mode) || chosen_.excludes(path, S_ISDIR(s.st_mode))) return std::nullopt;
  return s;
}

// Returns the attributes of the entry sent with this path. A directory takes precedence over other
// kinds.
std::optional<struct stat> scanner::state::from_earlier(const candidate& c, with which) {
  for (std::size_t i = 0; i + 1 < begun_; ++i) {
    const std::optional<struct stat> s = look_in(i, c.path);
    if (s && (which == with::anything || S_ISDIR(s->st_mode))) return s;
  }
  return std::nullopt;
}

bool scanner::state::may_come_again(const std::string& first_part) const {
  const auto is_later = [this](const std::string& name) {
    const auto last = last_with_.find(name);
    return last != last_with_.end() && last->second >= begun_;
  };
  return is_later(first_part) || is_later(".");
}

// A directory of any source takes precedence, because it may have further contents. Same as rsync.
bool scanner::state::is_directory_later(const candidate& c) {
  for (std::size_t i = begun_; i < sources_.size(); ++i) {
    const std::optional<struct stat> s = look_in(i, c.path);
    if (s && S_ISDIR(s->st_mode)) return true;
  }
  return false;
}

void scanner::state::enter(const candidate& c, const struct stat& self, mention itself,
                           std::vector<entry>& into) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (options_.follow ? 0 : O_NOFOLLOW);
  cordma::unique_fd fd(::openat(c.directory, c.name, flags));
  const int error = fd ? 0 : errno;
  if (!fd && is_gone(error)) return say(c, error);
  if (itself == mention::yes) add(c, self, entry_kind::directory, into);
  if (!fd) return say(c, error);
  level below{
      .fd = std::move(fd), .self = self, .had_before = c.had_before, .comes_again = c.comes_again};
  if (c.path != ".") below.path = c.path;
  const int unread = below.names.read(below.fd.get(), listing_buffer_);
  if (unread != 0) say(c, unread);
  levels_.push_back(std::move(below));
  if (levels_.size() > open_levels) levels_[levels_.size() - 1 - open_levels].fd.reset();
}

void scanner::state::add(const candidate& c, const struct stat& self, entry_kind kind,
                         std::vector<entry>& into) {
  entry e = describe(self, kind);
  e.path = c.path;
  e.origin = here().number;
  if (kind == entry_kind::symlink) {
    const int error = read_link(c.directory, c.name, e.target);
    if (error != 0) return say(c, error);
  }
  if (kind != entry_kind::directory && options_.hard_links && self.st_nlink > 1) {
    if (const std::string* const first = linked_.first_name(self, e.path)) {
      e.kind = entry_kind::hard_link;
      e.target = *first;
      e.size = e.allocated = e.device = 0;
      e.type = 0;
    }
  }
  if (options_.attributes && e.kind != entry_kind::hard_link) {
    const int error = read_attributes(c.directory, c.name, attribute_buffer_, e.attributes);
    if (error != 0) {
      say(problem::kind::failed, c.called(), "extended attributes: " + reason(error));
    }
    if (!fits(e.attributes)) {
      e.attributes.clear();
      say(problem::kind::failed, c.called(), "extended attributes: more than can be sent");
    }
  }
  into.push_back(std::move(e));
}

scanner::scanner(std::vector<source> sources, const filter& chosen, const scan_options& options)
    : state_(std::make_unique<state>(std::move(sources), chosen, options)) {}
scanner::~scanner() = default;

bool scanner::next(std::size_t most, std::vector<entry>& into) { return state_->next(most, into); }
std::vector<problem> scanner::take_problems() { return state_->take_problems(); }
bool scanner::follows() const noexcept { return state_->follows(); }
scanner::position scanner::find(const entry& found) const { return state_->find(found); }

int scanner::open(const entry& found, int extra_flags, struct stat* now) const noexcept {
  if (found.kind == entry_kind::stream) {
    const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
  }
  const position at = find(found);
  if (at.directory < 0) return at.directory;
  const bool is_directory = found.kind == entry_kind::directory;
  const int flags = (follows() ? open_flags & ~O_NOFOLLOW : open_flags) | extra_flags;
  cordma::unique_fd fd(::openat(at.directory, at.name, flags | (is_directory ? O_DIRECTORY : 0)));
  if (!fd) return -errno;
  struct stat s{};
  if (::fstat(fd.get(), &s) != 0) return -errno;
  if (!is_directory && !S_ISREG(s.st_mode)) return -ENOENT;
  if (now != nullptr) *now = s;
  return fd.release();
}

static_assert(scanner::directories_kept == directory_cache::most);

}  // namespace copy

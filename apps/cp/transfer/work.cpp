#include "work.hpp"

#include "../files/resolved.hpp"
#include "receiver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::task;

namespace {

// Opens a directory below `root`. Follows links that stay below `root`. On failure sets errno.
cordma::unique_fd open_below(int root, const char* path) {
  constexpr std::uint64_t how = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const int fd = open_resolved(root, path, O_PATH | O_DIRECTORY, how);
  if (fd < 0) errno = -fd;
  return cordma::unique_fd(fd < 0 ? -1 : fd);
}

[[noreturn]] void fail(const std::string& path, int error) {
  const bool leads_out = error == EXDEV;
  throw failed_place(leads_out ? failing::may_not : failing::selection,
                     path + ": " + (leads_out ? "leads out of the module" : std::strerror(error)));
}

// Opens the target directory.
target open_target(const destination& where) {
  cordma::result<target> opened = target::open(where.root, target::missing::is_made);
  if (opened) return std::move(opened).value();
  struct stat s{};
  const bool is_missing = ::stat(where.root.c_str(), &s) != 0 && errno == ENOENT;
  throw failed_place(is_missing ? failing::file : failing::selection,
                     (where.called.empty() ? where.root : where.called) + ": " +
                         std::strerror(opened.why().os_errno()));
}

std::string way_by(const cordma::unique_fd& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}

// An empty directory in place of a target that does not exist and is not to be created.
class stand_in {
 public:
  stand_in() = default;
  stand_in(const stand_in&) = delete;
  stand_in& operator=(const stand_in&) = delete;
  ~stand_in() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  [[nodiscard]] const std::string& make() {
    path_ = "/tmp/cordma-cp-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) fail(std::exchange(path_, ""), errno);
    return path_;
  }

 private:
  std::string path_;
};

scan_options scanning(const transfer_options& o) {
  scan_options s;
  s.recursive = o.recursive;
  s.links = o.links;
  s.hard_links = o.hard_links;
  s.devices = o.devices;
  s.specials = o.specials;
  s.attributes = o.attributes;
  s.one_file_system = o.one_file_system;
  s.follow = o.follow;
  return s;
}

}  // namespace

held_path hold_below(const std::string& root, const std::string& path, const std::string& called,
                     links last) {
  if (!path.empty() && !stays_inside(path)) {
    throw std::runtime_error(called + ": leads out of the module");
  }
  cordma::unique_fd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!top) fail(called, errno);
  held_path p;
  if (last == links::followed || path.empty()) {
    p.held = open_below(top.get(), path.empty() ? "." : path.c_str());
    if (p.held) {
      p.path = way_by(p.held) + "/.";
      return p;
    }
    if (errno != ENOENT && errno != ENOTDIR) fail(called, errno);
  }
  // The longest existing part of its parents.
  std::string there = path;
  std::string rest;
  for (;;) {
    const std::size_t slash = there.rfind('/');
    const bool top_is_next = slash == std::string::npos;
    const std::string name = top_is_next ? there : there.substr(slash + 1);
    rest = rest.empty() ? name : name + '/' + rest;
    there = top_is_next ? "." : there.substr(0, slash);
    p.held = open_below(top.get(), there.c_str());
    if (!p.held && (errno != ENOENT || top_is_next)) fail(called, errno);
    if (!p.held) continue;
    // A dangling link may lead out of the module later.
    struct stat s{};
    const bool is_link =
        ::fstatat(p.held.get(), name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode);
    if (is_link && last == links::followed &&
        ::faccessat(p.held.get(), name.c_str(), F_OK, 0) != 0) {
      fail(called, ENOENT);
    }
    p.path = way_by(p.held) + '/' + rest;
    return p;
  }
}

source source_of(const std::string& path) {
  std::string p = path;
  while (p.size() > 1 && p.back() == '/') p.pop_back();
  const bool slash = p.size() != path.size() || p == "/";
  const std::string last = p.substr(p.rfind('/') + 1);
  // A symlink is followed only with a trailing '/'.
  if (slash && p != "/") p += '/';
  return {p, slash || last == "." || last == ".."};
}

bool is_single_file(const std::vector<source>& sources) {
  if (sources.size() != 1 || sources.front().contents) return false;
  struct stat s{};
  return ::lstat(sources.front().path.c_str(), &s) != 0 || !S_ISDIR(s.st_mode);
}

destination choose(const std::string& path, bool is_directory, bool single_file) {
  struct stat s{};
  const bool there = ::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
  if (there || is_directory || !single_file || path.back() == '/') return {path, ""};
  const std::size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (!stays_inside(name)) fail(path, name == ".." || name == "." ? ENOENT : ENAMETOOLONG);
  if (slash == std::string::npos) return {".", name};
  return {slash == 0 ? "/" : path.substr(0, slash), name};
}

destination to_output() noexcept {
  destination d;
  d.output = STDOUT_FILENO;
  return d;
}

task<outcome> send_all(cordma::Context& context, cordma::Worker& worker, lanes& ways,
                       std::vector<source> sources, std::vector<std::string> rules,
                       transfer_options options, progress& shown, item_sink tell,
                       std::uint64_t flip_every, ledger* done) {
  const filter chosen = filter_of(rules);
  scanner found(std::move(sources), chosen, scanning(options));
  file_ring files(worker.loop());
  sender s(context, worker, files, ways, found, options, shown, tell);
  s.flip_every(flip_every);
  if (done != nullptr) s.keep_in(*done);
  outcome o = co_await s.run();
  co_return o;
}

task<outcome> receive_all(cordma::Context& context, cordma::Worker& worker, lanes& ways,
                          destination where, std::vector<std::string> rules,
                          transfer_options options, progress& shown, item_sink tell, ledger* done) {
  const filter chosen = filter_of(rules);
  stand_in empty;
  if (where.output >= 0) where.root = "/";  // nothing below it is used
  if (options.dry_run && ::access(where.root.c_str(), F_OK) != 0) where.root = empty.make();
  target into = open_target(where);
  file_ring files(worker.loop());
  receiver r(context, worker, files, ways, into, std::move(where.only_name), chosen, options, shown,
             tell);
  r.write_to(where.output);
  if (done != nullptr) r.keep_in(*done);
  if (where.asked) r.expect_only(std::move(*where.asked));
  outcome o = co_await r.run();
  co_return o;
}

namespace {

// Opens the paths that a client names. All of them are below its module.
class places {
 public:
  // REQUIRES: it outlives the results of place(). An empty path of the module stands for the local
  // file system of this process.
  explicit places(const module& where) : where_(where) {}
  [[nodiscard]] std::string place(std::string path, links last) {
    if (where_.path.empty()) return path;
    while (path.ends_with('/')) path.pop_back();
    held_.push_back(hold_below(where_.path, path, called(path), last));
    return held_.back().path;
  }
  // Returns the client's name of a path.
  [[nodiscard]] std::string called(std::string path) const {
    while (path.ends_with('/') && path != "/") path.pop_back();
    if (where_.path.empty()) return path;
    return path.empty() || path == "/" ? where_.name : where_.name + '/' + path;
  }
  [[nodiscard]] std::vector<source> sources(const hello& h) {
    std::vector<source> all;
    for (const std::string& p : h.paths) {
      if (h.options.listed && !all.empty()) {
        all.push_back(listed_below(all.front(), p));
        continue;
      }
      const bool contents = source_of(p).contents;
      std::string path = place(p, contents ? links::followed : links::kept);
      if (contents && !path.ends_with('/')) path += '/';  // a file with a trailing '/' is an error
      all.push_back(source_of(path));
      all.back().called = called(p);
    }
    if (h.options.listed && all.size() > 1) {
      all.erase(all.begin());
    } else if (h.options.listed && !all.empty()) {
      all.front().listed = ".";
    }
    return all;
  }

 private:
  [[nodiscard]] static source listed_below(const source& top, const std::string& path) {
    source one = top;
    one.called = top.called + '/' + path;
    if (!top.contents || path == "." || !stays_inside(path)) {
      throw std::runtime_error(one.called + ": is not below a directory that is a source");
    }
    one.listed = path;
    return one;
  }
  const module& where_;
  std::vector<held_path> held_;
};

}  // namespace

bool examine_request(const client_request& r) {
  const hello& h = r.asked;
  [[maybe_unused]] const filter chosen = filter_of(h.rules);
  constexpr std::uint64_t least_slots = 2;  // for each lane
  if (least_slots * h.lanes * h.options.chunk_bytes > most_memory_of_a_client) {
    throw std::runtime_error(
        "so many lanes of so long chunks take more memory than a client may have");
  }
  places named(*r.where);
  if (h.way == direction::pull) return is_single_file(named.sources(h));
  if (r.where->read_only) throw std::runtime_error("module \"" + h.module + "\" is read-only");
  if (h.paths.size() != 1) throw std::runtime_error("one target is needed");
  [[maybe_unused]] const std::string path = named.place(h.paths.front(), links::followed);
  return false;
}

task<void> carry_out_request(cordma::Context& context, cordma::Worker& worker, client_request r,
                             lanes& ways) {
  hello& h = r.asked;
  h.options.memory_bytes = std::min(h.options.memory_bytes, most_memory_of_a_client);
  places named(*r.where);
  progress unseen;
  const item_sink nobody = [](const item&) {};
  if (h.way == direction::push) {
    const bool is_own = r.where->path.empty();  // the server inside this program
    h.options.devices = h.options.devices && (is_own || r.where->devices);
    const std::string path = named.place(h.paths.front(), links::followed);
    const bool output = is_own && path == "-";
    destination where =
        output ? to_output() : choose(path, h.options.directory, !h.options.directory);
    where.called = named.called(h.paths.front());
    co_await receive_all(context, worker, ways, std::move(where), h.rules, h.options, unseen,
                         nobody);
    co_return;
  }
  std::vector<source> sources = named.sources(h);
  co_await send_all(context, worker, ways, std::move(sources), h.rules, h.options, unseen, nobody);
}

}  // namespace copy

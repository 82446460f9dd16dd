#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/shm/local_host.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shortage.hpp>
#include <cordma/runtime/check.hpp>
#include <filesystem>

namespace cordma::transport::shm {
namespace {

constexpr int listen_backlog = 4096;
constexpr int lock_attempts = 16;

// Address of a file, or of a name that begins with a zero byte and is no file.
struct unix_address {
  sockaddr_un value{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&value);
  }
};

result<unix_address> to_address(const std::string& path) {
  unix_address a;
  a.value.sun_family = AF_UNIX;
  if (path.size() >= sizeof a.value.sun_path) {
    return failure{errc::invalid_value, "the path of the rendezvous socket is too long (" +
                                            std::to_string(path.size()) + " of at most " +
                                            std::to_string(sizeof a.value.sun_path - 1) +
                                            " bytes): use a shorter directory"};
  }
  path.copy(a.value.sun_path, sizeof a.value.sun_path - 1);
  const bool file = path.empty() || path.front() != '\0';
  a.length = file ? static_cast<socklen_t>(sizeof a.value)
                  : static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return a;
}

// No file: it begins with a zero byte (unix(7)) and belongs to a network namespace.
result<unix_address> second_name(const meeting_place& at, std::uint16_t port) {
  return to_address(std::string(1, '\0') + "cordma/" + at.mark + "/" + std::to_string(port));
}

// Path for a port that a process of another network namespace has in the same folder.
std::string path_beside(const std::string& path) {
  return path + "@" + std::to_string(own_namespace().inode);
}

failure socket_failure(int os_errno, const std::string& what) {
  if (at_descriptor_limit(os_errno)) {
    return failure(errc::no_memory,
                   what + ": no file descriptor is left: raise the limit with ulimit -n")
        .with_errno(os_errno);
  }
  return failure::from_os(os_errno, what);
}

socket_fd open_socket() noexcept {
  return socket_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_file(const std::string& path, std::uint64_t inode) noexcept {
  struct stat named{};
  return ::lstat(path.c_str(), &named) == 0 && named.st_ino == inode;
}

bool is_file(const std::string& path, int fd) noexcept {
  struct stat mine{};
  return ::fstat(fd, &mine) == 0 && is_file(path, mine.st_ino);
}

// Writes the network namespace of the owner to its lock file.
void write_namespace(int lock) noexcept {
  const std::uint64_t own = own_namespace().inode;
  // If this fails, other processes assume that the owner is in their namespace.
  [[maybe_unused]] const auto written = ::pwrite(lock, &own, sizeof own, 0);
}

bool is_of_other_namespace(const std::string& lock_path) noexcept {
  const unique_fd lock(::open(lock_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::uint64_t theirs = 0;
  if (!lock || ::pread(lock.get(), &theirs, sizeof theirs, 0) != sizeof theirs) return false;
  return theirs != 0 && theirs != own_namespace().inode;
}

// Opens and locks the file. Tries again if its last owner removed it between open() and flock().
result<unique_fd> take_lock(const std::string& path, const peer_rule& rule) {
  for (int i = 0; i < lock_attempts; ++i) {
    unique_fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                          rule.any_user() ? 0666 : 0600));
    if (!lock) {
      return socket_failure(errno, "opening the lock file " + path +
                                       " (CORDMA_SHM_DIRECTORY chooses another folder)");
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return failure{errc::in_use};
      return failure::from_os(errno, "locking " + path);
    }
    if (!is_file(path, lock.get())) continue;
    write_namespace(lock.get());
    return lock;
  }
  return failure{errc::in_use};
}

failure taken(const std::string& path) {
  return {errc::in_use,
          "a living process listens on " + path + " already: choose another port, or stop it"};
}

result<socket_fd> listen_at(const unix_address& at, const std::string& path,
                            const peer_rule& rule) {
  socket_fd s = open_socket();
  if (!s) return socket_failure(errno, "making a rendezvous socket");
  ::unlink(path.c_str());  // of a dead process: we have the lock
  if (::bind(s.get(), at.get(), at.length) != 0) {
    return socket_failure(errno, "binding " + path);
  }
  const result<void> given = rule.give_socket(path);
  if (!given) return given.why();
  if (::listen(s.get(), listen_backlog) != 0) return socket_failure(errno, "listening on " + path);
  return s;
}

result<bound_name> bind_at(const std::string& path, const peer_rule& rule) {
  const result<unix_address> longest = to_address(path + ".lock");
  if (!longest) return longest.why();
  name_files files(path, rule);
  const result<void> locked = files.lock();
  if (!locked) return locked.why();
  result<socket_fd> listening = files.listen();
  if (!listening) return listening.why();
  return bound_name{std::move(*listening), socket_fd(), std::move(files)};
}

// True if the listener at `at` is a process that may use our names.
bool is_one_of_us(const unix_address& at, const peer_rule& rule) {
  const socket_fd s = open_socket();
  if (!s || (::connect(s.get(), at.get(), at.length) != 0 && errno != EAGAIN)) return false;
  const result<peer_identity> who = identify(s.get());
  return !who || rule.admits(s.get(), *who);
}

// Returns no socket if a process that may not be a peer has the name. in_use: a process of this
// user and this network namespace listens on the port, whether or not its files still exist.
result<socket_fd> take_second_name(const meeting_place& place, std::uint16_t port,
                                   const peer_rule& rule) {
  const result<unix_address> at = second_name(place, port);
  socket_fd s = open_socket();
  if (!at || !s) return socket_fd();
  if (::bind(s.get(), at->get(), at->length) != 0) {
    if (errno == EADDRINUSE && is_one_of_us(*at, rule)) return errc::in_use;
    return socket_fd();
  }
  if (::listen(s.get(), listen_backlog) != 0) return socket_fd();
  return s;
}

result<dial> dial_at(const unix_address& at, const std::string& path) {
  dial d;
  d.path = path;
  d.socket = open_socket();
  if (!d.socket) return socket_failure(errno, "making a rendezvous socket");
  if (::connect(d.socket.get(), at.get(), at.length) == 0) return d;
  if (errno == EAGAIN || errno == EINTR) {
    d.again = true;
    return d;
  }
  if (errno == ECONNREFUSED || errno == ENOENT) {
    const int saved = errno;
    return failure(errc::unreachable, "nobody listens on " + path + ": start the service")
        .with_errno(saved);
  }
  return failure::from_os(errno, "connecting to " + path);
}

failure no_listener(std::uint16_t port) {
  return {errc::unreachable, "nobody listens on port " + std::to_string(port) +
                                 " of this host by shared memory: start the service as this user "
                                 "on this host, or check the port"};
}

// Returns the same mark for all paths of a folder, whether or not the folder exists now.
std::string mark_of(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::absolute(folder, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::filesystem::path above = std::filesystem::canonical(path.parent_path(), ignored);
  if (!above.empty()) path = above / path.filename();
  constexpr std::size_t longest = 80;  // with the port, the mark is part of a name of unix(7)
  if (path.native().size() <= longest) return "folder" + path.native();
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : path.native()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return "long/" + std::to_string(hash) + path.native().substr(path.native().size() - 40);
}

bool is_owned_folder(const std::string& path) noexcept {
  struct stat s{};
  return ::lstat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == ::geteuid();
}

}  // namespace

meeting_place find_meeting_place(const std::string& configured) {
  if (!configured.empty()) return {.folders = {configured}, .mark = mark_of(configured)};
  const std::string uid = std::to_string(::geteuid());
  meeting_place m{.folders = {}, .mark = "user/" + uid};
  if (is_owned_folder("/run/user/" + uid)) m.folders.push_back("/run/user/" + uid + "/cordma");
  m.folders.push_back("/tmp/cordma-" + uid);
  return m;
}

result<void> make_directory(const std::string& path, const peer_rule& rule) {
  const result<unix_address> longest = to_address(path + "/65535@4294967295.lock");
  if (!longest) return longest.why();
  const bool made = ::mkdir(path.c_str(), rule.folder_mode()) == 0;
  if (!made && errno != EEXIST) {
    return failure::from_os(errno, "making the directory " + path +
                                       " for rendezvous sockets (CORDMA_SHM_DIRECTORY "
                                       "chooses another one)");
  }
  if (made) {
    const result<void> given = rule.give_folder(path);
    if (!given) return given;
  }
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) return failure::from_os(errno, "looking at " + path);
  if (!S_ISDIR(s.st_mode)) {
    return failure{errc::invalid_value, path +
                                            " is not a directory: choose another one for the "
                                            "rendezvous sockets of shm with CORDMA_SHM_DIRECTORY"};
  }
  if (!rule.trusts(s)) {
    return failure{errc::not_permitted,
                   path +
                       " belongs to another user or can be written by others, who could pose as "
                       "peers: chmod 700 your own, "
                       "choose another directory with CORDMA_SHM_DIRECTORY, allow a group with "
                       "CORDMA_SHM_GROUP, or "
                       "any user with CORDMA_SHM_ANY_USER"};
  }
  return {};
}

std::string port_path(const std::string& directory, std::uint16_t port) {
  return directory + "/" + std::to_string(port);
}

// ---- name_files ----

name_files::~name_files() {
  if (!lock_ || owner_.inherited()) return;
  // Unlocks last: the next owner then finds neither socket nor lock file. A forked process may have
  // a copy of the lock.
  if (is_file(path_, socket_inode_)) ::unlink(path_.c_str());
  if (is_file(lock_path_, lock_.get())) ::unlink(lock_path_.c_str());
  ::flock(lock_.get(), LOCK_UN);
}

result<void> name_files::lock() {
  result<unique_fd> lock = take_lock(lock_path_, rule_);
  if (!lock) return lock.why();
  lock_ = std::move(*lock);
  if (rule_.any_user()) static_cast<void>(::fchmod(lock_.get(), 0644));
  return {};
}

result<socket_fd> name_files::listen() {
  CORDMA_REQUIRE(is_locked());
  const result<unix_address> at = to_address(path_);
  if (!at) return at.why();
  result<socket_fd> listening = listen_at(*at, path_, rule_);
  struct stat s{};
  if (listening && ::lstat(path_.c_str(), &s) == 0) socket_inode_ = s.st_ino;
  return listening;
}

bool name_files::is_whole() const noexcept {
  return is_file(path_, socket_inode_) && is_file(lock_path_, lock_.get());
}

result<socket_fd> name_files::restore() {
  CORDMA_REQUIRE(is_locked() && !owner_.inherited());
  const result<void> folder = make_directory(path_.substr(0, path_.rfind('/')), rule_);
  if (!folder) return folder.why();
  if (!is_file(lock_path_, lock_.get())) {
    const result<void> locked = lock();
    if (!locked) return locked.code() == errc::in_use ? taken(path_) : locked.why();
  }
  if (is_file(path_, socket_inode_)) return socket_fd();
  return listen();
}

result<bound_name> bind_name(const std::string& path, const peer_rule& rule) {
  result<bound_name> b = bind_at(path, rule);
  if (b.code() == errc::in_use) return taken(path);
  return b;
}

result<bound_name> bind_port(const meeting_place& at, std::uint16_t port, const peer_rule& rule) {
  const result<void> folder = make_directory(at.folders.front(), rule);
  if (!folder) return folder.why();
  CORDMA_REQUIRE_OP(port, !=, 0);
  const std::string path = port_path(at.folders.front(), port);
  result<socket_fd> second = take_second_name(at, port, rule);
  if (!second) return taken(path);
  const auto bind = [&]() -> result<bound_name> {
    result<bound_name> first = bind_at(path, rule);
    const bool beside = first.code() == errc::in_use && is_of_other_namespace(path + ".lock");
    if (beside) return bind_at(path_beside(path), rule);
    return first;
  };
  result<bound_name> b = bind();
  if (b.code() == errc::in_use) return taken(path);
  if (b) b->second = std::move(*second);
  return b;
}

result<dial> dial_name(const std::string& path) {
  const result<unix_address> at = to_address(path);
  if (!at) return at.why();
  if (::access(path.c_str(), F_OK) != 0) {
    return failure{errc::unreachable, "nobody listens on " + path + ": start the service"};
  }
  return dial_at(*at, path);
}

result<void> find_port(const meeting_place& at, std::uint16_t port) {
  for (const std::string& folder : at.folders) {
    const std::string path = port_path(folder, port);
    if (::access(path.c_str(), F_OK) == 0 || ::access(path_beside(path).c_str(), F_OK) == 0)
      return {};
  }
  const result<unix_address> second = second_name(at, port);
  const socket_fd s = open_socket();
  if (!second || !s) return no_listener(port);
  if (::connect(s.get(), second->get(), second->length) == 0 || errno == EAGAIN) return {};
  return no_listener(port);
}

result<dial> dial_port(const meeting_place& at, std::uint16_t port) {
  for (const std::string& folder : at.folders) {
    const std::string path = port_path(folder, port);
    for (const std::string& name : {path_beside(path), path}) {
      result<dial> d = dial_name(name);
      if (d || d.code() != errc::unreachable) return d;
    }
  }
  const result<unix_address> second = second_name(at, port);
  if (!second) return no_listener(port);
  result<dial> d = dial_at(*second, port_path(at.folders.front(), port));
  if (d.code() == errc::unreachable) return no_listener(port);
  return d;
}

}  // namespace cordma::transport::shm

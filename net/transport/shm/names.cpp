#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/shm/local_host.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cstdio>
#include <cstring>
#include <optional>

namespace cordma::transport::shm {
namespace {

constexpr int listen_backlog = 4096;
constexpr int lock_attempts = 16;

// Of a file, or of a name that begins with a zero and is no file.
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

// Empty if the folder is missing. The folder counts, not its path: mount namespaces differ.
std::string second_name(const std::string& directory, std::uint16_t port) {
  struct stat s{};
  if (::stat(directory.c_str(), &s) != 0) return {};
  std::array<char, 80> text{};
  const int n = std::snprintf(text.data() + 1, text.size() - 1, "cordma/%llx.%llx/%u",
                              static_cast<unsigned long long>(s.st_dev),
                              static_cast<unsigned long long>(s.st_ino), unsigned{port});
  return {text.data(), static_cast<std::size_t>(n) + 1};
}

// Of a port that a process of another network namespace has in the same folder.
std::string path_beside(const std::string& path) {
  return path + "@" + std::to_string(own_namespace().inode);
}

failure socket_failure(int os_errno, const std::string& what) {
  if (os_errno == EMFILE || os_errno == ENFILE) {
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

// The lock file may be removed by its last owner between open() and flock(): look again.
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
    if (is_file(path, lock.get())) return lock;
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
  ::unlink(path.c_str());  // of a dead process: the lock is ours
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
  const result<unix_address> at = to_address(path);
  bound_name b;
  b.path = path;
  b.lock_path = path + ".lock";
  b.rule = rule;
  result<unique_fd> lock = take_lock(b.lock_path, rule);
  if (!lock) return lock.why();
  b.lock = std::move(*lock);
  if (rule.any_user()) static_cast<void>(::fchmod(b.lock.get(), 0644));
  result<socket_fd> listening = listen_at(*at, path, rule);
  if (!listening) return listening.why();
  b.socket = std::move(*listening);
  struct stat s{};
  if (::lstat(path.c_str(), &s) == 0) b.socket_inode = s.st_ino;
  return b;
}

// Whether a process that could have our names listens at `at`.
bool is_one_of_us(const unix_address& at, const peer_rule& rule) {
  const socket_fd s = open_socket();
  if (!s || (::connect(s.get(), at.get(), at.length) != 0 && errno != EAGAIN)) return false;
  const result<peer_identity> who = identify(s.get());
  return !who || rule.admits(s.get(), *who);
}

// None where the name is a stranger's, or there are no such names. in_use: a process of this user and this network
// namespace listens on the port, whether or not its files are still there.
result<socket_fd> take_second_name(const std::string& directory, std::uint16_t port,
                                   const peer_rule& rule) {
  const std::string name = second_name(directory, port);
  if (name.empty()) return socket_fd();
  const result<unix_address> at = to_address(name);
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

bool is_owned_folder(const std::string& path) noexcept {
  struct stat s{};
  return ::lstat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == ::geteuid();
}

}  // namespace

std::vector<std::string> rendezvous_directories(const std::string& configured) {
  if (!configured.empty()) return {configured};
  const std::string uid = std::to_string(::geteuid());
  std::vector<std::string> all;
  if (is_owned_folder("/run/user/" + uid)) all.push_back("/run/user/" + uid + "/cordma");
  all.push_back("/tmp/cordma-" + uid);
  return all;
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

// ---- bound_name ----

bound_name::~bound_name() {
  if (!lock || owner.inherited()) return;
  // The lock goes last: whoever gets it finds neither socket nor lock file. A forked process may hold a copy of it.
  if (is_file(path, socket_inode)) ::unlink(path.c_str());
  if (is_file(lock_path, lock.get())) ::unlink(lock_path.c_str());
  ::flock(lock.get(), LOCK_UN);
}

bool bound_name::is_whole() const noexcept {
  return is_file(path, socket_inode) && is_file(lock_path, lock.get());
}

result<void> bound_name::restore() {
  const result<void> folder = make_directory(path.substr(0, path.rfind('/')), rule);
  if (!folder) return folder;
  if (!is_file(lock_path, lock.get())) {
    result<unique_fd> again = take_lock(lock_path, rule);
    if (!again) return again.code() == errc::in_use ? taken(path) : again.why();
    lock = std::move(*again);
  }
  const result<unix_address> at = to_address(path);
  result<socket_fd> listening = listen_at(*at, path, rule);
  if (!listening) return listening.why();
  socket = std::move(*listening);
  struct stat s{};
  if (::lstat(path.c_str(), &s) == 0) socket_inode = s.st_ino;
  return {};
}

result<bound_name> bind_name(const std::string& path, const peer_rule& rule) {
  result<bound_name> b = bind_at(path, rule);
  if (b.code() == errc::in_use) return taken(path);
  return b;
}

result<bound_name> bind_port(const std::string& directory, std::uint16_t port,
                             const peer_rule& rule) {
  const result<void> folder = make_directory(directory, rule);
  if (!folder) return folder.why();
  const std::string path = port_path(directory, port);
  result<socket_fd> second = take_second_name(directory, port, rule);
  if (!second) return taken(path);
  const auto bind = [&]() -> result<bound_name> {
    result<bound_name> b = bind_at(path, rule);
    // The second name is free in this network namespace: who has the port is in another one.
    if (b.code() == errc::in_use && *second) return bind_at(path_beside(path), rule);
    return b;
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

result<void> find_port(std::span<const std::string> directories, std::uint16_t port) {
  for (const std::string& directory : directories) {
    const std::string path = port_path(directory, port);
    if (::access(path.c_str(), F_OK) == 0 || ::access(path_beside(path).c_str(), F_OK) == 0)
      return {};
    const std::string second = second_name(directory, port);
    const result<unix_address> at = to_address(second);
    const socket_fd s = open_socket();
    const bool can_be_asked = !second.empty() && at && s;
    if (can_be_asked && (::connect(s.get(), at->get(), at->length) == 0 || errno == EAGAIN))
      return {};
  }
  return no_listener(port);
}

result<dial> dial_port(std::span<const std::string> directories, std::uint16_t port) {
  for (const std::string& directory : directories) {
    const std::string path = port_path(directory, port);
    for (const std::string& name : {path_beside(path), path}) {
      result<dial> d = dial_name(name);
      if (d || d.code() != errc::unreachable) return d;
    }
    const std::string second = second_name(directory, port);
    const result<unix_address> at = to_address(second);
    if (second.empty() || !at) continue;
    result<dial> d = dial_at(*at, path);
    if (d || d.code() != errc::unreachable) return d;
  }
  return no_listener(port);
}

}  // namespace cordma::transport::shm

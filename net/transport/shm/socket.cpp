#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cordma/net/transport/shm/socket.hpp>
#include <cstdlib>
#include <memory>

namespace cordma::transport::shm {
namespace {

constexpr int listen_backlog = 4096;
constexpr int lock_attempts = 16;

result<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.size() >= sizeof a.sun_path) {
    return failure{errc::invalid_value, "the path of the rendezvous socket is too long (" +
                                            std::to_string(path.size()) + " of at most " +
                                            std::to_string(sizeof a.sun_path - 1) +
                                            " bytes): use a shorter directory"};
  }
  path.copy(a.sun_path, sizeof a.sun_path - 1);
  return a;
}

const sockaddr* generic(const sockaddr_un& a) noexcept {
  return reinterpret_cast<const sockaddr*>(&a);
}

failure socket_failure(int os_errno, const std::string& what) {
  if (os_errno == EMFILE || os_errno == ENFILE) {
    return failure(errc::no_memory,
                   what + ": no file descriptor is left: raise the limit with ulimit -n")
        .with_errno(os_errno);
  }
  return failure::from_os(os_errno, what);
}

result<bool> is_of_this_host(const addrinfo& a) {
  const unique_fd s(::socket(a.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!s && errno == EAFNOSUPPORT) return false;
  if (!s) return socket_failure(errno, "looking whether an address is of this host");
  return ::bind(s.get(), a.ai_addr, a.ai_addrlen) == 0;
}

// Empty for what is no IP address.
std::string text_of(const addrinfo& a) {
  char text[INET6_ADDRSTRLEN] = {};
  if (a.ai_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, a.ai_addr, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (a.ai_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, a.ai_addr, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

bool is_own_name(const std::string& host) {
  char own[256] = {};
  return ::gethostname(own, sizeof own - 1) == 0 && host == own;
}

// What a listener serves stands in its lock file. Nothing there: every address.
result<void> write_served(int lock, const std::string& path,
                          const std::vector<std::string>& addresses) {
  std::string text;
  for (const std::string& a : addresses) text += a + '\n';
  if (::ftruncate(lock, 0) == 0 &&
      (text.empty() || ::pwrite(lock, text.data(), text.size(), 0) == std::ssize(text))) {
    return {};
  }
  return failure::from_os(errno,
                          "writing the lock file " + path +
                              ", which needs free space (CORDMA_SHM_DIRECTORY chooses another "
                              "folder)");
}

// The lock file may be removed by its last owner between open() and flock(): look again.
result<unique_fd> take_lock(const std::string& path, bool any_user) {
  for (int i = 0; i < lock_attempts; ++i) {
    unique_fd lock(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, any_user ? 0666 : 0600));
    if (!lock) {
      return socket_failure(errno, "opening the lock file " + path +
                                       " (CORDMA_SHM_DIRECTORY chooses another folder)");
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return failure{errc::in_use};
      return failure::from_os(errno, "locking " + path);
    }
    struct stat mine{};
    struct stat named{};
    if (::fstat(lock.get(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
        mine.st_ino == named.st_ino) {
      return lock;
    }
  }
  return failure{errc::in_use};
}

}  // namespace

result<peer_identity> identify(int socket) {
  ucred c{};
  socklen_t n = sizeof c;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0) {
    return failure::from_os(errno, "asking who the peer is");
  }
  return peer_identity{c.pid, c.uid};
}

peer_name::peer_name(const peer_identity& who) noexcept {
  const std::string_view named = who.pid == 0 ? "a process of another pid namespace" : "process ";
  char* end = std::copy(named.begin(), named.end(), text_.data());
  if (who.pid != 0) end = std::to_chars(end, text_.data() + text_.size(), who.pid).ptr;
  size_ = static_cast<std::size_t>(end - text_.data());
}

result<std::string> rendezvous_directory(const std::string& configured, bool any_user) {
  const std::string path =
      configured.empty() ? "/tmp/cordma-" + std::to_string(::geteuid()) : configured;
  const result<sockaddr_un> longest = socket_address(path + "/65535.lock");
  if (!longest) return longest.why();
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return failure::from_os(errno, "making the directory " + path +
                                       " for rendezvous sockets (CORDMA_SHM_DIRECTORY "
                                       "chooses another one)");
  }
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) return failure::from_os(errno, "looking at " + path);
  if (!S_ISDIR(s.st_mode)) {
    return failure{errc::invalid_value, path +
                                            " is not a directory: choose another one for the "
                                            "rendezvous sockets of shm with CORDMA_SHM_DIRECTORY"};
  }
  if (!any_user && (s.st_uid != ::geteuid() || (s.st_mode & 022) != 0)) {
    return failure{errc::not_permitted,
                   path +
                       " belongs to another user or can be written by others, who could pose as "
                       "peers: chmod 700 your own, "
                       "choose another directory with CORDMA_SHM_DIRECTORY, or allow any user with "
                       "CORDMA_SHM_ANY_USER"};
  }
  return path;
}

result<named_host> look_up(const std::string& host) {
  if (host.empty()) return named_host{host, true, {}};
  if (host == "localhost") return named_host{host, true, {"127.0.0.1", "::1"}};
  // A machine's own name need not be known to anybody.
  named_host n{host, is_own_name(host), {}};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return n;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &::freeaddrinfo);
  bool every = false;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    std::string text = text_of(*a);
    if (text.empty()) continue;
    if (!n.here) {
      const result<bool> here = is_of_this_host(*a);
      if (!here) return here.why();
      n.here = *here;
    }
    every = every || text == "0.0.0.0" || text == "::";
    n.addresses.push_back(std::move(text));
  }
  if (every) n.addresses.clear();
  return n;
}

result<bool> serves(const std::string& path, const named_host& wanted) {
  const unique_fd lock(
      ::open((path + ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!lock && errno == ELOOP) return false;
  // A listener that lets nobody else read it refuses us itself.
  if (!lock && errno != ENOENT && errno != EACCES) {
    return socket_failure(errno, "looking what is served at " + path);
  }
  std::array<char, 4096> text;
  const ssize_t n = lock ? ::pread(lock.get(), text.data(), text.size(), 0) : 0;
  if (n <= 0) return n == 0;  // nothing there: every address
  const std::string served = '\n' + std::string(text.data(), static_cast<std::size_t>(n));
  return wanted.addresses.empty() ||
         std::ranges::any_of(wanted.addresses, [&served](const std::string& one) {
           return served.find('\n' + one + '\n') != std::string::npos;
         });
}

bound_name::~bound_name() {
  if (!lock) return;
  // The lock goes last: whoever gets it finds neither socket nor lock file.
  ::unlink(path.c_str());
  ::unlink(lock_path.c_str());
}

std::string port_path(const std::string& directory, std::uint16_t port) {
  return directory + "/" + std::to_string(port);
}

result<bound_name> bind_name(const std::string& path, bool any_user,
                             const std::vector<std::string>& addresses) {
  const result<sockaddr_un> where = socket_address(path + ".lock");
  if (!where) return where.why();
  const result<sockaddr_un> at = socket_address(path);
  bound_name b;
  b.path = path;
  b.lock_path = path + ".lock";
  result<unique_fd> lock = take_lock(b.lock_path, any_user);
  if (!lock) {
    if (lock.code() != errc::in_use) return lock.why();
    return failure{errc::in_use, "a living process listens on " + path +
                                     " already: choose another port, or stop it"};
  }
  b.lock = std::move(*lock);
  if (any_user) static_cast<void>(::fchmod(b.lock.get(), 0644));  // whoever connects reads it
  const result<void> written = write_served(b.lock.get(), b.lock_path, addresses);
  if (!written) return written.why();
  b.socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!b.socket) return socket_failure(errno, "making a rendezvous socket");
  ::unlink(path.c_str());  // of a dead process: the lock is ours
  if (::bind(b.socket.get(), generic(*at), sizeof *at) != 0) {
    return socket_failure(errno, "binding " + path);
  }
  if (::chmod(path.c_str(), any_user ? 0666 : 0600) != 0 ||
      ::listen(b.socket.get(), listen_backlog) != 0) {
    return socket_failure(errno, "listening on " + path);
  }
  return b;
}

result<dial> dial_name(const std::string& path) {
  const result<sockaddr_un> at = socket_address(path);
  if (!at) return at.why();
  if (::access(path.c_str(), F_OK) != 0) {
    return failure{errc::unreachable, "nobody listens on " + path + ": start the service"};
  }
  dial d;
  d.socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!d.socket) return socket_failure(errno, "making a rendezvous socket");
  if (::connect(d.socket.get(), generic(*at), sizeof *at) == 0) return d;
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

unique_fd accept_one(int listening) noexcept {
  return unique_fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

transfer send_packet(int socket, std::span<const std::byte> bytes,
                     std::span<const int> fds) noexcept {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_packet_fds)> room{};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    CORDMA_ASSERT(fds.size() <= most_packet_fds);
    m.msg_control = room.data();
    m.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return transfer::done;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS ? transfer::again
                                                                        : transfer::gone;
  }
}

transfer receive_packet(int socket, received_packet& into) noexcept {
  into.size = 0;
  into.fd_count = 0;
  into.lost_fds = false;
  iovec part{into.storage.data(), into.storage.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_packet_fds)> room{};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = room.data();
  m.msg_controllen = room.size();
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN ? transfer::again : transfer::gone;
  into.lost_fds = (m.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      unique_fd owned(fd);
      if (into.fd_count < into.fds.size()) into.fds[into.fd_count++] = std::move(owned);
    }
  }
  if (n == 0) return transfer::gone;
  into.size = static_cast<std::size_t>(n);
  return transfer::done;
}

// Shut down first: from then on nothing arrives, so that nothing is unread at the close.
void hang_up(unique_fd& socket) noexcept {
  ::shutdown(socket.get(), SHUT_RDWR);
  received_packet unread;
  while (receive_packet(socket.get(), unread) == transfer::done) unread.fds = {};
  socket.reset();
}

bool hung_up(int socket) noexcept {
  pollfd p{socket, POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

}  // namespace cordma::transport::shm

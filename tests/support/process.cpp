#include <support/process.hpp>

#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>

namespace cordma::test {

namespace {
constexpr std::size_t longest_line = 512;
constexpr unsigned seconds_to_live = 250;  // a child that hangs does not outlive the test by much
}  // namespace

wire_to_peer::wire_to_peer(wire_to_peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

wire_to_peer& wire_to_peer::operator=(wire_to_peer&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

wire_to_peer::~wire_to_peer() {
  if (fd_ >= 0) ::close(fd_);
}

void wire_to_peer::tell(const std::string& line) {
  // A missing peer is detected by the next read.
  static_cast<void>(::send(fd_, line.data(), line.size(), MSG_NOSIGNAL));
}

std::string wire_to_peer::hear() {
  char line[longest_line];
  ssize_t n = 0;
  do {
    n = ::recv(fd_, line, sizeof line, 0);
  } while (n < 0 && errno == EINTR);
  return n > 0 ? std::string(line, static_cast<std::size_t>(n)) : std::string();
}

std::optional<std::string> wire_to_peer::hear_now() {
  char line[longest_line];
  const ssize_t n = ::recv(fd_, line, sizeof line, MSG_DONTWAIT);
  if (n < 0) return std::nullopt;
  return std::string(line, static_cast<std::size_t>(n));
}

child_process::child_process(const std::function<int(wire_to_peer&)>& life) : wire_(-1) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  wire_to_peer mine(ends[pid_ == 0 ? 1 : 0]);
  wire_to_peer theirs(ends[pid_ == 0 ? 0 : 1]);
  if (pid_ != 0) {
    wire_ = std::move(mine);
    return;
  }
  { const wire_to_peer closed = std::move(theirs); }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(seconds_to_live);
  int status = 1;
  try {
    status = life(mine);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "child process: %s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(status);
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), wire_(std::move(other.wire_)) {}

child_process::~child_process() { kill(); }

void child_process::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  static_cast<void>(join());
}

void child_process::stop_it() { ::kill(pid_, SIGSTOP); }
void child_process::continue_it() { ::kill(pid_, SIGCONT); }

int child_process::join() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cordma::test

#include "resp_client.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace kv::cli {
namespace {

constexpr std::size_t most_waiting = std::size_t{1} << 20;  // unsent bytes

// Appends a sign, decimal digits and a line end.
void append_count(std::string& to, char sign, std::size_t n) {
  char digits[24];
  digits[0] = sign;
  char* const end = std::to_chars(digits + 1, digits + sizeof digits, n).ptr;
  to.append(digits, end);
  to += "\r\n";
}

cordma::unique_fd connect_unix(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) throw std::runtime_error("the path is too long");
  std::memcpy(at.sun_path, path.data(), path.size());
  cordma::unique_fd s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (s.get() < 0 || ::connect(s.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    throw std::runtime_error(std::strerror(errno));
  }
  return s;
}

cordma::unique_fd connect_tcp(const std::string& server) {
  const std::size_t colon = server.rfind(':');
  std::string host = server.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? "6379" : server.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) throw std::runtime_error(::gai_strerror(code));
  std::string why = "no address";
  cordma::unique_fd s;
  for (const addrinfo* at = found; at != nullptr && s.get() < 0; at = at->ai_next) {
    s = cordma::unique_fd(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (s.get() >= 0 && ::connect(s.get(), at->ai_addr, at->ai_addrlen) == 0) break;
    why = std::strerror(errno);
    s = cordma::unique_fd();
  }
  ::freeaddrinfo(found);
  if (s.get() < 0) throw std::runtime_error(why);
  const int on = 1;
  ::setsockopt(s.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

}  // namespace

resp_client::resp_client(const std::string& server, const resp_options& options)
    : server_(server), timeout_(options.timeout) {
  try {
    const bool is_path = server.find('/') != std::string::npos;
    socket_ = is_path ? connect_unix(server) : connect_tcp(server);
  } catch (const std::runtime_error& e) {
    fail(e.what());
  }
  using std::chrono::seconds;
  const auto whole = std::chrono::duration_cast<seconds>(timeout_);
  const timeval most{.tv_sec = whole.count(),
                     .tv_usec = std::chrono::microseconds(timeout_ - whole).count()};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  greet(options);
}

void resp_client::fail(const std::string& why) const {
  throw std::runtime_error(server_ + ": " + why);
}

void resp_client::greet(const resp_options& options) {
  resp_value said;
  const std::string_view user = options.user.empty() ? "default" : options.user;
  if (options.version == 3 && !options.password.empty()) {
    said = call({"HELLO", "3", "AUTH", user, options.password});
  } else if (options.version == 3) {
    said = call({"HELLO", "3"});
  } else if (!options.password.empty() && options.user.empty()) {
    said = call({"AUTH", options.password});
  } else if (!options.password.empty()) {
    said = call({"AUTH", user, options.password});
  }
  if (said.is_error()) fail(said.text);
}

void resp_client::add(std::span<const std::string_view> words) {
  if (out_.size() >= most_waiting) flush();
  append_count(out_, '*', words.size());
  for (const std::string_view w : words) {
    append_count(out_, '$', w.size());
    out_.append(w);
    out_ += "\r\n";
  }
}

// Waits until more can be sent, or until there are replies to read, which otherwise block the
// server.
void resp_client::wait_for_room() {
  pollfd at{.fd = socket_.get(), .events = POLLIN | POLLOUT, .revents = 0};
  const int most_ms = timeout_.count() == 0 ? -1 : static_cast<int>(timeout_.count());
  int ready = 0;
  do {
    ready = ::poll(&at, 1, most_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) fail_late();
}

void resp_client::fail_late() const {
  fail("no answer within " + std::to_string(timeout_.count()) + " ms");
}

void resp_client::take_in(patience p) {
  const std::span<char> room = in_.room();
  const int flags = p == patience::none ? MSG_DONTWAIT : 0;
  ssize_t n = 0;
  do {
    n = ::recv(socket_.get(), room.data(), room.size(), flags);
  } while (n < 0 && errno == EINTR);
  if (n > 0) return in_.received(static_cast<std::size_t>(n));
  if (n == 0) fail("the server has closed the connection");
  if (errno != EAGAIN) fail(std::strerror(errno));
  if (p == patience::all) fail_late();
}

void resp_client::flush() {
  std::string_view left = out_;
  while (!left.empty()) {
    const ssize_t n = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      left.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      wait_for_room();
      take_in(patience::none);
    } else if (errno != EINTR) {
      fail(std::strerror(errno));
    }
  }
  out_.clear();
}

const resp_value& resp_client::receive() {
  for (;;) {
    while (!in_.next(reply_)) take_in(patience::all);
    if (reply_.what != resp_value::kind::push) return reply_;
  }
}

resp_value resp_client::call(std::span<const std::string_view> words) {
  add(words);
  flush();
  return receive();
}

}  // namespace kv::cli

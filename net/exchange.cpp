#include <cordma/net/exchange.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>

namespace cordma {
namespace {

// Format on the socket: the length in 4 bytes, little-endian; then the bytes.
using length_field = std::array<std::byte, 4>;
static_assert(max_exchanged <= UINT32_MAX);
static_assert(sizeof(length_field) == sizeof(std::uint32_t));

failure too_long(const char* what) {
  return {errc::invalid_value,
          std::string(what) + ": more than " + std::to_string(max_exchanged) + " bytes"};
}

// Returns whether all bytes were written; otherwise errno is set.
template <class Put>
bool put_all(std::span<const std::byte> bytes, Put put) {
  while (!bytes.empty()) {
    const ssize_t n = put(bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

failure socket_failure(const char* doing) {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return {errc::timed_out, std::string(doing) + ": the peer took longer than the socket allows"};
  }
  return failure::from_os(errno, doing);
}

result<void> get_all(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return socket_failure("receiving what the peer has");
    if (n == 0) return failure{errc::connection_reset, "the peer closed before it had said all"};
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

result<void> write_exchanged(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() > max_exchanged) return too_long("what is to be written");
  // rename() would replace a device by the file, for all its users.
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return failure{errc::invalid_value,
                   path +
                       " is there and is no regular file: it is not replaced; name a file of "
                       "its own for what is exchanged"};
  }
  std::string beside = path + ".XXXXXX";
  const unique_fd file(::mkostemp(beside.data(), O_CLOEXEC));
  if (!file) return failure::from_os(errno, "making a file beside " + path);
  const bool written = put_all(bytes, [&file](std::span<const std::byte> rest) {
    return ::write(file.get(), rest.data(), rest.size());
  });
  if (written && ::rename(beside.c_str(), path.c_str()) == 0) return {};
  failure why = failure::from_os(errno, "writing " + path);
  ::unlink(beside.c_str());
  return why;
}

result<std::vector<std::byte>> read_exchanged(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return failure::from_os(errno, "opening " + path);
  struct stat there{};
  if (::fstat(file.get(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return failure{errc::invalid_value, path + " is no regular file: nothing is exchanged by it"};
  }
  std::vector<std::byte> bytes(max_exchanged + 1);
  std::size_t had = 0;
  while (had < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + had, bytes.size() - had);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure::from_os(errno, "reading " + path);
    if (n == 0) break;
    had += static_cast<std::size_t>(n);
  }
  if (had > max_exchanged) return too_long(path.c_str());
  bytes.resize(had);
  return bytes;
}

result<std::vector<std::byte>> exchange_over(int socket, std::span<const std::byte> bytes) {
  if (bytes.size() > max_exchanged) return too_long("what is to be sent");
  length_field length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(bytes.size() >> (8 * i));
  }
  const auto send = [socket](std::span<const std::byte> rest) {
    return ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
  };
  if (!put_all(length, send) || !put_all(bytes, send)) {
    return socket_failure("sending what this side has");
  }
  const result<void> announced = get_all(socket, length);
  if (!announced) return announced.why();
  std::size_t count = 0;
  for (std::size_t i = 0; i < length.size(); ++i) {
    count |= std::to_integer<std::size_t>(length[i]) << (8 * i);
  }
  if (count > max_exchanged) return too_long("what the peer announced");
  std::vector<std::byte> theirs(count);
  const result<void> came = get_all(socket, theirs);
  if (!came) return came.why();
  return theirs;
}

}  // namespace cordma

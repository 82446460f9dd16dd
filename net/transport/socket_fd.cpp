#include <cordma/net/transport/socket_fd.hpp>

#include <sys/socket.h>

namespace cordma::transport {

void socket_fd::close() noexcept {
  if (fd_ && !inherited()) ::shutdown(fd_.get(), SHUT_RDWR);
  fd_.reset();
}

void socket_fd::reset_connection() noexcept {
  // tcp(7): dissolving the association of a socket resets it. A lingering close() does so only for
  // the last copy.
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (fd_ && !inherited()) ::connect(fd_.get(), &nobody, sizeof nobody);
  fd_.reset();
}

}  // namespace cordma::transport

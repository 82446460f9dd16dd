#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/shortage.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>
#include <new>

namespace cordma::transport::tcp {

result<std::unique_ptr<tcp_listener>> tcp_listener::open(tcp_adapter& home, const address& where) {
  result<std::vector<socket_fd>> opened = open_listeners(where, home.owner().options().backlog);
  if (!opened) return opened.why();
  address bound{.host = where.host, .port = local_of(opened->front().get()).port()};
  auto made = std::make_unique<tcp_listener>(home, std::move(*opened), std::move(bound));
  for (const auto& d : made->doors_) {
    const result<void> watching = d->begin();
    if (!watching) return watching.why();
  }
  return made;
}

tcp_listener::tcp_listener(tcp_adapter& home, std::vector<socket_fd> sockets, address bound)
    : home_(home), bound_(std::move(bound)) {
  CORDMA_REQUIRE_OP(sockets.size(), >, 0U);
  for (socket_fd& fd : sockets) doors_.push_back(std::make_unique<door>(*this, std::move(fd)));
}

tcp_listener::~tcp_listener() {
  home_.drop_events(*this);
  home_.orphan(*this);
}

std::vector<address> tcp_listener::bound_all() const {
  if (bound_.host.empty()) return {bound_};
  std::vector<address> all;
  for (const auto& d : doors_) all.push_back(d->where());
  return all;
}

tcp_listener::door::door(tcp_listener& of, socket_fd fd)
    : of_(of),
      socket_(of.home_.sockets(), *this),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  socket_.own(std::move(fd));
}

result<void> tcp_listener::door::begin() noexcept { return socket_.watch(EPOLLIN); }

void tcp_listener::door::on_ready(std::uint32_t) noexcept {
  for (int i = 0; i < most_accepts_per_poll; ++i) {
    socket_fd fd = accept_one();
    if (fd) {
      at_limit_since_.reset();
      try {
        of_.home_.begin_incoming(&of_, std::move(fd));
      } catch (const std::bad_alloc&) {
        // The client finds its socket closed, which is an answer.
      }
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // No descriptors or no memory: the client waits in the backlog. Trying again at once would
    // spin.
    const time_point now = of_.home_.home().now();
    if (!at_limit_since_) at_limit_since_ = now;
    const bool lasts = at_descriptor_limit(errno) && now - *at_limit_since_ >= patience_at_limit;
    if (lasts && turn_away()) continue;
    static_cast<void>(socket_.watch(0));  // watched already
    of_.home_.home().add(resume_, of_.home_.home().now() + pause_at_limit);
    return;
  }
}

socket_fd tcp_listener::door::accept_one() noexcept {
  return socket_fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

bool tcp_listener::door::turn_away() noexcept {
  spare_.reset();
  socket_fd client = accept_one();
  if (client) {
    // Unread input would make the kernel discard the answer.
    hello_buffer unread;
    while (::recv(client.get(), unread.data(), unread.size(), 0) > 0) {}
    // A client that is disconnected needs no answer.
    static_cast<void>(send_whole_hello(client.get(), {.kind = hello_kind::exhausted}));
  }
  const bool came = static_cast<bool>(client);
  if (!came) at_limit_since_.reset();
  client.close();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return came;
}

}  // namespace cordma::transport::tcp

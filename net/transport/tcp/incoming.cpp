#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/tcp/incoming.hpp>
#include <new>

namespace cordma::transport::tcp {

hello_reader::progress hello_reader::read(int fd) noexcept {
  for (;;) {
    value = decode_hello({bytes.data(), have});
    if (value.what != decoded_hello::outcome::partial) return progress::decoded;
    const ssize_t n = ::recv(fd, &bytes[have], value.size - have, 0);
    if (n > 0) {
      have += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && errno == EAGAIN ? progress::more : progress::closed;
  }
}

bool send_whole_hello(int fd, const hello& h) noexcept {
  hello_buffer bytes;
  const std::size_t size = encode(h, bytes);
  return ::send(fd, bytes.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

tcp_listener::timed::timed(tcp_listener& l) noexcept
    : timer([](timer& t) noexcept {
        tcp_listener& self = *static_cast<timed&>(t).owner;
        self.home_.rewatch(self.fd_.get(), self, EPOLLIN);
      }),
      owner(&l) {}

tcp_listener::tcp_listener(tcp_adapter& home, unique_fd fd, address bound)
    : home_(home), fd_(std::move(fd)), bound_(std::move(bound)), resume_(*this) {}

tcp_listener::~tcp_listener() {
  home_.drop_events(nullptr, this);
  home_.orphan(*this);
}

void tcp_listener::on_ready(std::uint32_t) noexcept {
  for (int i = 0; i < most_accepts_per_poll; ++i) {
    unique_fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      try {
        home_.begin_incoming(this, std::move(fd));
      } catch (const std::bad_alloc&) {
        // The client finds its socket closed, which is an answer.
      }
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // No descriptors or no memory: the client waits in the backlog. Asking again at once would
    // spin.
    home_.rewatch(fd_.get(), *this, 0);
    home_.home().add(resume_, home_.home().now() + pause_at_limit);
    return;
  }
}

incoming::timed::timed(incoming& i) noexcept
    : timer([](timer& t) noexcept {
        incoming& self = *static_cast<timed&>(t).owner;
        self.home_->gone(self);
      }),
      owner(&i) {}

incoming::incoming(tcp_adapter& home, tcp_listener* from, unique_fd fd, std::uint64_t id)
    : home_(&home), from_(from), fd_(std::move(fd)), id_(id), deadline_(*this) {
  home_->add_waiting(1);
}

incoming::~incoming() {
  if (!greeted_) home_->add_waiting(-1);
}

result<void> incoming::begin() {
  home_->home().add(deadline_, home_->home().now() + hello_timeout);
  return home_->watch(fd_.get(), *this, EPOLLIN);
}

void incoming::on_ready(std::uint32_t) noexcept {
  // Once greeted, the client has nothing to say: it gave up, or breaks the rules.
  if (greeted_) return home_->gone(*this);
  switch (reader_.read(fd_.get())) {
    case hello_reader::progress::more: return;
    case hello_reader::progress::closed: return home_->gone(*this);
    case hello_reader::progress::decoded: break;
  }
  const decoded_hello& d = reader_.value;
  if (d.what != decoded_hello::outcome::whole || !opens(d.value.kind)) {
    refuse(d);
    return home_->gone(*this);
  }
  greeted_ = true;
  home_->add_waiting(-1);
  home_->home().remove(deadline_);
  try {
    home_->requested(*this);
  } catch (const std::bad_alloc&) {
    home_->gone(*this);  // the client finds its socket closed
  }
}

void incoming::refuse(const decoded_hello& d) noexcept {
  if (d.what != decoded_hello::outcome::other) return;
  hello h;
  h.kind = hello_kind::mismatch;
  h.field = d.field;
  h.field_value = d.mine;
  answer(h);
}

void incoming::answer(const hello& h) noexcept {
  // A client that is gone needs no answer.
  static_cast<void>(send_whole_hello(fd_.get(), h));
}

void incoming::detach() noexcept {
  static_cast<void>(::epoll_ctl(home_->wait_fd(), EPOLL_CTL_DEL, fd_.get(), nullptr));
  from_ = nullptr;
}

}  // namespace cordma::transport::tcp

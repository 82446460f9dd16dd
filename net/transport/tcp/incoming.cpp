#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cordma/net/transport/shortage.hpp>
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
    if (n < 0 && errno == EAGAIN) return progress::more;
    return n < 0 && errno == ECONNRESET && have == 0 ? progress::reset : progress::closed;
  }
}

bool send_whole_hello(int fd, const hello& h) noexcept {
  hello_buffer bytes;
  const std::size_t size = encode(h, bytes);
  return ::send(fd, bytes.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

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
  for (socket_fd& fd : sockets) doors_.push_back(std::make_unique<door>(*this, std::move(fd)));
}

tcp_listener::~tcp_listener() {
  home_.drop_events(nullptr, this);
  home_.orphan(*this);
}

std::vector<address> tcp_listener::bound_all() const {
  if (bound_.host.empty()) return {bound_};
  std::vector<address> all;
  for (const auto& d : doors_) all.push_back(d->where());
  return all;
}

tcp_listener::door::timed::timed(door& d) noexcept
    : timer([](timer& t) noexcept {
        static_cast<void>(static_cast<timed&>(t).owner->begin());  // watched already
      }),
      owner(&d) {}

tcp_listener::door::door(tcp_listener& of, socket_fd fd)
    : of_(of),
      socket_(of.home_.sockets(), *this),
      resume_(*this),
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
    // No descriptors or no memory: the client waits in the backlog. Asking again at once would
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
    // What was said and is not read would take the answer with it.
    hello_buffer unread;
    while (::recv(client.get(), unread.data(), unread.size(), 0) > 0) {}
    hello no;
    no.kind = hello_kind::exhausted;
    static_cast<void>(send_whole_hello(client.get(), no));  // a client that is gone needs no answer
  }
  const bool came = static_cast<bool>(client);
  if (!came) at_limit_since_.reset();
  client.close();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return came;
}

incoming::timed::timed(incoming& i) noexcept
    : timer([](timer& t) noexcept {
        incoming& self = *static_cast<timed&>(t).owner;
        self.home_->gone(self);
      }),
      owner(&i) {}

incoming::incoming(tcp_adapter& home, tcp_listener* from, socket_fd fd, std::uint64_t id)
    : home_(&home), from_(from), socket_(home.sockets(), *this), id_(id), deadline_(*this) {
  socket_.own(std::move(fd));
  home_->add_waiting(1);
}

incoming::~incoming() {
  if (!greeted_) home_->add_waiting(-1);
}

result<void> incoming::begin() {
  home_->home().add(deadline_, home_->home().now() + hello_timeout);
  return socket_.watch(EPOLLIN);
}

void incoming::on_ready(std::uint32_t) noexcept {
  // Once greeted, the client has nothing to say: it gave up, or breaks the rules.
  if (greeted_) return home_->gone(*this);
  switch (reader_.read(socket_.get())) {
    case hello_reader::progress::more: return;
    case hello_reader::progress::reset:
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
  if (socket_.inherited()) return;  // the parent answers
  // A client that is gone needs no answer.
  static_cast<void>(send_whole_hello(socket_.get(), h));
}

void incoming::detach() noexcept {
  socket_.leave_set();
  from_ = nullptr;
}

}  // namespace cordma::transport::tcp

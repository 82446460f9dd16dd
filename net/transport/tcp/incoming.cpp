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
    value_ = decode_hello({bytes_.data(), have_});
    if (value_.what != decoded_hello::outcome::partial) return progress::decoded;
    CORDMA_ASSERT_OP(have_, <, value_.size);
    CORDMA_ASSERT_OP(value_.size, <=, bytes_.size());
    const ssize_t n = ::recv(fd, &bytes_[have_], value_.size - have_, 0);
    if (n > 0) {
      have_ += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return progress::more;
    return n < 0 && errno == ECONNRESET && have_ == 0 ? progress::reset : progress::closed;
  }
}

bool send_whole_hello(int fd, const hello& h) noexcept {
  hello_buffer bytes;
  const std::size_t size = encode(h, bytes);
  CORDMA_ASSERT_OP(size, <=, bytes.size());
  return ::send(fd, bytes.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

incoming::incoming(tcp_adapter& home, tcp_listener* from, socket_fd fd, std::uint64_t id)
    : home_(&home), from_(from), socket_(home.sockets(), *this), id_(id) {
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
  // After its hello, the client has nothing to send: it gave up, or breaks the protocol.
  if (greeted_) return home_->gone(*this);
  switch (reader_.read(socket_.get())) {
    case hello_reader::progress::more: return;
    case hello_reader::progress::reset:
    case hello_reader::progress::closed: return home_->gone(*this);
    case hello_reader::progress::decoded: break;
  }
  const decoded_hello& d = reader_.value();
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
  answer({.kind = hello_kind::mismatch, .field = d.field, .field_value = d.mine});
}

void incoming::answer(const hello& h) noexcept {
  if (socket_.inherited()) return;  // the parent process answers
  // A client that is disconnected needs no answer.
  static_cast<void>(send_whole_hello(socket_.get(), h));
}

void incoming::detach() noexcept {
  CORDMA_REQUIRE(greeted_);
  socket_.leave_set();
  from_ = nullptr;
}

}  // namespace cordma::transport::tcp

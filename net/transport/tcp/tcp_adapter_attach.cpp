// The port on which peers connect that have a descriptor of this side.
#include <algorithm>
#include <cordma/net/transport/tcp/connection_handshake.hpp>
#include <new>

namespace cordma::transport::tcp {

result<std::uint16_t> tcp_adapter::attach_port() {
  if (attach_listener_ == nullptr) {
    result<std::unique_ptr<tcp_listener>> made = tcp_listener::open(*this, {});
    if (!made) return made.why();
    attach_listener_ = std::move(*made);
  }
  return attach_listener_->bound().port;
}

void tcp_adapter::attach(incoming& caller) noexcept {
  const hello& h = caller.greeting();
  const auto wanted = [&h](const connection* c) { return c->own_token() == h.peer; };
  const auto at = std::find_if(by_token_.begin(), by_token_.end(), wanted);
  const bool known = at != by_token_.end() && h.kind == hello_kind::attach;
  if (known && (*at)->idle()) return;  // its connect() has yet to be called: find_caller()
  if (!known || !(*at)->expects(h.own)) {
    caller.answer({.kind = hello_kind::reject});
    return gone(caller);
  }
  connection& c = **at;
  CORDMA_ASSERT(caller.greeted());
  const hello theirs = h;
  caller.detach();
  socket_fd fd = caller.release();
  gone(caller);
  try {
    // If the caller has disconnected meanwhile it will connect again, or connect_timeout ends it.
    static_cast<void>(c.adopt(std::move(fd), theirs, c.greeting(hello_kind::accept)));
  } catch (const std::bad_alloc&) {
    c.starve();
  }
}

void tcp_adapter::find_caller(connection& c) noexcept {
  for (auto& [id, caller] : incoming_) {
    const hello& h = caller->greeting();
    if (caller->greeted() && h.kind == hello_kind::attach && h.peer == c.own_token()) {
      return attach(*caller);
    }
  }
}

}  // namespace cordma::transport::tcp

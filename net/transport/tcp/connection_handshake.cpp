#include <sys/epoll.h>

#include <cerrno>
#include <cordma/net/transport/tcp/connection_handshake.hpp>

namespace cordma::transport::tcp {
namespace {

failure cannot_reach(int code, const socket_address& to, std::string_view peer) noexcept {
  if (code == ECONNREFUSED) {
    return failure::of(errc::unreachable, {"nobody listens on ", peer,
                                           ": start the service there, or check host and port"})
        .with_errno(code);
  }
  if (code == ETIMEDOUT) {
    return failure::of(errc::timed_out, {peer, " does not answer: check the address and firewalls"})
        .with_errno(code);
  }
  if (code == EADDRNOTAVAIL && has_address_for(to)) {
    return failure::of(errc::no_memory, {"connecting to ", peer,
                                         ": no local port is left for this address: close "
                                         "connections, wait for those that ended "
                                         "(TIME_WAIT), or widen net.ipv4.ip_local_port_range"})
        .with_errno(code);
  }
  return failure::from_os(code, {"connecting to ", peer});
}

failure differs(const decoded_hello& d, const std::string& peer) {
  return failure{errc::unsupported_version,
                 std::string("the handshake with ") + peer + " failed: " +
                     std::string(name(d.field)) + ": mine " + std::to_string(d.mine) + ", theirs " +
                     std::to_string(d.theirs) + ": run the same release on both sides"};
}

std::uint32_t own_value(hello_field f) noexcept {
  switch (f) {
    case hello_field::version: return wire_version;
    case hello_field::service: return static_cast<std::uint32_t>(service::rc);
    case hello_field::header_bytes: return plain_header;
    case hello_field::none: break;
  }
  return 0;
}

// The last attempt counts, except where this machine could not even try: a name may have addresses of a family that is
// off.
void note(failure& last, failure why) noexcept {
  const int code = why.os_errno();
  const bool no_family = code == EAFNOSUPPORT || code == ENETUNREACH ||
                         (code == EADDRNOTAVAIL && why.code() != errc::no_memory);
  if (!no_family || last.code() == errc::ok) last = std::move(why);
}

}  // namespace

hello connection::greeting(hello_kind kind) const noexcept {
  hello h;
  h.kind = kind;
  h.read_depth = options_.read_depth;
  h.recv_depth = options_.recv_depth;
  h.credit = static_cast<std::uint16_t>(receives_.posted);
  h.own = own_token_;
  h.peer = peer_token_;
  return h;
}

result<void> connection::start(std::vector<socket_address> candidates, std::string peer,
                               const hello& first) {
  peer_ = std::move(peer);
  handshake_ = std::make_unique<handshake>(*this);
  handshake_->candidates = std::move(candidates);
  handshake_->first = first;
  CORDMA_REQUIRE(!handshake_->candidates.empty());
  home_.home().add(watch_timer_, after(home_.home().now(), options_.connect_timeout));
  phase_.become(phase::connecting);
  // What keeps this process from trying at all is told at once; what keeps the peer away, later.
  const int family = handshake_->candidates.front().family();
  result<socket_fd> first_socket = open_stream(family);
  if (!first_socket && first_socket.code() == errc::no_memory) return first_socket.why();
  if (first_socket) socket_.own(std::move(*first_socket));
  waiting_ = true;
  home_.add_waiting(1);
  try_next_candidate();
  return {};
}

void connection::try_next_candidate() noexcept {
  CORDMA_ASSERT(handshake_ != nullptr);
  handshake& h = *handshake_;
  while (h.next < h.candidates.size()) {
    const socket_address& to = h.candidates[h.next++];
    if (!socket_) {
      result<socket_fd> opened = open_stream(to.family());
      if (!opened) {
        note(h.last, opened.why());
        continue;
      }
      socket_.own(std::move(*opened));
    }
    tune(socket_.get(), options_.peer_timeout);
    int code = ::connect(socket_.get(), to.get(), to.length()) == 0 ? 0 : errno;
    if (code == 0 || code == EINPROGRESS) {
      const result<void> watching = socket_.watch(EPOLLOUT);
      if (watching) return;
      note(h.last, watching.why());
    } else {
      note(h.last, cannot_reach(code, to, peer_));
    }
    socket_.close();
  }
  never_came_up(h.last);
}

void connection::on_connected() noexcept {
  int code = take_error(socket_.get());
  // A socket that connects to a free port of its own range may meet itself.
  if (code == 0 && local_of(socket_.get()) == peer_of(socket_.get())) code = ECONNREFUSED;
  if (code == ECONNRESET) return call_again();
  if (code != 0) {
    handshake& h = *handshake_;
    note(h.last, cannot_reach(code, h.candidates[h.next - 1], peer_));
    socket_.close();
    return try_next_candidate();
  }
  hello& h = handshake_->first;
  h.credit = static_cast<std::uint16_t>(receives_.posted);
  told_credit_ = receives_.posted;
  if (!send_hello(h)) return call_again();
  handshake_->said_hello = home_.home().now();
  phase_.become(phase::greeting);
  static_cast<void>(socket_.watch(EPOLLIN));  // watched already
}

bool connection::send_hello(const hello& h) noexcept { return send_whole_hello(socket_.get(), h); }

// A listener that is busy for long and has a full backlog: its kernel has forgotten the connection, and says so to what
// is sent by it. connect_timeout ends this.
void connection::call_again() noexcept {
  constexpr duration longest_pause = std::chrono::milliseconds(500);
  handshake& h = *handshake_;
  h.last = failure::of(
      errc::timed_out,
      {peer_,
       " broke off every connection within connect_timeout before it answered: the backlog of "
       "its listener may be full (tcp.backlog, net.core.somaxconn), or it is no cordma "
       "service"});
  socket_.close();
  if (phase_ != phase::connecting) phase_.become(phase::connecting);
  h.reader = {};
  CORDMA_ASSERT_OP(h.next, >, 0U);
  --h.next;
  home_.home().add(h.again, home_.home().now() + h.pause);
  h.pause = std::min(2 * h.pause, longest_pause);
}

void connection::receive_hello() {
  switch (handshake_->reader.read(socket_.get())) {
    case hello_reader::progress::more: return;
    case hello_reader::progress::decoded: return answered(handshake_->reader.value);
    case hello_reader::progress::reset: return call_again();
    case hello_reader::progress::closed: break;
  }
  // A listener gives up a client whose hello does not come, and one with a full backlog may have lost it.
  constexpr duration at_once = std::chrono::seconds(1);
  const bool waited = home_.home().now() - handshake_->said_hello > at_once;
  if (handshake_->reader.have == 0 && waited) return call_again();
  never_came_up(failure::of(errc::connection_aborted,
                            {peer_, " hung up in the handshake: is it a cordma service?"}));
}

void connection::answered(const decoded_hello& d) {
  const hello& h = d.value;
  const std::span<const std::byte> data{h.data.data(), h.data_length};
  if (d.what == decoded_hello::outcome::bad) {
    return never_came_up(
        failure::of(errc::connection_aborted, {peer_, " answered the handshake wrongly: ", d.why}));
  }
  if (d.what == decoded_hello::outcome::other) {
    return never_came_up(differs(d, peer_));
  }
  if (h.kind == hello_kind::exhausted) {
    return never_came_up(
        failure::of(errc::no_memory,
                    {peer_, " has no file descriptor left: raise its limit there with ulimit -n"}));
  }
  if (h.kind == hello_kind::mismatch) {
    decoded_hello theirs = d;
    theirs.field = h.field;
    theirs.mine = own_value(h.field);
    theirs.theirs = h.field_value;
    return never_came_up(differs(theirs, peer_));
  }
  if (h.kind == hello_kind::accept) {
    const hello theirs = h;  // the handshake it lies in goes away
    return came_up(theirs, {theirs.data.data(), theirs.data_length});
  }
  if (h.kind == hello_kind::reject && handshake_->first.kind == hello_kind::attach) {
    // Perhaps somebody else has this address and port; the peer has others.
    handshake_->last =
        failure{errc::connection_aborted, peer_ +
                                              " does not know this descriptor: it is of "
                                              "another queue pair, or the peer was restarted"};
    handshake_->reader = {};
    socket_.close();
    phase_.become(phase::connecting);
    return try_next_candidate();
  }
  if (h.kind != hello_kind::reject) {
    return never_came_up(
        failure::of(errc::connection_aborted,
                    {peer_, " sent a hello back instead of an answer: is it a cordma service?"}));
  }
  never_came_up(failure::of(errc::rejected, {peer_, " rejected the request"}),
                {data.begin(), data.end()});
}

void connection::came_up(const hello& theirs, std::span<const std::byte> data) {
  cm_event e;
  e.what = cm_event::type::established;
  e.pair = this;
  e.data.assign(data.begin(), data.end());
  options_.read_depth = std::min(options_.read_depth, theirs.read_depth);
  peer_shares_ = theirs.recv_depth == 0;
  peer_recv_depth_ = std::max(theirs.recv_depth, 1U);
  credits_ = theirs.credit;
  handshake_.reset();
  home_.home().remove(watch_timer_);
  if (waiting_) home_.add_waiting(-1);
  waiting_ = false;
  CORDMA_ASSERT_OP(credits_, <=, peer_recv_depth_);
  CORDMA_ASSERT_OP(sends_.sent, ==, 0U);
  phase_.become(phase::open);
  established_ = true;
  tune_to_distance(socket_.get());
  home_.report(std::move(e));
  home_.active().add(*this);
  if (credit_due()) home_.mark(*this, work::due);
  transmit();
}

result<void> connection::adopt(socket_fd fd, const hello& theirs, hello reply) {
  CORDMA_REQUIRE(fd && !established_);
  socket_.own(std::move(fd));
  peer_ = peer_of(socket_.get()).text();
  tune(socket_.get(), options_.peer_timeout);
  told_credit_ = receives_.posted;
  reply.credit = static_cast<std::uint16_t>(receives_.posted);
  const result<void> watching = socket_.watch(EPOLLIN);
  if (!watching) {
    socket_.close();
    return watching.why();
  }
  if (!send_hello(reply)) {
    socket_.close();
    return failure{errc::bad_state, "the client " + peer_ + " has hung up: its request is gone"};
  }
  came_up(theirs, {});
  return {};
}

}  // namespace cordma::transport::tcp

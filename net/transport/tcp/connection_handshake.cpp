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

}  // namespace

hello connection::greeting(hello_kind kind) const noexcept {
  return {.kind = kind,
          .read_depth = options_.read_depth,
          .recv_depth = options_.recv_depth,
          .credit = static_cast<std::uint16_t>(receives_.posted()),
          .own = tokens_.own,
          .peer = tokens_.peer};
}

result<void> connection::start(std::vector<socket_address> candidates, std::string peer,
                               const hello& first) {
  peer_ = std::move(peer);
  handshake_ = std::make_unique<handshake>(*this, std::move(candidates), first);
  watch_.start(home_.home(), options_.connect_timeout);
  life_.become(phase::connecting);
  // An error that keeps this process from connecting at all is returned at once; errors of the peer
  // are reported later.
  result<socket_fd> first_socket = open_stream(handshake_->first_family());
  if (!first_socket && first_socket.code() == errc::no_memory) return first_socket.why();
  if (first_socket) socket_.own(std::move(*first_socket));
  home_.add_waiting(output_.become(output_state::awaited));
  try_next_candidate();
  return {};
}

void connection::try_next_candidate() noexcept {
  CORDMA_ASSERT(handshake_ != nullptr);
  handshake& h = *handshake_;
  while (const socket_address* const to = h.next()) {
    if (!socket_) {
      result<socket_fd> opened = open_stream(to->family());
      if (!opened) {
        h.note(opened.why());
        continue;
      }
      socket_.own(std::move(*opened));
    }
    tune(socket_.get(), options_.peer_timeout);
    const int code = ::connect(socket_.get(), to->get(), to->length()) == 0 ? 0 : errno;
    if (code == 0 || code == EINPROGRESS) {
      const result<void> watching = socket_.watch(EPOLLOUT);
      if (watching) return;
      h.note(watching.why());
    } else {
      h.note(cannot_reach(code, *to, peer_));
    }
    socket_.close();
  }
  never_came_up(h.why());
}

void connection::on_connected() noexcept {
  int code = take_error(socket_.get());
  // A socket that connects to a free port in the ephemeral range may connect to itself.
  if (code == 0 && local_of(socket_.get()) == peer_of(socket_.get())) code = ECONNREFUSED;
  if (code == ECONNRESET) return call_again();
  if (code != 0) {
    handshake_->note(cannot_reach(code, handshake_->current(), peer_));
    socket_.close();
    return try_next_candidate();
  }
  acks_.told(receives_.posted());
  if (!send_whole_hello(socket_.get(), handshake_->greeting(receives_.posted()))) {
    return call_again();
  }
  handshake_->said_hello(home_.home().now());
  life_.become(phase::greeting);
  static_cast<void>(socket_.watch(EPOLLIN));  // watched already
}

// Called for a listener that is busy for long and has a full backlog: its kernel has dropped the
// connection, and resets it when data arrives. connect_timeout ends the retries.
void connection::call_again() noexcept {
  socket_.close();
  if (life_ != phase::connecting) life_.become(phase::connecting);
  handshake_->try_again(
      home_.home(),
      failure::of(
          errc::timed_out,
          {peer_,
           " broke off every connection within connect_timeout before it answered: the backlog of "
           "its listener may be full (tcp.backlog, net.core.somaxconn), or it is no cordma "
           "service"}));
}

void connection::receive_hello() {
  hello_reader& reader = handshake_->reader();
  switch (reader.read(socket_.get())) {
    case hello_reader::progress::more: return;
    case hello_reader::progress::decoded: return answered(reader.value());
    case hello_reader::progress::reset: return call_again();
    case hello_reader::progress::closed: break;
  }
  if (handshake_->may_be_lost(home_.home().now())) return call_again();
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
    const hello theirs = h;  // the handshake that contains it is destroyed
    return came_up(theirs, {theirs.data.data(), theirs.data_length});
  }
  if (h.kind == hello_kind::reject && handshake_->attaches()) {
    // Another process may have this address and port; the peer has further addresses.
    handshake_->give_up_current(
        failure{errc::connection_aborted, peer_ + " does not know this descriptor: it is of "
                                                  "another queue pair, or the peer was restarted"});
    socket_.close();
    life_.become(phase::connecting);
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
  std::vector<std::byte> said(data.begin(), data.end());
  options_.read_depth = std::min(options_.read_depth, theirs.read_depth);
  credits_.begin(theirs);
  handshake_.reset();
  watch_.stop(home_.home());
  home_.add_waiting(output_.become(output_state::free));
  CORDMA_ASSERT_OP(sends_.sent(), ==, 0U);
  life_.become(phase::open);
  tune_to_distance(socket_.get());
  home_.report(*this, cm_event::type::established, errc::ok, std::move(said));
  home_.active().add(*this);
  if (credit_due()) home_.mark(*this, work::due);
  transmit();
}

result<void> connection::adopt(socket_fd fd, const hello& theirs, hello reply) {
  CORDMA_REQUIRE(fd && !life_.was_open());
  socket_.own(std::move(fd));
  peer_ = peer_of(socket_.get()).text();
  tune(socket_.get(), options_.peer_timeout);
  acks_.told(receives_.posted());
  reply.credit = static_cast<std::uint16_t>(receives_.posted());
  const result<void> watching = socket_.watch(EPOLLIN);
  if (!watching) {
    socket_.close();
    return watching.why();
  }
  if (!send_whole_hello(socket_.get(), reply)) {
    socket_.close();
    return failure{errc::bad_state, "the client " + peer_ + " has hung up: its request is gone"};
  }
  came_up(theirs, {});
  return {};
}

}  // namespace cordma::transport::tcp

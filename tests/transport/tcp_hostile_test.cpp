// Peers that violate the protocol, send garbage or stay silent: only their own connection suffers.
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cordma/net/transport/tcp/hello.hpp>
#include <support/by_hand.hpp>

#include "tcp_support.hpp"

using namespace tcp_test;
namespace wire = cordma::transport::tcp;

namespace {

// A plain socket that sends arbitrary bytes.
struct raw_peer {
  explicit raw_peer(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  raw_peer(const raw_peer&) = delete;
  raw_peer& operator=(const raw_peer&) = delete;
  ~raw_peer() { ::close(fd); }
  void say(std::span<const std::byte> bytes) const {
    REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void say(const wire::hello& h) const {
    wire::hello_buffer b;
    const std::size_t n = wire::encode(h, b);
    say({b.data(), n});
  }
  void say(const wire::frame& f) const {
    wire::header_buffer b;
    const std::size_t n = wire::encode(f, b);
    say({b.data(), n});
  }
  // True if the other side has closed; discards the bytes that it sent before.
  [[nodiscard]] bool hung_up() const {
    std::array<char, 512> b;
    const ssize_t n = ::recv(fd, b.data(), b.size(), MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }
  int fd;
};

// A healthy connection, and an accepted raw one beside it.
struct attacked : connected {
  explicit attacked(std::uint16_t recv_depth = 16, std::uint16_t credit = 16,
                    const cordma::reactor_options& o = {.mode = cordma::wait_mode::polling})
      : connected({}, {}, o), peer(listener->bound().port) {
    wire::hello h;
    h.read_depth = 1;
    h.recv_depth = recv_depth;
    h.credit = credit;
    peer.say(h);
    victim = std::move(*b.adapter->accept(event(b).request, {}, {}));
    CHECK(event(b).what == tp::cm_event::type::established);
  }
  void expect_broken(std::string_view why) {
    const tp::cm_event e = event(b);
    CHECK(e.what == tp::cm_event::type::disconnected);
    CHECK(e.pair == victim.get());
    CHECK(e.why.code() == errc::connection_reset);
    CHECK(e.why.message().find(why) != std::string::npos);
    expect_others_unharmed();
  }
  void expect_others_unharmed() {
    settle(10);
    b.done.clear();
    memory m(*domain, 8);
    post_recv(*right, 1, m.all());
    const tp::segment s = m.all();
    post(*left, request(opcode::send, 2, s));
    CHECK(next(b).status == wc_status::success);
    CHECK(next(a).status == wc_status::success);
  }
  raw_peer peer;
  std::unique_ptr<tp::queue_pair> victim;
};

wire::frame frame_of(wire::frame_type type, std::uint32_t length = 0) {
  wire::frame f;
  f.type = type;
  f.length = length;
  f.credit = 16;  // as in its hello
  return f;
}

}  // namespace

TEST_CASE("tcp: garbage instead of a handshake is dropped, the listener is unharmed") {
  connected c;
  const auto drop = [&c](const raw_peer& p) { c.until([&p] { return p.hung_up(); }); };
  {
    raw_peer p(c.listener->bound().port);
    p.say(std::vector<std::byte>(1000, std::byte{'x'}));
    drop(p);
  }
  {
    raw_peer p(c.listener->bound().port);
    wire::hello_buffer b;
    const std::size_t n = wire::encode(wire::hello{}, b);
    tp::store(&b[wire::hello_at::data], std::uint16_t{197});  // oversized private data
    p.say({b.data(), n});
    drop(p);
  }
  {
    raw_peer p(c.listener->bound().port);
    wire::hello h;
    h.data_length = 57;  // too much for a request
    p.say(h);
    drop(p);
  }
  auto again = std::move(*c.a.adapter->connect(c.listener->bound(), {}, {}));
  CHECK(c.event(c.b).what == tp::cm_event::type::connect_request);
}

TEST_CASE("tcp: a half-open handshake is dropped after a while [virtual time]") {
  cordma::virtual_clock time;
  connected c({}, {}, {.mode = cordma::wait_mode::polling, .time = &time});
  raw_peer p(c.listener->bound().port);
  p.say(std::array<std::byte, 1>{std::byte{'c'}});
  c.settle(50);
  CHECK(!p.hung_up());
  time.advance_to(time.now() + std::chrono::seconds(5));
  c.until([&p] { return p.hung_up(); });
}

TEST_CASE("tcp: a client that hangs up before it is answered is gone") {
  connected c;
  std::uint64_t id = 0;
  {
    raw_peer p(c.listener->bound().port);
    p.say(wire::hello{});
    id = c.event(c.b).request;
  }
  c.settle();
  CHECK(c.b.adapter->accept(id, {}, {}).code() == errc::bad_state);
}

TEST_CASE("tcp: another version or parameter is named, with mine and theirs") {
  rig r;
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&at), length) == 0);
  REQUIRE(::listen(fd, 4) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  for (const bool version : {true, false}) {
    auto q =
        std::move(*r.a.adapter->connect({.host = "127.0.0.1", .port = ntohs(at.sin_port)}, {}, {}));
    const int peer = ::accept(fd, nullptr, nullptr);
    wire::hello h;
    h.kind = version ? wire::hello_kind::accept : wire::hello_kind::mismatch;
    if (version) h.version = 9;
    if (!version) h.field = wire::hello_field::service;
    if (!version) h.field_value = 2;
    wire::hello_buffer b;
    const std::size_t n = wire::encode(h, b);
    REQUIRE(::send(peer, b.data(), n, 0) == static_cast<ssize_t>(n));
    const tp::cm_event e = r.event(r.a);
    CHECK(e.what == tp::cm_event::type::failed);
    CHECK(e.why.code() == errc::unsupported_version);
    const char* const expected =
        version ? "version: mine 4, theirs 9" : "service: mine 0, theirs 2";
    CHECK(e.why.message().find(expected) != std::string::npos);
    ::close(peer);
  }
  ::close(fd);
}

TEST_CASE("tcp: a client of another version is told so") {
  connected c;
  raw_peer p(c.listener->bound().port);
  wire::hello h;
  h.version = wire::wire_version + 1;
  p.say(h);
  std::array<std::byte, wire::most_hello> b{};
  ssize_t n = 0;
  c.until([&] { return (n = ::recv(p.fd, b.data(), b.size(), MSG_DONTWAIT)) > 0; });
  const wire::decoded_hello d = wire::decode_hello({b.data(), static_cast<std::size_t>(n)});
  CHECK(d.value.kind == wire::hello_kind::mismatch);
  CHECK(d.value.field == wire::hello_field::version);
  CHECK(d.value.field_value == wire::wire_version);
}

TEST_CASE("tcp: a word that comes in two pieces is put into place whole, wherever it is cut") {
  attacked c;
  memory m(*c.domain, 16, tp::access::remote_write);
  const std::vector<std::byte> ones(8, std::byte{0xFF});
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}}) {  // aligned, or not
    for (std::size_t first = 1; first < ones.size(); ++first) {
      CAPTURE(first);
      m.fill(1);
      const std::vector<std::byte> before = m.bytes;
      wire::frame f = frame_of(wire::frame_type::write, 8);
      f.remote_addr = m.addr(at);
      f.rkey = m.keys.rkey;
      c.peer.say(f);
      c.peer.say(std::span(ones).first(first));
      c.settle(50);
      CHECK(m.bytes == before);
      c.peer.say(std::span(ones).subspan(first));
      const auto whole = m.bytes.begin() + static_cast<std::ptrdiff_t>(at);
      c.until([&] { return std::equal(ones.begin(), ones.end(), whole); });
    }
  }
  c.expect_others_unharmed();
}

TEST_CASE("tcp: an unknown frame breaks off that connection only") {
  attacked c;
  c.peer.say(std::vector<std::byte>(16, std::byte{99}));
  c.expect_broken("unknown frame type");
}

TEST_CASE("tcp: a message nobody granted a receive for breaks off that connection only") {
  attacked c;
  c.peer.say(frame_of(wire::frame_type::send, 4));
  c.expect_broken("more than was granted");
}

TEST_CASE("tcp: a length beyond any message breaks off that connection only") {
  attacked c;
  c.peer.say(frame_of(wire::frame_type::send, 0xffffffffU));
  c.expect_broken("beyond the largest message");
}

TEST_CASE("tcp: a lying length followed by nothing ends with the connection") {
  attacked c;
  memory in(*c.domain, 1 << 20);
  post_recv(*c.victim, 1, in.all());
  c.settle(50);
  c.peer.say(frame_of(wire::frame_type::send, 1 << 20));
  c.peer.say(std::vector<std::byte>(1000, std::byte{1}));
  ::shutdown(c.peer.fd, SHUT_WR);
  c.expect_broken("the peer is gone");
}

TEST_CASE("tcp: answers to questions never asked break off that connection only") {
  for (const auto type :
       {wire::frame_type::read_response, wire::frame_type::atomic_response, wire::frame_type::nak,
        wire::frame_type::probe_answer, wire::frame_type::not_ready, wire::frame_type::resumed}) {
    attacked c;
    wire::frame f = frame_of(type);
    if (type == wire::frame_type::nak) f.status = wc_status::rem_access_err;
    c.peer.say(f);
    c.expect_broken("breaks the protocol");
  }
}

TEST_CASE("tcp: an answer to a read that is behind a message not carried out is broken off") {
  for (const auto type : {wire::frame_type::read_response, wire::frame_type::atomic_response}) {
    connected c;
    raw_peer p(c.listener->bound().port);
    wire::hello h;
    h.read_depth = 1;
    p.say(h);
    const auto victim = std::move(*c.b.adapter->accept(c.event(c.b).request, {}, {}));
    CHECK(c.event(c.b).what == tp::cm_event::type::established);
    memory m(*c.domain, 8);
    const tp::segment s = m.all();
    const bool reads = type == wire::frame_type::read_response;
    post(*victim, request(opcode::send, 1, s));
    post(*victim, request(reads ? opcode::read : opcode::fetch_add, 2, s));
    wire::frame f;
    f.type = type;
    f.request = 1;
    f.length = reads ? 8 : 0;
    f.operand = reads ? 0 : 7;
    p.say(f);
    const tp::cm_event e = c.event(c.b);
    CHECK(e.what == tp::cm_event::type::disconnected);
    CHECK(e.why.message().find("answers what it has not begun") != std::string::npos);
    CHECK(m.bytes == std::vector<std::byte>(8));
    CHECK(p.fd >= 0);
  }
}

TEST_CASE("tcp: a peer that shares its receives and refuses what was not sent is broken off") {
  for (const bool twice : {false, true}) {
    connected c;
    raw_peer p(c.listener->bound().port);
    wire::hello h;
    h.read_depth = 1;
    p.say(h);
    const auto victim = std::move(*c.b.adapter->accept(c.event(c.b).request, {}, {}));
    CHECK(c.event(c.b).what == tp::cm_event::type::established);
    memory m(*c.domain, 8);
    const tp::segment s = m.all();
    if (twice) post(*victim, request(opcode::send, 1, s));
    wire::frame f;
    f.type = wire::frame_type::not_ready;
    p.say(f);
    if (twice) p.say(f);
    const tp::cm_event e = c.event(c.b);
    CHECK(e.what == tp::cm_event::type::disconnected);
    CHECK(e.why.message().find("for nothing") != std::string::npos);
    CHECK(p.fd >= 0);
  }
}

TEST_CASE(
    "tcp: behind a message without a shared receive nothing is carried out until its sender says") {
  connected c;
  const auto queue = std::move(*c.b.adapter->make_receive_queue(4, 1));
  tp::queue_pair_options sharing;
  sharing.shared = queue.get();
  raw_peer p(c.listener->bound().port);
  wire::hello h;
  h.read_depth = 1;
  h.recv_depth = h.credit = 16;
  p.say(h);
  auto victim = std::move(*c.b.adapter->accept(c.event(c.b).request, sharing, {}));
  CHECK(c.event(c.b).what == tp::cm_event::type::established);
  memory in(*c.domain, 64);
  memory target(*c.domain, 8, tp::all_remote | tp::access::local_write);
  const std::vector<std::byte> ones(8, std::byte{1});
  wire::frame message = frame_of(wire::frame_type::send, 8);
  wire::frame write = frame_of(wire::frame_type::write, 8);
  write.remote_addr = target.addr();
  write.rkey = target.keys.rkey;
  const auto say_both = [&] {
    p.say(message);
    p.say(ones);
    p.say(write);
    p.say(ones);
  };
  say_both();
  c.settle(50);
  const tp::segment room = in.all();
  queue->post_recv({.id = 7, .segment_count = 1, .segments = &room});
  say_both();  // in the wrong order: it ignores the last response
  c.settle(50);
  CHECK(c.b.done.empty());
  CHECK(target.bytes[0] == std::byte{0});
  p.say(frame_of(wire::frame_type::resumed));
  say_both();
  const tp::completion got = c.next(c.b);
  CHECK(got.status == wc_status::success);
  CHECK(got.id == 7);
  CHECK(got.from == victim.get());
  c.until([&] { return target.bytes[0] == std::byte{1}; });
  victim.reset();
}

namespace {

// A raw peer of a connection with shared receives and delivery without a copy.
struct attacked_in_place : connected {
  attacked_in_place()
      : queue(b.adapter->make_receive_queue(4, 1).value()), peer(listener->bound().port) {
    tp::queue_pair_options sharing;
    sharing.shared = queue.get();
    wire::hello h;
    h.read_depth = 1;
    h.recv_depth = h.credit = 16;
    peer.say(h);
    victim = b.adapter->accept(event(b).request, sharing, {}).value();
    victim->set_in_place(cordma::test::by_hand());
    CHECK(event(b).what == tp::cm_event::type::established);
  }
  void expect_broken(std::string_view why) {
    const tp::cm_event e = event(b);
    CHECK(e.what == tp::cm_event::type::disconnected);
    CHECK(e.why.message().find(why) != std::string::npos);
  }
  // Polls b until a message arrives, or `polls` times; returns its bytes.
  std::vector<std::byte> message(int polls = most_polls) {
    std::vector<std::byte> bytes;
    for (int i = 0; i < polls && bytes.empty(); ++i) {
      std::array<tp::completion, 4> out;
      bool progressed = false;
      CHECK(b.adapter->poll(out, progressed) == 0);
      if (b.adapter->arrived().empty()) continue;
      const tp::arrived_message& m = b.adapter->arrived()[0];
      CHECK(m.from == victim.get());
      bytes.assign(m.data, m.data + m.bytes);
      b.adapter->release_arrived();
    }
    return bytes;
  }
  std::unique_ptr<tp::receive_queue> queue;
  raw_peer peer;
  std::unique_ptr<tp::queue_pair> victim;
};

}  // namespace

TEST_CASE(
    "tcp: a message that is put where receives are not shared breaks off that connection only") {
  attacked c;
  c.peer.say(frame_of(wire::frame_type::put, 4));
  c.expect_broken("where it may not");
}

TEST_CASE("tcp: a put beyond the largest one breaks off that connection only") {
  attacked_in_place c;
  c.peer.say(frame_of(wire::frame_type::put, wire::most_put + 1));
  c.expect_broken("beyond the largest one");
}

TEST_CASE(
    "tcp: a put behind a message that was refused ends its connection: it could not be kept") {
  attacked_in_place c;
  // too long to be complete in the receive buffer
  c.peer.say(frame_of(wire::frame_type::send, 32U << 10));
  c.peer.say(std::vector<std::byte>(32U << 10));
  c.settle(50);
  c.peer.say(frame_of(wire::frame_type::put, 4));
  c.peer.say(std::vector<std::byte>(4));
  c.expect_broken("where it may not");
}

TEST_CASE("tcp: a message that comes byte by byte is handed out when it is whole") {
  attacked_in_place c;
  for (const auto type : {wire::frame_type::put, wire::frame_type::send}) {
    wire::header_buffer b;
    const std::size_t n = wire::encode(frame_of(type, 3), b);
    std::vector<std::byte> all(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n));
    const std::vector<std::byte> body(3, std::byte{7});
    all.insert(all.end(), body.begin(), body.end());
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      c.peer.say({&all[i], 1});
      CHECK(c.message(50).empty());
    }
    c.peer.say({&all.back(), 1});
    CHECK(c.message() == body);
  }
}

TEST_CASE(
    "tcp: messages in front of a frame that is wrong are handed out before the connection ends") {
  attacked_in_place c;
  const std::vector<std::byte> body(3, std::byte{7});
  c.peer.say(frame_of(wire::frame_type::put, 3));
  c.peer.say(body);
  c.peer.say(std::vector<std::byte>(16, std::byte{99}));
  CHECK(c.message() == body);
  c.expect_broken("unknown frame type");
}

TEST_CASE("tcp: acknowledging what was never sent breaks off that connection only") {
  attacked c;
  wire::frame f = frame_of(wire::frame_type::update);
  f.ack = 5;
  c.peer.say(f);
  c.expect_broken("acknowledges or grants");
}

TEST_CASE("tcp: acknowledging a message before it has left does not give its buffer back") {
  attacked c;
  memory own(*c.domain, 64U << 20);
  const tp::segment s = own.all();
  post(*c.victim, request(opcode::send, 1, s));  // the raw peer reads nothing: the send blocks
  c.settle(50);
  wire::frame f = frame_of(wire::frame_type::update);
  f.ack = 1;
  c.peer.say(f);
  const tp::cm_event e = c.event(c.b);
  CHECK(e.why.message().find("acknowledges") != std::string::npos);
  CHECK(c.next(c.b).status == wc_status::wr_flush_err);
}

TEST_CASE("tcp: more reads than agreed break off that connection only") {
  attacked c;  // one read was agreed; the raw peer's socket is full before the second response
  memory remote(*c.domain, 64U << 20, tp::all_remote);
  wire::frame f = frame_of(wire::frame_type::read, 64U << 20);
  f.remote_addr = remote.addr();
  f.rkey = remote.keys.rkey;
  c.peer.say(f);
  c.peer.say(f);
  c.expect_broken("more than was agreed");
}

TEST_CASE("tcp: invalidating what is no window of its own ends that connection, and nothing else") {
  attacked c;
  memory m(*c.domain, 8, tp::access::remote_write);
  memory room(*c.domain, 8);
  post_recv(*c.victim, 5, room.all());
  c.settle(10);
  wire::frame f = frame_of(wire::frame_type::send_invalidate, 0);
  f.operand = m.keys.rkey;
  c.peer.say(f);
  const tp::cm_event e = c.event(c.b);
  CHECK(e.what == tp::cm_event::type::disconnected);
  CHECK(e.why.code() == errc::remote_access);
  CHECK(c.next(c.b).status == wc_status::loc_access_err);
  c.expect_others_unharmed();
}

TEST_CASE("tcp: frames that come byte by byte are understood") {
  attacked c;
  memory in(*c.domain, 16);
  post_recv(*c.victim, 1, in.all());
  wire::header_buffer b;
  wire::frame f = frame_of(wire::frame_type::send_imm, 3);
  f.imm = 77;
  const std::size_t n = wire::encode(f, b);
  for (std::size_t i = 0; i < n; ++i) {
    c.peer.say({&b[i], 1});
    c.settle(20);
  }
  for (int i = 1; i <= 3; ++i) {
    c.peer.say(std::array<std::byte, 1>{static_cast<std::byte>(i)});
    c.settle(20);
  }
  const tp::completion got = c.next(c.b);
  CHECK(got.byte_len == 3);
  CHECK(got.imm == 77);
  CHECK(in.bytes[2] == std::byte{3});
}

TEST_CASE("tcp: a peer grants many receives and falls silent: all messages for them go out") {
  cordma::virtual_clock time;  // the clock does not advance: no timer sends the rest
  attacked c(128, 0, {.mode = cordma::wait_mode::polling, .time = &time});
  constexpr std::uint16_t many = 100;  // more messages than one call sends
  memory own(*c.domain, 8);
  const tp::segment s = own.all();
  for (std::size_t i = 0; i < many; ++i) post(*c.victim, request(opcode::send, i, s));
  const auto arrived = [&c] {
    int bytes = 0;
    REQUIRE(::ioctl(c.peer.fd, FIONREAD, &bytes) == 0);
    return static_cast<std::size_t>(bytes);
  };
  c.settle(10);
  const std::size_t before = arrived();
  wire::frame receives = frame_of(wire::frame_type::update);
  receives.credit = many;
  c.peer.say(receives);
  wire::header_buffer header;
  const std::size_t each = wire::encode(frame_of(wire::frame_type::send, 8), header) + 8;
  c.until([&] { return arrived() - before >= many * each; });
}

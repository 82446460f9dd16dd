#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <thread>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

shm_options in(const scratch& s) {
  shm_options o;
  o.directory = s.path;
  return o;
}

std::span<const std::byte> bytes(const std::string& s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

std::string words(const std::vector<std::byte>& b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

}  // namespace

TEST_CASE("shm: private data reaches both sides") {
  scratch dir;
  host server(in(dir));
  host client(in(dir));
  server.accept_data = std::string(196, 'a');
  server.l = std::move(*server.a->listen({"", 4711}));
  client.q = std::move(*client.a->connect({"localhost", 4711}, {}, bytes(std::string(56, 'r'))));
  REQUIRE(pump(server, client, [&] { return client.saw(cm_event::type::established) != nullptr; }));
  CHECK(words(server.saw(cm_event::type::connect_request)->data) == std::string(56, 'r'));
  CHECK(words(client.saw(cm_event::type::established)->data) == std::string(196, 'a'));
  CHECK(client.q->peer_address().find(std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("shm: a rejection carries data; an answered request is bad_state") {
  scratch dir;
  host server(in(dir));
  host client(in(dir));
  server.accepts = false;
  server.l = std::move(*server.a->listen({"", 0}));
  client.q = std::move(*client.a->connect({"", server.l->bound().port}, {}, {}));
  REQUIRE(pump(server, client, [&] { return server.request != 0; }));
  CHECK(server.a->reject(server.request, bytes("no room")).ok());
  CHECK(server.a->reject(server.request, {}).code() == errc::bad_state);
  CHECK(server.a->accept(server.request, {}, {}).code() == errc::bad_state);
  REQUIRE(pump(server, client, [&] { return client.saw(cm_event::type::rejected) != nullptr; }));
  CHECK(words(client.saw(cm_event::type::rejected)->data) == "no room");
  CHECK(client.saw(cm_event::type::rejected)->why.code() == errc::rejected);
}

TEST_CASE("shm: where nobody listens connect() says unreachable at once") {
  scratch dir;
  host client(in(dir));
  CHECK(client.a->connect({"", 4711}, {}, {}).code() == errc::unreachable);
  host server(in(dir));
  server.l = std::move(*server.a->listen({"", 4711}));
  CHECK(client.a->connect({"192.0.2.1", 4711}, {}, {}).code() == errc::unreachable);
  server.l.reset();
  CHECK(client.a->connect({"", 4711}, {}, {}).code() == errc::unreachable);
}

TEST_CASE("shm: who listens on one address is not reached by another one, as over tcp") {
  scratch dir;
  host server(in(dir));
  host client(in(dir));
  server.l = std::move(*server.a->listen({"127.0.0.1", 4711}));
  for (const char* other : {"127.0.0.2", "::1"}) {
    CAPTURE(other);
    client.q = std::move(*client.a->connect({other, 4711}, {}, {}));
    REQUIRE(pump(server, client, [&] { return client.saw(cm_event::type::failed) != nullptr; }));
    CHECK(client.saw(cm_event::type::failed)->why.code() == errc::unreachable);
    client.q.reset();
    client.events.clear();
  }
  for (const char* same : {"127.0.0.1", "localhost", ""}) {
    CAPTURE(same);
    auto q = client.a->connect({same, 4711}, {}, {});
    REQUIRE(q.ok());
    (*q)->abort();
  }
  server.l.reset();
  server.l = std::move(*server.a->listen({"0.0.0.0", 4711}));
  CHECK(client.a->connect({"127.0.0.2", 4711}, {}, {}).ok());
}

TEST_CASE("shm: a port in use is refused with a sentence, and free again afterwards") {
  scratch dir;
  host one(in(dir));
  host two(in(dir));
  one.l = std::move(*one.a->listen({"", 4711}));
  const auto second = two.a->listen({"", 4711});
  CHECK(second.code() == errc::in_use);
  CHECK(second.why().message().find("4711") != std::string::npos);
  one.l.reset();
  CHECK(two.a->listen({"", 4711}).ok());
}

TEST_CASE("shm: the socket of a dead process is replaced") {
  scratch dir;
  const std::string path = dir.path + "/4711";
  {
    // kill -9 leaves the name of a socket that no process serves.
    const unique_fd s(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr a{};
    static_cast<void>(a);
    auto b = shm::bind_name(path, {});
    REQUIRE(b.ok());
    REQUIRE(::link(path.c_str(), (path + ".kept").c_str()) == 0);
  }
  REQUIRE(::rename((path + ".kept").c_str(), path.c_str()) == 0);
  host client(in(dir));
  CHECK(client.a->connect({"", 4711}, {}, {}).code() == errc::unreachable);
  host server(in(dir));
  auto l = server.a->listen({"", 4711});
  CHECK(l.ok());
}

TEST_CASE("shm: closing a listener rejects what was not answered and keeps connections") {
  scratch dir;
  host server(in(dir));
  host first(in(dir));
  host second(in(dir));
  server.l = std::move(*server.a->listen({"", 4711}));
  first.q = std::move(*first.a->connect({"", 4711}, {}, {}));
  REQUIRE(pump(server, first, [&] { return first.saw(cm_event::type::established) != nullptr; }));
  server.accepts = false;
  second.q = std::move(*second.a->connect({"", 4711}, {}, {}));
  server.request = 0;
  REQUIRE(pump(server, second, [&] { return server.request != 0; }));
  server.l.reset();
  REQUIRE(pump(server, second, [&] { return second.saw(cm_event::type::rejected) != nullptr; }));
  memory a(*server.d, 64, everything, true);
  memory b(*first.d, 64, everything, true);
  server.recv(1, a.at(0, 64));
  first.send(2, b.at(0, 64));
  CHECK(pump(server, first, [&] { return server.find(1) != nullptr; }));
}

TEST_CASE("shm: nobody answers within the connect timeout [virtual time]") {
  scratch dir;
  virtual_clock time;
  host server(in(dir));
  server.accepts = false;
  host client(in(dir), wait_mode::polling, &time);
  server.l = std::move(*server.a->listen({"", 4711}));
  queue_pair_options o;
  o.connect_timeout = std::chrono::seconds(3);
  client.q = std::move(*client.a->connect({"", 4711}, o, {}));
  REQUIRE(pump(server, client, [&] { return server.request != 0; }));
  CHECK(client.events.empty());
  time.advance_to(time.now() + std::chrono::seconds(3));
  REQUIRE(pump(client, [&] { return client.saw(cm_event::type::failed) != nullptr; }));
  CHECK(client.saw(cm_event::type::failed)->why.code() == errc::timed_out);
  client.q.reset();
  CHECK(server.a->accept(server.request, {}, {}).code() == errc::bad_state);
}

TEST_CASE("shm: another version is refused naming field, mine and theirs") {
  scratch dir;
  host server(in(dir));
  server.l = std::move(*server.a->listen({"", 4711}));
  struct wrong {
    std::uint16_t version;
    std::uint32_t cell;
    const char* field;
    std::uint32_t mine;
    std::uint32_t theirs;
  };
  for (const wrong& w : {wrong{9, 64, "the shm protocol version", shm::wire_version, 9},
                         wrong{shm::wire_version, 128, "the size of a ring's cell", 64, 128}}) {
    auto d = shm::dial_name(dir.path + "/4711");
    REQUIRE(d.ok());
    auto hello = shm::make_packet<shm::introduction>(shm::packet::hello);
    hello.head.version = w.version;
    hello.cell_size = w.cell;
    REQUIRE(shm::send_packet((*d).socket.get(), hello) == shm::transfer::done);
    shm::received_packet p;
    REQUIRE(pump(server,
                 [&] { return shm::receive_packet((*d).socket.get(), p) == shm::transfer::done; }));
    shm::refusal r{};
    REQUIRE(shm::parse(p.bytes(), r));
    CHECK(r.head.type == shm::packet::mismatch);
    CHECK(shm::get_text(r.text) == w.field);
    CHECK(r.mine == w.mine);
    CHECK(r.theirs == w.theirs);
  }
}

TEST_CASE("shm: a client is told that the server speaks another version") {
  scratch dir;
  auto b = shm::bind_name(dir.path + "/4711", {});
  REQUIRE(b.ok());
  host client(in(dir));
  client.q = std::move(*client.a->connect({"", 4711}, {}, {}));
  const socket_fd s = shm::accept_one((*b).socket.get());
  auto no = shm::make_refusal(shm::packet::mismatch, errc::unsupported_version,
                              "the shm protocol version");
  no.mine = 7;
  no.theirs = 1;
  REQUIRE(shm::send_packet(s.get(), no) == shm::transfer::done);
  REQUIRE(pump(client, [&] { return client.saw(cm_event::type::failed) != nullptr; }));
  const failure& why = client.saw(cm_event::type::failed)->why;
  CHECK(why.code() == errc::unsupported_version);
  CHECK(why.message().find("mine is 1, theirs is 7") != std::string::npos);
}

TEST_CASE("shm: garbage instead of a hello, and garbage instead of an answer") {
  scratch dir;
  host server(in(dir));
  server.l = std::move(*server.a->listen({"", 4711}));
  for (const std::size_t n : {std::size_t{1}, std::size_t{8}, std::size_t{256}, std::size_t{511}}) {
    auto d = shm::dial_name(dir.path + "/4711");
    REQUIRE(d.ok());
    const std::string junk(n, 'x');
    REQUIRE(shm::send_packet((*d).socket.get(), bytes(junk), {}) == shm::transfer::done);
    shm::received_packet p;
    CHECK(pump(server,
               [&] { return shm::receive_packet((*d).socket.get(), p) != shm::transfer::again; }));
  }
  CHECK(server.events.empty());
  auto b = shm::bind_name(dir.path + "/4712", {});
  host client(in(dir));
  client.q = std::move(*client.a->connect({"", 4712}, {}, {}));
  const socket_fd s = shm::accept_one((*b).socket.get());
  REQUIRE(shm::send_packet(s.get(), bytes("nonsense and more"), {}) == shm::transfer::done);
  REQUIRE(pump(client, [&] { return client.saw(cm_event::type::failed) != nullptr; }));
  CHECK(client.saw(cm_event::type::failed)->why.code() == errc::connection_aborted);
}

TEST_CASE("shm: a server without descriptors says so, and lives on") {
  scratch dir;
  host server(in(dir));
  host client(in(dir));
  server.l = std::move(*server.a->listen({"", 4711}));
  client.q = std::move(*client.a->connect({"", 4711}, {}, {}));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  const int lowest = ::dup(0);
  ::close(lowest);
  none.rlim_cur = static_cast<rlim_t>(lowest);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool told =
      pump(server, client, [&] { return client.saw(cm_event::type::failed) != nullptr; });
  const auto other = client.a->connect({"", 4711}, {}, {});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(told);
  CHECK(client.saw(cm_event::type::failed)->why.code() == errc::no_memory);
  CHECK(client.saw(cm_event::type::failed)->why.message().find("ulimit -n") != std::string::npos);
  CHECK(other.code() == errc::no_memory);
  CHECK(other.why().message().find("ulimit -n") != std::string::npos);
  client.events.clear();
  client.q = std::move(*client.a->connect({"", 4711}, {}, {}));
  CHECK(pump(server, client, [&] { return client.saw(cm_event::type::established) != nullptr; }));
}

TEST_CASE(
    "shm: without even a spare descriptor the listener rests, and goes on later [virtual time]") {
  scratch dir;
  virtual_clock time;
  host server(in(dir), wait_mode::polling, &time);
  host client(in(dir), wait_mode::polling, &time);
  server.l = std::move(*server.a->listen({"", 4711}));
  client.q = std::move(*client.a->connect({"", 4711}, {}, {}));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (int i = 0; i < 10; ++i) server.poll();
  pollfd ready{server.a->wait_fd(), POLLIN, 0};
  const int still = ::poll(&ready, 1, 0);
  time.advance_to(time.now() + std::chrono::milliseconds(50));
  server.home.turn();
  const int again = ::poll(&ready, 1, 0);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(still == 0);
  CHECK(again == 1);
  CHECK(pump(server, client, [&] {
    time.advance_to(time.now() + std::chrono::milliseconds(50));
    server.home.turn();
    return client.saw(cm_event::type::established) != nullptr;
  }));
}

TEST_CASE("shm: one adapter connects to itself") {
  scratch dir;
  host self(in(dir));
  self.accepts = false;
  self.l = std::move(*self.a->listen({"", 4711}));
  auto near = std::move(*self.a->connect({"", 4711}, {}, {}));
  REQUIRE(pump(self, [&] { return self.request != 0; }));
  auto far = std::move(*self.a->accept(self.request, {}, {}));
  REQUIRE(pump(self, [&] {
    return std::count_if(self.events.begin(), self.events.end(), [](const cm_event& e) {
             return e.what == cm_event::type::established;
           }) == 2;
  }));
  memory m(*self.d, 1 << 18, everything, true);
  fill(m.at(0, 100000), 9);
  const segment to = m.at(100000, 100000);
  completion now;
  CHECK(far->post_recv({1, 1, &to, nullptr}, now) == posted::pending);
  self.q = std::move(near);
  self.send(2, m.at(0, 100000));
  REQUIRE(pump(self, [&] { return self.find(1) != nullptr && self.find(2) != nullptr; }));
  CHECK(same(m.at(0, 100000), to));
}

TEST_CASE("shm: a request is handed over to another adapter of the domain") {
  scratch dir;
  const auto d = host::make(in(dir));
  host front(d, wait_mode::polling);
  host back(d, wait_mode::polling);
  host client(in(dir));
  front.accepts = false;
  front.l = std::move(*front.a->listen({"", 4711}));
  client.q = std::move(*client.a->connect({"", 4711}, {}, {}));
  REQUIRE(pump(front, client, [&] { return front.request != 0; }));
  CHECK(front.a->hand_over(front.request, *client.a).code() == errc::invalid_value);
  const auto id = front.a->hand_over(front.request, *back.a);
  REQUIRE(id.ok());
  CHECK(front.a->accept(front.request, {}, {}).code() == errc::bad_state);
  back.q = std::move(*back.a->accept(*id, {}, {}));
  REQUIRE(pump(back, client, [&] { return client.saw(cm_event::type::established) != nullptr; }));
  CHECK(back.saw(cm_event::type::established) != nullptr);
}

TEST_CASE("shm: options out of bounds and other services are refused") {
  scratch dir;
  host h(in(dir));
  h.l = std::move(*h.a->listen({"", 4711}));
  queue_pair_options o;
  o.type = service::ud;
  CHECK(h.a->connect({"", 4711}, o, {}).code() == errc::not_supported);
  o = {};
  o.send_depth = 1U << 20;
  CHECK(h.a->connect({"", 4711}, o, {}).code() == errc::invalid_value);
  shm_options bad = in(dir);
  bad.ring_bytes = 5000;
  CHECK(make_shm(bad).code() == errc::invalid_value);
  bad = in(dir);
  bad.directory = std::string(120, 'x');
  CHECK(make_shm(bad).code() == errc::invalid_value);
}

TEST_CASE("shm: the last words are read, whatever the peer sends until the socket is closed") {
  constexpr int rounds = 2000;
  int read = 0;
  for (int i = 0; i < rounds; ++i) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    socket_fd mine(ends[0]);
    const unique_fd theirs(ends[1]);
    const auto chatter = shm::make_refusal(shm::packet::reject, errc::rejected, "");
    REQUIRE(shm::send_packet(theirs.get(), chatter) == shm::transfer::done);
    std::jthread peer([&](const std::stop_token& enough) {
      while (!enough.stop_requested() &&
             shm::send_packet(theirs.get(), chatter) != shm::transfer::gone) {}
    });
    shm::hang_up(mine, shm::make_refusal(shm::packet::refuse, errc::no_memory, "why"));
    peer.request_stop();
    peer.join();
    shm::received_packet p;
    if (shm::receive_packet(theirs.get(), p) == shm::transfer::done &&
        shm::inspect(p.bytes()).type == shm::packet::refuse) {
      ++read;
    }
    CHECK(!mine);
  }
  CHECK(read == rounds);
}

}  // namespace cordma::transport::shm_test

// A working peer is alive, whatever its work: each kind of work alone keeps its connection.
#include <deque>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

constexpr duration peer_timeout = std::chrono::seconds(2);
constexpr int looks = 12;  // probes of the peer, two in a peer_timeout
constexpr std::size_t small = 64;
constexpr std::size_t fetched = 100'000;      // beyond eager_bytes
constexpr std::size_t huge = 32U << 20;       // more than the peer copies in all its polls
constexpr std::uint64_t of_flush = 1U << 20;  // in an id

// The client probes the server in virtual time, and the server works only when it is polled.
struct watched {
  scratch dir;
  virtual_clock time;
  host server;
  host client;
  memory ours;
  memory theirs;

  explicit watched(std::size_t bytes = fetched, bool shared = true)
      : server(in(dir)),
        client(in(dir), wait_mode::polling, &time),
        ours(*client.d, bytes, everything, true),
        theirs(*server.d, bytes, everything, shared) {
    server.l = std::move(*server.a->listen({"", 4711}));
    queue_pair_options o;
    o.peer_timeout = peer_timeout;
    client.q = std::move(*client.a->connect({"", 4711}, o, {}));
    REQUIRE(pump(server, client, [&] {
      return client.saw(cm_event::type::established) != nullptr &&
             server.saw(cm_event::type::established) != nullptr;
    }));
  }
  static shm_options in(const scratch& s) {
    shm_options o;
    o.directory = s.path;
    return o;
  }
  void flush(std::uint64_t id) {
    send_request f;
    f.id = of_flush + id;
    f.op = opcode::flush;
    REQUIRE(client.post(f) == posted::pending);
  }
  // True if the connection survives all probes. `owe` gives the server work before each probe, and
  // `work` is all that the server does after it.
  template <class Owe, class Work>
  [[nodiscard]] bool lives(Owe owe, Work work) {
    for (std::uint64_t i = 1; i <= looks; ++i) {
      owe(i);
      time.advance_to(time.now() + peer_timeout / 2);
      client.poll();
      if (client.saw(cm_event::type::disconnected) != nullptr) return false;
      work(i);
    }
    return true;
  }
  void until_done(std::uint64_t id) {
    REQUIRE(pump(server, client, [&] { return client.find(id) != nullptr; }));
    CHECK(client.find(id)->status == wc_status::success);
  }
};

}  // namespace

TEST_CASE("shm: a peer that does nothing is taken for dead after peer_timeout [virtual time]") {
  watched w;
  const auto owe = [&](std::uint64_t i) {
    if (i == 1) w.client.send(i, w.ours.at(0, small));
    if (i == 1) w.flush(i);
  };
  CHECK(!w.lives(owe, [](std::uint64_t) {}));
  CHECK(w.time.now() <= time_point(2 * peer_timeout));
}

TEST_CASE("shm: a peer that takes messages is alive [virtual time]") {
  watched w;
  const auto owe = [&](std::uint64_t i) {
    w.client.send(i, w.ours.at(0, small));
    w.flush(i);
  };
  CHECK(w.lives(owe, [&](std::uint64_t i) {
    w.server.recv(i, w.theirs.at(0, small));
    w.until_done(of_flush + i);
  }));
}

TEST_CASE("shm: a peer that copies messages, or one of them in part, is alive [virtual time]") {
  SUBCASE("messages") {
    watched w;
    const auto owe = [&](std::uint64_t i) { w.client.send(i, w.ours.at(0, fetched)); };
    CHECK(w.lives(owe, [&](std::uint64_t i) {
      w.server.recv(i, w.theirs.at(0, fetched));
      w.until_done(i);
    }));
  }
  SUBCASE("one message") {
    watched w(huge);
    w.server.recv(1, w.theirs.at(0, huge));
    const auto owe = [&](std::uint64_t i) {
      if (i == 1) w.client.send(i, w.ours.at(0, huge));
    };
    CHECK(w.lives(owe, [&](std::uint64_t) { w.server.poll(); }));
    CHECK(w.client.find(1) == nullptr);
    w.until_done(1);
  }
}

TEST_CASE("shm: a peer that serves accesses to private memory is alive [virtual time]") {
  watched w(fetched, false);
  const auto owe = [&](std::uint64_t i) {
    w.client.rma(i, opcode::read, w.ours.at(0, small), w.theirs.address(), w.theirs.keys.rkey);
  };
  CHECK(w.lives(owe, [&](std::uint64_t i) { w.until_done(i); }));
}

TEST_CASE("shm: a peer that looks for a receive is alive [virtual time]") {
  watched w;
  const auto owe = [&](std::uint64_t i) {
    if (i == 1) w.client.send(i, w.ours.at(0, small));
    if (i == 1) w.flush(i);
  };
  CHECK(w.lives(owe, [&](std::uint64_t) { w.server.poll(); }));
  CHECK(w.client.find(of_flush + 1) == nullptr);
}

TEST_CASE("shm: a peer that sends messages, and takes none, is alive [virtual time]") {
  watched w;
  const auto owe = [&](std::uint64_t i) {
    if (i == 1) w.client.send(i, w.ours.at(0, small));
    if (i == 1) w.flush(i);
    w.client.recv(100 + i, w.ours.at(small, small));
  };
  CHECK(w.lives(owe, [&](std::uint64_t i) { w.server.send(i, w.theirs.at(0, small)); }));
  CHECK(w.client.find(100 + looks - 1) != nullptr);
}

TEST_CASE(
    "shm: a peer that writes this side's memory, and takes no message, is alive [virtual time]") {
  watched w;
  const auto write = [&](std::uint64_t i) {
    static_cast<void>(w.server.rma(i, opcode::write, w.theirs.at(0, small),
                                   w.ours.address() + small, w.ours.keys.rkey));
  };
  write(1000);  // the first access requests the region
  REQUIRE(pump(w.server, w.client, [&] { return w.server.find(1000) != nullptr; }));
  const auto owe = [&](std::uint64_t i) {
    if (i == 1) w.client.send(i, w.ours.at(0, small));
    if (i == 1) w.flush(i);
  };
  CHECK(w.lives(owe, write));
}

TEST_CASE("shm: a peer that answers first accesses to its regions is alive [virtual time]") {
  watched w;
  std::deque<memory> regions;
  const auto owe = [&](std::uint64_t i) {
    const memory& m = regions.emplace_back(*w.server.d, 4096, everything, true);
    CHECK(w.client.rma(i, opcode::write, w.ours.at(0, small), m.address(), m.keys.rkey) ==
          posted::pending);
  };
  CHECK(w.lives(owe, [&](std::uint64_t i) { w.until_done(i); }));
}

}  // namespace cordma::transport::shm_test

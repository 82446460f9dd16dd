// Rendezvous messages over several connections at once (K8): all bytes arrive, every connection
// carries some, and failures of any of them are handled.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr cordma::access readable = cordma::access::local_write | cordma::access::remote_read;

struct post_office {
  explicit post_office(stage& on, std::uint32_t of_client = 3, std::uint32_t of_server = 3)
      : client(std::make_unique<Messages>(
            on.client(), message_options{.eager_bytes = 8192, .rails = of_client})),
        server(std::make_unique<Messages>(
            on.server(), message_options{.eager_bytes = 8192, .rails = of_server})) {}
  std::unique_ptr<Messages> client;
  std::unique_ptr<Messages> server;
};

// Value of the endpoint's property, or empty if it is not reported.
std::string told(const Endpoint& e, const std::string& name) {
  for (const transport::property& p : e.properties()) {
    if (p.name == name) return p.value;
  }
  return {};
}

std::uint64_t number(const Endpoint& e, const std::string& name) {
  const std::string text = told(e, name);
  return text.empty() ? 0 : std::stoull(text);
}

std::uint64_t bytes_by(const Endpoint& e, std::uint64_t rail) {
  return number(e, "rail_" + std::to_string(rail) + "_bytes");
}

// Waits until the server reads from the client: it has sent more than its greeting.
task<> until_reading(stage& s, const wire& w) {
  while (w.server.counters().sends < 4) co_await moment(s);
}

task<> until_rails(stage& s, const wire& w, std::uint64_t count) {
  while (number(w.client, "rails") != count || number(w.server, "rails") != count) {
    co_await moment(s);
  }
}

task<wire> join(stage& s, post_office& office, std::uint64_t rails) {
  wire w = co_await connect_messages(s, *office.client, *office.server);
  co_await until_rails(s, w, rails);
  co_return w;
}

detail::rail_core& rail_of(Endpoint& e, std::size_t number) {
  return *detail::peer_of(e.core()).rails()[number - 1];
}

// `count` messages from the client, all at once, each with different bytes.
struct burst {
  burst(stage& s, std::size_t each, std::size_t count)
      : bytes(each),
        from(client_memory(s, each * count, readable)),
        into(server_memory(s, each * count, cordma::access::local_write)) {
    for (std::size_t i = 0; i < count; ++i) fill(from.bytes().subspan(i * each, each), i);
  }
  void start(wire& w) {
    for (std::size_t i = 0; i < from.size() / bytes; ++i) {
      sends.push_back(w.client.tag_send(i, from.all().part(i * bytes, bytes)).start());
      receives.push_back(w.server.tag_recv(i, into.all().part(i * bytes, bytes)).start());
    }
  }
  std::size_t bytes;
  MemoryRegion from;
  MemoryRegion into;
  std::deque<message_send_operation> sends;
  std::deque<tag_recv_operation> receives;
};

task<> expect_whole(burst& b) {
  for (std::size_t i = 0; i < b.receives.size(); ++i) {
    CAPTURE(i);
    const result<TagReceived> got = co_await b.receives[i].result();
    REQUIRE(got.ok());
    CHECK(got->bytes == b.bytes);
    CHECK(filled(b.into.bytes().subspan(i * b.bytes, b.bytes), i));
    message_send_operation& sent = b.sends[i];
    co_await sent;
  }
}

// Every message ends; the result may be success or one of the expected errors.
task<> expect_ends(burst& b) {
  const auto known = [](errc code) {
    return code == errc::ok || code == errc::flushed || code == errc::shutdown ||
           code == errc::io_failed || code == errc::not_connected ||
           // an endpoint connected by descriptors receives no close notification
           code == errc::connection_reset;
  };
  for (tag_recv_operation& op : b.receives) {
    const result<TagReceived> end = co_await op.result();
    CHECK(known(end.code()));
  }
  for (message_send_operation& op : b.sends) {
    const result<void> end = co_await op.result();
    CHECK(known(end.code()));
  }
}

}  // namespace

TEST_CASE(
    "K8: messages of every length come whole over three rails, long ones by every one of them") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        for (std::size_t n = 0; n < 3; ++n) {
          CHECK(!told(w.server, "rail_" + std::to_string(n) + "_device").empty());
        }
        std::uint64_t sum = 0;
        for (const std::size_t bytes : {64 * kib - 1, 64 * kib, mib + 5, 4 * mib}) {
          CAPTURE(bytes);
          burst one(s, bytes, 1);
          std::uint64_t before[3];
          for (std::uint64_t n = 0; n < 3; ++n) before[n] = bytes_by(w.server, n);
          one.start(w);
          co_await expect_whole(one);
          sum += bytes;
          for (std::uint64_t n = 0; n < 3; ++n) {
            CAPTURE(n);
            const std::uint64_t came = bytes_by(w.server, n) - before[n];
            const std::uint64_t due = bytes > mib ? bytes / 3 : n == 0 ? bytes : 0;
            CHECK(came + 256 > due);
            CHECK(came < due + 256);
          }
        }
        CHECK(bytes_by(w.server, 0) + bytes_by(w.server, 1) + bytes_by(w.server, 2) == sum);
        CHECK(bytes_by(w.client, 1) == 0);
      },
      &p);
}

TEST_CASE(
    "K8: short messages at once are spread over the rails, each by the one with the least to read" *
    only_on(transport::kind::sim, "whose reads take as long as its links say")) {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        burst some(s, 100 * kib, 6);
        some.start(w);
        co_await expect_whole(some);
        for (std::uint64_t n = 0; n < 3; ++n) CHECK(bytes_by(w.server, n) == 200 * kib);
      },
      &p);
}

TEST_CASE(
    "K8: several long messages at once, both ways, of several slices, into receives too short") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        burst there(s, mib + 5, 6);
        there.start(w);
        const MemoryRegion from = server_memory(s, 2 * mib, readable);
        const MemoryRegion into = client_memory(s, 2 * mib, cordma::access::local_write);
        fill(from.bytes(), 77);
        // A piece of one rail begins in the middle of a slice.
        const std::vector<Slice> gathered{from.all().first(3), from.all().part(3, mib),
                                          from.all().part(3 + mib, mib - 3)};
        message_send_operation back = w.server.tag_send(9, gathered).start();
        const result<TagReceived> shorter =
            co_await w.client.tag_recv(9, into.all().first(mib + 7)).result();
        CHECK(shorter.code() == errc::truncated);
        const result<void> told_so = co_await back.result();
        CHECK(told_so.code() == errc::truncated);
        CHECK(filled(into.bytes().first(mib + 7), 77));
        CHECK(all_zero(into.bytes().subspan(mib + 7)));
        co_await expect_whole(there);
        for (std::uint64_t n = 0; n < 3; ++n) {
          CHECK(bytes_by(w.server, n) != 0);
          CHECK(bytes_by(w.client, n) != 0);
        }
        co_await w.client.close();
        CHECK(w.client.state() == endpoint_state::closed);
        CHECK(told(w.client, "rails").empty());
      },
      &p);
}

TEST_CASE("K8: there are as many rails as the side says that says fewer") {
  struct wish {
    std::uint32_t client;
    std::uint32_t server;
    std::uint64_t rails;
  };
  for (const wish& of : {wish{3, 2, 2}, wish{1, 8, 1}, wish{0, 4, 1}, wish{5, 5, 5}}) {
    CAPTURE(of.client);
    CAPTURE(of.server);
    stage on;
    post_office p(on, of.client, of.server);
    on.play(
        [](stage& s, post_office* office, std::uint64_t rails) -> task<> {
          wire w = co_await join(s, *office, rails);
          burst some(s, mib, 2);
          some.start(w);
          co_await expect_whole(some);
          CHECK(number(w.server, "rails") == rails);
          CHECK(bytes_by(w.server, rails - 1) != 0);
          CHECK(told(w.server, "rail_" + std::to_string(rails) + "_bytes").empty());
        },
        &p, of.rails);
  }
  stage on;
  CHECK_THROWS_AS(Messages(on.client(), {.rails = 9}), error);
}

TEST_CASE(
    "K8: rails that end while messages come lose nothing; the last one is the connection itself") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        burst some(s, 2 * mib, 6);
        some.start(w);
        // Aborts one rail on the reading side as soon as it reads, then another on the side that is
        // read.
        co_await until_reading(s, w);
        rail_of(w.server, 1).link()->pair()->abort();
        static_cast<void>(co_await some.receives[1].result());
        rail_of(w.client, 2).link()->pair()->abort();
        co_await expect_whole(some);
        while (number(w.server, "rails") != 1) co_await moment(s);
        burst more(s, mib, 2);
        const std::uint64_t before = bytes_by(w.server, 0);
        more.start(w);
        co_await expect_whole(more);
        CHECK(bytes_by(w.server, 0) - before == 2 * mib);
        CHECK(w.client.state() == endpoint_state::connected);
        CHECK(w.server.state() == endpoint_state::connected);
      },
      &p);
}

TEST_CASE("K8: what a rail failed to read is read by another one" *
          only_on(transport::kind::sim, "requests fail on demand there")) {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        s.net().fail_request(*rail_of(w.server, 1).link()->pair(), 1,
                             transport::wc_status::rem_op_err);
        burst one(s, 3 * mib, 1);
        one.start(w);
        co_await expect_whole(one);
        CHECK(bytes_by(w.server, 0) == mib);
        CHECK(bytes_by(w.server, 1) == 0);
        CHECK(bytes_by(w.server, 2) == 2 * mib);
        // After the next failure only the connection's first queue pair is left.
        s.net().fail_request(*rail_of(w.server, 2).link()->pair(), 1,
                             transport::wc_status::rem_op_err);
        burst another(s, 2 * mib, 1);
        another.start(w);
        co_await expect_whole(another);
        CHECK(bytes_by(w.server, 0) == 3 * mib);
        CHECK(number(w.server, "rails") == 1);
      },
      &p);
}

TEST_CASE("K8: one rail for each device of both, unasked; one that is cut off is done without" *
          only_on(transport::kind::sim, "several devices are simulated at will")) {
  stage on({.devices = 3});
  post_office p(on, 0, 0);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        burst some(s, 3 * mib, 2);
        some.start(w);
        co_await expect_whole(some);
        for (std::uint64_t n = 0; n < 3; ++n) CHECK(bytes_by(w.server, n) == 2 * mib);
        // A message of many parts: one message has no room for the keys of every device.
        std::vector<Slice> gathered;
        const MemoryRegion from = client_memory(s, 3 * mib, readable);
        const MemoryRegion into = server_memory(s, 3 * mib, cordma::access::local_write);
        fill(from.bytes(), 5);
        for (std::size_t i = 0; i < 3; ++i) gathered.push_back(from.all().part(i * mib, mib));
        message_send_operation sent = w.client.tag_send(1, gathered).start();
        co_await w.server.tag_recv(1, into.all());
        co_await sent;
        CHECK(filled(into.bytes(), 5));
        s.net().partition("client.2", "server.2");
        burst more(s, 3 * mib, 2);
        more.start(w);
        co_await expect_whole(more);
        CHECK(number(w.server, "rails") == 2);
        CHECK(w.server.state() == endpoint_state::connected);
      },
      &p);
}

TEST_CASE("K8: devices of different rates have parts of a message as their rates are" *
          only_on(transport::kind::sim, "several devices are simulated at will")) {
  stage on({.devices = 2});
  on.net().set_rate("server", 100'000);
  on.net().set_rate("server.2", 300'000);
  // One rail on each device; then two, which share its rate.
  for (const std::uint32_t rails : {2U, 4U}) {
    CAPTURE(rails);
    post_office p(on, rails, rails);
    on.play(
        [](stage& s, post_office* office, std::uint32_t count) -> task<> {
          wire w = co_await join(s, *office, count);
          burst one(s, 4 * mib, 1);
          one.start(w);
          co_await expect_whole(one);
          const std::uint64_t of_each_device = count / 2;
          for (std::uint64_t n = 0; n < count; ++n) {
            CAPTURE(n);
            const std::uint64_t by_device = n % 2 == 0 ? mib : 3 * mib;
            CHECK(bytes_by(w.server, n) == by_device / of_each_device);
          }
        },
        &p, rails);
  }
}

TEST_CASE(
    "K8: a further device that died is done without: by memory, messages and new connections" *
    only_on(transport::kind::sim, "whose devices die at will")) {
  for (const std::string dies : {"client.2", "server.2"}) {
    CAPTURE(dies);
    stage on({.devices = 3});
    post_office p(on, 0, 0);
    on.play(
        [](stage& s, post_office* office, const char* device) -> task<> {
          wire w = co_await join(s, *office, 3);
          burst before(s, 3 * mib, 2);
          s.net().kill(device);
          burst after(s, 3 * mib, 2);  // memory registered only on the remaining devices
          before.start(w);
          after.start(w);
          co_await expect_whole(before);
          co_await expect_whole(after);
          CHECK(number(w.server, "rails") == 2);
          CHECK(bytes_by(w.server, 2) >= 4 * mib);
          Messages client(s.client(), {.eager_bytes = 8192});
          Messages server(s.server(), {.eager_bytes = 8192});
          wire later = co_await connect_messages(s, client, server);
          co_await until_rails(s, later, 2);
          burst more(s, 3 * mib, 2);
          more.start(later);
          co_await expect_whole(more);
          CHECK(bytes_by(later.server, 0) + bytes_by(later.server, 2) == 6 * mib);
          CHECK(w.client.state() == endpoint_state::connected);
        },
        &p, dies.c_str());
  }
}

TEST_CASE("K8: memory of two devices is read by those that know it, though all rails stand" *
          only_on(transport::kind::sim, "whose devices fail at will")) {
  stage on({.devices = 3});
  post_office p(on, 0, 0);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        for (const std::uint64_t rail : {1U, 2U}) {
          CAPTURE(rail);
          const std::uint64_t before = bytes_by(w.server, rail);
          s.net().fail_allocation(rail == 1 ? "client.2" : "server.3", 1);
          burst some(s, 3 * mib, 1);
          some.start(w);
          co_await expect_whole(some);
          CHECK(number(w.server, "rails") == 3);
          CHECK(bytes_by(w.server, rail) == before);
          burst by_all(s, 3 * mib, 1);
          by_all.start(w);
          co_await expect_whole(by_all);
          CHECK(bytes_by(w.server, rail) == before + mib);
        }
      },
      &p);
}

TEST_CASE("K8: a rail that cannot be made is done without" *
          only_on(transport::kind::sim, "whose devices can be cut off and run out of room")) {
  for (const bool cut_off : {true, false}) {
    CAPTURE(cut_off);
    stage on({.most_endpoints = cut_off ? 0U : 1U, .devices = cut_off ? 2U : 1U});
    post_office p(on, cut_off ? 0 : 2, cut_off ? 0 : 2);
    on.play(
        [](stage& s, post_office* office, bool cut) -> task<> {
          if (cut) s.net().partition("client.2", "server.2");
          wire w = co_await join(s, *office, 1);
          burst some(s, mib, 2);
          some.start(w);
          co_await expect_whole(some);
          CHECK(bytes_by(w.server, 0) == 2 * mib);
          co_await sleep_for(std::chrono::seconds(20));
          CHECK(number(w.server, "rails") == 1);
          CHECK(w.client.state() == endpoint_state::connected);
        },
        &p, cut_off);
  }
}

namespace {

// Aborts rails one after the other, on either side, at random moments.
task<> cut_rails(stage* s, wire* w, std::uint64_t seed) {
  dice d(seed);
  for (std::uint64_t left = 1 + d.below(4); left != 0; --left) {
    for (std::uint64_t i = d.below(300); i != 0; --i) co_await moment(*s);
    Endpoint& at = d.below(2) == 0 ? w->client : w->server;
    const std::size_t n = 1 + d.below(detail::peer_of(at.core()).rails().size());
    detail::endpoint_core* const link = rail_of(at, n).link();
    if (link == nullptr || link->pair() == nullptr) continue;
    if (d.below(3) != 0) {
      link->pair()->abort();
    } else {
      s->net().fail_request(*link->pair(), 1 + static_cast<std::uint32_t>(d.below(3)),
                            transport::wc_status::rem_op_err);
    }
  }
}

}  // namespace

TEST_CASE("K8: rails that are cut at any moment, on a network that loses packets, lose no byte" *
          only_on(transport::kind::sim, "chance is replayed by its seed there")) {
  for (std::uint64_t seed = 1; seed <= rounds_under_test(40); ++seed) {
    CAPTURE(seed);
    stage on({.devices = 3});
    on.net().set_links({.loss = 0.001, .reorder = 0.001});
    post_office p(on, 5, 8);
    on.play(
        [](stage& s, post_office* office, std::uint64_t number) -> task<> {
          wire w = co_await join(s, *office, 5);
          dice d(number);
          burst some(s, 100 * kib + d.below(mib), 1 + d.below(5));
          scope tasks(s.loop());
          tasks.spawn(cut_rails(&s, &w, number));
          some.start(w);
          co_await expect_whole(some);
          co_await tasks.join();
          CHECK(w.client.state() == endpoint_state::connected);
          CHECK(w.server.state() == endpoint_state::connected);
        },
        &p, seed);
  }
}

TEST_CASE("K8: rails end with their Endpoint, on both sides, with what is read on them") {
  stage on;
  post_office p(on);
  on.play(
      [](stage& s, post_office* office) -> task<> {
        wire w = co_await join(s, *office, 3);
        burst some(s, 2 * mib, 4);
        some.start(w);
        co_await until_reading(s, w);
        w.client.abort();
        co_await expect_ends(some);
        while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
        for (Endpoint* const e : {&w.client, &w.server}) {
          for (std::size_t n = 1; n <= 2; ++n) {
            CHECK(rail_of(*e, n).link()->state() == endpoint_state::closed);
          }
          while (e->inflight() != 0) co_await moment(s);
        }
      },
      &p);
}

TEST_CASE("K8: whatever goes while rails carry messages, all that was started ends") {
  enum class goes : std::uint8_t { client, server, messages, office, client_worker, server_worker };
  for (const goes what : {goes::client, goes::server, goes::messages, goes::office,
                          goes::client_worker, goes::server_worker}) {
    for (int late = 0; late < 3; ++late) {
      CAPTURE(static_cast<int>(what));
      CAPTURE(late);
      stage on;
      post_office p(on);
      on.play(
          [](stage& s, post_office* office, goes which, int after) -> task<> {
            wire joined = co_await connect_messages(s, *office->client, *office->server);
            auto w = std::make_unique<wire>(std::move(joined));
            if (after != 0) co_await until_rails(s, *w, 3);
            burst some(s, 2 * mib, 4);
            some.start(*w);
            if (after == 2) {
              co_await until_reading(s, *w);
              for (int i = 0; i < 5; ++i) co_await moment(s);
            }
            switch (which) {
              case goes::client: w->client = Endpoint(); break;
              case goes::server: w->server = Endpoint(); break;
              case goes::messages: office->server.reset(); break;
              case goes::office: office->client.reset(); break;
              case goes::client_worker: s.drop_client(); break;
              case goes::server_worker: s.drop_server(); break;
            }
            co_await expect_ends(some);
          },
          &p, what, late);
    }
  }
}

namespace {

// Builds the frames of a peer that is driven byte by byte.
std::vector<std::byte> framed(protocol::frame_kind kind, std::uint64_t word,
                              std::span<const std::byte> body) {
  std::vector<std::byte> out(protocol::head_bytes + body.size());
  protocol::encode({.kind = kind, .body = static_cast<std::uint32_t>(body.size()), .word = word},
                   std::span<std::byte, protocol::head_bytes>(out.data(), protocol::head_bytes));
  std::ranges::copy(body, out.begin() + protocol::head_bytes);
  return out;
}

std::vector<std::byte> greeting(std::uint32_t rails) {
  std::array<std::byte, protocol::hello_bytes> body{};
  protocol::encode(
      protocol::hello{.eager_bytes = 8192, .credits = 8, .offers = 8, .rails = rails, .devices = 1},
      body);
  return framed(protocol::frame_kind::hello, protocol::frame_version, body);
}

std::vector<std::byte> offered_by(std::uint16_t keys) {
  protocol::offer o{.total = 8, .number = 1, .parts = 1, .keys = keys};
  o.part[0] = {.addr = 4096, .bytes = 8};
  std::vector<std::byte> body(protocol::bytes_of(o));
  protocol::encode(o, body);
  return framed(protocol::frame_kind::tag_ready, 1, body);
}

task<errc> cause_of(stage& s, Messages* at, std::vector<std::vector<std::byte>> frames) {
  Listener listener = s.server().listen(s.server_address()).value();
  const connect_options plain;
  connect_options accept;
  accept.messages = at;
  wire w = co_await connect(s.client(), listener, s.reach(listener), plain, accept);
  const MemoryRegion room = client_memory(s, 8192);
  const MemoryRegion taken = client_memory(s, 8 * 8192);
  std::deque<recv_operation> receives;
  for (std::size_t i = 0; i < 8; ++i) {
    receives.push_back(w.client.recv(taken.all().part(i * 8192, 8192)).start());
  }
  for (const std::vector<std::byte>& f : frames) {
    std::ranges::copy(f, room.data());
    const result<void> sent = co_await w.client.send(room.all().first(f.size())).result();
    if (!sent) break;
  }
  for (int i = 0; i < 2000 && w.server.state() == endpoint_state::connected; ++i) {
    co_await moment(s);
  }
  const errc cause = w.server.first_cause() != nullptr ? w.server.first_cause()->code() : errc::ok;
  w.client.abort();
  for (recv_operation& op : receives) static_cast<void>(co_await op.result());
  co_return cause;
}

}  // namespace

TEST_CASE("K8: rails and keys that were not agreed on end the connection, and say why") {
  using protocol::frame_kind;
  const std::vector<std::byte> nonsense(40, std::byte{7});
  struct story {
    std::vector<std::vector<std::byte>> frames;
    errc cause;
  };
  const auto rail = [&](std::uint64_t n, std::size_t bytes) {
    return framed(frame_kind::rail, n, std::vector<std::byte>(bytes, std::byte{7}));
  };
  const std::vector<story> stories{
      {{greeting(2)}, errc::ok},
      {{greeting(2), rail(1, 0)}, errc::ok},  // the victim cannot create the rail
      {{greeting(2), rail(1, 0), rail(1, 0)}, errc::connection_aborted},
      {{greeting(2), rail(1, 40)}, errc::connection_aborted},
      {{greeting(2), rail(0, 0)}, errc::connection_aborted},
      {{greeting(2), rail(2, 0)}, errc::connection_aborted},
      {{greeting(2), rail((std::uint64_t{1} << 32) + 1, 0)}, errc::connection_aborted},
      {{greeting(1), rail(1, 0)}, errc::connection_aborted},
      {{greeting(2), rail(1, protocol::longest_descriptor + 1)}, errc::connection_aborted},
      {{rail(1, 0)}, errc::connection_aborted},
      {{greeting(2), offered_by(1)}, errc::ok},
      {{greeting(2), offered_by(2)}, errc::connection_aborted},
  };
  for (std::size_t i = 0; i < stories.size(); ++i) {
    CAPTURE(i);
    stage on;
    post_office p(on);
    const errc cause = on.play(
        [](stage& s, Messages* at, const story* of) -> task<errc> {
          const errc ended = co_await cause_of(s, at, of->frames);
          co_return ended;
        },
        p.server.get(), &stories[i]);
    CHECK(cause == stories[i].cause);
  }
}

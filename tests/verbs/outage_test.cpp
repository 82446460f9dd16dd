// Two hosts. The link of one goes down and comes back while requests of one kind are in flight: the
// waiting operations end in time, received data is correct, and a new connection works.
#include "property.hpp"
#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <cordma/runtime/when_all.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <sstream>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t port = 18719;
constexpr std::uint64_t of_server = 2000;  // seed

endpoint_options patient(std::chrono::seconds peer_timeout) {
  endpoint_options o;
  o.peer_timeout = peer_timeout;
  return o;
}

enum class asking : std::uint8_t { message, write, read, add };
enum class link_of : std::uint8_t { who_asks, who_answers };  // the client, the server

struct outage {
  static constexpr std::size_t pieces = 128;
  static constexpr std::size_t piece_bytes = 16384;
  static constexpr std::uint64_t soon = 40;  // number of requests before the link goes down
  outage(side* on, asking kind)
      : here(on), what(kind), own(on->memory(pieces * piece_bytes)), words(on->memory(16)) {}
  [[nodiscard]] Slice piece(std::uint64_t i) const {
    return own.all().part(i % pieces * piece_bytes, piece_bytes);
  }
  [[nodiscard]] RemoteSlice their_piece(std::uint64_t i) const {
    return theirs.slice(i % pieces * piece_bytes, piece_bytes).value();
  }
  [[nodiscard]] bool right(std::uint64_t i) const {
    return filled(piece(i).bytes(), of_server + i % pieces);
  }
  void note(const failure& why) {
    if (failed.empty()) first = why.wc_status();
    failed.push_back(why.code());
    ended = here->worker.loop().now();
  }

  side* here;
  asking what;
  MemoryRegion own;
  MemoryRegion words;
  RemoteMemory theirs;
  std::uint64_t begun = 0;
  std::uint64_t fulfilled = 0;
  std::uint64_t wrong = 0;
  std::vector<errc> failed;
  int first = 0;  // status of the first failure
  time_point last_sign{};
  time_point ended{};
  bool over = false;  // the link is up again
};

// Each piece has the same contents whenever it is sent, so it may be sent again.
send_operation next_piece(outage* o, Endpoint* e, std::uint64_t i) {
  const Slice here = o->piece(i);
  if (o->what == asking::read) {
    fill(here.bytes(), 0);
    return e->read(o->their_piece(i), here);
  }
  return o->what == asking::write ? e->write(o->their_piece(i), here) : e->send(here);
}

// Posts one request after the other, until one fails or the link is up again.
task<> ask_on(outage* o, Endpoint* e) {
  while (!o->over) {
    const std::uint64_t i = o->begun++;
    std::optional<failure> why;
    if (o->what == asking::add) {
      atomic_operation adding = e->fetch_add(o->theirs.slice(0, 8).value(), 1);
      const result<std::uint64_t> before = co_await adding.result();
      if (!before) why = before.why();
      if (before && *before != i) ++o->wrong;
    } else {
      send_operation moving = next_piece(o, e, i);
      const result<void> moved = co_await moving.result();
      if (!moved) why = moved.why();
      if (moved && o->what == asking::read && !o->right(i)) ++o->wrong;
    }
    if (why) {
      o->note(*why);
      co_return;
    }
    ++o->fulfilled;
  }
}

task<> receive_on(outage* o, Endpoint* e) {
  std::deque<recv_operation> posted;
  for (std::uint64_t i = 0;; ++i) {
    while (posted.size() < 16) posted.push_back(e->recv(o->piece(i + posted.size())).start());
    recv_operation& op = posted.front();
    const result<Received> got = co_await op.result();
    if (!got) {
      o->note(got.why());
      co_return;
    }
    if (!o->right(i)) ++o->wrong;
    fill(o->piece(i).bytes(), 0);
    ++o->fulfilled;
    o->last_sign = o->here->worker.loop().now();
    posted.pop_front();
  }
}

constexpr std::chrono::seconds outage_patience{2};
constexpr auto outage_leeway = std::chrono::seconds(3);  // for emulated machines
constexpr std::size_t asked_at_once = 8;

// The client's part while requests are in flight.
task<> go_through(outage* o, Endpoint* e, link_of whose, std::string name) {
  recv_operation back = e->recv(o->words.all().first(8)).start();
  while (o->fulfilled < outage::soon) co_await sleep_for(std::chrono::milliseconds(5));
  if (whose == link_of::who_asks) {
    const time_point down = o->here->worker.loop().now();
    co_await go_down_and_up();
    const result<Received> none = co_await back.result();
    CHECK(none.code() == errc::flushed);
    while (o->failed.size() < asked_at_once) co_await sleep_for(std::chrono::milliseconds(5));
    CHECK(o->ended - down <= outage_patience + outage_leeway);
    co_return;
  }
  meet_at("under-way-" + name);
  const result<Received> told = co_await back.result();
  CHECK((told.ok() || o->what == asking::read));
  o->over = true;
}

task<> ask_through(outage* o, Endpoint* e, link_of whose, std::string name) {
  std::vector<task<>> all;
  for (std::size_t k = 0; k < asked_at_once; ++k) all.push_back(ask_on(o, e));
  all.push_back(go_through(o, e, whose, name));
  co_await when_all(std::move(all));
  MESSAGE(name, ": ", o->fulfilled, " fulfilled, ", o->failed.size(), " failed, first with status ",
          o->first, ", ", o->wrong, " wrong");
}

task<> answer_through(outage* o, Endpoint* e, link_of whose, std::string name) {
  if (whose == link_of::who_answers) {
    meet_at("under-way-" + name);
    co_await go_down_and_up();
    send_operation telling = e->send(o->words.all().first(8));
    const result<void> told = co_await telling.result();
    CHECK((told.ok() || o->what == asking::read));
    co_return;
  }
  o->last_sign = o->here->worker.loop().now();
  co_await receive_on(o, e);
  co_await await_end(e);
  CHECK(o->ended - o->last_sign <= outage_patience + outage_leeway);
  CHECK(o->failed.back() == errc::flushed);
  CHECK(e->first_cause()->code() == errc::connection_reset);
}

// Connects by descriptors, which the hosts exchange without a network.
task<Endpoint> meet_by_descriptors(side* here, std::string name, endpoint_options options) {
  Endpoint e = here->worker.prepare(options).value();
  std::string own;
  for (const std::byte b : e.descriptor().value())
    own += std::to_string(std::to_integer<int>(b)) + ' ';
  name = name_in_case(name);
  shell("note put " + name + (on_server() ? "-b " : "-a ") + own);
  std::istringstream told(shell("note get " + name + (on_server() ? "-a" : "-b")));
  std::vector<std::byte> theirs;
  for (int b = 0; told >> b;) theirs.push_back(static_cast<std::byte>(b));
  e.connect(theirs).value();
  while (e.state() == endpoint_state::connecting) co_await e.state_changed();
  co_return e;
}

// Compares the number of requests that the client considers carried out with the server's.
task<> compare_notes(outage* o, Endpoint* e) {
  const auto words = o->words.as<std::uint64_t>();
  words[0] = o->fulfilled;
  co_await swap(e, o->words.all().first(8), o->words.all().part(8, 8));
  if (!on_server()) {
    co_await e->close();
    co_return;
  }
  const std::uint64_t done = words[1];
  if (o->what == asking::message) CHECK(o->fulfilled >= done);
  for (std::uint64_t i = 0; o->what == asking::write && i < std::min(done, outage::pieces); ++i) {
    CHECK(o->right(i));
  }
  if (o->what == asking::add) {
    CHECK(o->own.as<std::uint64_t>()[0] >= done);
    CHECK(o->own.as<std::uint64_t>()[0] <= done + asked_at_once);
  }
  co_await await_end(e);
}

// The likely cause: the goodbye of rdma_cm, sent without a link, stopped Soft-RoCE's queue pair 1,
// which then sends requests and receives no responses.
task<> connect_in_vain(side* here, std::uint16_t at) {
  connect_options o;  // the accepting side has the longer timeout
  o.endpoint.connect_timeout = std::chrono::seconds(on_server() ? 30 : 3);
  if (on_server()) {
    Listener listener =
        here->worker.listen(named("RDMA_HOST_SELF") + ":" + std::to_string(at)).value();
    meet_at("in-vain");
    ConnectionRequest request = co_await listener.next();
    auto accepting = request.accept(o);
    const result<Endpoint> none = co_await accepting.result();
    CHECK(none.code() == errc::connection_aborted);
    co_return;
  }
  meet_at("in-vain");
  connect_operation connecting =
      here->worker.connect(named("RDMA_HOST_PEER") + ":" + std::to_string(at), o);
  const result<Endpoint> none = co_await connecting.result();
  CHECK(none.code() == errc::timed_out);
}

enum class by : std::uint8_t { rdma_cm, descriptors };

task<Endpoint> connected(side* here, by way, std::string name, endpoint_options options) {
  if (way == by::rdma_cm) {
    Endpoint e = co_await meet(here, port, options);
    co_return e;
  }
  Endpoint e = co_await meet_by_descriptors(here, std::move(name), options);
  co_return e;
}

// One connection during the outage, and another one after it, made the other way. If the client's
// link was down rdma_cm may be permanently broken: see connect_in_vain().
task<> live_through(side* here, asking what, link_of whose, by way, std::string name) {
  outage o(here, what);
  const bool holds_data = (what == asking::read) == on_server();  // or sends it
  for (std::size_t i = 0; holds_data && what != asking::add && i < outage::pieces; ++i) {
    fill(o.piece(i).bytes(), of_server + i);
  }
  const endpoint_options options =
      patient(whose == link_of::who_asks ? outage_patience : outage_timeout);
  {
    Endpoint e = co_await connected(here, way, name + "-1", options);
    o.theirs = co_await swap_blobs(here, &e, o.own);
    if (on_server()) {
      co_await answer_through(&o, &e, whose, name);
      co_await await_end(&e);
    } else {
      co_await ask_through(&o, &e, whose, name);
      if (whose == link_of::who_asks) {
        co_await await_end(&e);
        CHECK(o.first == static_cast<int>(transport::wc_status::loc_qp_op_err));
      } else {
        co_await e.close();
      }
    }
  }
  // A read that Soft-RoCE answered without data completes as a success, and then the connection
  // ends.
  const bool ends = what == asking::read && whose == link_of::who_answers && !o.failed.empty();
  CHECK(o.wrong <= (ends ? 1 : 0));
  const bool by_cm = way == by::descriptors && whose == link_of::who_answers;
  const by other = by_cm ? by::rdma_cm : by::descriptors;
  Endpoint again = co_await connected(here, other, name + "-2", patient(std::chrono::seconds(10)));
  co_await compare_notes(&o, &again);
}

// ---- the link stays up, but accepts shorter packets only ----

// Shortens the packets during its lifetime.
class shorter_packets {
 public:
  shorter_packets() {
    shell("cat /sys/class/net/$RDMA_NETDEV/mtu > /tmp/mtu");
    shell("ip link set $RDMA_NETDEV mtu 1500");
  }
  shorter_packets(const shorter_packets&) = delete;
  shorter_packets& operator=(const shorter_packets&) = delete;
  ~shorter_packets() { shell("ip link set $RDMA_NETDEV mtu $(cat /tmp/mtu)"); }
};

task<> swap_much(side* here, by way, std::string name, std::string packets) {
  constexpr std::size_t much = 65536;
  Endpoint e = co_await connected(here, way, std::move(name), patient(std::chrono::seconds(10)));
  CHECK(property_of(e, "path_mtu") == packets);
  MemoryRegion memory = here->memory(2 * much);
  fill(memory.bytes().first(much), on_server() ? of_server : 0);
  co_await swap(&e, memory.all().first(much), memory.all().part(much, much));
  CHECK(filled(memory.bytes().subspan(much), on_server() ? 0 : of_server));
  if (on_server()) {
    co_await await_end(&e);
  } else {
    co_await e.close();
  }
}

task<> in_both_ways(side* here, std::string name, std::string packets) {
  co_await swap_much(here, by::rdma_cm, name, packets);
  co_await swap_much(here, by::descriptors, name, packets);
}

}  // namespace

// rdma_cm treats the sides differently: it takes the client's packet size for that of the path.
TEST_CASE(
    "I1: a connection is made for the packets that the ports take then, not when the Contexts were "
    "made") {
  side here;
  here.worker.run(in_both_ways(&here, "mtu-0", "4096"));
  for (const bool of_the_server : {true, false}) {
    std::optional<shorter_packets> wire;
    if (on_server() == of_the_server) wire.emplace();
    const std::string whose = of_the_server ? "server" : "client";
    meet_at("shorter-" + whose);
    here.worker.run(in_both_ways(&here, "mtu-" + whose, "1024"));
    meet_at("over-" + whose);
  }
}

TEST_CASE(
    "K9: the link of who answers goes down and comes back under atomics: all wait, and arrive") {
  side here;
  here.worker.run(
      live_through(&here, asking::add, link_of::who_answers, by::descriptors, "their-add"));
}

TEST_CASE("K9: the link of who answers goes down and comes back under reads") {
  side here;
  here.worker.run(
      live_through(&here, asking::read, link_of::who_answers, by::descriptors, "their-read"));
}

TEST_CASE(
    "K9: the link of who asks goes down and comes back under messages, writes, reads, atomics: "
    "Soft-RoCE ends the connection; every waiter learns it in time, and a new one works") {
  constexpr std::array<const char*, 4> names{"message", "write", "read", "add"};
  side here;
  for (const asking what : {asking::message, asking::write, asking::read, asking::add}) {
    const char* const name = names[static_cast<std::size_t>(what)];
    CAPTURE(name);
    here.worker.run(live_through(&here, what, link_of::who_asks, by::descriptors, name));
  }
}

// This case is the last one: rdma_cm no longer works after it.
TEST_CASE(
    "K9: and where rdma_cm had made it, Soft-RoCE gets no answers for rdma_cm any more; "
    "descriptors "
    "still work") {
  side here;
  here.worker.run(
      live_through(&here, asking::message, link_of::who_asks, by::rdma_cm, "by-rdma_cm"));
  here.worker.run(connect_in_vain(&here, port + 1));
}

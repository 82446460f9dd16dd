// Two hosts, a wire that loses packets, and the unreliable services: UC and UD. Messages that
// arrive are complete. The client sends, the server listens; a separate RC connection reports each
// side's progress. Also the choice of transport between hosts, over a wire that loses nothing.
#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

using namespace cordma;
using namespace cordma::test;
using transport::service;

namespace {

constexpr std::uint16_t port = 18717;
constexpr std::uint32_t message_count = 600;
// more than the messages sent, including the last ones
constexpr std::uint32_t receive_count = 900;
constexpr std::uint32_t last_word = 0xFFFF0000;  // + the number of the exchange that it ends
constexpr std::uint32_t path_mtu = 1024;
constexpr std::size_t one_packet = 1000;
constexpr std::size_t four_packets = 4000;
constexpr std::uint32_t shared_key = 77;

endpoint_options of(service s) {
  endpoint_options o;
  o.type = s;
  o.qkey = shared_key;
  o.send_depth = o.recv_depth = 1024;
  return o;
}

transport::verbs_options small_packets() {
  transport::verbs_options o;
  o.mtu = path_mtu;
  return o;
}

// The RC connection beside the unreliable one.
struct aside {
  explicit aside(side* on) : here(on), words(on->memory(256)) {}
  side* here;
  Endpoint rc;
  MemoryRegion words;
};

task<> come_up(aside* a) { a->rc = co_await meet(a->here, port, of(service::rc)); }

task<> in_step(aside* a) {
  co_await swap(&a->rc, a->words.all().first(8), a->words.all().part(8, 8));
}

task<> part(aside* a) {
  if (on_server()) {
    co_await await_end(&a->rc);
  } else {
    co_await a->rc.close();
  }
}

// The received messages, by number, in order of arrival.
struct heard {
  std::vector<std::uint32_t> numbers;
  bool torn = false;
  void add(std::uint32_t number, bool whole) {
    numbers.push_back(number);
    torn = torn || !whole;
  }
};

void check(const heard& h, const std::string& what, std::size_t sent) {
  CAPTURE(what);
  CHECK_FALSE(h.torn);
  CHECK(h.numbers.size() > sent / 2);
  CHECK(h.numbers.size() < sent);
  CHECK(std::adjacent_find(h.numbers.begin(), h.numbers.end(), std::greater_equal<>()) ==
        h.numbers.end());
  MESSAGE(what, ": of ", sent, " arrived ", h.numbers.size(), ", the last one was ",
          h.numbers.empty() ? 0U : h.numbers.back());
}

// ---- UC ----

enum class way : std::uint8_t { send, write };

struct unreliable {
  unreliable(side* on, aside* beside_it, way w, std::size_t length)
      : beside(beside_it),
        how(w),
        bytes(length),
        out(on->memory(message_count * length)),
        window(on->memory(receive_count * length)) {}
  aside* beside;
  Endpoint e;
  way how;
  std::size_t bytes;
  MemoryRegion out;
  MemoryRegion window;  // message i is written to slot i, in either way
  RemoteMemory theirs;
  std::deque<recv_operation> posted;

  [[nodiscard]] send_operation message(std::uint32_t i) {
    const Slice from = out.all().part(i * bytes, bytes);
    if (how == way::send) return e.send_imm(from, i);
    return e.write_imm(theirs.slice(i * bytes, bytes).value(), from, i);
  }
  // Receive k of a send uses slot k, which differs from the number of a later message.
  [[nodiscard]] std::span<const std::byte> place(std::size_t k, std::uint32_t number) const {
    return window.bytes().subspan((how == way::send ? k : number) * bytes, bytes);
  }
};

task<> come_up(unreliable* u, side* here) {
  u->e = co_await meet(here, port + 1, of(service::uc));
  u->theirs = co_await swap_blobs(here, &u->beside->rc, u->window);
  if (!on_server()) co_return;
  for (std::uint32_t k = 0; k < receive_count; ++k) {
    const Slice into = u->how == way::send ? u->window.all().part(k * u->bytes, u->bytes) : Slice();
    u->posted.push_back(u->e.recv(into).start());
  }
}

constexpr std::uint32_t at_once = 30;

task<> send_messages(unreliable* u, std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t i = from; i < to; i += at_once) {
    std::vector<send_operation> sends;
    for (std::uint32_t k = i; k < i + at_once; ++k) {
      fill(u->out.bytes().subspan(k * u->bytes, u->bytes), k);
      sends.push_back(u->message(k).start());
    }
    for (send_operation& op : sends) co_await op;  // never an error: losses are not detected
  }
}

// Repeats the last message until the server has received it.
task<> say_last_word(unreliable* u) {
  recv_operation understood = u->beside->rc.recv(u->beside->words.all().part(16, 8)).start();
  while (!understood.done()) {
    co_await u->e.send_imm(Slice(), last_word);
    co_await sleep_for(std::chrono::milliseconds(10));
  }
  co_await understood;
}

task<> hear_all(unreliable* u, heard* h) {
  for (std::size_t k = 0; k < u->posted.size(); ++k) {
    recv_operation& op = u->posted[k];
    const Received got = co_await op;
    if (got.imm == last_word) break;
    REQUIRE(got.imm < message_count);
    h->add(got.imm, got.bytes == u->bytes && filled(u->place(k, got.imm), got.imm));
  }
  co_await u->beside->rc.send(u->beside->words.all().first(8));
}

task<> over_uc(side* here, way how, std::size_t bytes, std::string what) {
  aside beside(here);
  co_await come_up(&beside);
  unreliable u(here, &beside, how, bytes);
  co_await come_up(&u, here);
  co_await in_step(&beside);
  if (on_server()) {
    heard h;
    co_await hear_all(&u, &h);
    check(h, what, message_count);
  } else {
    const netem wire("loss 2%");
    co_await send_messages(&u, 0, message_count);
    co_await say_last_word(&u);
    CHECK(u.e.state() == endpoint_state::connected);
    CHECK(wire.dropped() > 0);
  }
  co_await in_step(&beside);
  u.e.abort();
  co_await part(&beside);
}

std::size_t arrived(const unreliable& u) {
  const auto waits = [](const recv_operation& op) { return !op.done(); };
  return static_cast<std::size_t>(std::find_if(u.posted.begin(), u.posted.end(), waits) -
                                  u.posted.begin());
}

// After the first loss of a packet behind the first of its message no message of any kind arrives
// any more, and the device reports that to neither side. A message that loses its first packet is
// missing, and stops nothing.
task<> get_stuck(side* here) {
  aside beside(here);
  co_await come_up(&beside);
  unreliable u(here, &beside, way::write, four_packets);
  co_await come_up(&u, here);
  co_await in_step(&beside);
  if (!on_server()) co_await send_messages(&u, 0, at_once);
  co_await in_step(&beside);
  co_await in_step(&beside);  // messages sent before the first step have arrived by the second
  if (on_server()) CHECK(arrived(u) == at_once);
  std::optional<netem> wire;
  if (!on_server()) {
    wire.emplace("loss 2%");
    co_await send_messages(&u, at_once, message_count);
    wire.reset();
  }
  co_await in_step(&beside);
  co_await in_step(&beside);
  const std::size_t before = arrived(u);
  if (!on_server()) {
    for (int i = 0; i < 50; ++i) co_await u.e.send_imm(Slice(), last_word);
  }
  co_await in_step(&beside);
  co_await in_step(&beside);
  CHECK(u.e.state() == endpoint_state::connected);
  if (on_server()) {
    MESSAGE("of ", message_count, " writes of four packets arrived ", before);
    CHECK(before < message_count);
    CHECK(arrived(u) == before);
    std::uint32_t next = 0;
    for (std::size_t k = 0; k < before; ++k) {
      recv_operation& op = u.posted[k];
      const Received got = co_await op;
      CHECK(got.imm >= next);
      next = got.imm + 1;
      CHECK(filled(u.place(k, got.imm), got.imm));
    }
  }
  // The library detects the end without a notification, as long as the peer continues to send.
  while (u.e.state() == endpoint_state::connected) {
    if (!on_server()) {
      const result<void> unheard = co_await u.e.send_imm(Slice(), last_word).result();
      static_cast<void>(unheard);  // the end is reported here too
    }
    co_await sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(u.e.first_cause() != nullptr);
  CHECK(u.e.first_cause()->code() == errc::connection_reset);
  if (on_server()) {
    CHECK(u.e.first_cause()->message().find("path_mtu") != std::string::npos);
    MESSAGE(u.e.first_cause()->describe());
  }
  co_await part(&beside);
}

// ---- UD ----

struct station {
  station(side* on, aside* beside_it)
      : beside(beside_it),
        port(on->worker.datagram(of(service::ud)).value()),
        room(on->memory(receive_count * port.max_datagram())) {}
  aside* beside;
  DatagramEndpoint port;
  MemoryRegion room;
  datagram_peer other;
  std::deque<datagram_recv_operation> posted;
  std::uint32_t talks = 0;

  [[nodiscard]] Slice place(std::size_t k) const {
    return room.all().part(k * port.max_datagram(), port.max_datagram());
  }
};

task<> come_up(station* s) {
  static_assert(std::is_trivially_copyable_v<datagram_peer>);
  const datagram_peer own = s->port.self().value();
  const Slice out = s->beside->words.all().part(64, sizeof own);
  const Slice in = s->beside->words.all().part(128, sizeof own);
  std::memcpy(out.data(), &own, sizeof own);
  co_await swap(&s->beside->rc, out, in);
  std::memcpy(&s->other, in.data(), sizeof own);
  for (std::uint32_t k = 0; k < receive_count; ++k) {
    s->posted.push_back(s->port.recv_from(s->place(k)).start());
  }
}

// Every length up to the maximum.
std::size_t length_of(const station& s, std::uint32_t i) {
  return 1 + i * 37 % s.port.max_datagram();
}

task<> send_datagrams(station* s, const datagram_peer* to, std::uint32_t count) {
  MemoryRegion out = s->beside->here->memory(s->port.max_datagram());
  for (std::uint32_t i = 0; i < count; ++i) {
    const Slice message = out.all().first(length_of(*s, i));
    fill(message.bytes(), i);
    co_await s->port.send_imm_to(*to, message, i);
  }
}

task<> say_last_word(station* s) {
  recv_operation understood = s->beside->rc.recv(s->beside->words.all().part(16, 8)).start();
  while (!understood.done()) {
    co_await s->port.send_imm_to(s->other, Slice(), last_word + s->talks);
    co_await sleep_for(std::chrono::milliseconds(10));
  }
  co_await understood;
}

bool is_from(const datagram_peer& a, const datagram_peer& b) {
  return a.address == b.address && a.queue_pair == b.queue_pair;
}

// Receives from the first pending receive up to the last message.
task<> hear_datagrams(station* s, heard* h) {
  for (bool more = true; more;) {
    REQUIRE_FALSE(s->posted.empty());
    const std::size_t k = receive_count - s->posted.size();
    datagram_recv_operation& op = s->posted.front();
    const Datagram got = co_await op;
    CHECK(is_from(got.from, s->other));
    more = got.imm != last_word + s->talks;
    if (got.imm < last_word) {
      h->add(got.imm, got.bytes == length_of(*s, got.imm) &&
                          filled(s->place(k).first(got.bytes).bytes(), got.imm));
    }
    s->posted.pop_front();
  }
  co_await s->beside->rc.send(s->beside->words.all().first(8));
}

// The client sends with `what`, the server receives.
template <class What>
task<> talk(station* s, heard* h, What what) {
  ++s->talks;
  if (on_server()) {
    co_await hear_datagrams(s, h);
  } else {
    co_await what(s);
    co_await say_last_word(s);
  }
  co_await in_step(s->beside);
}

task<> over_a_bad_wire(station* s) {
  const netem wire("loss 3%");
  co_await send_datagrams(s, &s->other, message_count);
  CHECK(wire.dropped() > 0);
}

constexpr std::uint32_t few = 20;

task<> with_a_wrong_key(station* s) {
  datagram_peer wrong = s->other;
  ++wrong.qkey;
  co_await send_datagrams(s, &wrong, few);
}

const transport::address group{"239.77.0.9", 0};

task<> to_the_group(station* s) {
  const datagram_peer all = s->port.group(group).value();
  co_await send_datagrams(s, &all, few);
  // The sender is a member too.
  for (std::uint32_t i = 0; i < few; ++i) {
    datagram_recv_operation& op = s->posted.front();
    const Datagram got = co_await op;
    CHECK(got.imm == i);
    s->posted.pop_front();
  }
}

std::uint64_t refused_keys() {
  return std::stoull(
      shell("ibv_devinfo -v -d rxe0 | sed -n 's/.*qkey_viol_cntr:[^0-9]*\\(0x\\)*//p'"), nullptr,
      16);
}

task<> over_ud(side* here) {
  aside beside(here);
  co_await come_up(&beside);
  station s(here, &beside);
  co_await come_up(&s);
  const std::uint64_t refused = refused_keys();  // read before the other side sends anything
  co_await in_step(&beside);

  heard lossy;
  co_await talk(&s, &lossy, over_a_bad_wire);
  if (on_server()) check(lossy, "datagrams of every length", message_count);

  heard none;
  co_await talk(&s, &none, with_a_wrong_key);
  CHECK(none.numbers.empty());
  if (on_server()) CHECK(refused_keys() == refused + few);

  CHECK(s.port.join(group).ok());
  co_await in_step(&beside);
  heard grouped;
  co_await talk(&s, &grouped, to_the_group);
  if (on_server()) {
    CHECK(grouped.numbers.size() == few);
    CHECK_FALSE(grouped.torn);
    CHECK(s.port.leave(group).ok());
  }
  co_await in_step(&beside);
  heard left;
  co_await talk(&s, &left, to_the_group);
  CHECK(left.numbers.empty());
  co_await part(&beside);
}

// ---- all transports ----

task<> come_by_default(side* here) {
  const std::string at = ":" + std::to_string(port + 2);
  Endpoint e;
  if (on_server()) {
    Listener listener = here->worker.listen(named("RDMA_HOST_SELF") + at).value();
    meet_at("listening");
    ConnectionRequest request = co_await listener.next();
    Endpoint accepted = co_await request.accept();
    e = std::move(accepted);
    CHECK(e.transport_reason() == "verbs: chosen by the peer");
  } else {
    meet_at("listening");
    Endpoint connected = co_await here->worker.connect(named("RDMA_HOST_PEER") + at);
    e = std::move(connected);
    CAPTURE(e.transport_reason());
    CHECK(e.transport_reason().starts_with("verbs: after shm: "));
    CHECK(e.transport_reason().find("tcp") == std::string::npos);
  }
  CHECK(e.transport() == transport::kind::verbs);
  MemoryRegion memory = here->memory(16);
  co_await swap(&e, memory.all().first(8), memory.all().part(8, 8));
  if (on_server()) {
    co_await await_end(&e);
  } else {
    co_await e.close();
  }
}

}  // namespace

TEST_CASE(
    "A2: of all transports two hosts with an RDMA device take verbs, on both sides, and say why") {
  side here{context_options()};
  const std::vector<transport::capabilities> all = here.context.transports();
  REQUIRE(all.size() == 3);
  CHECK(all.back().transport == transport::kind::tcp);
  here.worker.run(come_by_default(&here));
}

TEST_CASE(
    "L8: over UC a message arrives whole and in order, or not at all, and no sender is told") {
  struct {
    way how;
    std::size_t bytes;
    const char* what;
  } const each[] = {{way::send, one_packet, "sends of one packet"},
                    {way::send, four_packets, "sends of four packets"},
                    {way::write, one_packet, "writes of one packet"}};
  for (const auto& [how, bytes, what] : each) {
    side here(small_packets());
    here.worker.run(over_uc(&here, how, bytes, what));
  }
}

TEST_CASE(
    "L8: on Soft-RoCE a UC write of four packets that loses one behind its first stops what comes "
    "after it; the connection ends for that, and says so") {
  side here(small_packets());
  here.worker.run(get_stuck(&here));
}

TEST_CASE(
    "L7: datagrams between hosts: whole or lost, by address handle, key and group; the header that "
    "comes first is none of theirs") {
  side here;
  here.worker.run(over_ud(&here));
}

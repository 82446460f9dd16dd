#include <functional>
#include <random>

#include "shm_harness.hpp"
#include "shm_rogue.hpp"

namespace cordma::transport::shm_test {
namespace {

using shm::message;

struct lie {
  const char* what;
  std::function<void(rogue&, host&, memory&)> tell;
};

void share(rogue& r, shm::packet type, std::uint64_t length, int fd) {
  auto p = shm::make_packet<shm::region_packet>(type);
  p.lkey = 1;
  p.length = length;
  const std::array<int, 1> fds{fd};
  REQUIRE(shm::send_packet(r.socket.get(), p, fds) == shm::transfer::done);
}

void fetch(rogue& r, std::initializer_list<shm::piece> pieces) {
  const std::vector<shm::piece> all(pieces);
  r.cell(message::fetch, 0, static_cast<std::uint16_t>(all.size()),
         static_cast<std::uint32_t>(all.size() * sizeof(shm::piece)), all.data(),
         std::min<std::size_t>(all.size() * sizeof(shm::piece), 400));
}

void garble(rogue& r) {
  const std::array<std::byte, 100> junk{};
  REQUIRE(shm::send_packet(r.socket.get(), std::span(junk), {}) == shm::transfer::done);
}

// The offer of a message, the message, and a packet between them that ends the connection: the
// fetch meets both.
void fetch_over_garbage(rogue& r) {
  auto fd = shm::create_shared("offered", 4096);
  share(r, shm::packet::region_offer, 4096, (*fd).get());
  garble(r);
  fetch(r, {{1, 0, 0, 100}});
}

void serve(rogue& r, shm::service_request q, std::uint32_t length) {
  r.cell(message::serve, 0, 0, length, &q, sizeof q);
}

constexpr std::uint32_t whole = sizeof(shm::service_request);

std::vector<lie> lies_about_messages() {
  return {
      {"an unknown kind", [](rogue& r, host&, memory&) { r.cell(message{77}, 0, 0, 8); }},
      {"kind 0", [](rogue& r, host&, memory&) { r.cell(message{0}, 0, 0, 8); }},
      {"a length of 4 GiB",
       [](rogue& r, host&, memory&) { r.cell(message::send, 0, 0, 0xffffffffU); }},
      {"a length just above the ring",
       [](rogue& r, host&, memory&) { r.cell(message::send, 0, 0, rogue::ring_bytes); }},
      {"a fragment that continues nothing",
       [](rogue& r, host&, memory&) { r.cell(message::send, 2, 0, 8); }},
      {"a fragment of 4 GiB",
       [](rogue& r, host&, memory&) { r.cell(message::send, 1, 0, 0xffffffffU); }},
      {"fragments without end that overflow the receive",
       [](rogue& r, host& h, memory&) {
         for (int i = 0; i < 200; ++i) {
           for (int k = 0; k < 4096 && !r.out.room(1); ++k) h.poll();
           if (!r.out.room(1)) break;
           r.cell(message::send, i == 0 ? 1 : 3, 0, 40);
         }
       }},
      {"a descriptor without pieces",
       [](rogue& r, host&, memory&) { r.cell(message::fetch, 0, 0, 0); }},
      {"a descriptor of 17 pieces",
       [](rogue& r, host&, memory&) { r.cell(message::fetch, 0, 17, 17 * 24); }},
      {"a descriptor that contradicts itself",
       [](rogue& r, host&, memory&) { r.cell(message::fetch, 0, 2, 24); }},
  };
}

std::vector<lie> lies_about_memory() {
  return {
      {"memory that was never offered",
       [](rogue& r, host&, memory&) { fetch(r, {{5, 1, 0, 100}}); }},
      {"pieces whose sum overflows",
       [](rogue& r, host&, memory&) {
         fetch(r, {{0, 0, 4096, 1ULL << 63}, {0, 0, 4096, 1ULL << 63}});
       }},
      {"private memory that cannot be reached",
       [](rogue& r, host&, memory&) { fetch(r, {{0, 0, 4096, 100}}); }},
      {"an offset behind the offered memory",
       [](rogue& r, host&, memory&) {
         auto fd = shm::create_shared("offered", 4096);
         share(r, shm::packet::region_offer, 4096, (*fd).get());
         fetch(r, {{1, 0, 4000, 100}});
       }},
      {"an offset that wraps",
       [](rogue& r, host&, memory&) {
         auto fd = shm::create_shared("offered", 4096);
         share(r, shm::packet::region_offer, 4096, (*fd).get());
         fetch(r, {{1, 0, ~std::uint64_t{0} - 10, 100}});
       }},
      {"a garbled packet behind the offer of a message",
       [](rogue& r, host&, memory&) { fetch_over_garbage(r); }},
      {"a garbled packet behind the offer of a message that is withdrawn",
       [](rogue& r, host&, memory&) {
         r.control().ended.store(shm::end_of_stream::withdrawn);
         fetch_over_garbage(r);
       }},
      {"an offer that could shrink",
       [](rogue& r, host&, memory&) {
         const unique_fd fd(::memfd_create("loose", 0));
         REQUIRE(::ftruncate(fd.get(), 4096) == 0);
         share(r, shm::packet::region_offer, 4096, fd.get());
       }},
      {"an offer longer than its memory",
       [](rogue& r, host&, memory&) {
         auto fd = shm::create_shared("short", 4096);
         share(r, shm::packet::region_offer, 1 << 20, (*fd).get());
       }},
      {"an answer that nobody asked for",
       [](rogue& r, host&, memory&) {
         auto fd = shm::create_shared("answer", 4096);
         share(r, shm::packet::region_answer, 4096, (*fd).get());
       }},
  };
}

std::vector<lie> lies_about_access() {
  return {
      {"an access request without its body",
       [](rogue& r, host&, memory&) { r.cell(message::serve, 0, 0, 3); }},
      {"an access request of an unknown kind",
       [](rogue& r, host&, memory&) { serve(r, {shm::service_kind{9}, 8, 1, 1, 0, 0}, whole); }},
      {"a write shorter than it says",
       [](rogue& r, host&, memory& m) {
         serve(r, {shm::service_kind::write, 4000, m.keys.rkey, m.address(), 0, 0}, whole + 8);
       }},
      {"a read larger than the slot",
       [](rogue& r, host&, memory& m) {
         serve(r, {shm::service_kind::read, 0xffffffffU, m.keys.rkey, m.address(), 0, 0}, whole);
       }},
      {"an atomic of 3 bytes",
       [](rogue& r, host&, memory& m) {
         serve(r, {shm::service_kind::fetch_add, 3, m.keys.rkey, m.address(), 0, 0}, whole);
       }},
      {"progress beyond what was sent",
       [](rogue& r, host& h, memory& m) {
         r.other_control().taken.store(1'000'000);
         for (std::uint64_t i = 0; i < 100; ++i) h.send(i, m.at(0, 900));
       }},
      {"more messages fetched than were sent",
       [](rogue& r, host& h, memory& m) {
         h.send(1, m.at(0, 4096));
         r.other_control().fetched.store(50);
       }},
      {"a garbled packet", [](rogue& r, host&, memory&) { garble(r); }},
      {"a hello in mid-connection",
       [](rogue& r, host&, memory&) {
         static_cast<void>(shm::send_packet(
             r.socket.get(), shm::make_packet<shm::introduction>(shm::packet::hello)));
       }},
      {"a fault full of nonsense",
       [](rogue& r, host&, memory&) {
         auto f = shm::make_packet<shm::fault_packet>(shm::packet::fault);
         f.code = errc{200};
         f.status = 250;
         f.text.fill('\x01');
         static_cast<void>(shm::send_packet(r.socket.get(), f));
       }},
  };
}

std::vector<lie> lies() {
  std::vector<lie> all = lies_about_messages();
  for (const auto& more : {lies_about_memory(), lies_about_access()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace

TEST_CASE("shm: a lying peer ends its own connection with an error, and nothing else") {
  for (const lie& l : lies()) {
    CAPTURE(l.what);
    scratch dir;
    shm_options o;
    o.directory = dir.path;
    host server(o);
    memory m(*server.d, 1 << 16, everything, true);
    server.l = std::move(*server.a->listen({"", 4711}));
    host honest(o);
    honest.q = std::move(*honest.a->connect({"", 4711}, {}, {}));
    REQUIRE(
        pump(server, honest, [&] { return honest.saw(cm_event::type::established) != nullptr; }));
    const auto kept = std::move(server.q);
    server.events.clear();

    rogue r(dir.path + "/4711");
    REQUIRE(r.said_hello);
    REQUIRE(pump(server, [&] { return server.saw(cm_event::type::established) != nullptr; }));
    REQUIRE(r.accepted());
    server.recv(1000, m.at(0, 2000));
    std::memset(m.data, 0x11, 4096);
    l.tell(r, server, m);
    REQUIRE(pump(server, [&] { return server.saw(cm_event::type::disconnected) != nullptr; }));
    CHECK(server.saw(cm_event::type::disconnected)->why.code() != errc::ok);
    REQUIRE(pump(server, [&] { return server.find(1000) != nullptr; }));
    CHECK(server.find(1000)->status != wc_status::success);

    server.q.reset();
    memory hm(*honest.d, 64, everything, true);
    completion now;
    const segment to = m.at(0, 64);
    static_cast<void>(kept->post_recv({5, 1, &to, nullptr}, now));
    honest.send(6, hm.at(0, 64));
    CHECK(pump(server, honest, [&] { return server.find(5) != nullptr; }));
  }
}

TEST_CASE("shm: rings full of random bytes with valid stamps [seeds 1 to 300]") {
  scratch dir;
  shm_options o;
  o.directory = dir.path;
  host server(o);
  memory m(*server.d, 1 << 16, everything, true);
  server.l = std::move(*server.a->listen({"", 4711}));
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 engine(seed);
    const auto draw = [&engine] { return static_cast<std::uint32_t>(engine()); };
    server.events.clear();
    server.done.clear();
    rogue r(dir.path + "/4711");
    REQUIRE(pump(server, [&] { return server.saw(cm_event::type::established) != nullptr; }));
    for (std::uint64_t i = 0; i < 16; ++i) server.recv(i, m.at(i * 4096, 4096));
    server.rma(99, opcode::read, m.at(0, 8), 4096, 1 + (std::uint64_t{draw()} << 32));
    for (int i = 0; i < 40; ++i) {
      std::array<std::uint32_t, 12> payload;
      for (auto& w : payload) w = draw() % 3 == 0 ? draw() : draw() % 64;
      r.cell(message{static_cast<std::uint8_t>(draw() % 9)},
             static_cast<std::uint8_t>(draw() % 8 == 0 ? draw() : 0),
             static_cast<std::uint16_t>(draw() % 20), draw() % 2 == 0 ? draw() % 500 : draw(),
             payload.data(), sizeof payload);
    }
    if (draw() % 2 == 0) r.other_control().taken.store(draw() % 100);
    if (draw() % 2 == 0) r.other_control().served.store(draw() % 3);
    for (int i = 0; i < 50; ++i) server.poll();
    r.socket.close();
    REQUIRE(pump(server, [&] { return server.saw(cm_event::type::disconnected) != nullptr; }));
    REQUIRE(pump(server, [&] { return server.done.size() >= 17; }));
    CHECK(server.done.size() == 17);
    server.q.reset();
  }
}

}  // namespace cordma::transport::shm_test

// Unmodified programs without cordma at the other end: the plain verbs program of tests/soft-roce,
// and rping of the system's librdmacm.
#include "raw_id.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <arpa/inet.h>
#include <endian.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/wait.h>

using namespace cordma;
using namespace cordma::test;
using transport::peer_kind;

namespace {

// A program that runs beside the test; its output can be read line by line.
class program {
 public:
  explicit program(const std::string& command)
      : output_(::popen(("exec timeout 60 " + command).c_str(), "r")) {
    REQUIRE(output_ != nullptr);
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  ~program() {
    if (output_ != nullptr) ::pclose(output_);
  }
  // The next line, or empty at the end of the output.
  std::string line() {
    std::array<char, 512> text{};
    return std::fgets(text.data(), text.size(), output_) != nullptr ? text.data() : "";
  }
  // True if it has printed something, or ended.
  [[nodiscard]] bool is_heard() const {
    pollfd p{.fd = ::fileno(output_), .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, 0) > 0;
  }
  // Waits for its end and returns its exit code.
  int join() {
    for (std::string text = line(); !text.empty(); text = line()) all_ += text;
    const int status = ::pclose(std::exchange(output_, nullptr));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] const std::string& said() const noexcept { return all_; }

 private:
  FILE* output_;
  std::string all_;
};

// The path as one word of a shell command, because it may contain blanks.
std::string raw_peer() {
  const char* const path = std::getenv("CORDMA_RAW_PEER");
  REQUIRE_MESSAGE(path != nullptr,
                  "CORDMA_RAW_PEER names the program of tests/soft-roce/raw_peer.c");
  return "'" + std::string(path) + "'";
}

constexpr std::uint16_t port = 18720;

Listener listen(Worker& worker, peer_kind whom) {
  listen_options o;
  o.peers = whom;
  return worker.listen(own_host() + ":0", o).value();
}

endpoint_options plain() {
  endpoint_options o;
  o.peer = peer_kind::plain;
  return o;
}

// Memory of a peer that sent its address and key in its own format.
RemoteSlice remote_at(std::uint64_t address, std::uint64_t bytes, std::uint32_t rkey) {
  return RemoteSlice(address, bytes, {transport::kind::verbs, rkey});
}

task<> await_end(Endpoint* e) {
  while (e->state() != endpoint_state::closed) co_await e->state_changed();
  CHECK(e->first_cause()->code() == errc::not_connected);
}

task<Endpoint> connect_plain(Worker* worker, std::string to, std::span<const std::byte> data) {
  connect_options o;
  o.endpoint = plain();
  o.private_data = data;
  for (;;) {
    connect_operation connecting = worker->connect(to, o).start();
    result<Endpoint> r = co_await connecting.result();
    if (r.ok()) co_return std::move(*r);
    REQUIRE(r.code() == errc::unreachable);  // it may not listen yet
    co_await sleep_for(std::chrono::milliseconds(20));
  }
}

// ---- raw_peer: its private data, its messages ----

enum class op : std::uint16_t { send = 1, write, read, write_imm, fetch_add, swap };
constexpr std::array<std::pair<op, const char*>, 6> ops{{{op::send, "send"},
                                                         {op::write, "write"},
                                                         {op::read, "read"},
                                                         {op::write_imm, "write_imm"},
                                                         {op::fetch_add, "fetch_add"},
                                                         {op::swap, "swap"}}};

// `struct hello` of raw_peer.c, in network byte order.
struct raw_hello {
  std::uint32_t magic = htonl(0x52415750);
  std::uint16_t version = htons(1);
  std::uint16_t what = 0;
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t size = 0;
  std::uint32_t count = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(raw_hello) == 32);

raw_hello parse(std::span<const std::byte> data) {
  raw_hello h;
  REQUIRE(data.size() >= sizeof h);  // rdma_cm pads
  std::memcpy(&h, data.data(), sizeof h);
  CHECK(h.magic == raw_hello().magic);
  return h;
}

void put_message(std::span<std::byte> bytes, std::uint32_t number) {
  for (std::size_t j = 0; j < bytes.size(); ++j) bytes[j] = static_cast<std::byte>(number + j);
}
bool is_message(std::span<const std::byte> bytes, std::uint32_t number) {
  for (std::size_t j = 0; j < bytes.size(); ++j) {
    if (bytes[j] != static_cast<std::byte>(number + j)) return false;
  }
  return true;
}

// One side of the exchange with raw_peer, implemented with cordma.
struct raw_side {
  raw_side(Context& context, op w, std::uint32_t bytes, std::uint32_t times)
      : what(w),
        size(bytes),
        count(times),
        in(context.allocate(std::max(bytes, 8U), every_right).value()),
        out(context.allocate(std::max(bytes, 8U)).value()) {
    const RemoteSlice own = exported(in).all();
    mine.what = htons(static_cast<std::uint16_t>(what));
    mine.address = htobe64(own.addr());
    mine.rkey = htonl(static_cast<std::uint32_t>(own.rkey(transport::kind::verbs)));
    mine.size = htonl(size);
    mine.count = htonl(count);
    if (what == op::read) put_message(in.bytes().first(size), 0);
  }
  void hear(const raw_hello& h) {
    theirs = remote_at(be64toh(h.address), std::max(size, 8U), ntohl(h.rkey));
  }
  [[nodiscard]] Slice to() const { return out.all().first(size); }
  [[nodiscard]] Slice from() const { return in.all().first(size); }
  // The sender determines where data with an immediate is written.
  [[nodiscard]] Slice receive() const { return what == op::send ? from() : Slice(); }
  [[nodiscard]] RemoteSlice remote() const { return theirs.slice(0, size).value(); }

  op what;
  std::uint32_t size;
  std::uint32_t count;
  MemoryRegion in;  // the peer writes, reads and counts here
  MemoryRegion out;
  raw_hello mine;
  RemoteSlice theirs;
};

void check_received(const raw_side& r, const Received& got, std::uint32_t number) {
  CHECK(got.bytes == r.size);
  CHECK(got.has_imm == (r.what == op::write_imm));
  CHECK((!got.has_imm || got.imm == number));
  CHECK(is_message(r.from().bytes(), number));
}

send_operation say(Endpoint& e, const raw_side& r, std::uint32_t number) {
  put_message(r.to().bytes(), number);
  if (r.what == op::send) return e.send(r.to());
  return e.write_imm(r.remote(), r.to(), number);
}

task<> answer_messages(Endpoint* e, raw_side* r) {
  for (std::uint32_t i = 0; i < r->count; ++i) {
    recv_operation receiving = e->recv(r->receive()).start();
    const Received got = co_await receiving;
    check_received(*r, got, i);
    send_operation answer = say(*e, *r, i).start();
    // A peer that has the last response disconnects at once, without another message.
    const result<void> sent = co_await answer.result();
    CHECK((sent.ok() || i + 1 == r->count));
  }
}

task<> serve_raw(Context* context, ConnectionRequest request) {
  const raw_hello asked = parse(request.private_data());
  raw_side r(*context, static_cast<op>(ntohs(asked.what)), ntohl(asked.size), ntohl(asked.count));
  r.hear(asked);
  connect_options o;
  o.private_data = std::as_bytes(std::span(&r.mine, 1));
  Endpoint e = co_await request.accept(o);
  CHECK(e.actual().peer == peer_kind::plain);
  if (r.what == op::send || r.what == op::write_imm) co_await answer_messages(&e, &r);
  co_await await_end(&e);
  const std::uint64_t word = r.in.as<std::uint64_t>()[0];
  if (r.what == op::fetch_add || r.what == op::swap) CHECK(word == r.count);
  if (r.what == op::write) CHECK(is_message(r.from().bytes(), r.count - 1));
}

task<> serve_next(host* h, Listener* listener) {
  ConnectionRequest request = co_await listener->next();
  co_await serve_raw(&h->context, std::move(request));
}

// The client's request arrived at a listener of the program.
task<ConnectionRequest> adopt_next(host* h, raw_id* listening) {
  rdma_cm_event* const event = co_await listening->next();
  co_return h->worker.adopt(event, peer_kind::plain).value();
}

task<> adopt_and_serve(host* h, raw_id* listening) {
  ConnectionRequest request = co_await adopt_next(h, listening);
  co_await serve_raw(&h->context, std::move(request));
}

task<> one_round(Endpoint* e, raw_side* r, std::uint32_t i) {
  const RemoteSlice word = r->theirs.slice(0, 8).value();
  if (r->what == op::send || r->what == op::write_imm) {
    recv_operation receiving = e->recv(r->receive()).start();
    send_operation asking = say(*e, *r, i).start();
    co_await asking;
    const Received got = co_await receiving;
    check_received(*r, got, i);
  } else if (r->what == op::write) {
    put_message(r->to().bytes(), i);
    co_await e->write(r->remote(), r->to());
  } else if (r->what == op::read) {
    co_await e->read(r->remote(), r->to());
    CHECK(is_message(r->to().bytes(), 0));
  } else if (r->what == op::fetch_add) {
    const std::uint64_t old = co_await e->fetch_add(word, 1);
    CHECK(old == i);
  } else {
    const std::uint64_t old = co_await e->compare_swap(word, i, i + 1);
    CHECK(old == i);
  }
}

task<> ask_raw(Worker* worker, std::string to, raw_side* r) {
  const std::span<const std::byte> mine = std::as_bytes(std::span(&r->mine, 1));
  Endpoint e = co_await connect_plain(worker, to, mine);
  r->hear(parse(e.peer_data()));
  for (std::uint32_t i = 0; i < r->count; ++i) co_await one_round(&e, r, i);
  if (r->what == op::write) {
    const Slice into = r->from();
    co_await e.read(r->remote(), into);
    CHECK(is_message(into.bytes(), r->count - 1));
  }
  co_await e.close();
}

constexpr std::uint32_t rounds = 20;
constexpr std::uint32_t message_bytes = 1000;

// ---- rping: sixteen bytes that describe where to read, and where to write ----

struct ping_info {
  std::uint64_t address = 0;  // all fields are big-endian
  std::uint32_t rkey = 0;
  std::uint32_t size = 0;
};
static_assert(sizeof(ping_info) == 16);

RemoteSlice told_in(Slice message) {
  ping_info info;
  std::memcpy(&info, message.data(), sizeof info);
  return remote_at(be64toh(info.address), ntohl(info.size), ntohl(info.rkey));
}

void tell_in(Slice message, const MemoryRegion& memory) {
  const RemoteSlice own = exported(memory).all();
  ping_info info;
  info.address = htobe64(own.addr());
  info.rkey = htonl(static_cast<std::uint32_t>(own.rkey(transport::kind::verbs)));
  info.size = htonl(static_cast<std::uint32_t>(memory.size()));
  std::memcpy(message.data(), &info, sizeof info);
}

constexpr std::size_t ping_bytes = 64;
constexpr int ping_count = 5;

// Its server: reads the client's buffer, confirms, receives the address to write to, writes there,
// confirms.
task<int> answer_pings(Context* context, ConnectionRequest request) {
  MemoryRegion words = context->allocate(32).value();
  MemoryRegion text = context->allocate(ping_bytes).value();
  const Slice in = words.all().first(16);
  const Slice out = words.all().part(16, 16);
  Endpoint e = co_await request.accept();
  int answered = 0;
  recv_operation offer = e.recv(in).start();
  for (;;) {
    const result<Received> offered = co_await offer.result();
    if (!offered.ok()) break;
    const RemoteSlice source = told_in(in);
    REQUIRE(source.size() == ping_bytes);
    co_await e.read(source, text);
    const std::string expected = "rdma-ping-" + std::to_string(answered) + ": ";
    CHECK(std::memcmp(text.data(), expected.data(), expected.size()) == 0);
    recv_operation place = e.recv(in).start();
    co_await e.send(out);
    co_await place;
    const RemoteSlice sink = told_in(in);
    co_await e.write(sink, text);
    offer.again(in);
    offer.start();
    ++answered;
    const result<void> told = co_await e.send(out).result();
    if (!told.ok()) break;  // the peer had all it needed, and disconnected before this completed
  }
  co_await await_end(&e);
  co_return answered;
}

task<int> answer_next(host* h, Listener* listener) {
  ConnectionRequest request = co_await listener->next();
  const int answered = co_await answer_pings(&h->context, std::move(request));
  co_return answered;
}

task<int> adopt_and_answer(host* h, raw_id* listening) {
  ConnectionRequest request = co_await adopt_next(h, listening);
  const int answered = co_await answer_pings(&h->context, std::move(request));
  co_return answered;
}

task<> ping(Context* context, Worker* worker, std::string to) {
  const std::span<const std::byte> nothing;
  Endpoint e = co_await connect_plain(worker, to, nothing);
  MemoryRegion words = context->allocate(32).value();
  const Slice in = words.all().first(16);
  const Slice out = words.all().part(16, 16);
  MemoryRegion source = context->allocate(ping_bytes, every_right).value();
  MemoryRegion sink = context->allocate(ping_bytes, every_right).value();
  for (int i = 0; i < ping_count; ++i) {
    const std::string text = "rdma-ping-" + std::to_string(i) + ": from cordma";
    std::memcpy(source.data(), text.c_str(), text.size() + 1);
    for (const MemoryRegion* const offered : {&source, &sink}) {
      tell_in(out, *offered);
      recv_operation done = e.recv(in).start();
      co_await e.send(out);
      co_await done;
    }
    CHECK(std::memcmp(sink.data(), source.data(), text.size() + 1) == 0);
  }
  co_await e.close();
}

// ---- rdma_client and rdma_server: sixteen bytes each way ----

// Both disconnect as soon as they have the last message: on a busy machine before the device has
// its acknowledgement.
task<> send_the_last(Endpoint* e, Slice out) {
  const result<void> sent = co_await e->send(out).result();
  CHECK((sent.ok() || sent.code() == errc::flushed));
}

task<> answer_once(host* h, Listener* listener) {
  ConnectionRequest request = co_await listener->next();
  const MemoryRegion words = h->context.allocate(32).value();
  Endpoint e = co_await request.accept();
  co_await e.recv(words.all().first(16));
  co_await send_the_last(&e, words.all().part(16, 16));
  co_await await_end(&e);
}

task<> ask_once(host* h, std::string to) {
  const std::span<const std::byte> nothing;
  Endpoint e = co_await connect_plain(&h->worker, to, nothing);
  const MemoryRegion words = h->context.allocate(32).value();
  recv_operation answer = e.recv(words.all().first(16)).start();
  co_await send_the_last(&e, words.all().part(16, 16));
  const Received got = co_await answer;
  CHECK(got.bytes == 16);
  co_await await_end(&e);
}

// ---- udaddy: a number of messages of equal size in one direction, then as many back ----

constexpr std::uint32_t udaddy_count = 25;
constexpr std::size_t udaddy_bytes = 300;
constexpr const char* udaddy_port = ":7174";  // the program's default port

struct ud_station {
  explicit ud_station(host* on)
      : port(on->worker.datagram(found()).value()),
        memory(on->context.allocate(2 * udaddy_count * udaddy_bytes, access::local_write).value()) {
    for (std::uint32_t i = 0; i < udaddy_count; ++i) {
      arriving.push_back(port.recv_from(memory.all().part(i * udaddy_bytes, udaddy_bytes)).start());
    }
  }
  static endpoint_options found() {
    endpoint_options o;
    o.qkey = transport::bound_qkey;
    return o;
  }
  [[nodiscard]] Slice outgoing(std::uint32_t i) const {
    return memory.all().part((udaddy_count + i) * udaddy_bytes, udaddy_bytes);
  }
  DatagramEndpoint port;
  MemoryRegion memory;
  std::vector<datagram_recv_operation> arriving;
};

// The immediate carries the queue pair for replies, which the address alone does not identify.
task<> send_datagrams(ud_station* s, datagram_peer to) {
  const std::uint32_t own = s->port.self().value().queue_pair;
  for (std::uint32_t i = 0; i < udaddy_count; ++i) {
    co_await s->port.send_imm_to(to, s->outgoing(i), own);
  }
}

task<datagram_peer> receive_datagrams(ud_station* s) {
  Datagram got;
  for (datagram_recv_operation& op : s->arriving) {
    got = co_await op;
    CHECK(got.bytes == udaddy_bytes);
    CHECK(got.has_imm);
    CHECK(got.imm == got.from.queue_pair);
  }
  co_return got.from;
}

task<> serve_udaddy(ud_station* s) {
  const datagram_peer client = co_await receive_datagrams(s);
  co_await send_datagrams(s, client);
}

task<> ask_udaddy(ud_station* s) {
  datagram_peer server;
  for (bool found = false; !found;) {
    resolve_operation resolving = s->port.resolve(own_host() + udaddy_port).start();
    const result<datagram_peer> r = co_await resolving.result();
    found = r.ok();
    if (found) server = *r;
    REQUIRE((found || r.code() == errc::unreachable));  // it may not listen yet
    co_await sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(server.qkey == transport::bound_qkey);
  co_await send_datagrams(s, server);
  const datagram_peer from = co_await receive_datagrams(s);
  CHECK(from.queue_pair == server.queue_pair);
  CHECK(from.address == server.address);
}

std::string udaddy(const std::string& how) {
  return "udaddy " + how + " " + own_host() + " -C " + std::to_string(udaddy_count) + " -S " +
         std::to_string(udaddy_bytes) + " 2>&1";
}

}  // namespace

TEST_CASE("M3: a plain verbs client and our Listener: every operation, polling and in events") {
  for (const bool events : {false, true}) {
    host h(events ? wait_mode::event : wait_mode::polling);
    for (const auto& [what, name] : ops) {
      CAPTURE(events);
      CAPTURE(std::string(name));
      Listener listener = listen(h.worker, peer_kind::plain);
      program client(raw_peer() + (events ? " --event" : "") + " --op " + name + " --count " +
                     std::to_string(rounds) + " --size " + std::to_string(message_bytes) +
                     " --port " + std::to_string(listener.bound().port) + " " + own_host());
      h.worker.run(serve_next(&h, &listener));
      CHECK(client.join() == 0);
      MESSAGE(client.said());
    }
  }
}

TEST_CASE("M3: our endpoint and a plain verbs server: every operation, polling and in events") {
  for (const bool events : {false, true}) {
    host h(events ? wait_mode::event : wait_mode::polling);
    for (const auto& [what, name] : ops) {
      CAPTURE(events);
      CAPTURE(std::string(name));
      const std::string at = std::to_string(port);
      program server(raw_peer() + " --serve" + (events ? " --event" : "") + " --port " + at + " " +
                     own_host());
      REQUIRE(server.line().starts_with("listening"));
      const bool atomic = what == op::fetch_add || what == op::swap;
      raw_side r(h.context, what, atomic ? 8 : message_bytes, rounds);
      h.worker.run(ask_raw(&h.worker, own_host() + ":" + at, &r));
      CHECK(server.join() == 0);
      MESSAGE(server.said());
    }
  }
}

TEST_CASE("M3: rping is answered, and answers") {
  host h(wait_mode::adaptive);
  const std::string end = " -C " + std::to_string(ping_count) + " -S " +
                          std::to_string(ping_bytes) + " -v -V -a " + own_host() + " -p ";
  Listener listener = listen(h.worker, peer_kind::plain);
  program client("rping -c" + end + std::to_string(listener.bound().port));
  CHECK(h.worker.run(answer_next(&h, &listener)) == ping_count);
  CHECK(client.join() == 0);
  MESSAGE(client.said());

  program server("rping -s" + end + std::to_string(port + 1));
  h.worker.run(ping(&h.context, &h.worker, own_host() + ":" + std::to_string(port + 1)));
  CHECK(server.join() == 0);
  CHECK(server.said().find("from cordma") != std::string::npos);
}

TEST_CASE("M3: rdma_client is answered, and rdma_server answers") {
  host h(wait_mode::adaptive);
  Listener listener = listen(h.worker, peer_kind::plain);
  program client("rdma_client -s " + own_host() + " -p " + std::to_string(listener.bound().port));
  h.worker.run(answer_once(&h, &listener));
  CHECK(client.join() == 0);
  MESSAGE(client.said());

  program server("rdma_server -s " + own_host() + " -p " + std::to_string(port + 2));
  h.worker.run(ask_once(&h, own_host() + ":" + std::to_string(port + 2)));
  CHECK(server.join() == 0);
  MESSAGE(server.said());
}

TEST_CASE("H2: a plain verbs client of the program's own listener is adopted: every operation") {
  host h;
  raw_id listening;
  listening.listen();
  for (const auto& [what, name] : ops) {
    CAPTURE(std::string(name));
    program client(raw_peer() + " --op " + name + " --count " + std::to_string(rounds) +
                   " --size " + std::to_string(message_bytes) + " --port " +
                   std::to_string(listening.port()) + " " + own_host());
    h.worker.run(adopt_and_serve(&h, &listening));
    CHECK(client.join() == 0);
    CHECK(h.worker.counters().endpoints == 0);
  }
}

TEST_CASE("H2: rping, which came by the program's own listener, is adopted and answered") {
  host h;
  raw_id listening;
  listening.listen();
  for (int i = 0; i < 3; ++i) {
    program client("rping -c -C " + std::to_string(ping_count) + " -S " +
                   std::to_string(ping_bytes) + " -v -V -a " + own_host() + " -p " +
                   std::to_string(listening.port()));
    CHECK(h.worker.run(adopt_and_answer(&h, &listening)) == ping_count);
    CHECK(client.join() == 0);
    CHECK(h.worker.counters().endpoints == 0);
  }
}

TEST_CASE("H2: an adopted plain client is rejected with words of the program's, and nothing else") {
  stage s;
  s.play([](stage& on) -> task<> {
    raw_id listening;
    listening.listen();
    connect_options o;
    o.endpoint = plain();
    connect_operation asking = on.client().connect(listening.where(), o).start();
    rdma_cm_event* const event = co_await listening.next();
    ConnectionRequest request = on.server().adopt(event, peer_kind::plain).value();
    const std::array<std::byte, 3> words{std::byte{0xC1}, std::byte{2}, std::byte{3}};
    CHECK(request.reject(words).ok());
    const result<Endpoint> r = co_await asking.result();
    CHECK(r.code() == errc::rejected);
    REQUIRE(asking.rejection().size() >= words.size());
    CHECK(std::equal(words.begin(), words.end(), asking.rejection().begin()));
  });
}

TEST_CASE("M3: udaddy finds a port of ours by its address, and a port of ours finds udaddy's") {
  host h(wait_mode::adaptive);
  {
    ud_station s(&h);
    CHECK(s.port.bind(own_host() + udaddy_port).value().port == 7174);
    program client(udaddy("-s"));
    h.worker.run(serve_udaddy(&s));
    CHECK(client.join() == 0);
    MESSAGE(client.said());
  }
  ud_station s(&h);
  program server(udaddy("-b"));
  h.worker.run(ask_udaddy(&s));
  CHECK(server.join() == 0);
  MESSAGE(server.said());
}

TEST_CASE("M3: whoever does not know the other's kind is told so, and the next one is served") {
  stage s;
  s.play([](stage& on) -> task<> {
    // A plain client, and a Listener for cordma peers.
    Listener ours = listen(on.server(), peer_kind::cordma);
    const std::string at = std::to_string(ours.bound().port);
    program stray("rping -c -C 1 -a " + own_host() + " -p " + at + " 2>&1");
    wire w = co_await connect(on.client(), ours, own_host() + ":" + at);
    CHECK(w.server.actual().peer == peer_kind::cordma);
    while (!stray.is_heard()) co_await sleep_for(std::chrono::milliseconds(5));
    CHECK(stray.join() != 0);
    MESSAGE(stray.said());
    // A Listener for plain peers, and a cordma client that is not configured for them.
    Listener theirs = listen(on.server(), peer_kind::plain);
    const std::string there = own_host() + ":" + std::to_string(theirs.bound().port);
    connect_operation untold = on.client().connect(there).start();
    ConnectionRequest request = co_await theirs.next();
    connect_operation accepting = request.accept().start();
    const result<Endpoint> failed = co_await untold.result();
    CHECK(failed.code() == errc::connection_aborted);
    CHECK(failed.why().message().find("peer_kind::plain") != std::string::npos);
    const result<Endpoint> gone = co_await accepting.result();
    CHECK(gone.code() == errc::connection_aborted);
  });
}

TEST_CASE("M3: a plain peer rejects, and is rejected, with data of its own and nothing else") {
  stage s;
  s.play([](stage& on) -> task<> {
    Listener listener = listen(on.server(), peer_kind::plain);
    connect_options o;
    o.endpoint = plain();
    const std::array<std::byte, 3> data{std::byte{0xC1}, std::byte{2}, std::byte{3}};
    o.private_data = data;
    const std::string there = own_host() + ":" + std::to_string(listener.bound().port);
    connect_operation asking = on.client().connect(there, o).start();
    ConnectionRequest request = co_await listener.next();
    const std::span<const std::byte> came = request.private_data();
    REQUIRE(came.size() >= data.size());
    CHECK(std::equal(data.begin(), data.end(), came.begin()));
    CHECK(all_zero(came.subspan(data.size())));
    CHECK(request.reject(data).ok());
    const result<Endpoint> r = co_await asking.result();
    CHECK(r.code() == errc::rejected);
    REQUIRE(asking.rejection().size() >= data.size());
    CHECK(std::equal(data.begin(), data.end(), asking.rejection().begin()));
  });
}

TEST_CASE("M3: only connections by address and of service rc have plain peers") {
  stage s;
  s.play([](stage& on) -> task<> {
    endpoint_options o = plain();
    CHECK(on.client().prepare(o).code() == errc::not_supported);
    o.type = transport::service::uc;
    connect_options to;
    to.endpoint = o;
    connect_operation asking = on.client().connect(own_host() + ":1", to).start();
    const result<Endpoint> r = co_await asking.result();
    CHECK(r.code() == errc::not_supported);
    CHECK(r.why().message().find("rc") != std::string::npos);
  });
}

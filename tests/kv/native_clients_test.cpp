// Misbehaving clients of the native protocol: silent, stopped, dead, or too many.
#include "../../apps/kv/native/carriage.hpp"
#include "../../apps/kv/server/configuration.hpp"
#include "../../apps/kv/server/native_front.hpp"
#include "../../apps/kv/server/server.hpp"
#include "free_port.hpp"
#include "native_ground.hpp"

#include <doctest/doctest.h>
#include <cordma/runtime/unique_fd.hpp>
#include <support/process.hpp>

#include <atomic>
#include <fstream>
#include <future>
#include <map>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

using namespace kv;
using kv::native::buffer_bytes;
using kv::test::native_server;

namespace {

constexpr std::size_t held_value_bytes = 30'000;  // too long to be sent with its header

// Waits until is_so() is true, for at most 20 seconds.
template <class Condition>
bool comes_true(Condition is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

// A client that follows the protocol only as far as the test requires. It does not run its event
// loop otherwise, so it consumes no responses.
class rude_client {
 public:
  rude_client(const std::string& server, cordma::transport::kind over)
      : worker_(context_),
        messages_(worker_, native::message_settings),
        requests_(messages_, {.window = native::window,
                              .most_bytes = 2 * native::longest_batch,
                              .inline_max = native::inline_bytes}) {
    worker_.run(connect(this, server, over));
  }
  void say_hello() { worker_.run(greet(this)); }
  // Returns when the connection has ended.
  void wait_for_end() { worker_.run(until_closed(this)); }
  void ask_for(std::string_view key, std::size_t times) {
    room_ = context_.allocate(times * buffer_bytes).value();
    start(native::op::get, key, {}, times);
  }
  void send(std::string_view key, std::string_view value) { start(native::op::set, key, value, 1); }

 private:
  static cordma::task<void> connect(rude_client* self, std::string server,
                                    cordma::transport::kind over) {
    cordma::connect_options how;
    how.messages = &self->messages_;
    how.transport = over;
    self->server_ = co_await self->worker_.connect(std::move(server), how);
  }
  static cordma::task<void> greet(rude_client* self) {
    const cordma::MemoryRegion memory = self->context_.allocate(4096).value();
    native::writer to(memory.bytes());
    to.put(native::hello_request{.version = native::protocol_version});
    const cordma::Slice said = memory.all().first(to.written());
    const cordma::Slice room = memory.all().part(64, 64);
    const auto hello = static_cast<std::uint16_t>(native::method::hello);
    co_await self->requests_.call(self->server_, hello, said, room);
  }
  static cordma::task<void> until_closed(rude_client* self) {
    while (self->server_.state() != cordma::endpoint_state::closed) {
      co_await self->server_.state_changed();
    }
  }
  void start(native::op what, std::string_view key, std::string_view value, std::size_t times) {
    said_.push_back(context_
                        .allocate(sizeof(native::op_head) + key.size() + value.size(),
                                  cordma::access::local_write | cordma::access::remote_read)
                        .value());
    native::writer to(said_.back().bytes());
    to.put(native::op_head{.what = what,
                           .key_bytes = static_cast<std::uint16_t>(key.size()),
                           .value_bytes = static_cast<std::uint32_t>(value.size())},
           key, value);
    const cordma::Slice request = said_.back().all().first(to.written());
    const auto batch = static_cast<std::uint16_t>(native::method::batch);
    for (std::size_t i = 0; i < times; ++i) {
      const cordma::Slice room =
          room_ ? room_.all().part(i * buffer_bytes, buffer_bytes) : cordma::Slice();
      calls_.push_back(
          std::make_unique<cordma::call_operation>(requests_.call(server_, batch, request, room)));
      calls_.back()->start();
    }
    for (int i = 0; i < 2; ++i) static_cast<void>(worker_.poll());  // sends the posted requests
  }

  cordma::Context context_;
  cordma::Worker worker_;
  cordma::Messages messages_;
  cordma::Requests requests_;
  cordma::Endpoint server_;
  cordma::MemoryRegion room_;  // without remote_write: a response waits until it is read
  std::vector<cordma::MemoryRegion> said_;
  std::vector<std::unique_ptr<cordma::call_operation>> calls_;
};

std::uint64_t lent(const native_server& s) { return s.counters().lent.bytes.get(); }
std::uint64_t open(const native_server& s) {
  return s.counters().opened.get() - s.counters().closed.get();
}

// A journal gate in the state that the test sets.
struct told_journal final : journal_gate {
  std::atomic<bool> full = false;
  std::atomic<bool> in_trouble = false;
  mutable std::atomic<int> asked = 0;  // calls of backlogged()
  [[nodiscard]] std::uint64_t appended() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t durable() const noexcept override { return 0; }
  [[nodiscard]] bool waits() const noexcept override { return false; }
  [[nodiscard]] bool backlogged() const noexcept override {
    ++asked;
    return full;
  }
  [[nodiscard]] bool refuses() const noexcept override { return in_trouble; }
  [[nodiscard]] std::string why() const override {
    return "Errors writing to the AOF file: No space left on device";
  }
};

// One worker with native clients only, and their journal.
class natives_only {
 public:
  natives_only() {
    std::vector<std::unique_ptr<memory_source>> memory;
    memory.push_back(std::make_unique<shared_memory>(context_));
    keys_ = std::make_unique<keyspace>(std::move(memory), store_options{.hash_seed = 99});
    workers_.push_back(std::make_unique<worker>(
        worker_options{.index = 0, .wait = cordma::wait_mode::event}, settings_, log_));
    front_ = listen(0);
    front_->admit();
  }
  [[nodiscard]] std::unique_ptr<native_front> listen(std::uint64_t port) {
    return std::make_unique<native_front>(
        native_front::surroundings{.context = context_,
                                   .workers = workers_,
                                   .keys = *keys_,
                                   .journal = &journal,
                                   .now = [](unsigned) { return kv::test::wall_clock(); },
                                   .information = {},
                                   .has_place = [] { return true; }},
        "", port, native::door_options());
  }
  [[nodiscard]] std::string address(cordma::transport::kind over) const {
    const std::string& bound = front_->address();
    return context_.own_host(over) + bound.substr(bound.rfind(':'));
  }
  void advance() {
    workers_.front()->call([this] { front_->journal_advanced(0); });
  }
  told_journal journal;

 private:
  cordma::Context context_;
  std::unique_ptr<keyspace> keys_;
  logbook log_{{}, log_level::warning};
  door_settings settings_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::unique_ptr<native_front> front_;
};

}  // namespace

TEST_CASE(
    "clients that take no answers keep nobody else from theirs, and hold no more than their part") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server;
    const std::string at = server.address(over);
    auto good = std::make_unique<blocking_client>(
        at, client_options{.transport = over, .gets = way_of_gets::asked});
    const std::string value(held_value_bytes, 'v');
    REQUIRE(good->set("held", value));
    // Each client requests as many responses as it receives without its event loop, until no buffer
    // is left. One more buffer would belong to these clients, and a few may still belong to `good`.
    constexpr std::uint64_t all = native::buffers * buffer_bytes;
    constexpr std::uint64_t few = 4 * buffer_bytes;
    std::vector<std::unique_ptr<rude_client>> silent;
    while (lent(server) < all + few && silent.size() < 40) {
      silent.push_back(std::make_unique<rude_client>(at, over));
      silent.back()->say_hello();
      const std::uint64_t before = server.counters().batches.get();
      silent.back()->ask_for("held", native::window);
      REQUIRE(comes_true([&] { return server.counters().batches.get() != before; }));
    }
    const std::uint64_t held = lent(server);
    REQUIRE(held >= all + few);
    // In addition to the shared buffers, each client has one separate buffer.
    CHECK(held <= all + few + silent.size() * buffer_bytes);
    std::string got;
    for (int i = 0; i < 10; ++i) {
      REQUIRE(good->get("held", got));
      REQUIRE(got == value);
    }
    const std::string longer(1'000'000, 'w');
    REQUIRE(good->set("longer", longer));
    REQUIRE(good->get("longer", got));
    CHECK(got == longer);
    CHECK(lent(server) >= all);
    silent.clear();
    REQUIRE(good->get("held", got));
    good.reset();
    CHECK(comes_true([&] { return lent(server) == 0 && open(server) == 0; }));
  }
}

TEST_CASE("a client that is killed with long transfers half done gives back all that it held") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    cordma::test::child_process child([over](cordma::test::wire_to_peer& wire) {
      rude_client client(wire.hear(), over);
      client.say_hello();
      client.send("half", std::string(std::size_t{32} << 20, 'h'));
      client.ask_for("held", native::window - 1);
      wire.tell("asked");
      return wire.hear().empty() ? 0 : 1;
    });
    native_server server;
    const client_options asking{.transport = over, .gets = way_of_gets::asked};
    const std::string at = server.address(over);
    const std::string value(held_value_bytes, 'v');
    REQUIRE(blocking_client(at, asking).set("held", value));
    // The last response to a client may use its separate buffer until the client's event loop has
    // run.
    REQUIRE(comes_true([&] { return lent(server) == 0 && open(server) == 0; }));
    child.wire().tell(at);
    REQUIRE(child.wire().hear() == "asked");
    // Over shm the long request is read without the client: it has arrived or will arrive.
    const bool is_read = over == cordma::transport::kind::shm;
    const std::uint64_t least = is_read ? buffer_bytes : std::uint64_t{32} << 20;
    CHECK(comes_true([&] { return lent(server) >= least; }));
    CHECK(open(server) == 1);
    child.kill();
    CHECK(comes_true([&] { return lent(server) == 0 && open(server) == 0; }));
    blocking_client next(at, asking);
    std::string got;
    REQUIRE(next.get("held", got));
    CHECK(got == value);
    CHECK(next.get("half", got).outcome == native::status::absent);
    // The next client has the same share as any other.
    REQUIRE(next.set("longer", std::string(10'000'000, 'n')));
  }
}

TEST_CASE("who is connected and does not say hello in time is sent away, and nobody else is") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    std::atomic<std::int64_t> most_ms{60'000};
    native_server server({.patience = [&] { return std::chrono::milliseconds(most_ms.load()); }});
    blocking_client good(server.address(over), {.transport = over, .gets = way_of_gets::asked});
    REQUIRE(good.set("a", "1"));
    most_ms = 20;
    rude_client said_hello(server.address(over), over);
    rude_client silent(server.address(over), over);
    silent.wait_for_end();
    CHECK(server.counters().timed_out.get() >= 1);
    std::string got;
    CHECK(good.get("a", got));
  }
}

TEST_CASE("in the long run no batch registers memory, on either side, and each is asked once") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server;
    blocking_client c(server.address(over), {.transport = over, .gets = way_of_gets::asked});
    const std::string value(4096, 'v');
    batch sets;
    batch gets;
    for (int i = 0; i < 16; ++i) {
      sets.set("key:" + std::to_string(i), value);
      gets.get("key:" + std::to_string(i));
    }
    const auto both = [&] {
      c.run(sets);
      c.run(gets);
      for (const reply& r : sets.replies()) REQUIRE(r);
      for (const reply& r : gets.replies()) REQUIRE(r.value == value);
    };
    both();
    const client_counters before = c.inner().counters();
    CHECK(before.registrations > 0);
    for (int i = 0; i < 50; ++i) both();
    const client_counters& after = c.inner().counters();
    CHECK(after.registrations == before.registrations);
    // The server registers one long request and one long response for each client at a time.
    CHECK(server.counters().lent.registrations.get() <= 2);
    CHECK(after.batches - before.batches == 100);
  }
}

namespace {

// Returns the value of a line of INFO, or an empty string if the line is missing.
std::string line_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const std::size_t from = at + name.size() + 2;
  return text.substr(from, text.find('\r', from) - from);
}

}  // namespace

namespace {

// A log that the test can read.
class log_to_read {
  cordma::unique_fd file_{::memfd_create("log", MFD_CLOEXEC)};

 public:
  logbook log{"/proc/self/fd/" + std::to_string(file_.get()), log_level::warning};
  [[nodiscard]] std::size_t count(const std::string& what) const {
    std::stringstream lines;
    lines << std::ifstream("/proc/self/fd/" + std::to_string(file_.get())).rdbuf();
    const std::string all = lines.str();
    std::size_t n = 0;
    for (std::size_t at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++n;
    return n;
  }
};

// Sends an HTTP request from the address `from` and waits until the connection is closed.
void say_http(const std::string& from, std::uint16_t port) {
  const cordma::unique_fd s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  REQUIRE(::inet_pton(AF_INET, from.c_str(), &a.sin_addr) == 1);
  REQUIRE(::bind(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0);
  REQUIRE(::inet_pton(AF_INET, "127.0.0.1", &a.sin_addr) == 1);
  a.sin_port = htons(port);
  REQUIRE(::connect(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0);
  REQUIRE(::send(s.get(), "Host: x\r\n", 9, 0) == 9);
  char nothing = 0;
  CHECK(::recv(s.get(), &nothing, 1, 0) <= 0);
}

}  // namespace

TEST_CASE("a native port that is another's over shared memory: tcp serves, and the log says why") {
  cordma::context_options shm_alone;
  shm_alone.transports = {cordma::transport::kind::shm};
  cordma::Context other(shm_alone);
  cordma::Worker of_other(other);
  const std::string port = std::to_string(kv::test::free_port());  // free on tcp; shm not checked
  const cordma::Listener taken = of_other.listen("127.0.0.1:" + port).value();
  log_to_read told;
  const command_line said =
      parse_command_line({"--port", "0", "--native-port", port, "--threads", "1", "--save", ""});
  server it(read_options(said), told.log, [] {});
  it.open();
  REQUIRE(it.addresses().size() == 1);
  CHECK(it.addresses().front().find(" tcp") != std::string::npos);
  CHECK(it.addresses().front().find(" shm") == std::string::npos);
  CHECK(told.count("native clients cannot come over shm: ") == 1);
  { const blocking_client c("127.0.0.1:" + port, {.transport = cordma::transport::kind::tcp}); }
  CHECK(it.close([] { return false; }));
}

TEST_CASE("clients cause a warning once a minute, and another one at once") {
  log_to_read told;
  const auto port = static_cast<std::uint16_t>(kv::test::free_port());
  const command_line said =
      parse_command_line({"--port", std::to_string(port), "--threads", "1", "--save", ""});
  server it(read_options(said), told.log, [] {});
  it.open();
  for (int i = 0; i < 3; ++i) say_http("127.0.0.2", port);
  CHECK(told.count("SECURITY ATTACK: 127.0.0.2 ") == 1);
  say_http("127.0.0.3", port);
  CHECK(told.count("SECURITY ATTACK: 127.0.0.3 ") == 1);
  CHECK(it.close([] { return false; }));
}

TEST_CASE(
    "a server with a native port alone: clients count, one too many hears so, and INFO tells of "
    "it") {
  logbook log("/dev/null", log_level::warning);
  const std::string port = std::to_string(kv::test::free_port());
  const command_line said = parse_command_line(
      {"--port", "0", "--native-port", port, "--maxclients", "2", "--threads", "2", "--save", ""});
  server it(read_options(said), log, [] {});
  it.open();
  REQUIRE(it.addresses().size() == 1);
  CHECK(it.addresses().front().starts_with("native "));
  const std::string at = "127.0.0.1:" + port;
  for (const auto over : {cordma::transport::kind::shm, cordma::transport::kind::tcp}) {
    CAPTURE(name(over));
    auto one = std::make_unique<blocking_client>(at, client_options{.transport = over});
    blocking_client two(at, {.transport = over});
    try {
      const blocking_client three(at, {.transport = over});
      FAIL("it is let in");
    } catch (const cordma::error& e) {
      CHECK(e.code() == cordma::errc::full);
      CHECK(std::string(e.what()).find(native::no_place) != std::string::npos);
    }
    const std::string told = two.info();
    CHECK(line_of(told, "native_connections") == "2");
    CHECK(line_of(told, "maxclients") == "2");
    CHECK(std::stoul(line_of(told, "rejected_connections")) >= 1);
    const std::string section = two.info("keyspace");
    CHECK(section.starts_with("# Keyspace"));
    CHECK(section.find("maxclients") == std::string::npos);
    one.reset();
    CHECK(comes_true([&] {
      try {
        one = std::make_unique<blocking_client>(at, client_options{.transport = over});
        return true;
      } catch (const cordma::error&) {
        return false;
      }
    }));
    one.reset();
    CHECK(comes_true([&] { return line_of(two.info(), "native_connections") == "1"; }));
  }
  CHECK(it.close([] { return false; }));
}

TEST_CASE("nothing listens at all: the error says what it takes") {
  logbook log("/dev/null", log_level::warning);
  try {
    const server it(read_options(parse_command_line({"--port", "0", "--save", ""})), log, [] {});
    FAIL("it could open");
  } catch (const cordma::error& e) {
    for (const char* const way : {"port", "unixsocket", "tls-port", "native-port"}) {
      CHECK(std::string(e.what()).find(way) != std::string::npos);
    }
  }
}

TEST_CASE(
    "SCAN gives every key once at least, of all shards, with its kind; patterns; the longest "
    "keys") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server({}, 3);
    blocking_client c(server.address(over), {.transport = over});
    std::vector<std::string> names;
    for (int i = 0; i < 2'000; ++i) names.push_back("key:" + std::to_string(i));
    for (char l = 'a'; l < 'g'; ++l) names.emplace_back(max_key_bytes, l);
    batch b;
    for (const std::string& n : names) {
      if (b.set(n, "v")) continue;
      c.run(b);
      b.clear();
      REQUIRE(b.set(n, "v"));
    }
    c.run(b);
    server.there([](keyspace& k) {
      const hashed_key key = k.key("fields");
      REQUIRE(k.of(key).field_put(key, "f", "v") == put_outcome::done);
    });
    const auto all = [&c](const scan_options& how) {
      std::vector<scanned_key> keys;
      std::uint64_t cursor = 0;
      std::size_t pages = 0;
      do {
        cursor = c.scan(cursor, how, keys);
        REQUIRE(++pages < 10'000);
      } while (cursor != 0);
      std::map<std::string, native::kind> found;
      for (const scanned_key& k : keys) found.emplace(k.key, k.what);
      return found;
    };
    for (const std::uint32_t count : {1U, 100U, UINT32_MAX}) {
      const auto found = all({.count = count});
      CHECK(found.size() == names.size() + 1);
      for (const std::string& n : names) REQUIRE(found.at(n) == native::kind::string);
      CHECK(found.at("fields") == native::kind::hash);
    }
    CHECK(all({.pattern = "key:1?"}).size() == 10);
    std::vector<scanned_key> none;
    CHECK(c.scan(UINT64_MAX, {}, none) == 0);
    CHECK_THROWS_AS(c.scan(0, {.pattern = std::string(5'000, '?')}, none), cordma::error);
    CHECK_THROWS_AS(c.info(std::string(100, 's')), cordma::error);
    CHECK(c.info().empty());  // no source of information is set here
    CHECK(none.empty());
  }
}

TEST_CASE(
    "a journal with too much to write holds native writes back, one in trouble refuses them; reads "
    "go on") {
  natives_only house;
  const auto over = kv::test::transports_under_test().front();
  const client_options how{.transport = over, .gets = way_of_gets::asked, .timeout = {}};
  blocking_client reader(house.address(over), how);
  std::string got;
  const auto set_held = [&](std::string_view key) {
    const int before = house.journal.asked;
    std::future<reply> told = std::async(std::launch::async, [&house, &how, over, key] {
      return blocking_client(house.address(over), how).set(key, "1");
    });
    CHECK(comes_true([&] { return house.journal.asked > before; }));
    return told;
  };
  const auto keys = [&] {
    std::vector<scanned_key> found;
    static_cast<void>(reader.scan(0, {}, found));
    return found.size();
  };
  house.journal.full = true;
  std::future<reply> first = set_held("a");
  CHECK(reader.get("a", got).outcome == native::status::absent);
  CHECK(keys() == 0);
  house.journal.full = false;
  house.advance();
  CHECK(first.get());
  CHECK(reader.get("a", got));
  house.journal.full = true;
  std::future<reply> second = set_held("b");
  house.journal.in_trouble = true;
  house.advance();
  CHECK(second.get().outcome == native::status::refused);
  batch both;
  both.get("a");
  both.set("a", "2");
  reader.run(both);
  CHECK(both.replies()[0].value == "1");
  CHECK(both.replies()[1].outcome == native::status::refused);
  CHECK(keys() == 1);
}

TEST_CASE("a front that finds its port taken leaves its workers as they were") {
  natives_only house;
  const auto over = kv::test::transports_under_test().front();
  const std::string at = house.address(over);
  const std::uint64_t port = std::stoull(at.substr(at.rfind(':') + 1));
  for (int again = 0; again < 3; ++again) {  // as a start does that waits for the port
    CHECK_THROWS_WITH_AS(static_cast<void>(house.listen(port)), doctest::Contains("in_use"),
                         cordma::error);
  }
  blocking_client writer(at, {.transport = over, .gets = way_of_gets::asked});
  CHECK(writer.set("a", "1"));
}

// The native protocol: requests and one-sided reads return the same, regardless of concurrent
// operations.
#include "native_ground.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <array>
#include <map>

using namespace kv;
using kv::native::op_head;
using kv::native::status;
using kv::test::native_server;
using kv::test::wall_clock;

namespace {

std::string key_of(std::uint64_t n) { return "key:" + std::to_string(n); }

// Bytes that identify the key and the version at every position.
std::string value_of(std::uint64_t key, std::uint64_t version, std::size_t bytes) {
  std::string v(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    v[i] = static_cast<char>((i % 8 < 4 ? key >> (i % 4) * 8 : version >> (i % 4) * 8) & 0xFF);
  }
  return v;
}

}  // namespace

TEST_CASE("sets, gets, conditions, sums, expiries and erasing, one by one and in a batch") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server;
    blocking_client c(server.address(over), {.transport = over, .gets = way_of_gets::one_sided});
    std::string got;
    CHECK(c.get("a", got).outcome == status::absent);
    const reply first = c.set("a", "1");
    REQUIRE(first);
    CHECK(c.get("a", got));
    CHECK(got == "1");
    CHECK(c.set("a", "2", {.flags = op_head::if_absent}).outcome == status::present);
    CHECK(c.set("b", "2", {.flags = op_head::if_present}).outcome == status::absent);
    const reply second = c.set("a", "2", {.flags = op_head::if_version, .version = first.version});
    REQUIRE(second);
    CHECK(second.version > first.version);
    const reply late = c.set("a", "3", {.flags = op_head::if_version, .version = first.version});
    CHECK(late.outcome == status::other_version);
    CHECK(late.version == second.version);
    batch b;
    b.increment("n", 5);
    b.increment("n", -7);
    b.increment("a", 40);
    b.set("t", "x", {.expiry = wall_clock() + 100'000});
    b.expire("t", 0);
    b.get("t");
    b.get("missing");
    b.erase("a");
    b.increment("t", 1);
    c.run(b);
    REQUIRE(b.replies().size() == 9);
    CHECK(b.replies()[0].value == "5");
    CHECK(b.replies()[1].value == "-2");
    CHECK(b.replies()[2].value == "42");
    CHECK(b.replies()[3].expiry > wall_clock());
    CHECK(b.replies()[4]);
    CHECK(b.replies()[5].value == "x");
    CHECK(b.replies()[5].expiry == never_expires);
    CHECK(b.replies()[6].outcome == status::absent);
    CHECK(b.replies()[7]);
    CHECK(b.replies()[8].outcome == status::not_a_number);
    CHECK(c.erase("a").outcome == status::absent);
  }
}

TEST_CASE("values of all lengths go there and back, and odd keys; longer ones are asked for") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server;
    blocking_client c(server.address(over), {.transport = over, .gets = way_of_gets::one_sided});
    std::string got;
    for (const std::size_t bytes :
         {0UL, 1UL, 100UL, 12'000UL, 16'000UL, 65'000UL, 66'000UL, 1'000'000UL, 20'000'000UL}) {
      CAPTURE(bytes);
      const std::string key("\0\n\xff", 3);
      const std::string value = value_of(7, bytes, bytes);
      REQUIRE(c.set(key, value));
      const reply r = c.get(key, got);
      REQUIRE(r);
      CHECK(got == value);
    }
    // On a slow machine the client checks with a request whether the server is alive.
    const client_counters& n = c.inner().counters();
    CHECK(n.one_sided + n.silent >= 4);
    CHECK(n.longer + n.silent >= 4);
    const std::string longest(max_key_bytes, 'k');
    CHECK(c.set(longest, "v"));
    CHECK(c.get(longest, got));
    CHECK(c.set(longest + "k", "v").outcome == status::too_long);
  }
}

TEST_CASE("a batch of many long values is answered whole, in order") {
  native_server server;
  blocking_client c(server.address(), {.transport = kv::test::transports_under_test().front(),
                                       .gets = way_of_gets::one_sided});
  for (std::uint64_t i = 0; i < 100; ++i) REQUIRE(c.set(key_of(i), value_of(i, 1, i * 100)));
  batch b;
  for (std::uint64_t i = 0; i < 100; ++i) {
    b.get(key_of(i));
    b.get("none" + key_of(i));
  }
  c.run(b);
  REQUIRE(b.replies().size() == 200);
  for (std::uint64_t i = 0; i < 100; ++i) {
    REQUIRE(b.replies()[2 * i].value == value_of(i, 1, i * 100));
    REQUIRE(b.replies()[2 * i + 1].outcome == status::absent);
  }
}

TEST_CASE(
    "many keys are read as one by one, in order, and those that cannot be read are asked for") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server({}, 2);
    blocking_client c(server.address(over), {.transport = over, .gets = way_of_gets::one_sided});
    for (std::uint64_t i = 0; i < 100; ++i) {
      const unix_ms expiry = i % 3 == 0 ? wall_clock() + 100'000 : never_expires;
      REQUIRE(c.set(key_of(i), value_of(i, 1, i * i), {.expiry = expiry}));
    }
    REQUIRE(c.set("long", value_of(7, 1, 100'000)));
    batch b;
    std::string got;
    for (int round = 0; round < 3; ++round) {
      b.clear();
      for (std::uint64_t i = 0; i < 100; ++i) {
        b.get(key_of(i));
        b.get("none" + key_of(i));
      }
      b.get("long");
      c.read(b);
      REQUIRE(b.replies().size() == 201);
      for (std::uint64_t i = 0; i < 100; ++i) {
        const reply one = c.get(key_of(i), got);
        const reply& many = b.replies()[2 * i];
        REQUIRE(many.value == got);
        REQUIRE(many.value == value_of(i, 1, i * i));
        REQUIRE(many.version == one.version);
        REQUIRE(many.expiry == one.expiry);
        REQUIRE(b.replies()[2 * i + 1].outcome == status::absent);
      }
      CHECK(b.replies()[200].value == value_of(7, 1, 100'000));
    }
    const client_counters& n = c.inner().counters();
    CHECK(n.one_sided + 600 * n.silent >=
          550);  // a slow machine adds requests that check the server
    b.clear();
    c.read(b);
    CHECK(b.replies().empty());
    b.set("written", "1");
    b.get("written");
    c.read(b);
    REQUIRE(b.replies().size() == 2);
    CHECK(b.replies()[1].value == "1");
  }
}

TEST_CASE(
    "who does not have the token is not admitted, and nothing is served before it was shown") {
  native_server server({.token = "secret"});
  for (const std::string_view wrong : {"", "secreT", "secret2"}) {
    CHECK_THROWS_AS(blocking_client(server.address(), {.token = wrong}), cordma::error);
  }
  blocking_client c(server.address(), {.token = "secret"});
  CHECK(c.set("a", "1"));
}

TEST_CASE("where one-sided reads are not allowed, or not wanted, everything is asked for") {
  native_server server({.one_sided = false});
  blocking_client c(server.address(), {.transport = kv::test::transports_under_test().front(),
                                       .gets = way_of_gets::one_sided});
  native_server other;
  blocking_client d(other.address(), {.gets = way_of_gets::asked});
  for (blocking_client* const each : {&c, &d}) {
    std::string got;
    CHECK_FALSE(each->inner().one_sided());
    each->set("a", "1");
    CHECK(each->get("a", got));
    CHECK(each->inner().counters().one_sided == 0);
  }
}

TEST_CASE("a client finds every key though the index grows, and memory too, behind its back") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server({}, 3);
    blocking_client c(server.address(over), {.transport = over, .gets = way_of_gets::one_sided});
    std::string got;
    const std::uint64_t keys = cordma::test::rounds_under_test(300'000, 30'000);
    for (std::uint64_t from = 0; from < keys; from += keys / 10) {
      server.there([&](keyspace& k) {
        for (std::uint64_t i = from; i < from + keys / 10; ++i) {
          const std::string name = key_of(i);
          const hashed_key key = k.key(name);
          REQUIRE(k.of(key).put(key, value_of(i, 0, 400)) == put_outcome::done);
        }
      });
      for (std::uint64_t i = 0; i < from + keys / 10; i += 997) {
        REQUIRE(c.get(key_of(i), got));
        REQUIRE(got == value_of(i, 0, 400));
      }
    }
    const client_counters& n = c.inner().counters();
    CAPTURE(n.absent);
    CAPTURE(n.torn);
    CAPTURE(n.longer);
    CAPTURE(n.late);
    CAPTURE(n.unmapped);
    CHECK(n.one_sided > (n.asked - n.silent) * 10);
    CHECK(n.unmapped < 50);
  }
}

TEST_CASE("what is gone is gone for who reads it one-sidedly: erased, flushed") {
  native_server server;
  blocking_client c(server.address(), {.transport = kv::test::transports_under_test().front(),
                                       .gets = way_of_gets::one_sided});
  std::string got;
  for (std::uint64_t i = 0; i < 1'000; ++i) c.set(key_of(i), "v");
  REQUIRE(c.get(key_of(0), got));
  c.erase(key_of(0));
  CHECK_FALSE(c.get(key_of(0), got));
  server.there([](keyspace& k) { k.at(0).clear(); });
  for (std::uint64_t i = 0; i < 1'000; ++i) CHECK_FALSE(c.get(key_of(i), got));
}

TEST_CASE("what expires is gone when the server says so, also where its clock jumps") {
  for (const auto over : kv::test::transports_under_test()) {
    CAPTURE(name(over));
    native_server server;
    blocking_client c(server.address(over), {.transport = over, .gets = way_of_gets::one_sided});
    const client_counters& n = c.inner().counters();
    std::string got;
    REQUIRE(c.set("soon", "v", {.expiry = wall_clock() + 50'000}));
    REQUIRE(c.set("later", "v", {.expiry = wall_clock() + 500'000}));
    CHECK(c.get("soon", got));
    CHECK(n.one_sided + n.silent == 1);
    // Near the expiry, the client sends a request.
    server.ahead_ms = 49'300;
    REQUIRE(c.set("another", "v"));  // the server reads its clock when it does something
    CHECK(c.get("soon", got));
    CHECK(c.inner().counters().expiring + n.silent >= 1);
    server.ahead_ms = 50'001;
    REQUIRE(c.set("another", "v"));
    CHECK(c.get("soon", got).outcome == status::absent);
    CHECK(c.get("later", got));
    CHECK(c.inner().counters().one_sided + n.silent >= 2);
    server.ahead_ms = 0;
    REQUIRE(c.set("another", "v"));
    CHECK(c.get("soon", got).outcome == status::absent);
  }
}

TEST_CASE(
    "under a storm of writes no one-sided read is wrong or goes back, and torn ones are seen") {
  native_server server({}, 1, {.hash_seed = 5, .quarantine_ms = 500});
  std::atomic<bool> over{false};
  constexpr std::uint64_t keys = 4;
  std::thread writer([&] {
    blocking_client w(server.address(), {.transport = kv::test::transports_under_test().front(),
                                         .gets = way_of_gets::asked});
    batch b;
    for (std::uint64_t version = 1; !over.load(); ++version) {
      b.clear();
      for (std::uint64_t k = 0; k < keys; ++k) {
        b.set(key_of(k), value_of(k, version, 1'000 + version % 14'000));
      }
      w.run(b);
    }
  });
  blocking_client c(server.address(), {.transport = kv::test::transports_under_test().front(),
                                       .gets = way_of_gets::one_sided});
  std::array<std::uint64_t, keys> newest{};
  std::string got;
  std::uint64_t found = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(4);
  const std::uint64_t rounds = cordma::test::rounds_under_test(100'000, 1'000);
  // Torn reads are counted, not assumed: the loop runs until there are some, with a time limit. If
  // other programs use the processors, about 17 occur in two minutes, because a read is torn only
  // during a write that runs at the same time.
  const bool plain_copy = c.inner().transport() == "shm";
  const std::uint64_t torn = plain_copy ? 20 : 0;
  while ((found < rounds || c.inner().counters().torn_reads < torn) &&
         std::chrono::steady_clock::now() < until) {
    const std::uint64_t k = found % keys;
    const reply r = c.get(key_of(k), got);
    if (!r) continue;
    ++found;
    REQUIRE(got.size() >= 1'000);
    std::uint64_t version = 0;
    for (unsigned i = 0; i < 4; ++i) {
      version |= std::uint64_t{static_cast<unsigned char>(got[4 + i])} << i * 8;
    }
    REQUIRE(got == value_of(k, version, 1'000 + version % 14'000));
    REQUIRE(version >= newest[k]);
    newest[k] = version;
  }
  over = true;
  writer.join();
  CHECK(c.inner().counters().one_sided > found / 4);
  CHECK(c.inner().counters().torn_reads >= torn);
  MESSAGE(found, " gets, ", c.inner().counters().torn_reads, " torn reads");
}

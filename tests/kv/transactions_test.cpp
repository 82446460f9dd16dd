// MULTI, EXEC, WATCH: a transaction runs completely or not at all, and not at all if another client
// changed a watched key.
#include "resp_ground.hpp"

using namespace kv_test;

namespace {
const std::string queued = "+QUEUED\r\n";
}

TEST_CASE("what is queued is carried out in one go [shards]") {
  for (const std::uint32_t shards : {1U, 4U}) {
    server s({}, shards);
    client c(s);
    CHECK(c("MULTI") == ok);
    CHECK(c("SET a 1") == queued);
    CHECK(c("INCR a") == queued);
    CHECK(c("HGET a f") == queued);
    CHECK(c("DBSIZE") == queued);
    CHECK(c("PING") == queued);
    CHECK(c("EXEC") ==
          "*5\r\n" + ok + integer(2) +
              error("WRONGTYPE Operation against a key holding the wrong kind of value") +
              integer(1) + "+PONG\r\n");
    CHECK(c("GET a") == bulk("2"));
    CHECK(c("MULTI") == ok);
    CHECK(c("EXEC") == "*0\r\n");
  }
}

TEST_CASE("parts of commands are queued, whatever they are called") {
  server s;
  client c(s);
  CHECK(c("MULTI") == ok);
  CHECK(c("SLOWLOG RESET") == queued);
  CHECK(c("LATENCY RESET") == queued);
  CHECK(c("EXEC") == "*2\r\n" + ok + integer(0));
}

TEST_CASE("what cannot be queued spoils the rest") {
  server s;
  client c(s);
  CHECK(c("MULTI") == ok);
  CHECK(c("SET a 1") == queued);
  CHECK(c("NOSUCH") == error("ERR unknown command 'NOSUCH', with args beginning with: "));
  CHECK(c("EXEC") == error("EXECABORT Transaction discarded because of previous errors."));
  CHECK(c("GET a") == null);
  CHECK(c("MULTI") == ok);
  CHECK(c("GET") == error("ERR wrong number of arguments for 'get' command"));
  CHECK(c("SHUTDOWN") == error("ERR Command not allowed inside a transaction"));
  CHECK(c("DISCARD") == ok);
  CHECK(c("SET a 1") == ok);
}

TEST_CASE("a transaction that memory is too short for is refused as a whole") {
  const std::string no_memory = "OOM command not allowed when used memory > 'maxmemory'.";
  kv::settings small;
  small.maxmemory = std::uint64_t{5} << 20;
  server s(small);
  client c(s);
  client other(s);
  const std::string value(1000, 'x');
  int filled = 0;
  while (c({"SET", "k" + std::to_string(filled), value}) == ok) ++filled;
  CHECK(filled > 100);
  CHECK(c("MULTI") == ok);
  CHECK(c("INCR small") == queued);
  CHECK(c({"SET", "a", value}) == queued);
  // In the meantime another client uses all of the available memory.
  CHECK(other("MULTI") == ok);
  for (int i = 0; i < 100; ++i) CHECK(other({"SET", "o" + std::to_string(i), value}) == queued);
  CHECK(other("EXEC").starts_with("*100\r\n" + ok));
  CHECK(c("EXEC") == error("EXECABORT Transaction discarded because of: " + no_memory));
  CHECK(c("EXISTS small a") == integer(0));
  CHECK(c("EXEC") == error("ERR EXEC without MULTI"));
  CHECK(c("MULTI") == ok);
  CHECK(c("INCR small") == error(no_memory));
  CHECK(c("EXEC") == error("EXECABORT Transaction discarded because of previous errors."));
  CHECK(c("MULTI") == ok);
  CHECK(c("GET k1") == queued);
  CHECK(c("DEL k1 k2 k3") == queued);
  CHECK(c("EXEC") == "*2\r\n" + bulk(value) + integer(3));
  for (int i = 0; i < 100; ++i) CHECK(other("DEL o" + std::to_string(i)) == integer(1));
  CHECK(c("MULTI") == ok);
  CHECK(c({"SET", "a", value}) == queued);
  CHECK(c("EXEC") == "*1\r\n" + ok);
}

TEST_CASE("a transaction that has begun is carried out, beyond the limit where it must") {
  kv::settings small;
  small.maxmemory = std::uint64_t{12} << 20;
  server s(small);
  client c(s);
  CHECK(c("MULTI") == ok);
  CHECK(c("SET from 0") == queued);
  CHECK(c("SETRANGE b 17000000 x") == queued);
  CHECK(c("SET to 1") == queued);
  CHECK(c("EXEC") == "*3\r\n" + ok + integer(17'000'001) + ok);
  CHECK(c("SET more 1") == error("OOM command not allowed when used memory > 'maxmemory'."));
  CHECK(c("DEL b") == integer(1));
  const std::string value(100'000, 'x');
  CHECK(c("MULTI") == ok);
  for (int i = 0; i < 200; ++i) CHECK(c({"SET", "same", value}) == queued);
  std::string all = "*200\r\n";
  for (int i = 0; i < 200; ++i) all += ok;
  CHECK(c("EXEC") == all);
}

TEST_CASE("orders that make no sense") {
  server s;
  client c(s);
  CHECK(c("EXEC") == error("ERR EXEC without MULTI"));
  CHECK(c("DISCARD") == error("ERR DISCARD without MULTI"));
  CHECK(c("MULTI") == ok);
  CHECK(c("MULTI") == error("ERR MULTI calls can not be nested"));
  CHECK(c("WATCH a") == error("ERR WATCH inside MULTI is not allowed"));
  CHECK(c("DISCARD") == ok);
}

TEST_CASE("WATCH sees every change by others, and by oneself") {
  struct row {
    const char* before;
    const char* change;
    bool seen;
  };
  const row rows[] = {
      {"SET w 1", "SET w 2", true},
      {"SET w 1", "SET other 2", false},
      {"DEL w", "SET w 1", true},
      {"SET w 1", "DEL w", true},
      {"SET w 1", "EXPIRE w 10", true},
      {"SET w 1", "GET w", false},
      {"HSET w f v", "HSET w f x", true},
      {"HSET w f v", "HDEL w f", true},
      {"SET w 1", "FLUSHALL", true},
      {"SET w 1", "RENAME w x", true},
      {"DEL w", "DEL w", false},
      {"SET w 1", "APPEND w x", true},
      {"DEL w", "FLUSHALL", false},
      {"SET x 1", "FLUSHDB", false},
      {"SET w 1 PXAT 1700000099000", "EXPIREAT w 1700000099", true},
      {"SET w 1 PXAT 1700000099000", "PEXPIREAT w 1700000099000", true},
      {"SET w 1 PXAT 1700000099000", "GETEX w PXAT 1700000099000", true},
      {"SET w 1", "GETEX w PERSIST", false},
      {"SET w 1", "PERSIST w", false},
  };
  for (const row& r : rows) {
    for (const bool by_other : {true, false}) {
      CAPTURE(r.change);
      CAPTURE(by_other);
      server s({}, 2);
      client c(s);
      client other(s);
      c("FLUSHALL");
      c(r.before);
      CHECK(c("WATCH w w") == ok);
      (by_other ? other : c)(r.change);
      CHECK(c("MULTI") == ok);
      CHECK(c("PING") == queued);
      CHECK(c("EXEC") == (r.seen ? "*-1\r\n" : "*1\r\n+PONG\r\n"));
      // After EXEC no key is watched any more.
      CHECK(c("MULTI") == ok);
      CHECK(c("EXEC") == "*0\r\n");
    }
  }
}

TEST_CASE("a watched key that ran out has changed") {
  server s;
  client c(s);
  c("SET w 1 PX 100");
  CHECK(c("WATCH w") == ok);
  s.pass(200);
  CHECK(c("MULTI") == ok);
  CHECK(c("EXEC") == "*-1\r\n");
}

TEST_CASE("UNWATCH, DISCARD and RESET look away") {
  for (const char* const end : {"UNWATCH", "DISCARD", "RESET"}) {
    CAPTURE(end);
    server s;
    client c(s);
    client other(s);
    c("WATCH w");
    if (std::string_view(end) == "DISCARD") c("MULTI");
    c(end);
    other("SET w 2");
    CHECK(c("MULTI") == ok);
    CHECK(c("EXEC") == "*0\r\n");
  }
}

TEST_CASE("pipelined with others, a transaction is the same") {
  server s;
  client c(s);
  const auto p = [](std::initializer_list<std::string_view> w) {
    return client::packed(std::vector<std::string_view>(w));
  };
  CHECK(c.raw(p({"SET", "a", "1"}) + p({"MULTI"}) + p({"INCR", "a"}) + p({"EXEC"}) +
              p({"GET", "a"})) == ok + ok + queued + "*1\r\n" + integer(2) + bulk("2"));
}

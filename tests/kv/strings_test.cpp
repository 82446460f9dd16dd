// Strings: replies of SET and related commands, word for word.
#include "resp_ground.hpp"

using namespace kv_test;

TEST_CASE("SET puts, GET finds") {
  server s;
  client c(s);
  CHECK(c("GET a") == null);
  CHECK(c("SET a hello") == ok);
  CHECK(c("get a") == bulk("hello"));
  CHECK(c({"SET", "bin\r\n", std::string_view("\0x", 2)}) == ok);
  CHECK(c({"GET", "bin\r\n"}) == bulk(std::string_view("\0x", 2)));
}

TEST_CASE("SET's options") {
  server s;
  client c(s);
  CHECK(c("SET a 1 XX") == null);
  CHECK(c("SET a 1 NX") == ok);
  CHECK(c("SET a 2 NX") == null);
  CHECK(c("SET a 2 XX GET") == bulk("1"));
  CHECK(c("SET a 3 NX GET") == bulk("2"));
  CHECK(c("GET a") == bulk("2"));
  CHECK(c("SET a 1 NX XX") == error("ERR syntax error"));
  CHECK(c("SET a 1 EX") == error("ERR syntax error"));
  CHECK(c("SET a 1 EX 10 PX 10") == error("ERR syntax error"));
  CHECK(c("SET a 1 EX x") == error("ERR value is not an integer or out of range"));
  CHECK(c("SET a 1 EX 0") == error("ERR invalid expire time in 'set' command"));
  CHECK(c("SET a 1 EX 9223372036854775807") == error("ERR invalid expire time in 'set' command"));
  CHECK(c("SET a 1 EX 100") == ok);
  CHECK(c("TTL a") == integer(100));
  CHECK(c("SET a 2 KEEPTTL") == ok);
  CHECK(c("TTL a") == integer(100));
  CHECK(c("SET a 2") == ok);
  CHECK(c("TTL a") == integer(-1));
}

TEST_CASE("numbers are counted in strings") {
  server s;
  client c(s);
  CHECK(c("INCR n") == integer(1));
  CHECK(c("INCRBY n 41") == integer(42));
  CHECK(c("DECR n") == integer(41));
  CHECK(c("DECRBY n 1") == integer(40));
  CHECK(c("INCRBYFLOAT n 0.5") == bulk("40.5"));
  CHECK(c("INCR n") == error("ERR value is not an integer or out of range"));
  CHECK(c("SET n 9223372036854775807") == ok);
  CHECK(c("INCR n") == error("ERR increment or decrement would overflow"));
  CHECK(c("DECRBY n -9223372036854775808") == error("ERR decrement would overflow"));
  CHECK(c("INCRBYFLOAT n inf") == error("ERR increment would produce NaN or Infinity"));
  CHECK(c("INCRBYFLOAT n x") == error("ERR value is not a valid float"));
  CHECK(c("SET t 5 EX 100") == ok);
  CHECK(c("INCR t") == integer(6));
  CHECK(c("TTL t") == integer(100));
}

TEST_CASE("parts of strings") {
  server s;
  client c(s);
  CHECK(c("APPEND a Hello") == integer(5));
  CHECK(c("APPEND a World") == integer(10));
  CHECK(c("STRLEN a") == integer(10));
  CHECK(c("GETRANGE a 0 4") == bulk("Hello"));
  CHECK(c("GETRANGE a -5 -1") == bulk("World"));
  CHECK(c("GETRANGE a 5 3") == bulk(""));
  CHECK(c("SETRANGE a 5 Redis") == integer(10));
  CHECK(c("GET a") == bulk("HelloRedis"));
  CHECK(c("SETRANGE z 3 x") == integer(4));
  CHECK(c("GET z") == bulk(std::string_view("\0\0\0x", 4)));
  CHECK(c("SETRANGE a -1 x") == error("ERR offset is out of range"));
  CHECK(c("SETRANGE a 536870912 x") ==
        error("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
}

TEST_CASE("several at once, and the old one back") {
  server s({}, 3);
  client c(s);
  CHECK(c("MSET a 1 b 2 c 3") == ok);
  CHECK(c("MGET a b nokey c") == "*4\r\n" + bulk("1") + bulk("2") + null + bulk("3"));
  CHECK(c("MSET a 1 b") == error("ERR wrong number of arguments for 'mset' command"));
  CHECK(c("MSETNX d 1 a 2") == integer(0));
  CHECK(c("MSETNX d 1 e 2") == integer(1));
  CHECK(c("GETSET a 9") == bulk("1"));
  CHECK(c("GETDEL a") == bulk("9"));
  CHECK(c("GETDEL a") == null);
  CHECK(c("GETEX b EX 10") == bulk("2"));
  CHECK(c("TTL b") == integer(10));
  CHECK(c("GETEX b PERSIST") == bulk("2"));
  CHECK(c("TTL b") == integer(-1));
}

TEST_CASE("keys and values have bounds") {
  server s;
  client c(s);
  CHECK(c({"SET", std::string(65'536, 'k'), "v"}) ==
        error("ERR key exceeds maximum allowed size (65535 bytes)"));
  CHECK(c({"SET", std::string(65'535, 'k'), "v"}) == ok);
  CHECK(c({"GET", std::string(65'535, 'k')}) == bulk("v"));
  CHECK(c({"GET", std::string(65'536, 'k')}) == null);
  const std::string large(3 << 20, 'x');
  CHECK(c({"SET", "large", large}) == ok);
  CHECK(c("STRLEN large") == integer(3 << 20));
  CHECK(c("GET large") == bulk(large));
}

TEST_CASE("at maxmemory writes are refused, and reads are not") {
  kv::settings few;
  few.maxmemory = 16 << 20;
  server s(few);
  client c(s);
  const std::string value(10'000, 'v');
  std::string answer = ok;
  int put = 0;
  for (; put < 4000 && answer == ok; ++put) answer = c({"SET", "k" + std::to_string(put), value});
  CHECK(put < 4000);
  CHECK(answer == error("OOM command not allowed when used memory > 'maxmemory'."));
  CHECK(c("GET k0") == bulk(value));
  CHECK(c("CONFIG SET maxmemory-policy allkeys-lru") == ok);
  CHECK(c({"SET", "again", value}) == ok);
}

TEST_CASE("at maxmemory is refused what Redis refuses, and nothing else [shards, 64 B, 100 kB]") {
  const std::string oom = error("OOM command not allowed when used memory > 'maxmemory'.");
  for (const std::uint32_t shards : {1U, 2U}) {
    for (const std::size_t bytes : {64UL, 100'000UL}) {
      CAPTURE(bytes);
      kv::settings few;
      few.maxmemory = shards * (8ULL << 20);
      server s(few, shards);
      client c(s);
      const std::string value(bytes, 'v');
      const auto key = [](int number) { return "k" + std::to_string(100'000 + number); };
      c("SET to other");
      c({"HSET", "h", "f", value});
      int n = 0;
      for (int in_a_row = 0; in_a_row < 50; ++n) {  // until every shard is full
        in_a_row = c({"SET", key(n), value}) == oom ? in_a_row + 1 : 0;
      }
      CHECK(c({"SET", key(0), value}) == oom);
      CHECK(c({"COPY", key(0), "to", "REPLACE"}) == oom);
      CHECK(c("GET to") == bulk("other"));
      CHECK(c("COPY h to REPLACE") == oom);
      CHECK(c("GET to") == bulk("other"));
      CHECK(c({"HSET", "h", "g", value, "i", value}) == oom);
      CHECK(c("HLEN h") == integer(1));
      CHECK(c({"MSET", "a", "1", key(n), value}) == oom);
      CHECK(c({"EXISTS", "a", key(n)}) == integer(0));
      CHECK(c({"EXPIRE", key(0), "100"}) == integer(1));
      CHECK(c({"PERSIST", key(0)}) == integer(1));
      CHECK(c({"GETEX", key(0), "EX", "100"}) == bulk(value));
      CHECK(c({"RENAME", key(0), "other"}) == ok);
      CHECK(c("RENAMENX h g") == integer(1));
      CHECK(c({"GETDEL", key(1)}) == bulk(value));
      for (int i = 2; i < 12; ++i) CHECK(c({"DEL", key(i)}) == integer(1));
      CHECK(c({"SET", key(0), value}) == ok);
      CHECK(c({"MSET", "a", "1", key(n), value}) == ok);
      CHECK(c("FLUSHALL") == ok);
      CHECK(c({"SET", key(0), value}) == ok);
    }
  }
}

TEST_CASE("at maxmemory MSET is carried out as a whole, or not at all") {
  const std::string oom = error("OOM command not allowed when used memory > 'maxmemory'.");
  kv::settings few;
  few.maxmemory = 8 << 20;
  server s(few);
  client c(s);
  const std::string value(1'000, 'v');
  int n = 0;
  const auto key = [](int number) { return "k" + std::to_string(100'000 + number); };
  while (c({"SET", key(n), value}) == ok) ++n;
  CHECK(c({"DEL", key(0)}) == integer(1));  // space for one, not for two
  CHECK(c({"MSET", key(n), value, key(n + 1), value}) == oom);
  CHECK(c({"MSETNX", key(n), value, key(n + 1), value}) == oom);
  CHECK(c({"EXISTS", key(n), key(n + 1)}) == integer(0));
  const std::string half(400, 'h');
  CHECK(c({"MSET", key(n), half, key(n + 1), half}) == ok);
}

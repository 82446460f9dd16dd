// Numbered databases: SELECT, and commands that read one or all of them.
#include "resp_ground.hpp"

#include <string>

using namespace kv_test;

TEST_CASE("each database has keys of its own [shards]") {
  for (const std::uint32_t shards : {1U, 4U}) {
    CAPTURE(shards);
    server s({}, shards);
    client c(s);
    client other(s);
    CHECK(c("SET k zero") == ok);
    CHECK(c("SELECT 3") == ok);
    CHECK(c("GET k") == null);
    CHECK(c("SET k three") == ok);
    CHECK(c("HSET h f v") == integer(1));
    CHECK(c("MSET a 1 b 2") == ok);
    CHECK(c("DBSIZE") == integer(4));
    CHECK(other("DBSIZE") == integer(1));
    CHECK(other("GET k") == bulk("zero"));
    CHECK(other("EXISTS a b h") == integer(0));
    CHECK(c("KEYS k") == "*1\r\n" + bulk("k"));
    CHECK(other("KEYS *") == "*1\r\n" + bulk("k"));
    CHECK(other("SCAN 0 COUNT 1000") == "*2\r\n" + bulk("0") + "*1\r\n" + bulk("k"));
    CHECK(other("RANDOMKEY") == bulk("k"));
    CHECK(c("EXPIRE a 100") == integer(1));
    CHECK(c("INFO keyspace")
              .find("db0:keys=1,expires=0,avg_ttl=0\r\n"
                    "db3:keys=4,expires=1,avg_ttl=0\r\n") != std::string::npos);
    CHECK(c("CLIENT INFO").find(" db=3 ") != std::string::npos);
    CHECK(c("RESET").starts_with("+RESET"));
    CHECK(c("GET k") == bulk("zero"));
  }
}

TEST_CASE("SELECT takes the numbers that there are") {
  kv::settings values;
  values.databases = 4;
  server s(values);
  client c(s);
  CHECK(c("SELECT 3") == ok);
  CHECK(c("SELECT 4") == error("ERR DB index is out of range"));
  CHECK(c("SELECT -1") == error("ERR DB index is out of range"));
  CHECK(c("SELECT x") == error("ERR value is not an integer or out of range"));
  CHECK(c("CONFIG GET databases") == "*2\r\n" + bulk("databases") + bulk("4"));
  CHECK(c("MOVE k 4") == error("ERR DB index is out of range"));
  CHECK(c("COPY k k DB 4") == error("ERR DB index is out of range"));
}

TEST_CASE("a random key is found in a database of few beside one of many") {
  server s;
  client c(s);
  for (int i = 0; i < 5000; ++i) c("SET k" + std::to_string(i) + " v");
  CHECK(c("SELECT 1") == ok);
  CHECK(c("RANDOMKEY") == null);
  CHECK(c("SET only v") == ok);
  for (int i = 0; i < 20; ++i) CHECK(c("RANDOMKEY") == bulk("only"));
}

TEST_CASE("MOVE and COPY reach other databases, with all that a key has [shards]") {
  for (const std::uint32_t shards : {1U, 4U}) {
    CAPTURE(shards);
    server s({}, shards);
    client c(s);
    client one(s);
    CHECK(one("SELECT 1") == ok);
    CHECK(c("SET k v PX 5000") == ok);
    CHECK(c("MOVE k 0") == error("ERR source and destination objects are the same"));
    CHECK(c("MOVE k x") == error("ERR value is not an integer or out of range"));
    CHECK(c("MOVE nosuch 1") == integer(0));
    CHECK(c("MOVE k 1") == integer(1));
    CHECK(c("EXISTS k") == integer(0));
    CHECK(one("GET k") == bulk("v"));
    CHECK(one("PTTL k") == integer(5000));
    CHECK(c("SET k mine") == ok);
    CHECK(c("MOVE k 1") == integer(0));
    CHECK(c("COPY k k") == error("ERR source and destination objects are the same"));
    CHECK(c("COPY k k DB 1") == integer(0));
    CHECK(c("COPY k k DB 1 REPLACE") == integer(1));
    CHECK(one("GET k") == bulk("mine"));
    CHECK(c("HSET h a 1 b 2") == integer(2));
    CHECK(c("MOVE h 1") == integer(1));
    CHECK(one("HGET h b") == bulk("2"));
    CHECK(one("MOVE h 0") == integer(1));
    CHECK(c("HLEN h") == integer(2));
  }
}

TEST_CASE("FLUSHDB empties one database, FLUSHALL all [async]") {
  for (const char* const how : {"", " ASYNC"}) {
    CAPTURE(how);
    server s({}, 2);
    client c(s);
    client two(s);
    CHECK(two("SELECT 2") == ok);
    for (int i = 0; i < 100; ++i) {
      c("SET k" + std::to_string(i) + " zero");
      two("SET k" + std::to_string(i) + " two");
    }
    CHECK(two("FLUSHDB" + std::string(how)) == ok);
    CHECK(two("DBSIZE") == integer(0));
    CHECK(c("DBSIZE") == integer(100));
    CHECK(c("GET k7") == bulk("zero"));
    CHECK(two("SET k two") == ok);
    CHECK(c("FLUSHDB" + std::string(how)) == ok);
    CHECK(two("GET k") == bulk("two"));
    CHECK(c("SET k zero") == ok);
    CHECK(c("FLUSHALL" + std::string(how)) == ok);
    CHECK(c("DBSIZE") == integer(0));
    CHECK(two("DBSIZE") == integer(0));
  }
}

TEST_CASE("FLUSHDB and SWAPDB leave nothing behind that has expired") {
  server s({}, 2);
  client c(s);
  c("SET other v");
  CHECK(c("SELECT 2") == ok);
  for (int i = 0; i < 20; ++i) c("SET k" + std::to_string(i) + " v PX 10");
  s.pass(20);
  CHECK(c("DBSIZE") == integer(20));
  CHECK(c("FLUSHDB") == ok);
  CHECK(c("DBSIZE") == integer(0));
  for (int i = 0; i < 20; ++i) c("SET k" + std::to_string(i) + " v PX 10");
  c("SET stays v");
  s.pass(20);
  CHECK(c("SWAPDB 2 3") == ok);
  CHECK(c("DBSIZE") == integer(0));
  CHECK(c("SELECT 3") == ok);
  CHECK(c("DBSIZE") == integer(1));
  CHECK(c("KEYS *") == "*1\r\n" + bulk("stays"));
}

TEST_CASE("an empty database is scanned at once, whatever the others have") {
  server s({}, 2);
  client c(s);
  for (int i = 0; i < 5000; ++i) c("SET k" + std::to_string(i) + " v");
  CHECK(c("SELECT 5") == ok);
  CHECK(c("SCAN 0 COUNT 1") == "*2\r\n" + bulk("0") + "*0\r\n");
  CHECK(c("KEYS *") == "*0\r\n");
  CHECK(c("RANDOMKEY") == null);
  CHECK(c("FLUSHDB") == ok);
}

TEST_CASE("SWAPDB keeps every value whole, of all kinds, with its time [shards]") {
  for (const std::uint32_t shards : {1U, 4U}) {
    CAPTURE(shards);
    server s({}, shards);
    client zero(s);
    client nine(s);
    CHECK(nine("SELECT 9") == ok);
    const std::string longer(200'000, 'x');
    for (int i = 0; i < 30; ++i) {
      const std::string n = std::to_string(i);
      // Of every three names, one is in both databases; strings and hashes are mixed.
      client& first = i % 2 == 0 ? zero : nine;
      client& second = i % 2 == 0 ? nine : zero;
      i % 5 == 0 ? first({"SET", "k" + n, longer}) : first("HSET k" + n + " f first g more");
      CHECK(first("PEXPIRE k" + n + " 5000") == integer(1));
      if (i % 3 == 0) second("SET k" + n + " second");
    }
    CHECK(zero("SWAPDB 0 9") == ok);
    for (int i = 0; i < 30; ++i) {
      CAPTURE(i);
      const std::string n = std::to_string(i);
      client& first = i % 2 == 0 ? nine : zero;
      client& second = i % 2 == 0 ? zero : nine;
      if (i % 5 == 0) CHECK(first("GET k" + n) == bulk(longer));
      if (i % 5 != 0)
        CHECK(first("HMGET k" + n + " f g") == "*2\r\n" + bulk("first") + bulk("more"));
      CHECK(first("PTTL k" + n) == integer(5000));
      CHECK(second("GET k" + n) == (i % 3 == 0 ? bulk("second") : null));
      CHECK(second("PTTL k" + n) == integer(i % 3 == 0 ? -1 : -2));
    }
    CHECK(zero("DBSIZE") == integer(20));
    CHECK(nine("DBSIZE") == integer(20));
  }
}

TEST_CASE("SWAPDB swaps two databases, also for who watches") {
  server s({}, 2);
  client c(s);
  client one(s);
  CHECK(one("SELECT 1") == ok);
  CHECK(c("MSET a 0 both 0") == ok);
  CHECK(one("MSET b 1 both 1") == ok);
  CHECK(c("HSET h f 0") == integer(1));
  CHECK(c("WATCH both") == ok);
  CHECK(c("SWAPDB 0 1") == ok);
  CHECK(c("MULTI") == ok);
  CHECK(c("PING") == "+QUEUED\r\n");
  CHECK(c("EXEC") == "*-1\r\n");
  CHECK(c("MGET a b both") == "*3\r\n" + null + bulk("1") + bulk("1"));
  CHECK(one("MGET a b both") == "*3\r\n" + bulk("0") + null + bulk("0"));
  CHECK(one("HGET h f") == bulk("0"));
  CHECK(c("SWAPDB 2 2") == ok);
  CHECK(c("SWAPDB x 1") == error("ERR invalid first DB index"));
  CHECK(c("SWAPDB 1 x") == error("ERR invalid second DB index"));
  CHECK(c("SWAPDB 0 16") == error("ERR DB index is out of range"));
}

TEST_CASE("transactions and watches keep to their databases") {
  server s({}, 4);
  client c(s);
  client other(s);
  CHECK(c("SELECT 1") == ok);
  CHECK(c("WATCH k") == ok);
  CHECK(other("SET k zero") == ok);  // another database's k
  CHECK(c("MULTI") == ok);
  for (const char* const q : {"SET k one", "SELECT 2", "SET k two", "SELECT x", "GET k"}) {
    CHECK(c(q) == "+QUEUED\r\n");
  }
  CHECK(c("EXEC") == "*5\r\n" + ok + ok + ok +
                         error("ERR value is not an integer or out of range") + bulk("two"));
  CHECK(c("GET k") == bulk("two"));
  CHECK(c("SELECT 1") == ok);
  CHECK(c("GET k") == bulk("one"));
  CHECK(c("WATCH k") == ok);
  CHECK(other("SELECT 1") == ok);
  CHECK(other("SET k changed") == ok);
  CHECK(c("MULTI") == ok);
  CHECK(c("PING") == "+QUEUED\r\n");
  CHECK(c("EXEC") == "*-1\r\n");
}

TEST_CASE("rights, ACL LOG, SLOWLOG and MONITOR have keys as the client said them") {
  kv::settings values;
  values.slowlog_log_slower_than = 0;
  server s(values);
  client admin(s);
  client m(s);
  CHECK(m("MONITOR") == ok);
  admin("ACL SETUSER bob on nopass ~b* +@all");
  client c(s);
  CHECK(c("AUTH bob any") == ok);
  CHECK(c("SELECT 5") == ok);
  CHECK(c("SET b1 v") == ok);
  CHECK(c("SET a1 v").starts_with("-NOPERM"));
  CHECK(m.take().find(" [5 127.0.0.1:50000] \"SET\" \"b1\" \"v\"\r\n") != std::string::npos);
  CHECK(admin("ACL LOG").find(bulk("object") + bulk("a1")) != std::string::npos);
  CHECK(admin("SLOWLOG GET -1").find(bulk("SET") + bulk("b1") + bulk("v")) != std::string::npos);
}

TEST_CASE("a key that looks like another database's is one of number 0") {
  server s;
  client c(s);
  const std::string odd = std::string(kv::database_mark) + '\5' + "k";
  CHECK(c({"SET", odd, "odd"}) == ok);
  CHECK(c({"GET", odd}) == bulk("odd"));
  CHECK(c("KEYS *") == "*1\r\n" + bulk(odd));
  CHECK(c("SELECT 5") == ok);
  CHECK(c("GET k") == null);
  CHECK(c("DBSIZE") == integer(0));
  CHECK(c({"SET", std::string(65'535, 'x'), "v"}).starts_with("-ERR key exceeds"));
}

TEST_CASE("MEMORY STATS tells of each database") {
  server s;
  client c(s);
  c("SET a 1");
  c("SELECT 9");
  c("MSET a 1 b 2");
  const std::string told = c("MEMORY STATS");
  CHECK(told.starts_with("*40\r\n"));
  CHECK(told.find(bulk("db.0")) != std::string::npos);
  CHECK(told.find(bulk("db.9")) != std::string::npos);
}

TEST_CASE("keys expire in all databases") {
  server s({}, 2);
  client c(s);
  CHECK(c("SELECT 9") == ok);
  for (int i = 0; i < 10; ++i) CHECK(c("SET k" + std::to_string(i) + " v PX 10") == ok);
  s.pass(20);
  s.of.tick(0);
  CHECK(c("DBSIZE") == integer(0));
  CHECK(c("INFO keyspace").find("db9") == std::string::npos);
}

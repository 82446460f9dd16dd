// Hash commands.
#include "resp_ground.hpp"

#include <set>

using namespace kv_test;

TEST_CASE("fields are put, found and given up") {
  server s;
  client c(s);
  CHECK(c("HSET h a 1 b 2") == integer(2));
  CHECK(c("HSET h a 3 c 4") == integer(1));
  CHECK(c("HGET h a") == bulk("3"));
  CHECK(c("HGET h x") == null);
  CHECK(c("HMGET h a x b") == "*3\r\n" + bulk("3") + null + bulk("2"));
  CHECK(c("HLEN h") == integer(3));
  CHECK(c("HEXISTS h a") == integer(1));
  CHECK(c("HSTRLEN h a") == integer(1));
  CHECK(c("HSETNX h a 9") == integer(0));
  CHECK(c("HSETNX h d 9") == integer(1));
  CHECK(c("HMSET h e 5") == ok);
  CHECK(c("HDEL h b c d e x") == integer(4));
  CHECK(c("HGETALL h") == "*2\r\n" + bulk("a") + bulk("3"));
  CHECK(c("HKEYS h") == "*1\r\n" + bulk("a"));
  CHECK(c("HVALS h") == "*1\r\n" + bulk("3"));
  CHECK(c("HDEL h a") == integer(1));
  CHECK(c("EXISTS h") == integer(0));
  CHECK(c("HGETALL h") == "*0\r\n");
  CHECK(c("HSET h a") == error("ERR wrong number of arguments for 'hset' command"));
  CHECK(c("HSET h a 1 b") == error("ERR wrong number of arguments for 'hset' command"));
}

TEST_CASE("numbers are counted in fields") {
  server s;
  client c(s);
  CHECK(c("HINCRBY h n 5") == integer(5));
  CHECK(c("HINCRBYFLOAT h n 0.5") == bulk("5.5"));
  CHECK(c("HINCRBY h n 1") == error("ERR hash value is not an integer"));
  CHECK(c("HSET h s abc") == integer(1));
  CHECK(c("HINCRBYFLOAT h s 1") == error("ERR hash value is not a float"));
  CHECK(c("HSET h m 9223372036854775807") == integer(1));
  CHECK(c("HINCRBY h m 1") == error("ERR increment or decrement would overflow"));
}

TEST_CASE("strings are no hashes, and hashes no strings") {
  server s;
  client c(s);
  const std::string wrong =
      error("WRONGTYPE Operation against a key holding the wrong kind of value");
  c("SET s 1");
  c("HSET h f v");
  CHECK(c("HGET s f") == wrong);
  CHECK(c("HSET s f v") == wrong);
  CHECK(c("HGETALL s") == wrong);
  CHECK(c("HSCAN s 0") == wrong);
  CHECK(c("GET h") == wrong);
  CHECK(c("INCR h") == wrong);
  CHECK(c("APPEND h x") == wrong);
  CHECK(c("MGET h s") == "*2\r\n" + null + bulk("1"));
  CHECK(c("SET h now") == ok);
  CHECK(c("GET h") == bulk("now"));
}

TEST_CASE("HRANDFIELD chooses among all") {
  server s;
  client c(s);
  for (int i = 0; i < 10; ++i) c({"HSET", "h", "f" + std::to_string(i), "v" + std::to_string(i)});
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) seen.insert(c("HRANDFIELD h"));
  CHECK(seen.size() == 10);
  CHECK(c("HRANDFIELD h 20").starts_with("*10\r\n"));
  // A third, a half and all of the largest count.
  for (const char* count : {"6148914691236517206", "4611686018427387903", "9223372036854775807"}) {
    CHECK(c(std::string("HRANDFIELD h ") + count).starts_with("*10\r\n"));
  }
  CHECK(c("HRANDFIELD h 2 WITHVALUES").starts_with("*4\r\n"));
  CHECK(c("HRANDFIELD h -20").starts_with("*20\r\n"));
  CHECK(c("HRANDFIELD h 0") == "*0\r\n");
  CHECK(c("HRANDFIELD nokey") == null);
  CHECK(c("HRANDFIELD nokey 3") == "*0\r\n");
  CHECK(c("HRANDFIELD h -9000000000000000000") == error("ERR value is out of range"));
  for (int i = 0; i < 5000; ++i) c({"HSET", "h", "g" + std::to_string(i), "v"});
  for (int i = 0; i < 5000; ++i) c({"HDEL", "h", "g" + std::to_string(i)});
  seen.clear();
  for (int i = 0; i < 300; ++i) seen.insert(c("HRANDFIELD h"));
  CHECK(seen.size() == 10);
  c("HELLO 3");
  CHECK(c("HRANDFIELD h 2 WITHVALUES").starts_with("*2\r\n*2\r\n"));
}

TEST_CASE("a hash in RESP3 is a map") {
  server s;
  client c(s);
  c("HELLO 3");
  c("HSET h f v");
  CHECK(c("HGETALL h") == "%1\r\n" + bulk("f") + bulk("v"));
  CHECK(c("HGET h x") == "_\r\n");
}

// Keys with any contents, and their lifetimes.
#include "resp_ground.hpp"

using namespace kv_test;

TEST_CASE("keys are counted, named anew and given up") {
  server s({}, 2);
  client c(s);
  CHECK(c("MSET a 1 b 2") == ok);
  CHECK(c("HSET h f v") == integer(1));
  CHECK(c("DBSIZE") == integer(3));
  CHECK(c("EXISTS a a h x") == integer(3));
  CHECK(c("TYPE a") == "+string\r\n");
  CHECK(c("TYPE h") == "+hash\r\n");
  CHECK(c("TYPE x") == "+none\r\n");
  CHECK(c("RENAME a c") == ok);
  CHECK(c("GET c") == bulk("1"));
  CHECK(c("RENAME a c") == error("ERR no such key"));
  CHECK(c("RENAMENX c b") == integer(0));
  CHECK(c("RENAME h g") == ok);
  CHECK(c("HGET g f") == bulk("v"));
  CHECK(c("COPY g h") == integer(1));
  CHECK(c("COPY g h") == integer(0));
  CHECK(c("COPY g b REPLACE") == integer(1));
  CHECK(c("HGET b f") == bulk("v"));
  CHECK(c("COPY g g") == error("ERR source and destination objects are the same"));
  CHECK(c("COPY g x DB 16") == error("ERR DB index is out of range"));
  CHECK(c("DEL b c nokey") == integer(2));
  CHECK(c("UNLINK g h") == integer(2));
  CHECK(c("RANDOMKEY") == null);
  CHECK(c("SET only 1") == ok);
  CHECK(c("RANDOMKEY") == bulk("only"));
  CHECK(c("FLUSHALL x") == error("ERR syntax error"));
  CHECK(c("FLUSHDB ASYNC") == ok);
  CHECK(c("DBSIZE") == integer(0));
}

TEST_CASE("a key that is named anew keeps its time") {
  server s({}, 4);
  client c(s);
  CHECK(c("SET a 1 EX 100") == ok);
  CHECK(c("RENAME a b") == ok);
  CHECK(c("TTL b") == integer(100));
  CHECK(c("HSET h f v") == integer(1));
  CHECK(c("EXPIRE h 50") == integer(1));
  CHECK(c("COPY h g") == integer(1));
  CHECK(c("TTL g") == integer(50));
}

TEST_CASE("keys end when their time is over") {
  server s;
  client c(s);
  CHECK(c("SET a 1 PX 1000") == ok);
  s.pass(999);
  CHECK(c("GET a") == bulk("1"));
  CHECK(c("PTTL a") == integer(1));
  s.pass(1);
  CHECK(c("GET a") == null);
  CHECK(c("TTL a") == integer(-2));
  CHECK(c("DBSIZE") == integer(0));
}

TEST_CASE("what nobody asks for is swept away") {
  server s;
  client c(s);
  for (int i = 0; i < 100; ++i) c({"SET", "k" + std::to_string(i), "v", "PX", "10"});
  CHECK(c("DBSIZE") == integer(100));
  s.pass(20);
  for (int i = 0; i < 10 && s.of.tick(0); ++i) continue;
  CHECK(c("DBSIZE") == integer(0));
}

TEST_CASE("EXPIRE and its rules") {
  server s;
  client c(s);
  CHECK(c("EXPIRE a 10") == integer(0));
  CHECK(c("SET a 1") == ok);
  CHECK(c("EXPIRE a 10 XX") == integer(0));
  CHECK(c("EXPIRE a 10 GT") == integer(0));
  CHECK(c("EXPIRE a 10 LT") == integer(1));
  CHECK(c("EXPIRE a 20 NX") == integer(0));
  CHECK(c("EXPIRE a 20 GT") == integer(1));
  CHECK(c("EXPIRE a 5 LT") == integer(1));
  CHECK(c("TTL a") == integer(5));
  CHECK(c("EXPIRE a 5 NX XX") ==
        error("ERR NX and XX, GT or LT options at the same time are not compatible"));
  CHECK(c("EXPIRE a 5 GT LT") ==
        error("ERR GT and LT options at the same time are not compatible"));
  CHECK(c("EXPIRE a 5 FOO") == error("ERR Unsupported option FOO"));
  CHECK(c("EXPIRE a 9223372036854775807") == error("ERR invalid expire time in 'expire' command"));
  CHECK(c("EXPIREAT a 4102444800") == integer(1));
  CHECK(c("EXPIRETIME a") == integer(4102444800));
  CHECK(c("PEXPIRETIME a") == integer(4102444800000));
  CHECK(c("PERSIST a") == integer(1));
  CHECK(c("PERSIST a") == integer(0));
  CHECK(c("PEXPIRETIME a") == integer(-1));
  CHECK(c("EXPIRE a -1") == integer(1));
  CHECK(c("EXISTS a") == integer(0));
}

TEST_CASE("TOUCH counts the keys that are there, and is a use of each [shards]") {
  for (const std::uint32_t shards : {1U, 3U}) {
    server s({}, shards);
    client c(s);
    CHECK(c("MSET a 1 b 2") == ok);
    s.pass(5000);
    CHECK(c("EXISTS a b x") == integer(2));
    CHECK(c("OBJECT IDLETIME a") == integer(5));
    CHECK(c("TOUCH a x a") == integer(2));
    CHECK(c("OBJECT IDLETIME a") == integer(0));
    CHECK(c("OBJECT IDLETIME b") == integer(5));
  }
}

TEST_CASE("OBJECT and MEMORY tell how a key is kept") {
  server s;
  client c(s);
  CHECK(c("SET n 12345") == ok);
  CHECK(c({"SET", "long", std::string(45, 'x')}) == ok);
  CHECK(c("HSET h f v") == integer(1));
  CHECK(c("OBJECT ENCODING n") == bulk("int"));
  CHECK(c("OBJECT ENCODING long") == bulk("raw"));
  CHECK(c("OBJECT ENCODING h") == bulk("listpack"));
  CHECK(c("OBJECT ENCODING nokey") == null);
  s.pass(5000);
  CHECK(c("OBJECT IDLETIME n") == integer(5));
  CHECK(c("MEMORY USAGE nokey") == null);
  CHECK(c("MEMORY USAGE n").starts_with(":"));
  CHECK(c("MEMORY USAGE n SAMPLES -1") == error("ERR syntax error"));
  CHECK(c("MEMORY STATS").starts_with("*38\r\n" + bulk("peak.allocated") + ":"));
  CHECK(c("MEMORY STATS").find(bulk("keys.count") + integer(3)) != std::string::npos);
  int asked = 0;
  s.of.hooks.much_was_freed = [&] { ++asked; };
  CHECK(c("MEMORY PURGE") == ok);
  CHECK(asked == 1);
  CHECK(c("MEMORY DOCTOR").find(" bytes are held: ") != std::string::npos);
  CHECK(c("MEMORY MALLOC-STATS").starts_with("$"));
  CHECK(c("OBJECT FOO n") == error("ERR unknown subcommand 'FOO'. Try OBJECT HELP."));
}

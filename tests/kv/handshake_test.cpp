// Commands that client libraries send before their first GET.
#include "resp_ground.hpp"

using namespace kv_test;

TEST_CASE("HELLO chooses the protocol, and says who serves") {
  server s;
  client c(s);
  const std::string hello2 = c("HELLO 2");
  CHECK(hello2.starts_with("*14\r\n" + bulk("server") + bulk("redis") + bulk("version") +
                           bulk("7.0.15") + bulk("proto") + integer(2)));
  CHECK(c("HELLO 3 SETNAME me").starts_with("%7\r\n"));
  CHECK(c("CLIENT GETNAME") == bulk("me"));
  CHECK(c("GET nokey") == "_\r\n");
  CHECK(c("HELLO 4") == error("NOPROTO unsupported protocol version"));
  CHECK(c("HELLO x") == error("ERR Protocol version is not an integer or out of range"));
  CHECK(c("HELLO 2 FOO") == error("ERR Syntax error in HELLO option 'FOO'"));
  CHECK(c("HELLO 2 AUTH default x").starts_with("*14\r\n"));
  CHECK(c("RESET") == "+RESET\r\n");
  CHECK(c("CLIENT GETNAME") == null);
}

TEST_CASE("a password opens, and nothing before it does") {
  kv::settings closed;
  closed.requirepass = "secret";
  server s(closed);
  client c(s);
  CHECK(c("GET a") == error("NOAUTH Authentication required."));
  CHECK(c("PING") == error("NOAUTH Authentication required."));
  CHECK(c("HELLO 3") ==
        error("NOAUTH HELLO must be called with the client already authenticated, otherwise the "
              "HELLO AUTH <user> <pass> option can be used to authenticate the client and select "
              "the RESP protocol version at the same time"));
  CHECK(c("AUTH wrong") == error("WRONGPASS invalid username-password pair or user is disabled."));
  CHECK(c("AUTH secret") == ok);
  CHECK(c("GET a") == null);
  client other(s);
  CHECK(other("HELLO 3 AUTH default secret").starts_with("%7\r\n"));
  CHECK(c("RESET") == "+RESET\r\n");
  CHECK(c("GET a") == error("NOAUTH Authentication required."));
  client third(s);
  CHECK(third.raw("*11\r\n") == error("ERR Protocol error: unauthenticated multibulk length"));
  CHECK(third.session().ended() == kv::session::ending::when_sent);
}

TEST_CASE("what they ask next") {
  server s;
  client c(s);
  CHECK(c("SELECT 0") == ok);
  CHECK(c("SELECT 16") == error("ERR DB index is out of range"));
  CHECK(c("PING") == "+PONG\r\n");
  CHECK(c("PING x") == bulk("x"));
  CHECK(c("ECHO x") == bulk("x"));
  CHECK(c("CLIENT SETINFO LIB-NAME test") == ok);
  CHECK(c("CLIENT SETINFO lib-ver 1.2") == ok);
  CHECK(c("CLIENT SETNAME a") == ok);
  CHECK(c({"CLIENT", "SETNAME", "a b"}) ==
        error("ERR Client names cannot contain spaces, newlines or special characters."));
  const std::string info = c("CLIENT INFO");
  CHECK(info.find("addr=127.0.0.1:50000 laddr=127.0.0.1:6379") != std::string::npos);
  CHECK(info.find("name=a ") != std::string::npos);
  CHECK(info.find("lib-name=test lib-ver=1.2") != std::string::npos);
  CHECK(info.find("cmd=client|info user=default") != std::string::npos);
  CHECK(c("CLIENT LIST").find("cmd=client|list") != std::string::npos);
  CHECK(c("CLIENT NO-EVICT ON") == ok);
  CHECK(c("FUNCTION FLUSH") == ok);
  CHECK(c("TIME").starts_with("*2\r\n"));
  CHECK(c("ROLE") == "*3\r\n" + bulk("master") + integer(0) + "*0\r\n");
  CHECK(c("COMMAND COUNT").starts_with(":"));
  CHECK(c("COMMAND INFO get")
            .starts_with("*1\r\n*10\r\n" + bulk("get") + integer(2) +
                         "*2\r\n+readonly\r\n+fast\r\n"));
  CHECK(c("COMMAND INFO nosuch") == "*1\r\n" + null);
  CHECK(c("COMMAND INFO mset")
            .find("*2\r\n" + bulk("request_policy:multi_shard") +
                  bulk("response_policy:all_succeeded")) != std::string::npos);
  CHECK(c("COMMAND GETKEYSANDFLAGS SET k v") ==
        "*1\r\n*2\r\n" + bulk("k") + "*2\r\n+OW\r\n+update\r\n");
  CHECK(c("COMMAND GETKEYSANDFLAGS SET k v GET") ==
        "*1\r\n*2\r\n" + bulk("k") + "*3\r\n+RW\r\n+access\r\n+update\r\n");
  CHECK(c("COMMAND GETKEYSANDFLAGS RENAME a b") == "*2\r\n*2\r\n" + bulk("a") +
                                                       "*3\r\n+RW\r\n+access\r\n+delete\r\n*2\r\n" +
                                                       bulk("b") + "*2\r\n+OW\r\n+update\r\n");
  CHECK(c("COMMAND DOCS get").find("Get the value of a key") != std::string::npos);
  CHECK(c("COMMAND GETKEYS MSET a 1 b 2") == "*2\r\n" + bulk("a") + bulk("b"));
  CHECK(c("COMMAND").starts_with("*"));
  CHECK(c("LATENCY LATEST") == "*0\r\n");
  CHECK(c("CLIENT") == error("ERR wrong number of arguments for 'client' command"));
  CHECK(c("CLIENT FOO") == error("ERR unknown subcommand 'FOO'. Try CLIENT HELP."));
  CHECK(c("COMMAND FOO") == error("ERR unknown subcommand 'FOO'. Try COMMAND HELP."));
  CHECK(c({"FOO", std::string_view("a\0b", 3)}) ==
        error("ERR unknown command 'FOO', with args beginning with: 'a' "));
  CHECK(c({std::string_view("FOO\0BAR", 7)}) ==
        error("ERR unknown command 'FOO', with args beginning with: "));
  CHECK(c("foo a b") == error("ERR unknown command 'foo', with args beginning with: 'a' 'b' "));
}

TEST_CASE("INFO has what monitoring reads") {
  server s({}, 2);
  client c(s);
  c("SET a 1");
  c("GET a");
  c("GET b");
  c("NOSUCH");
  const std::string all = c("INFO everything");
  for (const std::string_view line :
       {"# Server\r\nredis_version:7.0.15\r\n", "connected_clients:1\r\n",
        "maxmemory_policy:noeviction\r\n", "keyspace_hits:1\r\n", "keyspace_misses:1\r\n",
        "role:master\r\n", "db0:keys=1,expires=0,avg_ttl=0\r\n", "cmdstat_get:calls=2,",
        "errorstat_ERR:count=1\r\n", "total_commands_processed:3\r\n", "loading:0\r\n"}) {
    CAPTURE(line);
    CHECK(all.find(line) != std::string::npos);
  }
  const auto figure = [&](const std::string& name) {
    const std::size_t at = all.find("\r\n" + name + ":");
    if (at == std::string::npos) return std::string("is missing");
    const std::size_t begin = at + name.size() + 3;
    return all.substr(begin, all.find("\r\n", begin) - begin);
  };
  CHECK(figure("run_id") == s.of.run_id());
  CHECK(s.of.run_id().size() == 40);
  CHECK(server().of.run_id() != s.of.run_id());
  CHECK(figure("executable").starts_with("/"));
  CHECK(figure("hz") == "10");
  CHECK(figure("total_reads_processed") == "5");
  CHECK(figure("total_writes_processed") == "4");
  CHECK(figure("rdb_last_bgsave_time_sec") == "-1");
  CHECK(figure("rdb_saves") == "0");
  CHECK(figure("used_memory_peak_perc").ends_with("%"));
  for (const char* const name :
       {"lru_clock", "mem_fragmentation_ratio", "used_memory_startup", "total_system_memory_human",
        "aof_last_rewrite_time_sec", "aof_rewrites", "instantaneous_input_kbps",
        "instantaneous_output_kbps", "master_replid"}) {
    CHECK(figure(name) != "is missing");
  }
  CHECK(c("INFO keyspace") == bulk("# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n"));
  CHECK(c("CONFIG RESETSTAT") == ok);
  CHECK(c("INFO stats").find("total_error_replies:0\r\n") != std::string::npos);
  s.of.hooks.native_clients = [] { return std::size_t{2}; };
  CHECK(c("INFO clients").find("connected_clients:3\r\n") != std::string::npos);
}

TEST_CASE("whoever comes from outside is turned away while nobody needs a password") {
  server s;
  kv::session_origin far = client::usual();
  far.loopback = false;
  client c(s, far);
  CHECK(c.take().starts_with("-DENIED Redis is running in protected mode"));
  CHECK(c.session().ended() == kv::session::ending::when_sent);
  client near(s);
  CHECK(near("CONFIG SET protected-mode no") == ok);
  client again(s, far);
  CHECK(again("PING") == "+PONG\r\n");
}

TEST_CASE("there are no more clients than maxclients") {
  kv::settings few;
  few.maxclients = 2;
  server s(few);
  client a(s);
  client b(s);
  {
    client c(s);
    CHECK(c.take() == error("ERR max number of clients reached"));
    CHECK(c.session().ended() == kv::session::ending::when_sent);
  }
  CHECK(b("PING") == "+PONG\r\n");
}

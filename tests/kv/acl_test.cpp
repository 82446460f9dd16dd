// Users and their rights.
#include "resp_ground.hpp"

using namespace kv_test;

namespace {
constexpr std::string_view no_get = "NOPERM this user has no permissions to run the 'get' command";
constexpr std::string_view no_key =
    "NOPERM this user has no permissions to access one of the keys used as arguments";
}  // namespace

TEST_CASE("a user may do what the rules say, and no more") {
  server s({}, 2);
  client admin(s);
  CHECK(admin("ACL SETUSER bob on >pw ~b:* +@read +set -mget") == ok);
  client c(s);
  CHECK(c("AUTH bob wrong") ==
        error("WRONGPASS invalid username-password pair or user is disabled."));
  CHECK(c("AUTH bob pw") == ok);
  CHECK(c("ACL WHOAMI") ==
        error("NOPERM this user has no permissions to run the 'acl|whoami' command"));
  CHECK(c("SET b:1 x") == ok);
  CHECK(c("GET b:1") == bulk("x"));
  CHECK(c("GET a") == error(no_key));
  CHECK(c("EXISTS b:1 a") == error(no_key));
  CHECK(c("MGET b:1") == error("NOPERM this user has no permissions to run the 'mget' command"));
  CHECK(c("DEL b:1") == error("NOPERM this user has no permissions to run the 'del' command"));
  // A change of rights applies from the next command on.
  CHECK(admin("ACL SETUSER bob -get") == ok);
  CHECK(c("GET b:1") == error(no_get));
  CHECK(c("MULTI") == error("NOPERM this user has no permissions to run the 'multi' command"));
}

TEST_CASE("reading and writing are told apart") {
  server s;
  client admin(s);
  admin("ACL SETUSER r on nopass %R~r:* %W~w:* +@all");
  client c(s);
  CHECK(c("AUTH r any") == ok);
  CHECK(c("GET r:1") == null);
  CHECK(c("SET r:1 x") == error(no_key));
  CHECK(c("SET w:1 x") == ok);
  CHECK(c("GET w:1") == error(no_key));
}

TEST_CASE("rights to read and to write the same pattern add up") {
  server s;
  client admin(s);
  CHECK(admin("ACL SETUSER bob on nopass +@all %R~foo* %W~foo* %R~b %W~c") == ok);
  CHECK(admin("ACL LIST").find("~foo* %R~b %W~c resetchannels") != std::string::npos);
  client c(s);
  CHECK(c("AUTH bob any") == ok);
  CHECK(c("INCR foo1") == integer(1));
  CHECK(c("SET foo1 1 GET") == bulk("1"));
  CHECK(c("GETDEL b") == error(no_key));
  CHECK(c("GETDEL c") == error(no_key));
  CHECK(admin("ACL SETUSER bob resetkeys %W~* %R~*") == ok);
  CHECK(admin("ACL LIST").find("bob on nopass ~* resetchannels") != std::string::npos);
  CHECK(c("INCR foo1") == integer(2));
  CHECK(admin({"ACL", "SETUSER", "bob", "resetkeys", "~a b"}) ==
        error("ERR Error in ACL SETUSER modifier '~a b': Syntax error"));
}

TEST_CASE("ACL DRYRUN says what the user would be told") {
  server s;
  client c(s);
  CHECK(c("ACL SETUSER u on nopass ~a* %R~r* %W~w* +@read +set -config +config|get") == ok);
  const auto no_right = [](std::string_view what) {
    return bulk("This user has no permissions to " + std::string(what));
  };
  CHECK(c("ACL DRYRUN u get a") == ok);
  CHECK(c("ACL DRYRUN u get b") == no_right("access the 'b' key"));
  CHECK(c("ACL DRYRUN u mget a r w b") == no_right("access the 'w' key"));
  CHECK(c("ACL DRYRUN u set w x get") == no_right("access the 'w' key"));
  CHECK(c("ACL DRYRUN u object freq b") == no_right("access the 'b' key"));
  CHECK(c("ACL DRYRUN u config get x") == ok);
  CHECK(c("ACL DRYRUN u config set a b") == no_right("run the 'config|set' command"));
  CHECK(c("ACL DRYRUN u config") == error("ERR wrong number of arguments for 'config' command"));
  CHECK(c("ACL DRYRUN u config nosuch") == error("ERR Command 'config' not found"));
  CHECK(c("ACL DRYRUN u acl|list") == error("ERR Command 'acl|list' not found"));
  CHECK(c("ACL DRYRUN u get") == error("ERR wrong number of arguments for 'get' command"));
  CHECK(c("ACL DRYRUN nosuch get a") == error("ERR User 'nosuch' not found"));
  // Commands that may precede AUTH are permitted to every user.
  for (const char* const open : {"auth x", "hello", "quit", "reset"}) {
    CAPTURE(open);
    CHECK(c("ACL DRYRUN u " + std::string(open)) == ok);
  }
}

TEST_CASE("what a command does with each key is what it takes a right for") {
  server s({}, 2);
  client admin(s);
  admin("ACL SETUSER w on nopass %W~* +@all");
  admin("ACL SETUSER r on nopass %R~* +@all");
  admin("ACL SETUSER mover on nopass %R~s* %W~d* +@all");
  admin("SET k v");
  admin("HSET h f 1");
  client writer(s);
  client reader(s);
  client mover(s);
  CHECK(writer("AUTH w any") == ok);
  CHECK(reader("AUTH r any") == ok);
  CHECK(mover("AUTH mover any") == ok);
  for (const char* const tells :
       {"GETDEL k", "SET k x GET", "SET k x EX 10 get", "GETSET k x", "GETEX k", "GETEX k PERSIST",
        "INCR k", "DECRBY k 1", "INCRBYFLOAT k 1", "HINCRBY h f 1", "HINCRBYFLOAT h f 1",
        "COPY k other", "RENAME k other", "RENAMENX k other", "GET k", "TTL k"}) {
    CAPTURE(tells);
    CHECK(writer(tells) == error(no_key));
  }
  CHECK(reader("GETDEL k") == error(no_key));
  CHECK(reader("EXPIRE k 10") == error(no_key));
  CHECK(reader("COPY k other") == error(no_key));
  CHECK(admin("GET k") == bulk("v"));
  for (const char* const keeps_it : {"EXISTS k", "TOUCH k", "STRLEN k", "HLEN h", "HEXISTS h f",
                                     "HSTRLEN h f", "EXPIRE k 100", "PERSIST k"}) {
    CAPTURE(keeps_it);
    CHECK(writer(keeps_it) == integer(1));
  }
  CHECK(writer("WATCH k") == ok);
  CHECK(writer("TYPE k") == "+string\r\n");
  CHECK(writer("OBJECT ENCODING k").starts_with("$"));
  CHECK(writer("MEMORY USAGE k").starts_with(":"));
  CHECK(writer("APPEND k w") == integer(2));
  CHECK(writer("SETRANGE k 0 x") == integer(2));
  CHECK(writer("SET k x") == ok);
  CHECK(writer("DEL k") == integer(1));
  admin("SET s1 v");
  CHECK(mover("COPY s1 d1") == integer(1));
  CHECK(mover("COPY d1 s2") == error(no_key));
  CHECK(mover("RENAME s1 d1") == error(no_key));
}

TEST_CASE("rights that go between MULTI and EXEC") {
  const std::string changed =
      "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
      "call. This command is no longer allowed for the following reason: ";
  server s;
  client admin(s);
  client c(s);
  const auto after = [&](const char* rule) {
    CHECK(admin("ACL SETUSER bob reset on nopass ~* +@all") == ok);
    CHECK(c("AUTH bob any") == ok);
    CHECK(c("MULTI") == ok);
    CHECK(c("GET a") == "+QUEUED\r\n");
    CHECK(admin({"ACL", "SETUSER", "bob", rule}) == ok);
    return c("EXEC");
  };
  CHECK(after("-get") ==
        "*1\r\n" + error(changed + "no permission to execute the command or subcommand"));
  CHECK(after("resetkeys") ==
        "*1\r\n" + error(changed + "no permission to touch the specified keys"));
  CHECK(after("-exec") == error("EXECABORT Transaction discarded because of: NOPERM this user has "
                                "no permissions to run the 'exec' command"));
  CHECK(admin("ACL SETUSER bob +exec") == ok);
  CHECK(c("EXEC") == error("ERR EXEC without MULTI"));
}

TEST_CASE("DRYRUN says what is missing") {
  server s;
  client c(s);
  CHECK(c("ACL SETUSER bob on nopass %R~a +get +set") == ok);
  CHECK(c("ACL DRYRUN bob get a") == ok);
  CHECK(c("ACL DRYRUN bob set a 1") == bulk("This user has no permissions to access the 'a' key"));
  CHECK(c("ACL DRYRUN bob del a") == bulk("This user has no permissions to run the 'del' command"));
  CHECK(c("ACL DRYRUN bob acl nosuch") == error("ERR Command 'acl' not found"));
}

TEST_CASE("what is said of payloads is kept for those who ask") {
  server s;
  client c(s);
  CHECK(c("ACL SETUSER a reset") == ok);
  CHECK(c("ACL GETUSER a")
            .starts_with("*12\r\n" + bulk("flags") + "*2\r\n" + bulk("off") +
                         bulk("sanitize-payload")));
  CHECK(c("ACL SETUSER a skip-sanitize-payload on nopass") == ok);
  CHECK(c("ACL LIST") == "*2\r\n" +
                             bulk("user a on nopass skip-sanitize-payload resetchannels -@all") +
                             bulk("user default on nopass ~* &* +@all"));
}

TEST_CASE("rules as they are listed") {
  server s;
  client c(s);
  CHECK(c("ACL LIST") == "*1\r\n" + bulk("user default on nopass ~* &* +@all"));
  CHECK(c("ACL SETUSER a on >pw ~a* +@hash -hset +client|id") == ok);
  CHECK(c("ACL GETUSER a") ==
        "*12\r\n" + bulk("flags") + "*1\r\n" + bulk("on") + bulk("passwords") + "*1\r\n" +
            bulk("30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4") +
            bulk("commands") + bulk("-@all +@hash -hset +client|id") + bulk("keys") + bulk("~a*") +
            bulk("channels") + bulk("") + bulk("selectors") + "*0\r\n");
  CHECK(c("ACL USERS") == "*2\r\n" + bulk("a") + bulk("default"));
  CHECK(c("ACL DELUSER a b") == integer(1));
  CHECK(c("ACL DELUSER default") == error("ERR The 'default' user cannot be removed"));
  CHECK(c("ACL GETUSER a") == null);
  CHECK(c("ACL WHOAMI") == bulk("default"));
  CHECK(c("ACL CAT").starts_with("*21\r\n" + bulk("keyspace")));
  CHECK(c("ACL CAT hash").find(bulk("hget")) != std::string::npos);
  CHECK(c("ACL CAT foo") == error("ERR Unknown category 'foo'"));
  CHECK(c("ACL GENPASS 5").starts_with("$2\r\n"));
  CHECK(c("ACL GENPASS").starts_with("$64\r\n"));
}

TEST_CASE("rules that are none change nothing") {
  server s;
  client c(s);
  CHECK(
      c("ACL SETUSER a on +nosuch") ==
      error(
          "ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"));
  CHECK(c("ACL SETUSER a foo") == error("ERR Error in ACL SETUSER modifier 'foo': Syntax error"));
  CHECK(c("ACL SETUSER a #abc") == error("ERR Error in ACL SETUSER modifier '#abc': The password "
                                         "hash must be exactly 64 characters and contain "
                                         "only lowercase hexadecimal characters"));
  CHECK(c("ACL GETUSER a") == null);
  CHECK(c({"ACL", "SETUSER", "a b"}) ==
        error("ERR Usernames can't contain spaces or null characters"));
  CHECK(c("ACL DRYRUN default get k") == ok);
}

TEST_CASE("whose user is gone is sent away") {
  server s;
  client admin(s);
  admin("ACL SETUSER bob on nopass +@all ~*");
  client c(s);
  CHECK(c("AUTH bob x") == ok);
  CHECK(c("GET a") == null);
  CHECK(admin("ACL DELUSER bob") == integer(1));
  CHECK(c.session().ended() == kv::session::ending::now);
  CHECK(c.woken == 1);
}

TEST_CASE("users go to a file and come back from it") {
  kv::command_table table;
  kv::users one(table);
  const std::vector<std::string_view> rules{"on", ">pw", "~a*", "+@read", "-get"};
  CHECK(one.set("bob", rules).empty());
  kv::users other(table);
  CHECK(other.load("# it's a comment\n" + one.save()).empty());
  CHECK(other.save() == one.save());
  CHECK(other.authenticate("bob", "pw") != nullptr);
  CHECK(other.authenticate("bob", "no") == nullptr);
  CHECK(other.load("user x +nosuch") ==
        "line 1: Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL");
  CHECK(other.find("bob") != nullptr);
}

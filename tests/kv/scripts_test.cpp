// Locks: SET ... IFEQ, DELIFEQ, and the lock scripts of client libraries.
#include "../../apps/kv/command/digest.hpp"
#include "../../apps/kv/command/lock_script.hpp"
#include "resp_ground.hpp"

using namespace kv_test;

namespace {

constexpr std::string_view compare_and_delete =
    "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return "
    "0 end";
constexpr std::string_view release =
    "\n  local token = redis.call('get', KEYS[1])\n  if not token or token ~= ARGV[1] then\n"
    "    return 0\n  end\n  redis.call('del', KEYS[1])\n  return 1\n";
constexpr std::string_view extend =
    "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end\n"
    "local expiration = redis.call('pttl', KEYS[1]) if not expiration then expiration = 0 end\n"
    "if expiration < 0 then return 0 end\n\nlocal newttl = ARGV[2]\n"
    "if ARGV[3] == \"0\" then newttl = ARGV[2] + expiration end\n"
    "redis.call('pexpire', KEYS[1], newttl) return 1";
constexpr std::string_view reacquire =
    "local token = redis.call('get', KEYS[1]) if not token or token ~= ARGV[1] then return 0 end "
    "redis.call('pexpire', KEYS[1], ARGV[2]) return 1";
constexpr std::string_view unlock_all =
    "local count = 0\nfor i, key in ipairs(KEYS) do\n  -- Only this one's.\n"
    "  if redis.call(\"get\", key) == ARGV[1] then\n    redis.pcall(\"del\", key)\n"
    "    count = count + 1\n  end\nend\n-- How many.\nreturn count\n";
constexpr std::string_view lock_all =
    "for i, key in ipairs(KEYS) do if redis.call(\"exists\", key) == 1 then return 0 end end\n"
    "for i, key in ipairs(KEYS) do redis.call(\"set\", key, ARGV[1], \"PX\", ARGV[2]) end\n"
    "return #KEYS";
constexpr std::string_view extend_all =
    "for i, key in ipairs(KEYS) do if redis.call(\"get\", key) ~= ARGV[1] then return 0 end end\n"
    "for i, key in ipairs(KEYS) do redis.call(\"set\", key, ARGV[1], \"PX\", ARGV[2]) end\n"
    "return #KEYS";

const std::string not_known = error(
    "ERR cordma-kv runs no Lua: of scripts it takes only the lock scripts of known client "
    "libraries (compare and delete, compare and expire)");

}  // namespace

TEST_CASE("lock scripts are recognised whatever their spaces, quotes, comments and names") {
  using kv::lock_script;
  using kv::recognise;
  CHECK(recognise(compare_and_delete) == lock_script::erase);
  CHECK(recognise(release) == lock_script::erase);
  CHECK(recognise(extend) == lock_script::lengthen_or_renew);
  CHECK(recognise(reacquire) == lock_script::expire_ms);
  CHECK(recognise(unlock_all) == lock_script::erase_all);
  CHECK(recognise(lock_all) == lock_script::take_all);
  CHECK(recognise(extend_all) == lock_script::renew_all);
  CHECK(recognise("if (redis.call('GET',KEYS[1])==ARGV[1]) then return redis.call('UNLINK', "
                  "KEYS[1]); end; return 0") == lock_script::erase);
  CHECK(recognise("local x=redis.call( \"get\" , KEYS[ 1 ] )if x==ARGV[1]then return redis.call("
                  "'EXPIRE',KEYS[1],tonumber(ARGV[2]))else return 0 end") ==
        lock_script::expire_seconds);
}

TEST_CASE("what is no lock script is none, however alike it looks") {
  for (const std::string_view text :
       {std::string_view("return 1"), std::string_view(), std::string_view("if"),
        std::string_view("return redis.call('del',KEYS[1])"),
        std::string_view("if redis.call('get',KEYS[1]) == ARGV[2] then return "
                         "redis.call('del',KEYS[1]) else return 0 end"),
        std::string_view("if redis.call('get',KEYS[1]) ~= ARGV[1] then return "
                         "redis.call('del',KEYS[1]) else return 0 end"),
        std::string_view("if redis.call('get',KEYS[1]) == ARGV[1] then return "
                         "redis.call('del',KEYS[2]) else return 0 end"),
        std::string_view("local a = redis.call('get', KEYS[1]) if not a or b ~= ARGV[1] then "
                         "return 0 end redis.call('del', KEYS[1]) return 1"),
        std::string_view("local a = redis.call('get', KEYS[1]) if not (a or a ~= ARGV[1]) then "
                         "return 0 end redis.call('del', KEYS[1]) return 1"),
        std::string_view("--[[ if redis.call('get',KEYS[1]) == ARGV[1] then return ]] 0"),
        std::string_view("if tonumber(redis.call('get',KEYS[1])) == ARGV[1] then return "
                         "redis.call('del',KEYS[1]) else return 0 end"),
        std::string_view("if redis.call('get',KEYS[1]) == tonumber(ARGV[1]) then return "
                         "redis.call('del',KEYS[1]) else return 0 end"),
        std::string_view("'open"), std::string_view("((((((((((")}) {
    CAPTURE(text);
    CHECK_FALSE(kv::recognise(text));
  }
}

TEST_CASE("a lock is given back by who holds it alone") {
  server s({}, 2);
  client c(s);
  for (const std::string_view script : {compare_and_delete, release, unlock_all}) {
    CHECK(c("SET lock mine") == ok);
    CHECK(c({"EVAL", script, "1", "lock", "other"}) == integer(0));
    CHECK(c("GET lock") == bulk("mine"));
    CHECK(c({"EVAL", script, "1", "lock", "mine"}) == integer(1));
    CHECK(c("GET lock") == null);
    CHECK(c({"EVAL", script, "1", "lock", "mine"}) == integer(0));
  }
  CHECK(c("HSET h f 1") == integer(1));
  CHECK(c({"EVAL", release, "1", "h", "mine"}).starts_with("-WRONGTYPE"));
}

TEST_CASE("a lock is kept longer by who holds it alone") {
  server s;
  client c(s);
  CHECK(c("SET lock mine PX 1000") == ok);
  CHECK(c({"EVAL", reacquire, "1", "lock", "other", "5000"}) == integer(0));
  CHECK(c("PTTL lock") == integer(1000));
  CHECK(c({"EVAL", reacquire, "1", "lock", "mine", "5000"}) == integer(1));
  CHECK(c("PTTL lock") == integer(5000));
  CHECK(c({"EVAL", extend, "1", "lock", "mine", "500", "0"}) == integer(1));
  CHECK(c("PTTL lock") == integer(5500));
  CHECK(c({"EVAL", extend, "1", "lock", "mine", "700", "1"}) == integer(1));
  CHECK(c("PTTL lock") == integer(700));
  CHECK(c({"EVAL", extend, "1", "lock", "mine", "x", "1"}) ==
        error("ERR value is not an integer or out of range"));
  CHECK(c({"EVAL", extend, "1", "lock", "mine", "9223372036854775807", "0"}).starts_with("-ERR"));
  CHECK(c("PERSIST lock") == integer(1));
  CHECK(c({"EVAL", extend, "1", "lock", "mine", "500", "0"}) == integer(0));
  CHECK(c({"EVAL", reacquire, "1", "lock", "mine", "0"}) == integer(1));
  CHECK(c("EXISTS lock") == integer(0));
}

TEST_CASE("several locks are taken, kept and given back at once [shards]") {
  for (const std::uint32_t shards : {1U, 4U}) {
    CAPTURE(shards);
    server s({}, shards);
    client c(s);
    CHECK(c({"EVAL", lock_all, "3", "a", "b", "c", "mine", "1000"}) == integer(3));
    CHECK(c({"EVAL", lock_all, "2", "c", "d", "other", "1000"}) == integer(0));
    CHECK(c("EXISTS d") == integer(0));
    CHECK(c({"EVAL", extend_all, "2", "a", "d", "mine", "5000"}) == integer(0));
    CHECK(c("PTTL a") == integer(1000));
    CHECK(c({"EVAL", extend_all, "2", "a", "b", "mine", "5000"}) == integer(2));
    CHECK(c("PTTL b") == integer(5000));
    CHECK(c("SET b other") == ok);
    CHECK(c({"EVAL", unlock_all, "3", "a", "b", "c", "mine"}) == integer(2));
    CHECK(c("EXISTS a b c") == integer(1));
    CHECK(c({"EVAL", lock_all, "1", "x", "mine", "0"}) ==
          error("ERR invalid expire time in 'set' command"));
  }
}

TEST_CASE("locks of redsync, of Spring and of aioredlock") {
  constexpr std::string_view redsync =
      "local val = redis.call(\"GET\", KEYS[1]) if val == ARGV[1] then return redis.call(\"DEL\", "
      "KEYS[1]) "
      "elseif val == false then return -1 else return 0 end";
  constexpr std::string_view obtain =
      "local lockClientId = redis.call('GET', KEYS[1])\nif lockClientId == ARGV[1] then\n"
      "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n  return true\nelseif not lockClientId then\n"
      "  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n  return true\nend\nreturn false";
  constexpr std::string_view set =
      "local identifier = redis.call('get', KEYS[1]) if not identifier or identifier == ARGV[1] "
      "then return "
      "redis.call(\"set\", KEYS[1], ARGV[1], 'PX', ARGV[2]) else return redis.error_reply('ERROR') "
      "end";
  constexpr std::string_view unset =
      "local identifier = redis.call('get', KEYS[1]) if not identifier then return "
      "redis.status_reply('OK') "
      "elseif identifier == ARGV[1] then return redis.call(\"del\", KEYS[1]) else return "
      "redis.error_reply('ERROR') end";
  server s;
  client c(s);
  CHECK(c({"EVAL", redsync, "1", "l", "mine"}) == integer(-1));
  CHECK(c("SET l other") == ok);
  CHECK(c({"EVAL", redsync, "1", "l", "mine"}) == integer(0));
  CHECK(c({"EVAL", redsync, "1", "l", "other"}) == integer(1));
  CHECK(c({"EVAL", obtain, "1", "l", "mine", "1000"}) == integer(1));
  CHECK(c("PTTL l") == integer(1000));
  CHECK(c({"EVAL", obtain, "1", "l", "other", "1000"}) == null);
  CHECK(c({"EVAL", obtain, "1", "l", "mine", "5000"}) == integer(1));
  CHECK(c("PTTL l") == integer(5000));
  CHECK(c({"EVAL", set, "1", "l", "other", "1000"}) == error("ERR ERROR"));
  CHECK(c({"EVAL", set, "1", "l", "mine", "2000"}) == ok);
  CHECK(c("PTTL l") == integer(2000));
  CHECK(c({"EVAL", set, "1", "l", "mine", "x"}).starts_with("-ERR value is not an integer"));
  CHECK(c({"EVAL", unset, "1", "l", "other"}) == error("ERR ERROR"));
  CHECK(c({"EVAL", unset, "1", "l", "mine"}) == integer(1));
  CHECK(c({"EVAL", unset, "1", "l", "mine"}) == ok);
  CHECK(c({"EVAL", set, "1", "l", "mine", "2000"}) == ok);
  CHECK(c("GET l") == bulk("mine"));
}

TEST_CASE("compare, set again, and what says false or nil") {
  server s;
  client c(s);
  const std::string compare = "if redis.call('get', KEYS[1]) == ARGV[1] then ";
  const std::string again =
      compare + "return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) else return 0 end";
  CHECK(c("SET l mine PX 1000") == ok);
  CHECK(c({"EVAL", again, "1", "l", "other", "3000"}) == integer(0));
  CHECK(c({"EVAL", again, "1", "l", "mine", "3000"}) == ok);
  CHECK(c("PTTL l") == integer(3000));
  const std::string longer =
      compare + "return redis.call('pexpire', KEYS[1], ARGV[2]) else return false end";
  CHECK(c({"EVAL", longer, "1", "l", "other", "4000"}) == null);
  CHECK(c({"EVAL", longer, "1", "l", "mine", "4000"}) == integer(1));
  CHECK(c("PTTL l") == integer(4000));
  for (const char* const end : {"redis.call('unlink', KEYS[1]) return true end return false",
                                "return redis.call('del', KEYS[1]) end return nil"}) {
    CHECK(c("SET l mine") == ok);
    CHECK(c({"EVAL", compare + end, "1", "l", "other"}) == null);
    CHECK(c({"EVAL", compare + end, "1", "l", "mine"}) == integer(1));
    CHECK(c("EXISTS l") == integer(0));
  }
  // A variable of that name would make it another script.
  CHECK(c({"EVAL", compare + "return redis.call('del', KEYS[1]) else return nothing end", "1", "l",
           "m"}) == not_known);
}

TEST_CASE("several locks are taken as a whole or not at all where memory is short") {
  kv::settings small;
  small.maxmemory = std::uint64_t{5} << 20;
  server s(small);
  client c(s);
  const std::string filler(1000, 'x');
  int filled = 0;
  while (c({"SET", "k" + std::to_string(filled), filler}) == ok) ++filled;
  CHECK(c("DEL k1") == integer(1));
  const std::string value(900, 'v');
  CHECK(c({"EVAL", lock_all, "2", "a", "b", value, "1000"}) ==
        error("OOM command not allowed when used memory > 'maxmemory'."));
  CHECK(c("EXISTS a b") == integer(0));
}

TEST_CASE("scripts are known by their SHA-1 once they were sent") {
  server s;
  client c(s);
  const std::string name = kv::sha1(release);
  CHECK(name.size() == 40);
  CHECK(c({"EVALSHA", name, "1", "lock", "mine"}) ==
        error("NOSCRIPT No matching script. Please use EVAL."));
  CHECK(c({"SCRIPT", "LOAD", release}) == bulk(name));
  CHECK(c({"SCRIPT", "EXISTS", name, "x"}) == "*2\r\n:1\r\n:0\r\n");
  CHECK(c("SET lock mine") == ok);
  CHECK(c({"EVALSHA", name, "1", "lock", "mine"}) == integer(1));
  CHECK(c("SCRIPT FLUSH") == ok);
  CHECK(c({"EVALSHA", name, "1", "lock", "mine"}).starts_with("-NOSCRIPT"));
  CHECK(c({"EVAL", release, "1", "lock", "mine"}) == integer(0));
  CHECK(c({"EVALSHA", name, "1", "lock", "mine"}) == integer(0));
}

TEST_CASE("other scripts are refused with the reason") {
  server s;
  client c(s);
  CHECK(c({"EVAL", "return 1", "0"}) == not_known);
  CHECK(c({"SCRIPT", "LOAD", "return 1"}) == not_known);
  CHECK(c({"EVAL", release, "x"}) == error("ERR value is not an integer or out of range"));
  CHECK(c({"EVAL", release, "-1"}) == error("ERR Number of keys can't be negative"));
  CHECK(c({"EVAL", release, "2", "a"}) ==
        error("ERR Number of keys can't be greater than number of args"));
  CHECK(c({"EVAL", release, "0", "a"}).starts_with("-ERR the script takes more keys"));
  CHECK(c({"EVAL", release, "1", "a"}).starts_with("-ERR the script takes more keys"));
}

TEST_CASE("a script takes the rights of what it does") {
  server s;
  client admin(s);
  admin("ACL SETUSER bob on nopass ~b* +eval +get");
  client c(s);
  CHECK(c("AUTH bob any") == ok);
  CHECK(c({"EVAL", release, "1", "a", "mine"}).starts_with("-NOPERM"));
  CHECK(c({"EVAL", release, "1", "b", "mine"}) ==
        error("NOPERM this user has no permissions to run the 'del' command, which the script "
              "takes"));
  admin("ACL SETUSER bob +del");
  CHECK(c({"EVAL", release, "1", "b", "mine"}) == integer(0));
  CHECK(admin("COMMAND GETKEYS EVAL x 2 a b c") == "*2\r\n" + bulk("a") + bulk("b"));
}

TEST_CASE("a script is queued, and is a write that waits for the end of a pause") {
  server s({}, 2);
  client c(s);
  CHECK(c("SET lock mine") == ok);
  CHECK(c("MULTI") == ok);
  CHECK(c({"EVAL", release, "1", "lock", "mine"}) == "+QUEUED\r\n");
  CHECK(c({"EVAL", unlock_all, "0", "mine"}) == "+QUEUED\r\n");
  CHECK(c("EXEC") == "*2\r\n:1\r\n:0\r\n");
  client admin(s);
  CHECK(admin("CLIENT PAUSE 1000 WRITE") == ok);
  CHECK(c({"EVAL", release, "1", "lock", "mine"}) == "");
  CHECK(admin("CLIENT UNPAUSE") == ok);
  CHECK(c.take() == integer(0));
}

TEST_CASE("SET IFEQ sets what holds that value") {
  server s;
  client c(s);
  CHECK(c("SET k new IFEQ old") == null);
  CHECK(c("EXISTS k") == integer(0));
  CHECK(c("SET k old") == ok);
  CHECK(c("SET k new IFEQ other") == null);
  CHECK(c("SET k new IFEQ old PX 1000") == ok);
  CHECK(c("PTTL k") == integer(1000));
  CHECK(c("SET k newer IFEQ new GET KEEPTTL") == bulk("new"));
  CHECK(c("GET k") == bulk("newer"));
  CHECK(c("PTTL k") == integer(1000));
  CHECK(c("SET k x IFEQ other GET") == bulk("newer"));
  CHECK(c("GET k") == bulk("newer"));
  CHECK(c("SET k x IFEQ") == error("ERR syntax error"));
  CHECK(c("SET k x NX IFEQ a") == error("ERR syntax error"));
  CHECK(c("SET k x IFEQ a XX") == error("ERR syntax error"));
  CHECK(c("SET k x IFEQ a IFEQ b") == error("ERR syntax error"));
  CHECK(c("HSET h f 1") == integer(1));
  CHECK(c("SET h x IFEQ 1").starts_with("-WRONGTYPE"));
}

TEST_CASE("DELIFEQ erases what holds that value") {
  server s;
  client c(s);
  CHECK(c("DELIFEQ k a") == integer(0));
  CHECK(c("SET k a") == ok);
  CHECK(c("DELIFEQ k b") == integer(0));
  CHECK(c("DELIFEQ k a") == integer(1));
  CHECK(c("EXISTS k") == integer(0));
  CHECK(c("HSET h f 1") == integer(1));
  CHECK(c("DELIFEQ h 1").starts_with("-WRONGTYPE"));
}

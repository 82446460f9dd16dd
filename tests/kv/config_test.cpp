// CONFIG, configuration files, and statistics.
#include "resp_ground.hpp"

#include <cordma/runtime/result.hpp>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <unistd.h>

using namespace kv_test;

TEST_CASE("CONFIG GET and SET") {
  server s({}, 2);
  client c(s);
  CHECK(c("CONFIG GET save") == "*2\r\n" + bulk("save") + bulk("3600 1 300 100 60 10000"));
  CHECK(c("CONFIG GET appendonly") == "*2\r\n" + bulk("appendonly") + bulk("no"));
  CHECK(c("CONFIG GET nosuch") == "*0\r\n");
  CHECK(c("CONFIG GET TimeOut timeout") == "*2\r\n" + bulk("TimeOut") + bulk("0"));
  CHECK(c("CONFIG GET TIMEOU?") == "*2\r\n" + bulk("timeout") + bulk("0"));
  CHECK(c("CONFIG SET maxmemory 100mb") == ok);
  CHECK(c("CONFIG GET maxmemory") == "*2\r\n" + bulk("maxmemory") + bulk("104857600"));
  CHECK(c("CONFIG SET timeout 5 slowlog-max-len 7") == ok);
  CHECK(c("CONFIG GET timeout slowlog-max-len").starts_with("*4\r\n"));
  CHECK(c({"CONFIG", "SET", "save", ""}) == ok);
  CHECK(c("CONFIG GET save") == "*2\r\n" + bulk("save") + bulk(""));
  CHECK(c({"CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 2mb 60"}) == ok);
  CHECK(c("CONFIG GET client-output-buffer-limit").find("normal 1048576 2097152 60 ") !=
        std::string::npos);
  CHECK(c({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60"}) == ok);
  CHECK(c("CONFIG SET maxmemory-samples 10") == ok);
  CHECK(s.of.keys().at(1).samples() == 130);
}

TEST_CASE("DEBUG is for those whom enable-debug-command lets") {
  const std::string refused = error(
      "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you "
      "can run it from a local connection, otherwise you need to set this option in the "
      "configuration file, and then restart the server.");
  kv::session_origin far = client::usual();
  far.loopback = false;
  for (const std::string_view allowed : {"no", "local", "yes"}) {
    CAPTURE(allowed);
    kv::settings values;
    values.protected_mode = false;
    values.enable_debug_command = allowed;
    server s(values);
    client here(s);
    client there(s, far);
    CHECK(here("DEBUG SLEEP 0") == (allowed == "no" ? refused : ok));
    CHECK(there("DEBUG SLEEP 0") == (allowed == "yes" ? ok : refused));
    CHECK(there("DEBUG FOO")
              .starts_with(allowed == "yes" ? "-ERR unknown subcommand"
                                            : "-ERR DEBUG command not allowed."));
    CHECK(here("CONFIG SET enable-debug-command yes") ==
          error("ERR CONFIG SET failed (possibly related to argument 'enable-debug-command') - "
                "can't set immutable config"));
  }
}

TEST_CASE(
    "maxmemory that leaves no room for anything is refused, and the least leaves some [policy]") {
  for (const std::string_view policy : {"noeviction", "allkeys-lru", "volatile-ttl"}) {
    CAPTURE(policy);
    server s({}, 3);
    client c(s);
    CHECK(c({"CONFIG", "SET", "maxmemory-policy", policy}) == ok);
    CHECK(c("CONFIG SET maxmemory 15728639") ==
          error("ERR CONFIG SET failed (possibly related to argument 'maxmemory') - maxmemory "
                "15728639 is too little for anything to be kept: with 3 threads it is at least "
                "15mb (5mb for each), or 0 for no limit"));
    CHECK(c("CONFIG GET maxmemory") == "*2\r\n" + bulk("maxmemory") + bulk("0"));
    CHECK(c("CONFIG SET maxmemory 15mb") == ok);
    const std::string value(1000, 'v');
    int put = 0;
    for (int i = 0; i < 300; ++i) put += c({"SET", "k" + std::to_string(i), value}) == ok ? 1 : 0;
    CHECK(put == 300);
  }
}

TEST_CASE("what CONFIG SET refuses changes nothing") {
  server s;
  client c(s);
  const auto refused = [](std::string_view name, std::string_view why) {
    return error("ERR CONFIG SET failed (possibly related to argument '" + std::string(name) +
                 "') - " + std::string(why));
  };
  CHECK(c("CONFIG SET proto-max-bulk-len 1") ==
        refused("proto-max-bulk-len",
                "argument must be between 1048576 and 9223372036854775807 inclusive"));
  CHECK(c("CONFIG SET maxmemory x") == refused("maxmemory", "argument must be a memory value"));
  CHECK(c("CONFIG SET timeout 9 maxmemory x") ==
        refused("maxmemory", "argument must be a memory value"));
  CHECK(c("CONFIG GET timeout") == "*2\r\n" + bulk("timeout") + bulk("0"));
  CHECK(c("CONFIG SET timeout -1") ==
        refused("timeout", "argument must be between 0 and 2147483647 inclusive"));
  CHECK(c("CONFIG SET protected-mode maybe") ==
        refused("protected-mode", "argument must be 'yes' or 'no'"));
  CHECK(c("CONFIG SET databases 2") == refused("databases", "can't set immutable config"));
  CHECK(c("CONFIG SET tcp-keepalive 5") == refused("tcp-keepalive", "can't set immutable config"));
  CHECK(c({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 1mb 60"}) ==
        refused("client-output-buffer-limit",
                "cordma-kv has no clients of class pubsub, and takes only Redis's own limit"));
  CHECK(c("CONFIG SET timeout 1 timeout 2") == refused("timeout", "duplicate parameter"));
  CHECK(c("CONFIG SET appendfsync x") ==
        refused("appendfsync", "argument(s) must be one of the following: everysec, always, no"));
  CHECK(c("CONFIG SET nosuch 1") ==
        error("ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"));
  s.of.hooks.settings_change = [](const kv::settings&, const kv::settings&) {
    return std::string("not now");
  };
  CHECK(c("CONFIG SET timeout 3") == refused("timeout", "not now"));
  CHECK(c("CONFIG GET timeout") == "*2\r\n" + bulk("timeout") + bulk("0"));
  CHECK(c("CONFIG REWRITE") == error("ERR The server is running without a config file"));
}

TEST_CASE("requirepass is the default user's password") {
  server s;
  client c(s);
  CHECK(c("CONFIG SET requirepass secret") == ok);
  client other(s);
  CHECK(other("GET a") == error("NOAUTH Authentication required."));
  CHECK(other("AUTH secret") == ok);
  CHECK(c("GET a") == null);  // an authenticated client stays so
  CHECK(c({"CONFIG", "SET", "requirepass", ""}) == ok);
  client third(s);
  CHECK(third("GET a") == null);
}

TEST_CASE("a file is read, and written with its comments") {
  const kv::parsed_settings parsed = kv::parse_settings(
      "# mine\nport 7000\nMAXMEMORY 1gb\r\nsave 60 1\nsave 10 5\nrequirepass \"a b\"\nuser bob on "
      "nopass +@all\n");
  CHECK(parsed.values.port == 7000);
  CHECK(parsed.values.maxmemory == std::uint64_t{1} << 30);
  CHECK(parsed.values.save == std::vector<kv::save_point>{{60, 1}, {10, 5}});
  CHECK(parsed.values.requirepass == "a b");
  CHECK(parsed.users == std::vector<std::string>{"bob on nopass +@all"});
  kv::settings next = parsed.values;
  next.timeout = 9;
  next.port = 7001;
  const std::string written = kv::rewrite_settings("# mine\nport 7000\n", next, parsed.users);
  CHECK(written.starts_with("# mine\nport 7001\n"));
  const kv::parsed_settings again = kv::parse_settings(written);
  for (const kv::parameter& p : kv::all_parameters()) {
    CAPTURE(p.name);
    CHECK(p.get(again.values) == p.get(next));
  }
  CHECK(again.users == parsed.users);
}

TEST_CASE("what a file says by another name counts as said, and keeps that name") {
  for (const char* const name : {"threads", "workers", "THREADS"}) {
    CAPTURE(name);
    kv::settings now = kv::parse_settings("port 1\n" + std::string(name) + " 2\n").values;
    CHECK(now.workers == 2);
    now.workers = 3;
    const std::string written = kv::rewrite_settings(
        "# mine\n" + std::string(name) + " 2\ndatabases 16\nworkers 2\n", now, {});
    const std::string lower = name[0] == 'w' ? "workers" : "threads";
    CHECK(written.starts_with("# mine\n" + lower + " 3\ndatabases 16\n"));
    CHECK(written.find("workers", lower.size() + 8) == std::string::npos);
    CHECK(kv::parse_settings(written).values.workers == 3);
  }
  server s;
  client c(s);
  CHECK(c("CONFIG GET threads") == "*2\r\n" + bulk("threads") + bulk("1"));
}

TEST_CASE("CONFIG REWRITE and ACL SAVE by clients of two workers at once keep both files whole") {
  constexpr int lines = 1000;
  constexpr int rounds = 50;
  const std::string config =
      (std::filesystem::temp_directory_path() / ("cordma-kv-config." + std::to_string(::getpid())))
          .string();
  kv::settings values;
  values.aclfile = config + ".acl";
  std::ofstream(values.aclfile) << "user default on nopass ~* &* +@all\n";
  const auto secret = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(values.aclfile, secret);
  {
    std::ofstream out(config);
    for (int i = 0; i < lines; ++i) out << "# comment\n";
  }
  server s(values, 2, 2, config);
  std::atomic<int> refused = 0;
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < 2; ++i) {
    workers.emplace_back([&, i] {
      kv::session_origin from = client::usual();
      from.worker = i;
      client c(s, from);
      for (int round = 0; round < rounds; ++round) {
        if (c("CONFIG REWRITE") != ok) ++refused;
        if (c("ACL SAVE") != ok) ++refused;
      }
    });
  }
  for (std::thread& t : workers) t.join();
  CHECK(refused == 0);
  std::stringstream text;
  text << std::ifstream(config).rdbuf();
  int found = 0;
  for (std::string line; std::getline(text, line);) found += line == "# comment" ? 1 : 0;
  CHECK(found == lines);
  CHECK(std::filesystem::file_size(values.aclfile) > 0);
  CHECK(std::filesystem::status(values.aclfile).permissions() == secret);
  std::filesystem::remove(config);
  std::filesystem::remove(values.aclfile);
}

TEST_CASE("why a file cannot be written is said") {
  kv::settings values;
  values.aclfile = "/nonexistent/users";
  server s(values, 1, 1, "/nonexistent/config");
  client c(s);
  CHECK(
      c("ACL SAVE") ==
      "-ERR There was an error trying to save the ACLs: creating /nonexistent/temp-users: No such "
      "file or directory\r\n");
  CHECK(c("CONFIG REWRITE") ==
        "-ERR Rewriting config file: creating /nonexistent/temp-config: No such file or "
        "directory\r\n");
}

TEST_CASE("a file that is wrong is told by line") {
  const auto why = [](std::string_view text) {
    try {
      static_cast<void>(kv::parse_settings(text));
    } catch (const cordma::error& e) {
      return e.why().message();
    }
    return std::string("nothing");
  };
  CHECK(why("port 1\nfoo 2\n") == "configuration, line 2: \"foo\" is no setting of cordma-kv");
  CHECK(why("port x") ==
        "configuration, line 1: \"port\": argument couldn't be parsed into an integer");
  CHECK(why("port") == "configuration, line 1: wrong number of arguments for \"port\"");
  CHECK(why("dir \"x") == "configuration, line 1: a quote is not closed");
}

TEST_CASE("SLOWLOG keeps no secrets") {
  kv::settings all;
  all.slowlog_log_slower_than = 0;
  server s(all);
  client c(s);
  c("AUTH secret-1");
  c("AUTH default secret-2");
  c("HELLO 3 SETNAME auth AUTH default secret-3");
  c("ACL SETUSER secret-4 >secret-5");
  c("acl setuser u >secret-6 nonsense");
  c("CONFIG SET timeout 5 RequirePass secret-7");
  c("MULTI");
  c("AUTH secret-7");
  c("EXEC");
  const std::string kept = c("SLOWLOG GET -1");
  CHECK(kept.find("secret-") == std::string::npos);
  CHECK(kept.find(bulk("AUTH") + bulk("(redacted)")) != std::string::npos);
  CHECK(kept.find(bulk("auth") + bulk("AUTH") + bulk("(redacted)") + bulk("(redacted)")) !=
        std::string::npos);
  CHECK(kept.find(bulk("5") + bulk("RequirePass") + bulk("(redacted)")) != std::string::npos);
}

TEST_CASE("SLOWLOG keeps what took longer") {
  kv::settings all;
  all.slowlog_log_slower_than = 0;
  all.slowlog_max_len = 3;
  server s(all);
  client c(s);
  c("SET a 1");
  c({"SET", "long", std::string(200, 'x')});
  CHECK(c("SLOWLOG LEN") == integer(2));
  CHECK(c("SLOWLOG GET 1").find(bulk("LEN")) != std::string::npos);
  CHECK(c("SLOWLOG GET -1").find("... (72 more bytes)") != std::string::npos);
  CHECK(c("SLOWLOG LEN") == integer(3));
  CHECK(c("SLOWLOG GET -2") == error("ERR count should be greater than or equal to -1"));
  CHECK(c("CONFIG SET slowlog-log-slower-than -1") == ok);
  CHECK(c("SLOWLOG RESET") == ok);
  CHECK(c("SLOWLOG LEN") == integer(0));
}

TEST_CASE("SLOWLOG has no more entries than slowlog-max-len says, from when it says so") {
  server s;
  client c(s);
  CHECK(c("CONFIG SET slowlog-log-slower-than 0") == ok);
  for (int i = 0; i < 10; ++i) c("PING");
  CHECK(c("CONFIG SET slowlog-max-len 3") == ok);
  CHECK(c("SLOWLOG LEN") == integer(3));
  CHECK(c("CONFIG SET slowlog-max-len 0") == ok);
  CHECK(c("SLOWLOG LEN") == integer(0));
}

TEST_CASE("proto-max-bulk-len is no longer than a value may be") {
  server s;
  client c(s);
  CHECK(c("CONFIG SET proto-max-bulk-len 512mb") == ok);
  CHECK(c("CONFIG SET proto-max-bulk-len 513mb").starts_with("-ERR "));
  CHECK(c("CONFIG GET proto-max-bulk-len").ends_with(bulk("536870912")));
}

TEST_CASE("INFO and MEMORY STATS count clients without walking through them") {
  server s;
  client admin(s);
  const auto figure = [&](std::string_view name) {
    const std::string text = admin("INFO clients");
    const std::size_t at = text.find(name);
    REQUIRE(at != std::string::npos);
    return std::stoul(text.substr(at + name.size() + 1));
  };
  const std::size_t before = s.of.figures_of_clients().room_bytes;
  {
    client c(s);
    c.send("*2\r\n$3\r\nGET\r\n$100000\r\n" + std::string(50'000, 'k'));
    CHECK(figure("client_recent_max_input_buffer") >= 50'000);
    CHECK(s.of.figures_of_clients().room_bytes > before);
    s.pass(1000);
    s.of.tick(0);
    CHECK(figure("client_recent_max_input_buffer") >= 50'000);
    s.pass(1000);
    s.of.tick(0);
    s.pass(1000);
    s.of.tick(0);
    CHECK(figure("client_recent_max_input_buffer") < 50'000);
  }
  CHECK(s.of.figures_of_clients().room_bytes <= before + 65'536);  // buffers of the other clients
  CHECK(s.of.figures_of_clients().blocked == 0);
}

TEST_CASE("SAVE and SHUTDOWN are main's") {
  server s;
  client c(s);
  CHECK(c("SAVE") == error("ERR this server keeps nothing on disk"));
  s.of.hooks.save = [] { return kv::hook_answer{true, "OK"}; };
  s.of.hooks.background_save = [] {
    return kv::hook_answer{false, "Background save already in progress"};
  };
  s.of.hooks.persistence = [] {
    kv::persistence_info p;
    p.last_save = 1234;
    return p;
  };
  CHECK(c("SAVE") == ok);
  CHECK(c("BGSAVE") == error("ERR Background save already in progress"));
  CHECK(c("LASTSAVE") == integer(1234));
  kv::shutdown_request asked;
  s.of.hooks.shutdown = [&](kv::shutdown_request m) {
    asked = m;
    return kv::hook_answer{};
  };
  CHECK(c("SHUTDOWN FOO") == error("ERR syntax error"));
  CHECK(c("SHUTDOWN NOSAVE") == "");
  CHECK(asked.save == kv::shutdown_request::snapshot::no);
  CHECK_FALSE(asked.force);
  // The end of the server is the response. Until then no further command of the client runs.
  CHECK(c.session().ended() == kv::session::ending::no);
  CHECK(c("PING") == "");
  ++s.of.failed_endings;
  CHECK(c.take() == error("ERR Errors trying to SHUTDOWN. Check logs.") + "+PONG\r\n");
  CHECK(c("SHUTDOWN SAVE NOW FORCE") == "");
  CHECK(asked.save == kv::shutdown_request::snapshot::yes);
  CHECK(asked.force);
  ++s.of.failed_endings;
  CHECK(c.take() == error("ERR Errors trying to SHUTDOWN. Check logs."));
  // A SHUTDOWN that is no longer permitted when it is retried is refused, and not retried again.
  client administrator(s);
  CHECK(c("SHUTDOWN SAVE") == "");
  CHECK(administrator("ACL SETUSER default -shutdown") == ok);
  CHECK(c.take().starts_with("-NOPERM "));
  CHECK(c("INCR once") == integer(1));
  CHECK(c("GET once") == bulk("1"));
  CHECK(administrator("ACL SETUSER default +@all") == ok);
  CHECK(c("SHUTDOWN SAVE NOSAVE") == error("ERR syntax error"));
  CHECK(c("SHUTDOWN ABORT") == error("ERR No shutdown in progress."));
  CHECK(c("SHUTDOWN ABORT NOW") == error("ERR syntax error"));
}

// The configuration of cordma-kv by a file and by options.
#include "../../apps/kv/server/configuration.hpp"

#include <doctest/doctest.h>

#include <cordma/runtime/result.hpp>

using namespace kv;

namespace {

server_options read(std::string_view text, const std::vector<std::string>& arguments = {}) {
  return read_options(text, "kv.conf", parse_command_line(arguments).options);
}

std::string refusal(std::string_view text, const std::vector<std::string>& arguments = {}) {
  try {
    static_cast<void>(read(text, arguments));
    return "";
  } catch (const cordma::error& e) {
    return e.why().message();
  }
}

}  // namespace

TEST_CASE("a file is read as Redis reads it, and options prevail over it") {
  const server_options o = read(
      "# a comment\n\nport 7000\nbind 127.0.0.1 -::1\nmaxmemory 1gb\nappendonly yes\n"
      "requirepass \"two words\"\nIO asio\nwait polling\npidfile /run/kv.pid\nthreads 2\n",
      {"--port", "7001", "--maxmemory-policy", "allkeys-lru", "--io=uring"});
  const settings& s = o.configured.values;
  CHECK(s.port == 7001);
  CHECK(s.bind == std::vector<std::string>{"127.0.0.1", "-::1"});
  CHECK(s.maxmemory == std::uint64_t{1} << 30);
  CHECK(s.appendonly);
  CHECK(s.requirepass == "two words");
  CHECK(s.maxmemory_policy == eviction::allkeys_lru);
  CHECK(s.workers == 2);
  CHECK(o.io == io_choice::uring);
  CHECK(o.wait == cordma::wait_mode::polling);
  CHECK(o.pidfile == "/run/kv.pid");
}

TEST_CASE("an option's values go on until the next option, whatever they look like") {
  const command_line said =
      parse_command_line({"kv.conf", "--bind", "127.0.0.1", "-::1", "--save", "", "--port", "7"});
  CHECK(said.config_file == "kv.conf");
  REQUIRE(said.options.size() == 3);
  CHECK(said.options[0].values == std::vector<std::string>{"127.0.0.1", "-::1"});
  CHECK(said.options[1].values == std::vector<std::string>{""});
  const server_options o = read_options("", "", said.options);
  CHECK(o.configured.values.bind.size() == 2);
  CHECK(o.configured.values.save.empty());
}

TEST_CASE("what is wrong is said with its line, or its option, and the nearest name") {
  CHECK(refusal("port 1\nmaxmemry 1gb\n") ==
        "kv.conf: line 2: \"maxmemry\" is no setting of cordma-kv; did you mean \"maxmemory\"?");
  CHECK(refusal("", {"--prot", "1"}) ==
        "--prot: \"prot\" is no setting of cordma-kv; did you mean \"port\"?");
  CHECK(refusal("replicaof 127.0.0.1 6379\n").starts_with("kv.conf: line 1: \"replicaof\" is no"));
  CHECK(
      refusal("\nport 99999\n").starts_with("kv.conf: line 2: \"port\": argument must be between"));
  CHECK(refusal("port\n").starts_with("kv.conf: line 1: wrong number of arguments"));
  CHECK(refusal("requirepass \"open\n").starts_with("kv.conf: line 1: a quote"));
  CHECK(refusal("", {"--appendonly", "maybe"}) ==
        "--appendonly: \"appendonly\": argument must be 'yes' or 'no'");
  CHECK(refusal("io fast\n") ==
        "kv.conf: line 1: io: \"fast\" is unknown: use auto, uring or asio");
  CHECK(refusal("wait 1 2\n") == "kv.conf: line 1: wait: wrong number of arguments for \"wait\"");
  CHECK(refusal("", {"--daemonize", "yes"}).find("systemd") != std::string::npos);
  CHECK(refusal("maxmemory 20mb\nthreads 8\n").find("at least 40mb") != std::string::npos);
  CHECK(refusal("maxmemory 40mb\nthreads 8\n").empty());
  CHECK(refusal("threads 0\n").starts_with("kv.conf: line 1: \"threads\": argument must be"));
  CHECK(refusal("", {"--threads", "65"}).starts_with("--threads: \"threads\": argument must be"));
  CHECK(refusal("daemonize no\nsupervised systemd\n").empty());
  CHECK_THROWS_AS(static_cast<void>(parse_command_line({"a.conf", "b.conf"})), cordma::error);
}

TEST_CASE("all that is wrong with a file is said at once, with its lines") {
  CHECK(refusal("port x\n# fine\nmaxmemry 1gb\nio fast\nuser bob +@nonsense\ntimeout 5\n"
                "requirepass \"open\nsave 1\n") ==
        "kv.conf: line 1: \"port\": argument couldn't be parsed into an integer\n"
        "kv.conf: line 3: \"maxmemry\" is no setting of cordma-kv; did you mean \"maxmemory\"?\n"
        "kv.conf: line 4: io: \"fast\" is unknown: use auto, uring or asio\n"
        "kv.conf: line 5: user bob: Error in ACL SETUSER modifier '+@nonsense': Unknown command or "
        "category name in ACL\n"
        "kv.conf: line 7: a quote is not closed\n"
        "kv.conf: line 8: \"save\": Invalid save parameters");
}

TEST_CASE("a file of Redis's own is taken, with a warning for each line without meaning") {
  const server_options o = read(
      "bind 127.0.0.1 -::1\ndaemonize yes\npidfile /run/redis/redis-server.pid\n"
      "rdbcompression yes\nREPLICA-priority 100\nclient-output-buffer-limit normal 0 0 0\n"
      "client-output-buffer-limit replica 256mb 64mb 60\nnotify-keyspace-events \"\"\n"
      "acllog-max-len 64\nlatency-monitor-threshold 5\ndatabases 16\n"
      "# it's a comment with a quote\n  # and \"another\n");
  REQUIRE(o.warnings.size() == 5);
  CHECK(refusal("databases 17").find("between 1 and 16") != std::string::npos);
  CHECK(o.warnings[0].starts_with("line 2: daemonize: cordma-kv stays in the foreground"));
  CHECK(o.warnings[1] ==
        "line 4: \"rdbcompression\" is a setting of Redis that has no meaning here");
  CHECK(o.warnings[2].starts_with("line 5: \"replica-priority\" is a setting"));
  CHECK(
      o.warnings[3] ==
      "line 7: \"client-output-buffer-limit replica\" has no meaning here: it has no such clients");
  CHECK(o.warnings[4].starts_with("line 8: "));
  CHECK(o.configured.values.acllog_max_len == 64);
  CHECK(o.configured.values.latency_monitor_threshold == 5);
  // A directive is refused if ignoring it would lose data or weaken security.
  for (const char* const line :
       {"replicaof host 6379", "rename-command CONFIG x", "tls-protocols TLSv1.3",
        "include /etc/other.conf", "cluster-enabled yes", "loadmodule /lib/x.so"}) {
    CAPTURE(line);
    CHECK(refusal(line).starts_with("kv.conf: line 1: "));
  }
}

TEST_CASE(
    "of how a signal ends it, and of a cut journal, only what it does is taken, and newer settings "
    "of Redis are "
    "warnings") {
  for (const char* const line : {"shutdown-on-sigterm save", "shutdown-on-sigterm nosave force",
                                 "shutdown-on-sigint now", "shutdown-on-sigint"}) {
    CAPTURE(line);
    CHECK(refusal(line).find(": only \"default\" is taken") != std::string::npos);
  }
  CHECK(refusal("aof-load-truncated no").find(": only \"yes\" is taken") != std::string::npos);
  CHECK(read("aof-load-truncated yes\n").warnings.empty());
  CHECK(read("shutdown-on-sigterm default\nshutdown-on-sigint Default\n").warnings.empty());
  CHECK(read("locale-collate \"\"\nset-max-listpack-entries 128\nset-max-listpack-value 64\n")
            .warnings.size() == 3);
}

TEST_CASE("what is to be a name of a file is no path, and not empty") {
  struct wrong {
    const char* setting;
    const char* value;
    const char* why;
  };
  for (const wrong& w :
       {wrong{"dbfilename", "a/b", "dbfilename can't be a path, just a filename"},
        wrong{"dbfilename", "..", "dbfilename can't be a path, just a filename"},
        wrong{"dbfilename", "", "dbfilename can't be empty"},
        wrong{"appendfilename", "a/b", "appendfilename can't be a path, just a filename"},
        wrong{"appendfilename", "", "appendfilename can't be empty"},
        wrong{"appendfilename", "a b",
              "appendfilename can't begin with '.', nor have spaces in it"},
        wrong{"appendfilename", ".a", "appendfilename can't begin with '.', nor have spaces in it"},
        wrong{"appenddirname", "a/b", "appenddirname can't be a path, just a dirname"},
        wrong{"appenddirname", "", "appenddirname can't be empty"}}) {
    CAPTURE(w.setting);
    CAPTURE(w.value);
    const std::string setting = w.setting;
    CHECK(refusal("", {"--" + setting, w.value}) ==
          "--" + setting + ": \"" + setting + "\": " + w.why);
    CHECK(refusal(setting + " \"" + w.value + "\"\n") ==
          "kv.conf: line 1: \"" + setting + "\": " + w.why);
  }
  CHECK(read("dbfilename a.b\nappendfilename c.d\nappenddirname \"e f\"\n")
            .configured.values.dbfilename == "a.b");
}

TEST_CASE("the help names every setting") {
  const std::string text = help_text();
  for (const parameter& p : all_parameters()) CHECK(text.find(p.name) != std::string::npos);
  for (const char* name : {"wait", "io", "threads", "pidfile", "SIGHUP"}) {
    CHECK(text.find(name) != std::string::npos);
  }
}

// What cordma-kv is told, by a file and by options.
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
  CHECK(refusal("daemonize yes\n").find("systemd") != std::string::npos);
  CHECK(refusal("maxmemory 20mb\nthreads 8\n").find("at least 40mb") != std::string::npos);
  CHECK(refusal("maxmemory 40mb\nthreads 8\n").empty());
  CHECK(refusal("threads 0\n").starts_with("kv.conf: line 1: \"threads\": argument must be"));
  CHECK(refusal("", {"--threads", "65"}).starts_with("--threads: \"threads\": argument must be"));
  CHECK(refusal("daemonize no\nsupervised systemd\n").empty());
  CHECK_THROWS_AS(static_cast<void>(parse_command_line({"a.conf", "b.conf"})), cordma::error);
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

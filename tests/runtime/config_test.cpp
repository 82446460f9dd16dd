#include <cordma/runtime/config.hpp>
#include <cordma/runtime/units.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

using namespace cordma;

namespace {

enum class color : std::uint8_t { red = 3, green = 5 };

struct settings {
  config c;
  config_key<bool> verbose = c.add_flag("verbose", false, "says more");
  config_key<std::uint64_t> depth = c.add_number("depth", 64, "requests in flight", 1, 1024);
  config_key<std::uint64_t> ring = c.add_size("shm.ring_size", 65536, "bytes per ring", 4096);
  config_key<duration> wait =
      c.add_duration("connect_timeout", std::chrono::seconds(5), "longest handshake");
  config_key<std::string> address = c.add_text("address", "::", "where to listen");
  config_key<std::vector<std::string>> transports =
      c.add_list("transports", {"shm", "tcp"}, "in order of preference", {"shm", "tcp", "verbs"});
  config_key<color> paint = c.add_choice("paint", color::red, "color of it",
                                         {{"red", color::red}, {"green", color::green}});
};

class temporary_file {
 public:
  explicit temporary_file(const std::string& text) {
    std::string pattern = "/tmp/cordma-config-XXXXXX";
    const int fd = ::mkstemp(pattern.data());
    ::close(fd);
    path = pattern;
    std::ofstream(path) << text;
  }
  ~temporary_file() { std::remove(path.c_str()); }
  std::string path;
};

std::string complaint(const result<void>& r) { return r.ok() ? "" : r.why().message(); }

}  // namespace

TEST_CASE("sizes are read with binary factors, and written back shortest") {
  CHECK(*parse_size("0") == 0);
  CHECK(*parse_size("4096") == 4096);
  CHECK(*parse_size("64k") == 65536);
  CHECK(*parse_size("64K") == 65536);
  CHECK(*parse_size("1MiB") == 1048576);
  CHECK(*parse_size("2 GB") == 2147483648);
  CHECK(*parse_size("10B") == 10);
  for (const char* bad :
       {"", "k", "-1", "1.5M", "64q", "1kk", "1iB", "99999999999999999999", "1e3"}) {
    CAPTURE(bad);
    CHECK(parse_size(bad).code() == errc::invalid_value);
  }
  CHECK(parse_size("16777216T").code() == errc::invalid_value);
  for (const std::uint64_t n : {0ULL, 1ULL, 1023ULL, 1024ULL, 65536ULL, 3ULL << 40, 1ULL << 63}) {
    CHECK(*parse_size(format_size(n)) == n);
  }
  CHECK(format_size(65536) == "64k");
}

TEST_CASE("times need a unit, and are written back shortest") {
  CHECK(*parse_duration("10us") == std::chrono::microseconds(10));
  CHECK(*parse_duration("5s") == std::chrono::seconds(5));
  CHECK(*parse_duration("2 min") == std::chrono::minutes(2));
  CHECK(*parse_duration("0") == duration::zero());
  for (const char* bad : {"", "5", "s", "-5s", "5 sec", "1.5s", "300000000h"}) {
    CAPTURE(bad);
    CHECK(parse_duration(bad).code() == errc::invalid_value);
  }
  for (const long long ns : {0LL, 1LL, 1500LL, 90'000'000'000LL, 3'600'000'000'000LL}) {
    CHECK(*parse_duration(format_duration(duration(ns))) == duration(ns));
  }
  CHECK(format_duration(std::chrono::milliseconds(1500)) == "1500ms");
}

TEST_CASE("code is stronger than the environment, that than the file, that than the default") {
  const temporary_file file(R"({"depth": 10, "shm": {"ring_size": "128k"}, "verbose": true,
                               "transports": ["tcp"], "connect_timeout": "2s", "paint": "green"})");
  const char* environment[] = {"PATH=/bin", "CORDMA_DEPTH=20", "CORDMA_SHM_RING_SIZE=1M", nullptr};
  for (const bool file_last : {false, true}) {
    CAPTURE(file_last);
    settings s;
    CHECK(s.c.get(s.depth) == 64);
    CHECK(s.c.set("depth", "30").ok());
    if (!file_last) CHECK(s.c.read_file(file.path).ok());
    CHECK(s.c.read_environment(environment).ok());
    if (file_last) CHECK(s.c.read_file(file.path).ok());
    CHECK(s.c.get(s.depth) == 30);
    CHECK(s.c.get(s.ring) == 1 << 20);
    CHECK(s.c.get(s.verbose));
    CHECK(s.c.get(s.transports) == std::vector<std::string>{"tcp"});
    CHECK(s.c.get(s.wait) == std::chrono::seconds(2));
    CHECK(s.c.get(s.paint) == color::green);
    CHECK(s.c.get(s.address) == "::");
    CHECK(s.c.source("depth") == config_source::code);
    CHECK(s.c.source("shm.ring_size") == config_source::environment);
    CHECK(s.c.source("verbose") == config_source::file);
    CHECK(s.c.source("address") == config_source::default_value);
    const std::vector<config_entry> all = s.c.effective();
    REQUIRE(all.size() == 7);
    CHECK(all[2].key == "shm.ring_size");
    CHECK(all[2].environment == "CORDMA_SHM_RING_SIZE");
    CHECK(all[2].value == "1M");
    CHECK(all[2].default_value == "64k");
    CHECK(all[2].allowed == "at least 4k");
    CHECK(all[2].place == "CORDMA_SHM_RING_SIZE");
    CHECK(all[0].place == file.path);
    CHECK(all[5].value == "tcp");
    CHECK(all[5].allowed == "shm, tcp, verbs");
  }
}

TEST_CASE("a bad value names key, value, place and what is allowed") {
  settings s;
  CHECK(complaint(s.c.set("depth", "0")) == "depth: \"0\" is out of range: allowed is 1 ... 1024");
  CHECK(complaint(s.c.set("depth", "64k")) == "depth: \"64k\" is no number: use digits only");
  CHECK(complaint(s.c.set("paint", "blue")) == "paint: \"blue\" is none of: red, green");
  CHECK(complaint(s.c.set("transports", "shm, udp")) ==
        "transports: \"udp\" is none of: shm, tcp, verbs");
  const auto all = s.c.add_list("all", {"any"}, "", {"any", "red", "green"}, "any");
  CHECK(s.c.set("all", "any").ok());
  CHECK(complaint(s.c.set("all", "red,any")) ==
        "all: \"red,any\" names any beside others: use any alone, or leave it out");
  CHECK(s.c.get(all) == std::vector<std::string>{"any"});
  CHECK(complaint(s.c.set("verbose", "maybe")) ==
        "verbose: \"maybe\" is no flag: use true or false");
  CHECK(complaint(s.c.set("dept", "1")) == "unknown key \"dept\"; did you mean \"depth\"?");
  const char* environment[] = {"CORDMA_CONNECT_TIMEOUT=5", nullptr};
  CHECK(complaint(s.c.read_environment(environment)) ==
        "CORDMA_CONNECT_TIMEOUT: \"5\" is no time: use a number with ns, us, ms, s, min or h, such "
        "as 10us");
  const temporary_file file(R"({"depth": 10, "shm": {"ring_size": 100}})");
  CHECK(complaint(s.c.read_file(file.path)) ==
        file.path + ": shm.ring_size: \"100\" is out of range: allowed is at least 4k");
  CHECK(s.c.get(s.depth) == 64);  // no value of the file is used
  CHECK(s.c.get(s.wait) == std::chrono::seconds(5));
}

TEST_CASE("unknown keys of a file, bad JSON and missing files are errors") {
  settings s;
  const auto code = [&s](const std::string& text) {
    const temporary_file file(text);
    const result<void> r = s.c.read_file(file.path);
    CHECK(complaint(r).find(file.path) != std::string::npos);
    return r.code();
  };
  CHECK(code(R"({"shm": {"rings_size": "64k"}})") == errc::not_found);
  CHECK(code(R"({"depth": )") == errc::invalid_value);
  CHECK(code(R"([1])") == errc::invalid_value);
  CHECK(code(R"({"depth": 1.5})") == errc::invalid_value);
  CHECK(code(R"({"depth": -1})") == errc::invalid_value);
  CHECK(code(R"({"depth": null})") == errc::invalid_value);
  CHECK(code(R"({"transports": [1]})") == errc::invalid_value);
  CHECK(code(std::string(2U << 20, ' ')) == errc::invalid_value);
  CHECK(code(R"({"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}}}})") ==
        errc::invalid_value);
  CHECK(s.c.read_file("/nonexistent/cordma.json").code() == errc::not_found);
  const temporary_file pipe("");
  REQUIRE((std::remove(pipe.path.c_str()) == 0 && ::mkfifo(pipe.path.c_str(), 0600) == 0));
  for (const std::string& other : {pipe.path, std::string("/"), std::string("/dev/null")}) {
    CAPTURE(other);
    const result<void> r = s.c.read_file(other);
    CHECK(r.code() == errc::invalid_value);
    CHECK(complaint(r) ==
          other + ": is no regular file: name a file that holds a JSON object, {...}");
  }
}

TEST_CASE("a CORDMA_ variable that is no setting is a warning, with the name that was meant") {
  settings s;
  s.c.ignore_variable("CORDMA_CONFIG");
  const char* environment[] = {"CORDMA_DEPHT=1", "CORDMA_CONFIG=/etc/cordma.json",
                               "CORDMA_SOMETHING_ELSE=2", "OTHER=3", nullptr};
  CHECK(s.c.read_environment(environment).ok());
  CHECK(s.c.warnings() ==
        std::vector<std::string>{"CORDMA_DEPHT is no setting of cordma; did you mean CORDMA_DEPTH?",
                                 "CORDMA_SOMETHING_ELSE is no setting of cordma"});
}

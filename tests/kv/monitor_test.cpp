// MONITOR, LATENCY and ACL LOG: an administrator's view of other clients.
#include "../../apps/kv/command/monitor.hpp"
#include "../../apps/kv/command/latency.hpp"
#include "resp_ground.hpp"

#include <algorithm>
#include <memory>

using namespace kv_test;

namespace {

const std::string time_and_peer = "+1700000000.000000 [0 127.0.0.1:50000] ";

std::string line(std::string_view words) { return time_and_peer + std::string(words) + "\r\n"; }

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a monitor sees every command that is carried out, but those of administrators") {
  server s({}, 2);
  client m(s);
  client c(s);
  CHECK(m("MONITOR") == ok);
  CHECK(m("MONITOR") == ok);
  CHECK(c({"set", "a", "b\n\"\x01\xe9\\"}) == ok);
  c("CONFIG GET port");
  c("NOSUCH a");
  c("GET");
  c("AUTH default secret");
  c("MULTI");
  c("GET a");
  c("EXEC");
  CHECK(m.woken > 0);
  CHECK(m.take() == line(R"("set" "a" "b\n\"\x01\xe9\\")") +
                        line(R"x("AUTH" "(redacted)" "(redacted)")x") + line(R"("MULTI")") +
                        line(R"("GET" "a")") + line(R"("EXEC")"));
  CHECK(c("CLIENT LIST").find(" flags=O ") != std::string::npos);
  CHECK(m("PING").starts_with("+PONG\r\n"));
}

TEST_CASE("RESET and leaving end a monitor") {
  server s;
  client c(s);
  {
    client m(s);
    client gone(s);
    CHECK(m("MONITOR") == ok);
    CHECK(gone("MONITOR") == ok);
    CHECK(s.of.has_monitors());
    CHECK(m("RESET").starts_with("+RESET\r\n"));
    c("PING");
    CHECK(m.take().empty());
    CHECK(gone.take().ends_with(line(R"("PING")")));
  }
  CHECK_FALSE(s.of.has_monitors());
}

TEST_CASE("a monitor that does not read is ended, and does not make the server grow") {
  server s;
  std::string warned;
  s.of.hooks.warn = [&](std::string_view text) { warned = text; };
  client m(s);
  client c(s);
  CHECK(m("MONITOR") == ok);
  const std::string value(4 << 20, 'v');
  for (std::size_t sent = 0; sent < kv::monitor_box::most_bytes; sent += value.size()) {
    CHECK(m.session().ended() == kv::session::ending::no);
    CHECK(c({"SET", "k", value}) == ok);
  }
  CHECK(m.session().ended() == kv::session::ending::now);
  CHECK(warned.starts_with("disconnected for reading MONITOR too slowly: id="));
}

TEST_CASE("one command that is longer than a monitor may leave unread ends no monitor") {
  server s;
  client m(s);
  client c(s);
  CHECK(m("MONITOR") == ok);
  // Each byte is shown as four characters.
  CHECK(c({"SET", "k", std::string(kv::monitor_box::most_bytes / 4 + 1, '\x01')}) == ok);
  CHECK(m.session().ended() == kv::session::ending::no);
  std::string seen;
  for (std::string part = m.take(); !part.empty(); part = m.take()) seen += part;
  CHECK(seen.starts_with(time_and_peer + R"("SET" "k" "\x01\x01)"));
  CHECK(seen.ends_with(" more bytes)\r\n"));
  CHECK(seen.size() < kv::monitor_box::most_bytes);
  CHECK(c("PING") == "+PONG\r\n");
  CHECK(m.take() == line(R"("PING")"));
}

TEST_CASE("MONITOR is no part of a transaction") {
  server s;
  client c(s);
  CHECK(c("MULTI") == ok);
  CHECK(c("MONITOR") == "+QUEUED\r\n");
  CHECK(c("EXEC") == "*1\r\n" + error("ERR MONITOR isn't allowed for DENY BLOCKING client"));
  CHECK_FALSE(s.of.has_monitors());
}

TEST_CASE("with a monitor a command visits monitors and no other client") {
  server s({}, 2, 2);
  kv::session_origin there = client::usual();
  there.worker = 1;
  client m(s, there);
  client c(s);
  std::vector<std::unique_ptr<client>> others;
  for (int i = 0; i < 50; ++i)
    others.push_back(std::make_unique<client>(s, i % 2 == 0 ? there : client::usual()));
  CHECK(m("MONITOR") == ok);
  const auto looked_at = [&] { return s.of.total(&kv::worker_counters::looked_at); };
  const std::uint64_t before = looked_at();
  s.of.hooks.attend = [&](unsigned worker) { s.of.attend(worker); };
  CHECK(c("PING") == "+PONG\r\n");
  CHECK(looked_at() - before == 2);  // once to show it, once to wake it
  CHECK(m.take() == line(R"("PING")"));
}

namespace {

struct told_by_hand final : kv::journal_gate {
  std::uint64_t last = 0;
  std::uint64_t safe = 0;
  [[nodiscard]] std::uint64_t appended() const noexcept override { return last; }
  [[nodiscard]] std::uint64_t durable() const noexcept override { return safe; }
  [[nodiscard]] bool waits() const noexcept override { return true; }
  [[nodiscard]] bool backlogged() const noexcept override { return false; }
  [[nodiscard]] bool refuses() const noexcept override { return false; }
  [[nodiscard]] std::string why() const override { return {}; }
};

}  // namespace

TEST_CASE("an fsync looks at the clients that wait for it, and at no other one") {
  server s;
  told_by_hand journal;
  s.of.journal = &journal;
  std::vector<std::unique_ptr<client>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(std::make_unique<client>(s));
  client c(s);
  const auto looked_at = [&s] { return s.of.total(&kv::worker_counters::looked_at); };
  for (std::uint64_t i = 1; i <= 10; ++i) {
    journal.last = i;
    CHECK(c("SET a 1").empty());
    const std::uint64_t before = looked_at();
    journal.safe = i;
    s.of.journal_advanced(0);
    CHECK(looked_at() - before == 1);
    CHECK(c.take() == ok);
  }
  for (const std::unique_ptr<client>& one : silent) CHECK(one->woken == 0);
  s.of.journal = nullptr;
}

TEST_CASE("a monitor of another worker is told there") {
  server s({}, 2, 2);
  kv::session_origin there = client::usual();
  there.worker = 1;
  client m(s, there);
  client c(s);
  std::vector<unsigned> attended;
  s.of.hooks.attend = [&](unsigned worker) { attended.push_back(worker); };
  CHECK(m("MONITOR") == ok);
  CHECK(c("PING") == "+PONG\r\n");
  CHECK(std::ranges::count(attended, 1U) == 1);
  s.of.attend(1);
  CHECK(m.woken == 1);
  CHECK(m.take() == line(R"("PING")"));
}

TEST_CASE("of events in one second the longest is kept, and of the oldest none") {
  kv::latency_log log;
  log.add("command", {.when_s = 5, .took_ms = 7});
  log.add("command", {.when_s = 5, .took_ms = 9});
  log.add("command", {.when_s = 5, .took_ms = 3});
  CHECK(log.history("command").size() == 1);
  CHECK(log.history("command").front().took_ms == 9);
  for (std::uint64_t i = 0; i < 200; ++i) log.add("command", {.when_s = 10 + i, .took_ms = 2});
  CHECK(log.history("command").size() == kv::latency_log::most_samples);
  CHECK(log.history("command").front().when_s == 50);
  CHECK(log.events().front().worst_ms == 9);
  CHECK(log.history("nosuch").empty());
  CHECK(log.forget("command"));
  CHECK_FALSE(log.forget("command"));
}

TEST_CASE("LATENCY shows what took as long as its threshold") {
  server s;
  client c(s);
  CHECK(c("LATENCY LATEST") == "*0\r\n");
  CHECK(c("LATENCY DOCTOR").find("latency-monitor-threshold is 0") != std::string::npos);
  CHECK(c("CONFIG SET latency-monitor-threshold 100") == ok);
  CHECK(c("LATENCY DOCTOR").find("No event took 100 ms or longer") != std::string::npos);
  s.of.latency().add("command", {.when_s = 1'700'000'000, .took_ms = 150});
  s.of.latency().add("expire-cycle", {.when_s = 1'700'000'001, .took_ms = 120});
  CHECK(c("LATENCY LATEST") == "*2\r\n*4\r\n" + bulk("command") +
                                   ":1700000000\r\n:150\r\n:150\r\n" + "*4\r\n" +
                                   bulk("expire-cycle") + ":1700000001\r\n:120\r\n:120\r\n");
  CHECK(c("LATENCY HISTORY command") == "*1\r\n*2\r\n:1700000000\r\n:150\r\n");
  CHECK(c("LATENCY HISTORY nosuch") == "*0\r\n");
  CHECK(c("LATENCY DOCTOR").find("command: 1 times, 150.0 ms on average, 150 ms at worst") !=
        std::string::npos);
  CHECK(c("LATENCY GRAPH command") == error("ERR unknown subcommand 'GRAPH'. Try LATENCY HELP."));
  CHECK(c("LATENCY RESET nosuch command") == integer(1));
  CHECK(c("LATENCY RESET") == integer(1));
  CHECK(c("LATENCY LATEST") == "*0\r\n");
}

TEST_CASE("a command that took long is a latency event") {
  kv::settings values;
  values.latency_monitor_threshold = 1;
  values.enable_debug_command = "yes";
  kv::keyspace keys(
      [] {
        std::vector<std::unique_ptr<kv::memory_source>> one;
        one.push_back(std::make_unique<kv::plain_memory>());
        return one;
      }(),
      {});
  kv::service of(keys, {values, {}}, {});
  kv::session one(of, client::usual(), [](void*) noexcept {}, nullptr);
  const std::string text = "DEBUG SLEEP 0.002\r\n";
  one.received({text.data(), text.size()});
  REQUIRE(of.latency().events().size() == 1);
  CHECK(of.latency().events().front().name == "command");
  CHECK(of.latency().events().front().worst_ms >= 2);
}

TEST_CASE("ACL LOG shows what was refused, and counts the same again") {
  server s;
  client admin(s);
  admin("ACL SETUSER bob on >pw ~b* +get +set +multi +exec");
  client c(s);
  CHECK(c("AUTH bob wrong").starts_with("-WRONGPASS"));
  CHECK(c("AUTH bob pw") == ok);
  CHECK(c("GET zz").starts_with("-NOPERM"));
  s.pass(59'000);
  CHECK(c("GET zz").starts_with("-NOPERM"));
  CHECK(c("DEL b").starts_with("-NOPERM"));
  const std::string log = admin("ACL LOG");
  CHECK(log.starts_with("*3\r\n*14\r\n" + bulk("count") + ":1\r\n" + bulk("reason") +
                        bulk("command") + bulk("context") + bulk("toplevel") + bulk("object") +
                        bulk("del") + bulk("username") + bulk("bob") + bulk("age-seconds")));
  CHECK(log.find(bulk("count") + ":2\r\n" + bulk("reason") + bulk("key") + bulk("context") +
                 bulk("toplevel") + bulk("object") + bulk("zz")) != std::string::npos);
  CHECK(log.find(bulk("reason") + bulk("auth") + bulk("context") + bulk("toplevel") +
                 bulk("object") + bulk("AUTH") + bulk("username") + bulk("bob")) !=
        std::string::npos);
  CHECK(count(log, " cmd=") == 3);
  s.pass(60'000);
  CHECK(c("GET zz").starts_with("-NOPERM"));
  CHECK(admin("ACL LOG").starts_with("*4\r\n"));
  CHECK(admin("ACL LOG 1").starts_with("*1\r\n"));
  CHECK(admin("ACL LOG -1") == "*0\r\n");
  CHECK(admin("ACL LOG x") == error("ERR value is not an integer or out of range"));
  CHECK(admin("ACL LOG RESET x") ==
        error("ERR unknown subcommand or wrong number of arguments for 'log'. Try ACL HELP."));
  CHECK(admin("ACL LOG RESET") == ok);
  CHECK(admin("ACL LOG") == "*0\r\n");
}

TEST_CASE("ACL LOG says where it was: in a transaction that is queued, or in a script") {
  server s;
  client admin(s);
  client c(s);
  CHECK(admin("ACL SETUSER bob on nopass ~* +@all -set -del") == ok);
  CHECK(c("AUTH bob x") == ok);
  CHECK(c("MULTI") == ok);
  CHECK(c("SET k v").starts_with("-NOPERM"));
  CHECK(c("DISCARD") == ok);
  const std::string queued = admin("ACL LOG 1");
  CHECK(queued.find(bulk("context") + bulk("multi")) != std::string::npos);
  CHECK(queued.find(bulk("object") + bulk("set")) != std::string::npos);
  CHECK(c({"EVAL",
           "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else "
           "return 0 end",
           "1", "k", "v"})
            .starts_with("-NOPERM"));
  const std::string script = admin("ACL LOG 1");
  CHECK(script.find(bulk("context") + bulk("lua")) != std::string::npos);
  CHECK(script.find(bulk("object") + bulk("del")) != std::string::npos);
}

TEST_CASE("ACL LOG keeps acllog-max-len entries, and says what EXEC refused") {
  server s;
  client admin(s);
  admin("ACL SETUSER bob on nopass ~* +@all");
  CHECK(admin("CONFIG SET acllog-max-len 2") == ok);
  client c(s);
  CHECK(c("AUTH bob any") == ok);
  CHECK(c("MULTI") == ok);
  for (const char* const get : {"GET a", "GET b", "GET c"}) CHECK(c(get) == "+QUEUED\r\n");
  CHECK(admin("ACL SETUSER bob resetkeys ~b") == ok);
  CHECK(count(c("EXEC"), "-NOPERM") == 2);
  const std::string log = admin("ACL LOG");
  CHECK(log.starts_with("*2\r\n"));
  CHECK(count(log, bulk("context") + bulk("multi")) == 2);
}

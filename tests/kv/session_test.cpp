// A client's bytes and replies: pipelines, slow readers, ends, pauses, and the journal's gate.
#include "resp_ground.hpp"

#include "../../apps/kv/keyspace/journal_gate.hpp"

#include <cstring>

using namespace kv_test;

namespace {

std::string packed(std::initializer_list<std::string_view> words) {
  return client::packed(std::vector<std::string_view>(words));
}

struct fake_journal final : kv::journal_gate {
  std::uint64_t last = 0;
  std::uint64_t on_disk = 0;
  bool must_wait = true;
  bool is_full = false;
  bool too_much = false;
  mutable int too_much_times = 0;  // calls for which backlogged() is true
  [[nodiscard]] std::uint64_t appended() const noexcept override { return last; }
  [[nodiscard]] std::uint64_t durable() const noexcept override { return on_disk; }
  [[nodiscard]] bool waits() const noexcept override { return must_wait; }
  [[nodiscard]] bool backlogged() const noexcept override {
    return too_much || (too_much_times > 0 && too_much_times-- > 0);
  }
  [[nodiscard]] bool refuses() const noexcept override { return is_full; }
  [[nodiscard]] std::string why() const override {
    return "Errors writing to the AOF file: No space left on device";
  }
};

}  // namespace

TEST_CASE("a pipeline is answered in order, however it is cut [shards]") {
  std::string asked;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string n = std::to_string(i);
    asked +=
        packed({"SET", "k" + n, n}) + packed({"GET", "k" + n}) + packed({"MGET", "k" + n, "nokey"});
    expected += ok + bulk(n) + "*2\r\n" + bulk(n) + null;
    if (i % 10 == 0) {
      asked += "PING\r\n" + packed({"CLIENT", "GETNAME"}) + packed({"NOSUCH"});
      expected +=
          "+PONG\r\n" + null + error("ERR unknown command 'NOSUCH', with args beginning with: ");
    }
  }
  for (const std::uint32_t shards : {1U, 3U}) {
    for (const std::size_t piece :
         {std::size_t{1}, std::size_t{13}, std::size_t{4096}, asked.size()}) {
      CAPTURE(piece);
      server s({}, shards);
      client c(s);
      std::string answered;
      for (std::size_t at = 0; at < asked.size(); at += piece)
        answered += c.raw(asked.substr(at, piece));
      CHECK(answered == expected);
    }
  }
}

TEST_CASE("who sends HTTP is cut off, before anything in it is carried out [line]") {
  for (const std::string_view line :
       {"POST / HTTP/1.1\r\n", "post\r\n", "Host: x\r\n", "*1\r\n$4\r\nPOST\r\n"}) {
    CAPTURE(line);
    server s;
    std::string warned;
    s.of.hooks.warn = [&](std::string_view text) { warned += text; };
    client c(s);
    client other(s);
    CHECK(c("SET first 1") == ok);
    c.send(std::string(line) + "Accept: */*\r\n\r\nSET pwned 1\r\n");
    CHECK(c.session().ended() == kv::session::ending::now);
    CHECK(other("GET pwned") == null);
    CHECK(other("GET first") == bulk("1"));
    CHECK(warned.starts_with("possible SECURITY ATTACK: 127.0.0.1 sends HTTP"));
  }
  server s;
  client c(s);
  CHECK(c("SET post Host:") == ok);
  CHECK(c("GETS x").starts_with("-ERR unknown command"));
}

TEST_CASE("behind a zero byte an inline command says nothing") {
  using namespace std::string_view_literals;
  server s;
  client c(s);
  CHECK(c.raw("\0NOSUCH a\r\n\0\nPING\r\n"sv) == "+PONG\r\n");
  CHECK(c.raw("PING\0 NOSUCH\r\n"sv) == "+PONG\r\n");
}

TEST_CASE("a large value is read into its place") {
  server s;
  client c(s);
  const std::string value(1 << 20, 'v');
  const std::string asked = packed({"SET", "k", value}) + packed({"STRLEN", "k"});
  c.send(asked.substr(0, 100));
  std::size_t at = 100;
  std::size_t by_room = 0;
  while (at < asked.size()) {
    const std::span<char> room = c.session().room();
    const std::size_t n =
        std::min(asked.size() - at, room.empty() ? std::size_t{1000} : room.size());
    if (room.empty()) {
      c.send(asked.substr(at, n));
    } else {
      std::memcpy(room.data(), asked.data() + at, n);
      c.session().arrived(n);
      by_room += n;
    }
    at += n;
  }
  CHECK(by_room > (1 << 20) - 1000);
  CHECK(c.take() == ok + integer(1 << 20));
}

TEST_CASE("QUIT and errors of the protocol end it, and nothing behind them is heard") {
  server s;
  {
    client c(s);
    CHECK(c.raw("PING\r\nQUIT\r\nSET a 1\r\n") == "+PONG\r\n" + ok);
    CHECK(c.session().ended() == kv::session::ending::when_sent);
    CHECK_FALSE(c.session().wants_input());
    CHECK(c("PING").empty());
  }
  client c(s);
  CHECK(c.raw("*1\r\n$4\r\nPING\r\n*1\r\n$x\r\nPING\r\n") ==
        "+PONG\r\n" + error("ERR Protocol error: invalid bulk length"));
  CHECK(c.session().ended() == kv::session::ending::when_sent);
  client other(s);
  CHECK(other("GET a") == null);
}

TEST_CASE("who does not read is not served any more") {
  server s;
  client c(s);
  c({"SET", "k", std::string(100'000, 'v')});
  std::string asked;
  for (int i = 0; i < 100; ++i) asked += packed({"GET", "k"});
  asked += packed({"SET", "end", "1"});
  c.send(asked);
  CHECK_FALSE(c.session().wants_input());
  CHECK(c.session().pending().size() < 3'000'000);
  client other(s);
  CHECK(other("GET end") == null);
  // The commands run as the client reads.
  std::size_t read = 0;
  while (!c.session().pending().empty()) {
    const std::size_t n = std::min<std::size_t>(c.session().pending().size(), 50'000);
    read += n;
    c.session().sent(n);
  }
  CHECK(read == 100 * bulk(std::string(100'000, 'v')).size() + ok.size());
  CHECK(c.session().wants_input());
  CHECK(other("GET end") == bulk("1"));
}

TEST_CASE("above the output limit the end comes at once") {
  kv::settings limited;
  limited.client_output_buffer_limit.hard_bytes = 500'000;
  server s(limited);
  client c(s);
  c({"SET", "k", std::string(400'000, 'v')});
  c.send(packed({"GET", "k"}));
  CHECK(c.session().ended() == kv::session::ending::no);
  c.send(packed({"GET", "k"}));
  CHECK(c.session().ended() == kv::session::ending::now);
}

TEST_CASE("a reply that is longer than the output limit is not even made, and the end is logged") {
  kv::settings limited;
  limited.client_output_buffer_limit.hard_bytes = 1'000'000;
  server s(limited);
  std::vector<std::string> logged;
  s.of.hooks.warn = [&](std::string_view line) { logged.emplace_back(line); };
  client c(s);
  CHECK(c({"SET", "k", std::string(400'000, 'v')}) == ok);
  std::vector<std::string_view> words(1001, "k");
  words[0] = "MGET";
  c.send(client::packed(words) + packed({"SET", "end", "1"}));
  CHECK(c.session().ended() == kv::session::ending::now);
  CHECK(c.session().pending().size() <= 1'000'000);
  CHECK(s.of.counters(0).killed_for_output.get() == 1);
  REQUIRE(logged.size() == 1);
  CHECK(logged[0].find("client-output-buffer-limit: id=1 addr=127.0.0.1:50000") != logged[0].npos);
  client other(s);
  CHECK(other("GET end") == null);
  // A transaction runs to its end, even if its client receives nothing.
  client third(s);
  third("MULTI");
  for (int i = 0; i < 4; ++i) third("GET k");
  third("SET end 2");
  third.send(packed({"EXEC"}));
  CHECK(third.session().ended() == kv::session::ending::now);
  CHECK(other("GET end") == bulk("2"));
}

TEST_CASE("above the soft limit for too long the end comes by itself") {
  kv::settings limited;
  limited.client_output_buffer_limit.soft_bytes = 100'000;
  limited.client_output_buffer_limit.soft_seconds = 10;
  server s(limited);
  client c(s);
  CHECK(c({"SET", "k", std::string(400'000, 'v')}) == ok);
  c.send(packed({"GET", "k"}));
  s.pass(9'000);
  s.of.tick(0);
  CHECK(c.session().ended() == kv::session::ending::no);
  c.session().sent(350'000);  // below the limit, so the time restarts
  c.send(packed({"GET", "k"}));
  s.pass(9'000);
  s.of.tick(0);
  CHECK(c.session().ended() == kv::session::ending::no);
  s.pass(2'000);
  s.of.tick(0);
  CHECK(c.session().ended() == kv::session::ending::now);
  CHECK(s.of.counters(0).killed_for_output.get() == 1);
}

TEST_CASE(
    "whoever says no more, or QUIT, is owed what the journal holds back, and what has to wait") {
  server s;
  fake_journal journal;
  s.of.journal = &journal;
  for (const bool quits : {false, true}) {
    client c(s);
    ++journal.last;
    CHECK(c("SET a 1").empty());
    quits ? c.send(packed({"QUIT"})) : c.session().no_more_input();
    CHECK(c.session().ended() == kv::session::ending::no);
    journal.on_disk = journal.last;
    s.of.journal_advanced(0);
    CHECK(c.woken == 1);
    CHECK(c.session().ended() == kv::session::ending::when_sent);
    CHECK(c.take() == (quits ? ok + ok : ok));
  }
  client admin(s);
  CHECK(admin("CLIENT PAUSE 1000") == ok);
  client c(s);
  CHECK(c("GET a").empty());
  c.session().no_more_input();
  CHECK(c.session().ended() == kv::session::ending::no);
  s.pass(1001);
  s.of.tick(0);
  CHECK(c.take() == bulk("1"));
  CHECK(c.session().ended() == kv::session::ending::when_sent);
}

TEST_CASE("CLIENT KILL ends others at once, oneself after the answer") {
  server s;
  client c(s);
  kv::session_origin second = client::usual();
  second.peer = "127.0.0.1:50001";
  client other(s, second);
  CHECK(c("CLIENT KILL ADDR 127.0.0.1:9") == integer(0));
  CHECK(c("CLIENT KILL 127.0.0.1:9") == error("ERR No such client"));
  CHECK(c("CLIENT KILL ADDR 127.0.0.1:50001") == integer(1));
  CHECK(other.session().ended() == kv::session::ending::now);
  CHECK(other.woken == 1);
  CHECK(c("CLIENT KILL TYPE normal") == integer(1));
  CHECK(c.session().ended() == kv::session::ending::no);
  CHECK(c("CLIENT KILL ADDR 127.0.0.1:50000 SKIPME no") == integer(1));
  CHECK(c.session().ended() == kv::session::ending::when_sent);
}

TEST_CASE("CLIENT REPLY within a transaction is for what comes after it") {
  const auto queued = [](std::size_t n) {
    std::string text = ok;
    for (; n != 0; --n) text += "+QUEUED\r\n";
    return text;
  };
  const auto said = [](std::initializer_list<std::string_view> lines) {
    server s;
    client c(s);
    std::string text;
    for (const std::string_view line : lines) text += c(line);
    return text;
  };
  CHECK(said({"MULTI", "PING", "CLIENT REPLY SKIP", "EXEC", "PING", "ECHO x"}) ==
        queued(2) + "*2\r\n+PONG\r\n" + bulk("x"));
  CHECK(said({"MULTI", "PING", "CLIENT REPLY OFF", "PING", "EXEC", "PING"}) ==
        queued(3) + "*3\r\n+PONG\r\n");
  CHECK(said({"CLIENT REPLY OFF", "MULTI", "PING", "CLIENT REPLY ON", "PING", "EXEC", "PING"}) ==
        ok + "+PONG\r\n+PONG\r\n");
  CHECK(said({"MULTI", "CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING", "EXEC", "PING", "ECHO x"}) ==
        queued(3) + "*3\r\n" + ok + "+PONG\r\n" + bulk("x"));
}

TEST_CASE("who wants no replies is not told either that what he says makes no sense") {
  for (const std::string_view mode : {"OFF", "SKIP"}) {
    CAPTURE(mode);
    server s;
    client c(s);
    CHECK(c({"CLIENT", "REPLY", mode}).empty());
    CHECK(c.raw("*x\r\n").empty());
    CHECK(c.session().ended() == kv::session::ending::when_sent);
  }
}

TEST_CASE("CLIENT REPLY") {
  server s;
  client c(s);
  CHECK(c.raw(packed({"CLIENT", "REPLY", "SKIP"}) + packed({"SET", "a", "1"}) +
              packed({"GET", "a"})) == bulk("1"));
  CHECK(c("CLIENT REPLY OFF").empty());
  CHECK(c("SET a 2").empty());
  CHECK(c("NOSUCH").empty());
  CHECK(c("CLIENT REPLY ON") == ok);
  CHECK(c("GET a") == bulk("2"));
}

TEST_CASE("while clients are paused what they ask waits") {
  server s;
  client admin(s);
  client c(s);
  CHECK(admin("CLIENT PAUSE 1000 WRITE") == ok);
  CHECK(c("GET a") == null);
  CHECK(c.raw(packed({"GET", "a"}) + packed({"SET", "a", "1"}) + packed({"GET", "a"})) == null);
  CHECK_FALSE(c.session().wants_input());
  s.pass(999);
  s.of.tick(0);
  CHECK(c.take().empty());
  s.pass(2);
  s.of.tick(0);
  CHECK(c.woken == 1);
  CHECK(c.take() == ok + bulk("1"));
  CHECK(c.session().wants_input());
  CHECK(admin("CLIENT PAUSE 100000 WRITE") == ok);
  CHECK(c("SET a 2").empty());
  CHECK(admin("CLIENT UNPAUSE") == ok);
  CHECK(c.take() == ok);
}

TEST_CASE("what must be on disk first is not answered before") {
  server s;
  fake_journal journal;
  s.of.journal = &journal;
  client c(s);
  client other(s);
  CHECK(c("GET a") == null);
  journal.last = 1;
  CHECK(c("SET a 1").empty());
  journal.last = 2;
  CHECK(c("SET b 1").empty());
  CHECK(other("GET a").empty());  // data that may be lost is not shown
  journal.on_disk = 1;
  s.of.journal_advanced(0);
  CHECK(c.woken == 1);
  CHECK(c.take() == ok);
  CHECK(other.take().empty());
  journal.on_disk = 2;
  s.of.journal_advanced(0);
  CHECK(c.woken == 2);
  CHECK(c.take() == ok);
  CHECK(other.take() == bulk("1"));
  journal.last = 3;
  CHECK(c("SET a 2").empty());
  journal.must_wait = false;
  CHECK(c.take() == ok);
}

TEST_CASE("changes wait while the journal has too much to write, however often it is looked at") {
  server s;
  fake_journal journal;
  journal.must_wait = false;
  journal.too_much = true;
  s.of.journal = &journal;
  client c(s);
  CHECK(c.raw(packed({"GET", "a"}) + packed({"SET", "a", "1"}) + packed({"GET", "a"})) == null);
  CHECK_FALSE(c.session().wants_input());
  s.of.journal_advanced(0);
  CHECK(c.woken == 1);
  CHECK(c.take().empty());
  journal.too_much = false;
  s.of.journal_advanced(0);
  CHECK(c.woken == 2);
  CHECK(c.take() == ok + bulk("1"));
}

TEST_CASE("who has to wait for the journal is told, though it goes on while he is looked at") {
  for (int times = 1; times < 6; ++times) {
    CAPTURE(times);
    server s;
    fake_journal journal;
    journal.must_wait = false;
    journal.too_much_times = times;
    s.of.journal = &journal;
    client c(s);
    c.send(packed({"SET", "a", "1"}));
    for (int told = 1; !c.session().wants_input(); ++told) {
      s.of.journal_advanced(0);
      REQUIRE(c.woken == told);
      c.session().resume();
    }
    CHECK(c.take() == ok);
  }
}

TEST_CASE(
    "behind a journal that has too much to write, of EXECs only those wait that would write") {
  server s;
  fake_journal journal;
  journal.must_wait = false;
  s.of.journal = &journal;
  client c(s);
  client other(s);
  const auto begin = [&](client& who, const char* what) {
    CHECK(who("MULTI") == ok);
    CHECK(who(what) == "+QUEUED\r\n");
  };
  begin(c, "SET a 1");
  begin(other, "GET a");
  journal.too_much = true;
  CHECK(other("EXEC") == "*1\r\n" + null);
  CHECK(other("EXEC") == error("ERR EXEC without MULTI"));
  CHECK(c("EXEC").empty());
  CHECK_FALSE(c.session().wants_input());
  // When the journal refuses writes, no transaction waits.
  const std::string why = "MISCONF Errors writing to the AOF file: No space left on device";
  journal.is_full = true;
  s.of.journal_advanced(0);
  CHECK(c.take() == error("EXECABORT Transaction discarded because of: " + why));
  CHECK(other("MULTI") == ok);
  CHECK(other("SET a 1") == error(why));
  CHECK(other("EXEC") == error("EXECABORT Transaction discarded because of previous errors."));
  begin(other, "GET a");
  CHECK(other("EXEC") == "*1\r\n" + null);
}

TEST_CASE("the time of day may jump: what waits does not notice") {
  kv::settings values;
  values.client_output_buffer_limit = {.hard_bytes = 0, .soft_bytes = 10, .soft_seconds = 5};
  server s(values);
  client c(s);
  client slow(s);
  CHECK(c("CLIENT PAUSE 1000 WRITE") == ok);
  for (const std::int64_t hours : {2, -4}) {
    s.set_back(-hours * 3'600'000);
    slow.send(packed({"ECHO", "longer than that"}));
    CHECK(slow.session().ended() == kv::session::ending::no);
    s.of.tick(0);
    CHECK(c("SET a 1").empty());
    CHECK(c("INFO server").empty());
  }
  s.pass(1001);
  s.of.tick(0);
  CHECK(c.take().find("+OK\r\n") == 0);
  s.pass(5000);
  slow.send(packed({"PING"}));
  CHECK(slow.session().ended() == kv::session::ending::now);
}

TEST_CASE("where nothing can be written, nothing is changed") {
  server s;
  fake_journal journal;
  journal.must_wait = false;
  s.of.journal = &journal;
  client c(s);
  CHECK(c("SET a 1") == ok);
  journal.is_full = true;
  CHECK(c("SET a 2") == error("MISCONF Errors writing to the AOF file: No space left on device"));
  CHECK(c("GET a") == bulk("1"));
  CHECK(c("PING") == error("MISCONF Errors writing to the AOF file: No space left on device"));
  journal.is_full = false;
  CHECK(c("PING") == "+PONG\r\n");
  CHECK(c("MULTI") == ok);
  CHECK(c("SET a 3") == "+QUEUED\r\n");
  journal.is_full = true;
  CHECK(c("EXEC") == error("EXECABORT Transaction discarded because of: MISCONF Errors writing to "
                           "the AOF file: No space left on device"));
  CHECK(c("GET a") == bulk("1"));
  journal.must_wait = true;  // an error reveals no data, so it is sent at once
  journal.last = 1;
  CHECK(c("SET a 2").find("-MISCONF") == 0);
  CHECK(c("ECHO told") == bulk("told"));
  CHECK(c("GET a").empty());
  journal.must_wait = false;
  CHECK(c.take() == bulk("1"));
  journal.is_full = false;
  CHECK(c("SET a 2") == ok);
}

TEST_CASE("while the data is loaded only some commands are answered") {
  server s;
  client c(s);
  s.of.loading = true;
  CHECK(c("GET a") == error("LOADING Redis is loading the dataset in memory"));
  CHECK(c("PING") == error("LOADING Redis is loading the dataset in memory"));
  CHECK(c("INFO persistence").find("loading:1\r\n") != std::string::npos);
  s.of.loading = false;
  CHECK(c("GET a") == null);
}

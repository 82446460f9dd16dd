// The RESP client: replies read in pieces of any size, and servers that misbehave.
#include "../../apps/kv/cli/resp_client.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace kv::cli;
using namespace kv;
using kind = resp_value::kind;

namespace {

// Returns all values, read `piece` bytes at a time.
std::vector<resp_value> read_all(std::string_view bytes, std::size_t piece) {
  value_parser parser;
  std::vector<resp_value> all;
  while (!bytes.empty()) {
    const std::span<char> room = parser.room();
    const std::size_t n = std::min({piece, bytes.size(), room.size()});
    std::memcpy(room.data(), bytes.data(), n);
    parser.received(n);
    bytes.remove_prefix(n);
    for (resp_value v; parser.next(v); v = {}) all.push_back(v);
  }
  return all;
}

resp_value read_one(std::string_view bytes) {
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    CAPTURE(piece);
    const std::vector<resp_value> all = read_all(bytes, piece);
    REQUIRE(all.size() == 1);
    if (piece == bytes.size()) return all.front();
  }
  return {};
}

// Listens at a path, and runs a script with one client.
class script_server {
 public:
  explicit script_server(std::function<void(int)> script)
      : path_("/tmp/kv-resp-test-" + std::to_string(::getpid()) + "-" +
              std::to_string(reinterpret_cast<std::uintptr_t>(this))),
        listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path_.data(), path_.size());
    REQUIRE(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(::listen(listening_.get(), 1) == 0);
    thread_ = std::thread([this, script = std::move(script)] {
      const cordma::unique_fd peer(::accept(listening_.get(), nullptr, nullptr));
      script(peer.get());
    });
  }
  ~script_server() {
    thread_.join();
    ::unlink(path_.c_str());
  }
  script_server(const script_server&) = delete;
  script_server& operator=(const script_server&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  cordma::unique_fd listening_;
  std::thread thread_;
};

void say(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(to, text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Returns the received bytes up to `end`, or up to the end of the connection.
std::string hear(int from, std::string_view end) {
  std::string all;
  char piece[4096];
  while (!all.ends_with(end)) {
    const ssize_t n = ::read(from, piece, sizeof piece);
    if (n <= 0) break;
    all.append(piece, static_cast<std::size_t>(n));
  }
  return all;
}

std::string failure_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "none";
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every kind of reply is read, in whatever pieces it comes") {
  CHECK(read_one("+OK\r\n").text == "OK");
  CHECK(read_one("-ERR no\r\n").is_error());
  CHECK(read_one(":-12\r\n").integer == -12);
  CHECK(read_one("$5\r\na\r\nbc\r\n").text == "a\r\nbc");
  CHECK(read_one("$0\r\n\r\n").what == kind::bulk);
  CHECK(read_one("$-1\r\n").is_nil());
  CHECK(read_one("*-1\r\n").is_nil());
  CHECK(read_one("_\r\n").is_nil());
  CHECK(read_one(",1.5\r\n").number == 1.5);
  CHECK(std::isinf(read_one(",-inf\r\n").number));
  CHECK(std::isnan(read_one(",nan\r\n").number));
  CHECK(read_one("#t\r\n").integer == 1);
  CHECK(read_one("#f\r\n").what == kind::boolean);
  CHECK(read_one("(123456789012345678901234567890\r\n").text == "123456789012345678901234567890");
  CHECK(read_one("!6\r\nERR no\r\n").is_error());
  CHECK(read_one("=8\r\ntxt:text\r\n").text == "text");
  CHECK(read_one("*0\r\n").what == kind::array);
  const resp_value map = read_one("%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:2\r\n~1\r\n+c\r\n");
  REQUIRE(map.items.size() == 4);
  CHECK(map.what == kind::map);
  CHECK(map.items[0].text == "a");
  REQUIRE(map.items[3].items.size() == 2);
  CHECK(map.items[3].items[1].what == kind::set);
  CHECK(map.items[3].items[1].items.front().text == "c");
}

TEST_CASE("replies that follow each other are read each by itself") {
  const std::string many = "+a\r\n*2\r\n$1\r\nb\r\n*1\r\n:3\r\n$-1\r\n*0\r\n:4\r\n";
  for (std::size_t piece = 1; piece <= many.size(); ++piece) {
    const std::vector<resp_value> all = read_all(many, piece);
    CAPTURE(piece);
    REQUIRE(all.size() == 5);
    CHECK(all[1].items[1].items[0].integer == 3);
    CHECK(all[2].is_nil());
    CHECK(all[4].integer == 4);
  }
}

TEST_CASE("what is no RESP is an error, and nothing is allocated for what it promises") {
  const std::string deep = [] {
    std::string text;
    for (std::size_t i = 0; i <= deepest_reply; ++i) text += "*1\r\n";
    return text;
  }();
  for (const std::string& bytes :
       {std::string("x\r\n"), std::string("\r\n"), std::string(":\r\n"), std::string(":1x\r\n"),
        std::string("$x\r\n"), std::string("$99999999999\r\n"), std::string("*99999999999\r\n"),
        std::string("%9000000000000000000\r\n"), std::string("$1\r\nabc\r\n"), std::string(",\r\n"),
        std::string(",one\r\n"), deep, std::string(longest_line_of_reply + 1, '+')}) {
    CAPTURE(bytes.substr(0, 40));
    CHECK_THROWS_AS(static_cast<void>(read_all(bytes, bytes.size())), resp_error);
  }
}

TEST_CASE("a command is the words that it has, whatever bytes they are") {
  std::string heard;
  {
    script_server server([&](int peer) {
      heard = hear(peer, "b\r\n");
      say(peer, "+OK\r\n");
    });
    resp_client client(server.path(), {});
    using namespace std::string_view_literals;
    CHECK(client.call({"SET"sv, "k\0y"sv, ""sv, "a\r\nb"sv}).text == "OK");
  }
  using namespace std::string_literals;
  CHECK(heard == "*4\r\n$3\r\nSET\r\n$3\r\nk\0y\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"s);
}

TEST_CASE("a password is said first, in the words of the protocol's version") {
  for (const unsigned version : {2U, 3U}) {
    for (const bool named : {false, true}) {
      std::string heard;
      {
        script_server server([&](int peer) {
          heard = hear(peer, "secret\r\n");
          say(peer, version == 3 ? "%1\r\n+proto\r\n:3\r\n" : "+OK\r\n");
        });
        const resp_client client(
            server.path(), {.user = named ? "me" : "", .password = "secret", .version = version});
      }
      CAPTURE(version);
      CAPTURE(named);
      CHECK(has(heard, version == 3 ? "HELLO\r\n$1\r\n3\r\n$4\r\nAUTH" : "AUTH"));
      CHECK(has(heard, "$2\r\nme\r\n") == named);
      CHECK(has(heard, "default") == (version == 3 && !named));
    }
  }
}

TEST_CASE("a server that does not admit it is an error in the server's words") {
  script_server server([](int peer) {
    hear(peer, "no\r\n");
    say(peer, "-WRONGPASS invalid\r\n");
  });
  const std::string why =
      failure_of([&] { const resp_client client(server.path(), {.password = "no"}); });
  CHECK(has(why, "WRONGPASS invalid"));
  CHECK(has(why, server.path()));
}

TEST_CASE("commands and replies of many megabytes pass each other, and neither side waits") {
  constexpr int commands = 200;
  const std::string value(100'000, 'v');
  const std::size_t one = value.size() + std::string("*2\r\n$4\r\nECHO\r\n$100000\r\n\r\n").size();
  script_server server([&](int peer) {
    // Acts as a server that reads nothing while a client does not read its responses.
    char piece[4096];
    std::size_t heard = 0;
    std::size_t answered = 0;
    for (ssize_t n; (n = ::read(peer, piece, sizeof piece)) > 0;) {
      heard += static_cast<std::size_t>(n);
      for (; answered < heard / one; ++answered) {
        say(peer, "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
      }
    }
  });
  resp_client client(server.path(), {});
  for (int i = 0; i < commands; ++i) client.add({"ECHO", value});
  client.flush();
  for (int i = 0; i < commands; ++i) REQUIRE(client.receive().text.size() == value.size());
}

TEST_CASE("what nobody asked for is passed over") {
  script_server server([](int peer) {
    hear(peer, "GET\r\n");
    say(peer, ">2\r\n+invalidate\r\n*1\r\n+k\r\n+OK\r\n");
  });
  resp_client client(server.path(), {.version = 2});
  CHECK(client.call({"GET"}).text == "OK");
}

TEST_CASE("a server that goes away, or says nothing, is an error that says so") {
  SUBCASE("goes away") {
    script_server server([](int peer) {
      hear(peer, "PING\r\n");
      say(peer, "+PO");
    });
    resp_client client(server.path(), {});
    CHECK(has(failure_of([&] { client.call({"PING"}); }), "closed the connection"));
  }
  SUBCASE("says nothing") {
    script_server server([](int peer) { hear(peer, "never"); });
    resp_client client(server.path(), {.timeout = std::chrono::milliseconds(20)});
    CHECK(has(failure_of([&] { client.call({"PING"}); }), "no answer within 20 ms"));
  }
  SUBCASE("reads nothing") {
    script_server server([](int peer) {
      pollfd at{.fd = peer, .events = POLLRDHUP, .revents = 0};
      ::poll(&at, 1, -1);
    });
    resp_client client(server.path(), {.timeout = std::chrono::milliseconds(20)});
    client.add({"ECHO", std::string(20'000'000, 'x')});
    CHECK(has(failure_of([&] { client.flush(); }), "no answer within 20 ms"));
  }
  SUBCASE("is none") {
    CHECK(has(failure_of([] { const resp_client client("/nowhere/at.all", {}); }),
              "/nowhere/at.all: No such file"));
    CHECK(has(failure_of([] { const resp_client client(std::string(200, '/'), {}); }),
              "the path is too long"));
    CHECK(has(failure_of([] { const resp_client client("127.0.0.1:0", {}); }), "127.0.0.1:0: "));
  }
}

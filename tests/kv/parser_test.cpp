// Cuts requests out of bytes: complete ones, pieces, and invalid ones.
#include "../../apps/kv/resp/request_parser.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace kv;
using outcome = request_parser::outcome;
using words = std::vector<std::string>;

namespace {

struct reading {
  std::vector<words> commands;
  std::string why;  // the error, if it failed
  std::size_t left = 0;
};

// Feeds `piece` more bytes at a time, each time at another address, as a session does that keeps
// unread bytes.
reading read_in_pieces(std::string_view bytes, std::size_t piece, const parse_limits& limits = {}) {
  request_parser parser;
  reading got;
  std::string kept;
  for (std::size_t given = 0; given < bytes.size();) {
    const std::string_view more = bytes.substr(given, piece);
    given += more.size();
    const std::string input = kept + std::string(more);
    std::size_t at = 0;
    for (;;) {
      request_parser::request r;
      parser.forget();
      const outcome o = parser.next(input, at, limits, r);
      if (o == outcome::failed) {
        got.why = parser.why();
        return got;
      }
      at = r.end;
      if (o == outcome::incomplete) break;
      const auto args = parser.args(r);
      got.commands.emplace_back(args.begin(), args.end());
    }
    kept = input.substr(at);
  }
  got.left = kept.size();
  return got;
}

std::string why_of(std::string_view bytes, const parse_limits& limits = {}) {
  return read_in_pieces(bytes, bytes.size(), limits).why;
}

}  // namespace

TEST_CASE("commands are the same however their bytes come") {
  const std::string big(70'000, 'b');
  const std::string bytes =
      "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*0\r\n*-1\r\n\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$"
      "70000\r\n" +
      big + "\r\n*1\r\n$6\r\na\r\nb\rc\r\nset \"a b\" 'c'\n*1\r\n$2\r\nxx";
  const std::vector<words> expected{
      {"GET", "k"}, {"PING"}, {"SET", "", big}, {"a\r\nb\rc"}, {"set", "a b", "c"}};
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{1000}, bytes.size()}) {
    CAPTURE(piece);
    const reading got = read_in_pieces(bytes, piece);
    CHECK(got.why.empty());
    CHECK(got.commands == expected);
    CHECK(got.left == std::string_view("*1\r\n$2\r\nxx").size());
  }
}

TEST_CASE("what is wrong is told in Redis's words") {
  CHECK(why_of("*x\r\n") == "ERR Protocol error: invalid multibulk length");
  CHECK(why_of("*2147483648\r\n") == "ERR Protocol error: invalid multibulk length");
  CHECK(why_of("*1\r\n$x\r\n") == "ERR Protocol error: invalid bulk length");
  CHECK(why_of("*1\r\n$-1\r\n") == "ERR Protocol error: invalid bulk length");
  CHECK(why_of("*1\r\n$536870913\r\n") == "ERR Protocol error: invalid bulk length");
  CHECK(why_of("*1\r\nPING\r\n") == "ERR Protocol error: expected '$', got 'P'");
  CHECK(why_of("a \"b\r\n") == "ERR Protocol error: unbalanced quotes in request");
  CHECK(why_of("a 'b'c\r\n") == "ERR Protocol error: unbalanced quotes in request");
  const std::string long_line((64 << 10) + 1, '1');
  CHECK(why_of("*" + long_line) == "ERR Protocol error: too big mbulk count string");
  CHECK(why_of("*1\r\n$" + long_line) == "ERR Protocol error: too big bulk count string");
  CHECK(why_of(long_line) == "ERR Protocol error: too big inline request");
}

TEST_CASE("whoever has not said who he is may say little") {
  parse_limits limits;
  limits.authenticated = false;
  CHECK(why_of("*11\r\n", limits) == "ERR Protocol error: unauthenticated multibulk length");
  CHECK(why_of("*1\r\n$16385\r\n", limits) == "ERR Protocol error: unauthenticated bulk length");
  CHECK(why_of("*10\r\n$16384\r\n", limits).empty());
}

TEST_CASE("a request has a bound, also where its arguments are short") {
  parse_limits limits;
  limits.request_bytes = 4096;
  std::string many = "*100000\r\n";
  for (int i = 0; i < 300; ++i) many += "$0\r\n\r\n";
  CHECK(why_of(many, limits) == "ERR Protocol error: request above client-query-buffer-limit");
  CHECK(why_of("*1\r\n$5000\r\n" + std::string(4100, 'x'), limits) ==
        "ERR Protocol error: request above client-query-buffer-limit");
}

TEST_CASE("quotes of inline commands are read as Redis reads them") {
  const auto one = [](std::string_view line) {
    const reading got = read_in_pieces(line, line.size());
    REQUIRE(got.commands.size() == 1);
    return got.commands[0];
  };
  CHECK(one("a  \t b \r\n") == words{"a", "b"});
  CHECK(one("a \"\\x41\\n\\t\\\"\\q\"\n") == words{"a", "A\n\t\"q"});
  CHECK(one("a 'it\\'s' \"\"\n") == words{"a", "it's", ""});
  CHECK(one("a x\"y z\"\n") == words{"a", "xy z"});
}

TEST_CASE("a long argument that is under way is worth a place of its own") {
  request_parser parser;
  request_parser::request r;
  std::string input = "*2\r\n$3\r\nSET\r\n$40000\r\nabc";
  CHECK(parser.next(input, 0, {}, r) == outcome::incomplete);
  CHECK(parser.missing_bytes() == 40'000 - 3 + 2);
  input += std::string(40'000 - 3, 'x') + "\r\n";
  CHECK(parser.next(input, 0, {}, r) == outcome::complete);
  CHECK(parser.missing_bytes() == 0);
  CHECK(parser.args(r)[1].size() == 40'000);
}

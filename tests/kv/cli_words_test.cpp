// Input and output of cordma-kv-cli: splits lines into words and formats replies.
#include "../../apps/kv/cli/print.hpp"
#include "../../apps/kv/resp/words.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace kv::cli;
using kv::resp_value;
using kv::split_words;
using kind = resp_value::kind;
using words = std::vector<std::string>;

TEST_CASE("a line is words between spaces, and quotes keep spaces and bytes") {
  CHECK(split_words("") == words{});
  CHECK(split_words("  get\tkey \r") == words{"get", "key"});
  CHECK(split_words(R"(set "a b" 'c d')") == words{"set", "a b", "c d"});
  CHECK(split_words(R"(x "" '')") == words{"x", "", ""});
  CHECK(split_words(R"("\x00\xff\n\t\r\a\b\"\\\q\xzz")") ==
        words{std::string("\0\xff\n\t\r\a\b\"\\qxzz", 13)});
  CHECK(split_words(R"('it\'s \n')") == words{"it's \\n"});
  CHECK(split_words(R"(a"b c"d)") == std::nullopt);
  CHECK(split_words(R"(a"b c")") == words{"ab c"});
  for (const char* const bad : {"\"", "'", "\"a", "'a\\'", "\"a\\", "\"a\"b", "'a'b"}) {
    CAPTURE(bad);
    CHECK(split_words(bad) == std::nullopt);
  }
}

TEST_CASE(
    "replies are shown to people with what they are, and nothing reaches the terminal as it is") {
  CHECK(to_pretty({}) == "(nil)\n");
  CHECK(to_pretty(resp_value::of_status("OK")) == "OK\n");
  CHECK(to_pretty(resp_value::of_integer(-3)) == "(integer) -3\n");
  CHECK(to_pretty(resp_value::of_bulk("a\"\x1b[2J\n\xc3")) == "\"a\\\"\\x1b[2J\\n\\xc3\"\n");
  CHECK(to_pretty(resp_value::of_error("ERR \x1b[2J")) == "(error) ERR \\x1b[2J\n");
  CHECK(to_pretty({.what = kind::number, .number = 0.5}) == "(double) 0.5\n");
  resp_value list{.what = kind::array};
  CHECK(to_pretty(list) == "(empty)\n");
  list.items = {resp_value::of_bulk("a"), {}, resp_value{.what = kind::array}};
  list.items.back().items = {resp_value::of_integer(1), resp_value::of_integer(2)};
  CHECK(to_pretty(list) == "1) \"a\"\n2) (nil)\n3) 1) (integer) 1\n   2) (integer) 2\n");
  resp_value map{.what = kind::map};
  map.items = {resp_value::of_bulk("k"), resp_value::of_integer(1)};
  CHECK(to_pretty(map) == "1# \"k\" => (integer) 1\n");
}

TEST_CASE("replies are written for programs as they are, or as JSON that loses nothing") {
  CHECK(to_raw(resp_value::of_bulk(std::string("a\0\xff", 3))) == std::string("a\0\xff\n", 4));
  CHECK(to_json_line({}) == "null\n");
  CHECK(to_json_line(resp_value::of_bulk("a\"\n")) == "\"a\\\"\\n\"\n");
  CHECK(to_json_line(resp_value::of_bulk("\xff")) == "{\"base64\":\"/w==\"}\n");
  CHECK(to_json_line(resp_value::of_bulk("\xff\xfe")) == "{\"base64\":\"//4=\"}\n");
  CHECK(to_json_line(resp_value::of_bulk("\xff\xfe\xfd")) == "{\"base64\":\"//79\"}\n");
  CHECK(to_json_line(resp_value::of_error("ERR no")) == "{\"error\":\"ERR no\"}\n");
  resp_value map{.what = kind::map};
  map.items = {resp_value::of_bulk("k"), resp_value{.what = kind::boolean, .integer = 1},
               resp_value::of_integer(2), resp_value{.what = kind::number, .number = 1.5}};
  CHECK(to_json_line(map) == "{\"k\":true,\"2\":1.5}\n");
}

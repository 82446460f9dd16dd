// SCAN, HSCAN and KEYS: every element is returned at least once.
#include "resp_ground.hpp"

#include <set>

using namespace kv_test;

namespace {

// Returns the bulk strings of a reply, in order.
std::vector<std::string> bulks(std::string_view reply) {
  std::vector<std::string> found;
  while (!reply.empty()) {
    const std::size_t end = reply.find("\r\n");
    const std::string_view line = reply.substr(0, end);
    reply.remove_prefix(end + 2);
    if (line[0] != '$') continue;
    const std::size_t size = std::stoul(std::string(line.substr(1)));
    found.emplace_back(reply.substr(0, size));
    reply.remove_prefix(size + 2);
  }
  return found;
}

// Returns all elements of a complete scan; `more` is called between two calls.
template <class Between>
std::multiset<std::string> walk(client& c, const std::string& before, const std::string& behind,
                                Between more) {
  std::multiset<std::string> all;
  std::string cursor = "0";
  int calls = 0;
  do {
    const std::vector<std::string> given = bulks(c(before + ' ' + cursor + behind));
    REQUIRE(!given.empty());
    cursor = given[0];
    all.insert(given.begin() + 1, given.end());
    more();
    REQUIRE(++calls < 100'000);
  } while (cursor != "0");
  return all;
}

}  // namespace

TEST_CASE("SCAN gives each key [shards]") {
  for (const std::uint32_t shards : {1U, 3U}) {
    server s({}, shards);
    client c(s);
    for (int i = 0; i < 2000; ++i) c({"SET", "key:" + std::to_string(i), "v"});
    c("HSET hash f v");
    const auto all = walk(c, "SCAN", "", [] {});
    const std::set<std::string> each(all.begin(), all.end());
    CHECK(each.size() == 2001);
    const auto some = walk(c, "SCAN", " MATCH key:1?? COUNT 100", [] {});
    CHECK(std::set<std::string>(some.begin(), some.end()).size() == 100);
    const auto hashes = walk(c, "SCAN", " TYPE hash COUNT 1000", [] {});
    CHECK(std::set<std::string>(hashes.begin(), hashes.end()) == std::set<std::string>{"hash"});
    CHECK(walk(c, "SCAN", " TYPE list", [] {}).empty());
  }
}

TEST_CASE("SCAN gives what is there all the time, whatever else comes and goes") {
  server s({}, 2);
  client c(s);
  for (int i = 0; i < 500; ++i) c({"SET", "stays:" + std::to_string(i), "v"});
  int n = 0;
  const auto all = walk(c, "SCAN", "", [&] {
    if (n >= 3000) return;
    for (int i = 0; i < 50; ++i, ++n) c({"SET", "comes:" + std::to_string(n), "v"});
    c({"DEL", "comes:" + std::to_string(n / 2)});
  });
  for (int i = 0; i < 500; ++i) CHECK(all.contains("stays:" + std::to_string(i)));
}

TEST_CASE("what SCAN refuses") {
  server s;
  client c(s);
  CHECK(c("SCAN x") == error("ERR invalid cursor"));
  CHECK(c("SCAN 0 COUNT 0") == error("ERR syntax error"));
  CHECK(c("SCAN 0 COUNT x") == error("ERR value is not an integer or out of range"));
  CHECK(c("SCAN 0 FOO 1") == error("ERR syntax error"));
  CHECK(c("SCAN 0 MATCH") == error("ERR syntax error"));
  CHECK(bulks(c("SCAN 18446744073709551615"))[0] == "0");
}

TEST_CASE("a cursor is what Redis takes for one") {
  server s;
  client c(s);
  for (const std::string_view cursor : {"-1", "-0", "+0", "-18446744073709551615"}) {
    CHECK(c({"SCAN", cursor}) == "*2\r\n" + bulk("0") + "*0\r\n");
    CHECK(c({"HSCAN", "nokey", cursor}) == "*2\r\n" + bulk("0") + "*0\r\n");
  }
  for (const std::string_view cursor :
       {"-", "+", "+-1", " 1", "1 ", "18446744073709551616", "-18446744073709551616", "0x1"}) {
    CHECK(c({"SCAN", cursor}) == error("ERR invalid cursor"));
    CHECK(c({"HSCAN", "nokey", cursor}) == error("ERR invalid cursor"));
  }
}

TEST_CASE("HSCAN gives each field of a large hash") {
  server s;
  client c(s);
  for (int i = 0; i < 3000; ++i) c({"HSET", "h", "f" + std::to_string(i), "v"});
  int n = 0;
  const auto all =
      walk(c, "HSCAN h", " COUNT 50", [&] { c({"HSET", "h", "g" + std::to_string(n++), "v"}); });
  for (int i = 0; i < 3000; ++i) CHECK(all.contains("f" + std::to_string(i)));
  CHECK(c("HSCAN nokey 0") == "*2\r\n" + bulk("0") + "*0\r\n");
  c("HSET small a 1");
  CHECK(c("HSCAN small 0") == "*2\r\n" + bulk("0") + "*2\r\n" + bulk("a") + bulk("1"));
  CHECK(c("HSCAN small 0 MATCH b*") == "*2\r\n" + bulk("0") + "*0\r\n");
}

TEST_CASE("KEYS") {
  server s({}, 3);
  client c(s);
  c("MSET one 1 two 2 three 3");
  const auto found = bulks(c("KEYS t*"));
  CHECK(std::set<std::string>(found.begin(), found.end()) == std::set<std::string>{"two", "three"});
  CHECK(c("KEYS x") == "*0\r\n");
}

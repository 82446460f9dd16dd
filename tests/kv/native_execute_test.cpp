// Effects of native operations on a keyspace, without a connection.
#include "../../apps/kv/native/execute.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace kv;
using kv::native::op;
using kv::native::op_head;
using kv::native::outcome;
using kv::native::status;

namespace {

constexpr unix_ms today = 1'700'000'000'000;

struct ground {
  keyspace keys{memory(), {.hash_seed = 7}};
  std::array<std::byte, 1024> into;

  static std::vector<std::unique_ptr<memory_source>> memory() {
    std::vector<std::unique_ptr<memory_source>> one;
    one.push_back(std::make_unique<plain_memory>());
    return one;
  }
  // Runs one operation; its result's value may have `room` bytes.
  outcome run(op_head head, std::string_view key, std::string_view value = {},
              std::size_t room = 512) {
    return run(head, key, value, room, {.now = today});
  }
  outcome run(op_head head, std::string_view key, std::string_view value, std::size_t room,
              const native::circumstances& at) {
    std::array<std::byte, 1024> request;
    head.key_bytes = static_cast<std::uint16_t>(key.size());
    head.value_bytes = static_cast<std::uint32_t>(value.size());
    native::writer to(request);
    REQUIRE(to.put(head, key, value));
    const native::executed done =
        native::execute(keys, std::span(request).first(to.written()),
                        std::span(into).first(sizeof(native::result_head) + room), at);
    std::span<const std::byte> answer = std::span(into).first(done.bytes);
    const std::optional<outcome> o = native::take_outcome(answer);
    REQUIRE(o);
    return *o;
  }
  std::string get(std::string_view key) { return std::string(run({.what = op::get}, key).value); }
};

}  // namespace

TEST_CASE("a sum takes for a number what INCR takes for one") {
  ground g;
  for (const std::string_view text : {"007", "-0", "+1", "", " 1", "1 ", "9223372036854775808"}) {
    CAPTURE(text);
    g.run({.what = op::set}, "n", text);
    CHECK(g.run({.what = op::add, .argument = 1}, "n").head.outcome == status::not_a_number);
    CHECK(g.get("n") == text);
  }
  g.run({.what = op::set}, "n", "-9223372036854775808");
  CHECK(g.run({.what = op::add, .argument = 1}, "n").value == "-9223372036854775807");
}

TEST_CASE("a sum that its result has no room for is not made") {
  ground g;
  g.run({.what = op::set}, "n", "99999");
  const outcome o = g.run({.what = op::add, .argument = 1}, "n", {}, 5);
  CHECK(o.head.outcome == status::too_long);
  CHECK(o.head.value_bytes == 6);
  CHECK(g.get("n") == "99999");
  CHECK(g.run({.what = op::add, .argument = 1}, "n", {}, 6).value == "100000");
}

TEST_CASE("a time that no clock can say is refused, and nothing changes") {
  constexpr std::uint64_t last = std::numeric_limits<std::int64_t>::max();
  ground g;
  g.run({.what = op::set}, "k", "v");
  for (const std::uint64_t when : {last + 1, std::numeric_limits<std::uint64_t>::max()}) {
    CHECK(g.run({.what = op::set, .argument = when}, "k", "w").head.outcome ==
          status::no_such_time);
    CHECK(g.run({.what = op::expire, .argument = when}, "k").head.outcome == status::no_such_time);
  }
  CHECK(g.get("k") == "v");
  CHECK(g.run({.what = op::expire, .argument = last}, "k").head.outcome == status::done);
  CHECK(g.run({.what = op::get}, "k").head.expiry == last);
}

TEST_CASE("a key that would be another database's is refused, and what follows is not looked at") {
  ground g;
  const std::string other = std::string(database_mark) + '\x05' + "k";
  const hashed_key k = g.keys.key(other);
  REQUIRE(g.keys.of(k).put(k, "five") == put_outcome::done);
  for (const op what : {op::get, op::set, op::erase}) {
    CHECK(g.run({.what = what}, other, what == op::set ? "mine" : "").head.outcome ==
          status::malformed);
  }
  CHECK(g.keys.of(k).peek(k).value == "five");
  CHECK(g.run({.what = op::set}, "\0\xFFk", "v").head.outcome == status::done);
}

TEST_CASE("what expires is not erased while that is to be so, and is not found") {
  ground g;
  g.run({.what = op::set, .argument = today + 10}, "k", "v");
  const native::circumstances later{.now = today + 20, .expired = native::expired_items::kept};
  CHECK(g.run({.what = op::get}, "k", {}, 512, later).head.outcome == status::absent);
  CHECK(g.keys.at(0).size() == 1);
  CHECK(g.run({.what = op::get}, "k", {}, 512, {.now = today + 20}).head.outcome == status::absent);
  CHECK(g.keys.at(0).size() == 0);
}

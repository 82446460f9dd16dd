// The store compared with a model: every value that was put is found complete, and nothing else is.
#include "../../apps/kv/store/store.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

using namespace kv;
using cordma::test::dice;

namespace {

constexpr unix_ms start_of_time = 1'700'000'000'000;

struct ground {
  plain_memory memory;
  store keys;
  explicit ground(const store_options& o = {}) : keys(memory, o) { keys.tick(start_of_time); }
  put_outcome put(std::string_view key, std::string_view value, unix_ms expiry = never_expires) {
    return keys.put(keys.key(key), value, expiry);
  }
  std::optional<std::string> get(std::string_view key) {
    const found f = keys.find(keys.key(key));
    return f ? std::optional<std::string>(f.value) : std::nullopt;
  }
};

std::string text(std::uint64_t number) { return "key:" + std::to_string(number); }

std::string some_value(dice& d, std::size_t most) {
  std::string v(d.below(most + 1), '\0');
  for (char& c : v) c = static_cast<char>(d.below(256));
  return v;
}

}  // namespace

TEST_CASE("what was put is found as it was put; what was erased is not [a model, 300,000 steps]") {
  ground g({.hash_seed = 42});
  dice d(1);
  std::unordered_map<std::string, std::string> model;
  for (int step = 0; step < 300'000; ++step) {
    const std::string key = text(d.below(20'000));
    const std::size_t what = d.below(10);
    if (what < 5) {
      const std::string value = some_value(d, what == 0 ? 5'000 : 100);
      REQUIRE(g.put(key, value) == put_outcome::done);
      model[key] = value;
    } else if (what < 7) {
      CHECK(g.keys.erase(g.keys.key(key)) == (model.erase(key) == 1));
    } else {
      const auto got = g.get(key);
      const auto want = model.find(key);
      REQUIRE(got.has_value() == (want != model.end()));
      if (got) REQUIRE(*got == want->second);
    }
  }
  CHECK(g.keys.size() == model.size());
  for (const auto& [key, value] : model) REQUIRE(g.get(key) == value);
}

TEST_CASE("keys and values may be any bytes, empty and as long as is allowed") {
  ground g;
  const std::string longest(max_key_bytes, 'k');
  const std::string odd("\0\r\n\xff", 4);
  for (const std::string& key : {std::string(), odd, longest}) {
    for (const std::size_t bytes : {0UL, 1UL, 65'000UL, 65'536UL, 1'048'576UL, 5'000'000UL}) {
      const std::string value(bytes, '\x81');
      REQUIRE(g.put(key, value) == put_outcome::done);
      REQUIRE(g.get(key) == value);
    }
  }
  CHECK(g.keys.size() == 3);
}

TEST_CASE("an item that another one has taken the place of says that it is dead") {
  ground g;
  g.put("a", "first");
  const found f = g.keys.find(g.keys.key("a"));
  CHECK_FALSE(f.at->dead());
  const item* const old = f.at;
  g.put("a", "second");
  CHECK(old->dead());
  CHECK(g.get("a") == "second");
}

TEST_CASE("a value may be made of views of the key's own value, also where room is made for it") {
  ground g;
  std::string model;
  g.put("log", "");
  for (int i = 0; i < 20'000; ++i) {
    const std::string more = std::to_string(i);
    const found f = g.keys.find(g.keys.key("log"));
    const std::string_view pieces[] = {f.value, more};
    REQUIRE(g.keys.put(g.keys.key("log"), pieces) == put_outcome::done);
    model += more;
    g.put(text(static_cast<std::uint64_t>(i) % 100), model);
  }
  CHECK(g.get("log") == model);
}

TEST_CASE("what is overwritten for ever takes no more memory than a few segments") {
  ground g;
  for (int i = 0; i < 1'000'000; ++i)
    g.put(text(static_cast<std::uint64_t>(i) % 1000), "0123456789");
  CHECK(g.keys.usage().bytes < 12 * segment_bytes);
  CHECK(g.keys.size() == 1000);
}

TEST_CASE(
    "where values of many lengths come and go, dead bytes stay within a third and some segments") {
  ground g;
  dice d(1);
  std::map<std::string, std::size_t> model;
  std::size_t live = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string key = text(d.below(10'000));
    const std::size_t bytes = d.below(4'000);
    REQUIRE(g.put(key, std::string(bytes, 'x')) == put_outcome::done);
    live += bytes - model[key];
    model[key] = bytes;
  }
  CHECK(g.keys.usage().live_bytes >= live);
  CHECK(g.keys.usage().bytes < live * 3 / 2 + 16 * segment_bytes);
  for (const auto& [key, bytes] : model) REQUIRE(g.get(key)->size() == bytes);
}

TEST_CASE("what has expired is not found, counts no more, and is swept") {
  ground g;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    g.put(text(i), "v", i % 2 == 0 ? start_of_time + 1 + i : never_expires);
  }
  CHECK(g.keys.volatile_size() == 5'000);
  g.keys.tick(start_of_time + 1);
  CHECK_FALSE(g.get(text(0)));
  CHECK(g.get(text(1)));
  CHECK(g.get(text(2)));
  g.keys.tick(start_of_time + 5'000);
  int calls = 0;
  while (g.keys.sweep(1'000)) ++calls;
  CHECK(calls < 100);
  CHECK(g.keys.size() == 5'000 + 2'500);
  CHECK(g.keys.volatile_size() == 2'500);
  CHECK_FALSE(g.keys.sweep(1'000));
}

TEST_CASE("an expiry is set, changed and taken away, and one that has passed erases") {
  ground g;
  const hashed_key k = g.keys.key("k");
  CHECK_FALSE(g.keys.set_expiry(k, start_of_time + 5).has_value());
  g.put("k", "v");
  const std::uint64_t first = g.keys.last_version();
  CHECK(g.keys.set_expiry(k, start_of_time + 5) == put_outcome::done);
  CHECK(g.keys.find(k).at->expiry() == start_of_time + 5);
  CHECK(g.keys.find(k).at->version == g.keys.last_version());
  CHECK(g.keys.last_version() > first);
  CHECK(g.keys.set_expiry(k, never_expires) == put_outcome::done);
  g.keys.tick(start_of_time + 6);
  CHECK(g.get("k") == "v");
  CHECK(g.keys.set_expiry(k, start_of_time) == put_outcome::done);
  CHECK_FALSE(g.get("k"));
}

TEST_CASE("a scan gives every key that is there all the time, though the index grows meanwhile") {
  ground g;
  for (std::uint64_t i = 0; i < 5'000; ++i) g.put(text(i), "v");
  std::map<std::string, int> seen;
  std::uint32_t cursor = 0;
  std::uint64_t added = 5'000;
  do {
    cursor = g.keys.scan(cursor, [&](const found& f) { ++seen[std::string(f.at->key())]; });
    for (int i = 0; i < 20; ++i) g.put(text(added++), "v");
  } while (cursor != 0 && added < 1'000'000);
  CHECK(cursor == 0);
  for (std::uint64_t i = 0; i < 5'000; ++i) REQUIRE(seen.contains(text(i)));
}

TEST_CASE(
    "without eviction writes are refused at the limit, reads and erasing go on, and room comes "
    "back") {
  ground g({.max_bytes = 16 * segment_bytes});
  std::uint64_t n = 0;
  while (g.put(text(n), std::string(1'000, 'x')) == put_outcome::done) ++n;
  CHECK(n > 10'000);
  CHECK(g.keys.usage().bytes <= 16 * segment_bytes);
  CHECK(g.get(text(0)));
  CHECK(g.get(text(n - 1)));
  for (std::uint64_t i = 0; i < n; i += 2) g.keys.erase(g.keys.key(text(i)));
  std::uint64_t more = 0;
  while (more < n / 3 && g.put("more" + text(more), std::string(1'000, 'x')) == put_outcome::done) {
    ++more;
  }
  CHECK(more == n / 3);
  for (std::uint64_t i = 1; i < n; i += 2) REQUIRE(g.get(text(i)));
}

TEST_CASE(
    "without eviction what is erased makes room for as much, wherever it lay [64 bytes, 100 kB]") {
  constexpr std::size_t most = 12 * segment_bytes;
  const auto key = [](std::uint64_t number) { return text(1'000'000 + number); };
  for (const std::size_t bytes : {64UL, 100'000UL}) {
    CAPTURE(bytes);
    ground g({.max_bytes = most});
    std::uint64_t n = 0;
    while (g.put(key(n), std::string(bytes, 'x')) == put_outcome::done) ++n;
    REQUIRE(n > 50);
    dice d(1);
    for (int i = 0; i < 10'000; ++i) {
      const std::string one = key(d.below(n));
      REQUIRE(g.keys.erase(g.keys.key(one)));
      REQUIRE(g.put(one, std::string(bytes, 'y')) == put_outcome::done);
      REQUIRE(g.put(key(n), std::string(bytes, 'z')) == put_outcome::out_of_memory);
      REQUIRE(g.keys.usage().bytes <= most + segment_bytes);
    }
    for (std::uint64_t i = 0; i < n; ++i) REQUIRE(g.get(key(i))->size() == bytes);
  }
}

TEST_CASE("at the limit expiries are set and taken away, and memory stays within some segments") {
  constexpr std::size_t most = 8 * segment_bytes;
  ground g({.max_bytes = most});
  std::uint64_t n = 0;
  while (g.put(text(n), std::string(64, 'x')) == put_outcome::done) ++n;
  for (int round = 0; round < 4; ++round) {
    const unix_ms expiry = round % 2 == 0 ? start_of_time + 1'000'000 : never_expires;
    for (std::uint64_t i = 0; i < n; ++i) {
      REQUIRE(g.keys.set_expiry(g.keys.key(text(i)), expiry) == put_outcome::done);
    }
  }
  CHECK(g.keys.usage().bytes <= most + 2 * segment_bytes);
  CHECK(g.keys.size() == n);
}

TEST_CASE("a long value that fits when most is given up is put") {
  ground g({.max_bytes = 16 * segment_bytes, .policy = eviction::allkeys_lru});
  for (std::uint64_t i = 0; i < 20'000; ++i) g.put(text(i), std::string(500, 'v'));
  // Its overhead counts too, and leaves two complete segments for items.
  constexpr std::size_t bytes = 12 * segment_bytes - 1024;
  CHECK(g.put("k", std::string(bytes, 'x')) == put_outcome::done);
  CHECK(g.get("k")->size() == bytes);
  CHECK(g.keys.usage().bytes <= 16 * segment_bytes);
}

TEST_CASE("a value that can never fit is refused, and nothing is given up for it") {
  for (const eviction policy : {eviction::none, eviction::allkeys_lru, eviction::volatile_ttl}) {
    CAPTURE(name(policy));
    ground g({.max_bytes = 16 * segment_bytes, .policy = policy});
    for (std::uint64_t i = 0; i < 1'000; ++i) g.put(text(i), "v", start_of_time + 1'000'000);
    CHECK(g.put("k", std::string(15 * segment_bytes, 'x')) == put_outcome::out_of_memory);
    CHECK(g.keys.make_room(15 * segment_bytes) == put_outcome::out_of_memory);
    CHECK(g.keys.counters().evicted == 0);
    CHECK(g.keys.size() == 1'000);
  }
}

TEST_CASE(
    "with eviction no write is refused, memory stays below the limit, and what is used stays") {
  for (const eviction policy : {eviction::allkeys_lru, eviction::allkeys_lfu}) {
    CAPTURE(name(policy));
    ground g({.max_bytes = 32 * segment_bytes, .policy = policy});
    unix_ms now = start_of_time;
    for (std::uint64_t i = 0; i < 1'000; ++i) g.put("hot" + text(i), std::string(500, 'h'));
    for (std::uint64_t i = 0; i < 300'000; ++i) {
      REQUIRE(g.put(text(i), std::string(500, 'c')) == put_outcome::done);
      static_cast<void>(g.get("hot" + text(2 * i % 1'000)));
      static_cast<void>(g.get("hot" + text((2 * i + 1) % 1'000)));
      if (i % 100 == 0) g.keys.tick(now += 20);
      REQUIRE(g.keys.usage().bytes <= 33 * segment_bytes);
    }
    std::size_t hot = 0;
    for (std::uint64_t i = 0; i < 1'000; ++i) hot += g.get("hot" + text(i)).has_value() ? 1U : 0U;
    CHECK(hot > 950);
    CHECK(g.keys.counters().evicted > 100'000);
  }
}

TEST_CASE("long strings alone are given up too, though their items are few and lie together") {
  ground g({.max_bytes = 16 * segment_bytes, .policy = eviction::allkeys_lru});
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    REQUIRE(g.put(text(i), std::string(100'000, 'l')) == put_outcome::done);
    REQUIRE(g.keys.usage().bytes <= 18 * segment_bytes);
  }
  CHECK(g.keys.counters().evicted > 1'500);
  CHECK(g.keys.size() > 20);
}

TEST_CASE(
    "volatile policies give up what expires and nothing else; where nothing does, writes are "
    "refused") {
  for (const eviction policy : {eviction::volatile_lru, eviction::volatile_lfu,
                                eviction::volatile_random, eviction::volatile_ttl}) {
    CAPTURE(name(policy));
    ground g({.max_bytes = 24 * segment_bytes, .policy = policy});
    for (std::uint64_t i = 0; i < 2'000; ++i) g.put("kept" + text(i), std::string(500, 'k'));
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      REQUIRE(g.put(text(i), std::string(500, 'c'), start_of_time + 1'000'000 + i) ==
              put_outcome::done);
    }
    for (std::uint64_t i = 0; i < 2'000; ++i) REQUIRE(g.get("kept" + text(i)));
    bool refused = false;
    for (std::uint64_t i = 0; i < 100'000 && !refused; ++i) {
      refused = g.put("more" + text(i), std::string(500, 'm')) != put_outcome::done;
    }
    CHECK(refused);
  }
}

TEST_CASE("what was given up rests while there are readers, and not otherwise") {
  cordma::virtual_clock time;
  const auto pass = [&](int ms) { time.advance_to(time.now() + std::chrono::milliseconds(ms)); };
  ground g({.quarantine_ms = 100, .time = &time});
  const auto churn = [&] {
    for (int i = 0; i < 100'000; ++i) g.put("k", std::string(100, 'x'));
  };
  g.keys.readers(true);
  churn();
  const std::size_t resting = g.keys.usage().quarantined;
  CHECK(resting >= 10);
  pass(99);
  g.keys.tick(start_of_time + 3'600'000);  // the time of day may jump
  CHECK(g.keys.usage().quarantined == resting);
  pass(1);
  g.keys.tick(start_of_time - 3'600'000);
  CHECK(g.keys.usage().quarantined == 0);
  g.keys.readers(false);
  churn();
  CHECK(g.keys.usage().quarantined == 0);
}

TEST_CASE("while there are readers, what was given up stays as it was for the time of quarantine") {
  cordma::virtual_clock time;
  ground g({.quarantine_ms = 100, .time = &time});
  g.keys.readers(true);
  g.put("k", "the first value");
  const found f = g.keys.find(g.keys.key("k"));
  const std::string before(reinterpret_cast<const char*>(f.at), f.at->bytes());
  const auto churn = [&] {
    for (int i = 0; i < 200'000; ++i) g.put("k", std::string(200, 'x'));
  };
  const auto same = [&] {
    std::string now(reinterpret_cast<const char*>(f.at), before.size());
    now[offsetof(item, flags)] = before[offsetof(item, flags)];  // except the dead flag
    return now == before;
  };
  churn();
  CHECK(f.at->dead());
  CHECK(same());
  time.advance_to(time.now() + std::chrono::milliseconds(99));
  g.keys.tick(start_of_time + 1);
  churn();
  CHECK(same());
  time.advance_to(time.now() + std::chrono::milliseconds(200));
  g.keys.tick(start_of_time + 2);
  for (int i = 0; i < 4; ++i) churn();
  CHECK_FALSE(same());
}

TEST_CASE("hashes have fields, count in memory, and go with their last field") {
  ground g;
  const hashed_key k = g.keys.key("h");
  bool is_new = false;
  CHECK(g.keys.field_put(k, "f", "1", &is_new) == put_outcome::done);
  CHECK(is_new);
  CHECK(g.keys.field_put(k, "f", "22", &is_new) == put_outcome::done);
  CHECK_FALSE(is_new);
  CHECK(g.keys.find(k).fields->find("f") == "22");
  CHECK(g.keys.usage().object_bytes > 0);
  CHECK(g.keys.set_expiry(k, start_of_time + 50) == put_outcome::done);
  CHECK(g.keys.find(k).fields->find("f") == "22");
  CHECK(g.keys.field_erase(k, "f"));
  CHECK_FALSE(g.keys.find(k));
  CHECK(g.keys.usage().object_bytes == 0);
  CHECK(g.keys.field_put(k, "f", "1") == put_outcome::done);
  CHECK(g.put("h", "string now") == put_outcome::done);
  CHECK(g.keys.usage().object_bytes == 0);
}

namespace {

// Records the notifications that a journal would receive.
struct noting_sink final : change_sink {
  explicit noting_sink(bool on) noexcept : notes_all(on) {}
  void put(std::string_view key, std::string_view, unix_ms, std::uint64_t) noexcept override {
    lines.push_back("put " + std::string(key));
  }
  void erased(std::string_view key) noexcept override {
    lines.push_back("erased " + std::string(key));
  }
  void expiry_set(std::string_view key, unix_ms) noexcept override {
    lines.push_back("expiry " + std::string(key));
  }
  void field_put(std::string_view key, std::string_view field, std::string_view) noexcept override {
    lines.push_back("field " + std::string(key) + " " + std::string(field));
  }
  void field_erased(std::string_view, std::string_view) noexcept override {}
  void cleared() noexcept override {}
  [[nodiscard]] bool notes() const noexcept override { return notes_all; }
  bool notes_all;
  std::vector<std::string> lines;
};

}  // namespace

TEST_CASE("an object gets another name and stays where it is [hash, long string; noted or not]") {
  for (const bool noted : {true, false}) {
    CAPTURE(noted);
    ground g;
    noting_sink sink(noted);
    const hashed_key from = g.keys.key("from");
    const hashed_key to = g.keys.key("to");
    for (const char* const field : {"a", "b", "c"}) {
      CHECK(g.keys.field_put(from, field, "v") == put_outcome::done);
    }
    CHECK(g.keys.set_expiry(from, start_of_time + 50) == put_outcome::done);
    CHECK(g.keys.field_put(to, "old", "v") == put_outcome::done);
    const std::uint64_t before = g.keys.watch(from);
    const hash_value* const fields = g.keys.peek(from).fields;
    g.keys.report_to(&sink);
    CHECK(g.keys.rename(from, to) == put_outcome::done);
    CHECK_FALSE(g.keys.peek(from));
    CHECK(g.keys.changes(from) != before);
    CHECK(g.keys.peek(to).fields == fields);
    CHECK(fields->size() == 3);
    CHECK(g.keys.peek(to).at->expiry() == start_of_time + 50);
    CHECK(g.keys.size() == 1);
    using lines = std::vector<std::string>;
    if (noted) {
      CHECK(sink.lines == lines{"erased to", "erased from", "field to a", "field to b",
                                "field to c", "expiry to"});
    } else {
      CHECK(sink.lines == lines{"erased to", "erased from", "field to "});
    }
    sink.lines.clear();
    CHECK(g.put("from", std::string(200'000, 'x')) == put_outcome::done);
    const char* const text_at = g.keys.peek(from).value.data();
    CHECK(g.keys.rename(from, to) == put_outcome::done);
    CHECK(g.keys.peek(to).value.data() == text_at);
    CHECK(sink.lines == lines{"put from", "erased to", "put to", "erased from"});
    CHECK(g.keys.erase(to));
    CHECK(g.keys.usage().object_bytes == 0);
    g.keys.unwatch(from);
    g.keys.report_to(nullptr);
  }
}

TEST_CASE("long strings that were given up are freed bit by bit [one of 64 MiB, 100 of 1 MiB]") {
  for (const bool all : {false, true}) {
    CAPTURE(all);
    ground g;
    const std::size_t bytes = std::size_t{1} << (all ? 20 : 26);
    const std::string value(bytes, 'x');
    const int count = all ? 100 : 1;
    for (int i = 0; i < count; ++i)
      REQUIRE(g.put("k" + std::to_string(i), value) == put_outcome::done);
    const std::size_t before = g.keys.usage().object_bytes;
    if (all) {
      g.keys.clear(freeing::later);
    } else {
      CHECK(g.keys.erase(g.keys.key("k0"), freeing::later));
    }
    CHECK(g.keys.usage().object_bytes > before / 2);
    std::size_t held = g.keys.usage().object_bytes;
    std::size_t most = 0;  // freed in one call
    while (g.keys.free_some(1000)) {
      most = std::max(most, held - g.keys.usage().object_bytes);
      held = g.keys.usage().object_bytes;
    }
    CHECK(most > 0);
    CHECK(most <= 1000 * 4096);
    CHECK(g.keys.usage().object_bytes == 0);
  }
}

TEST_CASE(
    "of strings most of which are erased the segments go back bit by bit [without limit, LRU]") {
  constexpr std::uint64_t count = 200'000;
  for (const bool limited : {false, true}) {
    CAPTURE(limited);
    store_options how{.hash_seed = 42};
    if (limited) how.max_bytes = std::size_t{1} << 30;
    if (limited) how.policy = eviction::allkeys_lru;
    ground g(how);
    for (std::uint64_t i = 0; i < count; ++i) {
      REQUIRE(g.put(text(i), std::string(64, 'v')) == put_outcome::done);
    }
    CHECK_FALSE(g.keys.tidy(1000));  // nothing is dead
    CHECK(g.keys.counters().moved == 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i % 10 != 0) REQUIRE(g.keys.erase(g.keys.key(text(i))));
    }
    std::uint64_t moved = 0;
    while (g.keys.tidy(1000)) {
      REQUIRE(g.keys.counters().moved - moved <= 1000);
      moved = g.keys.counters().moved;
    }
    CHECK(moved >= count / 20);
    CHECK(moved <= count / 10);  // each once
    const store_usage held = g.keys.usage();
    // Besides the live data, a third of it and four segments may be dead; the rest is the segment
    // in use and the head.
    CHECK(held.bytes - held.index_bytes <= held.live_bytes * 4 / 3 + 8 * segment_bytes);
    CHECK(g.keys.counters().evicted == 0);
    for (std::uint64_t i = 0; i < count; i += 10) REQUIRE(g.get(text(i)) == std::string(64, 'v'));
  }
}

TEST_CASE(
    "places of objects count as they are held, and go back in whatever order [up, down, some]") {
  constexpr std::uint64_t count = 50'000;
  constexpr std::size_t chunk = 128 << 10;  // 4,096 slots
  for (const char* const order : {"up", "down", "some"}) {
    CAPTURE(order);
    ground g;
    for (std::uint64_t i = 0; i < count; ++i) {
      REQUIRE(g.keys.field_put(g.keys.key(text(i)), "f", "v") == put_outcome::done);
    }
    const bool some = *order == 's';
    for (std::uint64_t i = 0; i + 10 < count; ++i) {
      if (some && i % 10 == 0) continue;
      REQUIRE(g.keys.erase(g.keys.key(text(*order == 'd' ? count - 1 - i : i))));
    }
    while (g.keys.free_some(1000)) {}
    const std::size_t places = g.keys.usage().object_bytes - (some ? count / 10 : 10) * 64;
    if (some) CHECK(places >= (count / 4096 - 2) * chunk);
    if (!some) CHECK(g.keys.usage().object_bytes <= g.keys.usage().slab_bytes + 2 * chunk);
    g.keys.clear();
    CHECK(g.keys.usage().object_bytes == 0);
  }
}

TEST_CASE("a random key of one database is found among many of others, also the only one") {
  ground g;
  const std::string mine = std::string(database_mark) + '\x05';
  for (std::uint64_t i = 0; i < 100'000; ++i) REQUIRE(g.put(text(i), "v") == put_outcome::done);
  CHECK(g.keys.random(5) == nullptr);
  for (int i = 0; i < 20; ++i) REQUIRE(g.put(mine + std::to_string(i), "v") == put_outcome::done);
  for (int i = 0; i < 50; ++i) {
    const item* const one = g.keys.random(5);
    REQUIRE(one != nullptr);
    CHECK(one->key().starts_with(mine));
  }
  // Only the key that was put first remains.
  for (int i = 1; i < 20; ++i) CHECK(g.keys.erase(g.keys.key(mine + std::to_string(i))));
  REQUIRE(g.keys.random(5) != nullptr);
  CHECK(g.keys.random(5)->key() == mine + "0");
  CHECK(g.keys.random(0) != nullptr);
  CHECK(g.keys.random(1) == nullptr);
}

TEST_CASE("a large hash that was given up is freed bit by bit, and counts until then") {
  for (const bool all : {false, true}) {
    CAPTURE(all);
    ground g;
    const hashed_key k = g.keys.key("h");
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      CHECK(g.keys.field_put(k, text(i), "v") == put_outcome::done);
    }
    const std::size_t before = g.keys.usage().object_bytes;
    if (all) {
      g.keys.clear(freeing::later);
    } else {
      CHECK(g.keys.erase(k, freeing::later));
    }
    CHECK_FALSE(g.keys.find(k));
    CHECK(g.keys.usage().object_bytes > before / 2);
    CHECK(g.keys.field_put(k, "new", "one") == put_outcome::done);
    int slices = 1;
    while (g.keys.free_some(100)) ++slices;
    CHECK(slices >= 100);
    CHECK(slices <= 110);
    CHECK(g.keys.find(k).fields->size() == 1);
    CHECK(g.keys.erase(k));
    CHECK(g.keys.usage().object_bytes == 0);
  }
}

TEST_CASE("of few keys where there were many each is as likely to be chosen") {
  constexpr int times = 1'000;
  ground g({.hash_seed = 42});
  for (std::uint64_t i = 0; i < 20'000; ++i) g.put(text(i), std::string(100, 'v'));
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    if (i % 2'000 != 0) g.keys.erase(g.keys.key(text(i)));
  }
  std::map<std::string, int> chosen;
  for (int i = 0; i < times; ++i) ++chosen[std::string(g.keys.random()->key())];
  CHECK(chosen.size() == 10);
  for (const auto& [key, often] : chosen) {
    CAPTURE(key);
    CHECK(often > times / 10 / 2);
    CHECK(often < times / 10 * 2);
  }
}

TEST_CASE("a watched key's number changes with every change of it, and with no other") {
  ground g;
  const hashed_key k = g.keys.key("w");
  const std::uint64_t before = g.keys.watch(k);
  g.put("other", "v");
  CHECK(g.keys.changes(k) == before);
  g.put("w", "v");
  const std::uint64_t put = g.keys.changes(k);
  CHECK(put != before);
  g.keys.erase(k);
  CHECK(g.keys.changes(k) != put);
  const std::uint64_t erased = g.keys.changes(k);
  g.keys.clear();
  CHECK(g.keys.changes(k) == erased);  // it did not exist
  g.put("w", "v");
  const std::uint64_t again = g.keys.changes(k);
  g.keys.clear();
  CHECK(g.keys.changes(k) != again);
  g.keys.unwatch(k);
}

TEST_CASE("names that clients choose hash otherwise for each seed") {
  // Names of one bucket for one seed, as a client could find them.
  constexpr std::uint64_t buckets = 97;
  const seeded_hash known{1};
  const seeded_hash secret{2};
  std::array<std::size_t, buckets> in_bucket{};
  std::size_t found = 0;
  for (std::uint64_t i = 0; found < 1000; ++i) {
    if (known(text(i)) % buckets != 0) continue;
    ++found;
    ++in_bucket[secret(text(i)) % buckets];
  }
  CHECK(std::ranges::max(in_bucket) < 50);
  using watched_keys = std::unordered_map<std::string, int, seeded_hash, std::equal_to<>>;
  watched_keys all(0, known);
  all.emplace("k", 1);
  CHECK(all.find(std::string_view("k")) != all.end());
}

TEST_CASE("after clear() nothing is there, and everything works as on the first day") {
  ground g;
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < 50'000; ++i) g.put(text(i), "value");
    g.keys.clear();
    CHECK(g.keys.size() == 0);
    CHECK_FALSE(g.get(text(1)));
    CHECK(g.keys.random() == nullptr);
  }
  CHECK(g.keys.usage().bytes < 8 * segment_bytes);
}

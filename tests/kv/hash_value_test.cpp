// Compares the container of a hash's fields with std::map.
#include <doctest/doctest.h>

#include "../../apps/kv/store/hash_value.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace kv;

namespace {

using model = std::map<std::string, std::string>;

model all_of(const hash_value& h) {
  model m;
  h.for_each([&m](const hash_value::entry& e) {
    CHECK(m.emplace(std::string(e.field), std::string(e.value)).second);
  });
  return m;
}

std::string field(std::size_t n) { return "field:" + std::to_string(n); }

struct scanned {
  std::multiset<std::string> fields;
  std::size_t calls = 0;
  std::size_t most = 0;  // in one call
};

// Runs a complete scan and calls `between` between two of its calls.
template <class Between>
scanned scan_all(hash_value& h, std::size_t count, Between between) {
  scanned s;
  std::uint64_t at = 0;
  do {
    std::size_t given = 0;
    at = h.scan(at, count, [&](const hash_value::entry& e) {
      s.fields.emplace(e.field);
      ++given;
    });
    s.most = std::max(s.most, given);
    ++s.calls;
    between();
  } while (at != 0);
  return s;
}

}  // namespace

TEST_CASE("a hash does what a map does, however it grows and shrinks [20 seeds]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 dice(seed);
    hash_value h(seed);
    model m;
    const std::size_t names = seed % 2 == 0 ? 100 : 3000;
    for (int step = 0; step < 20'000; ++step) {
      const std::string name = field(dice() % names);
      const bool grows = (step / 5000) % 2 == 0;
      if (dice() % 8 < (grows ? 6U : 2U)) {
        const std::string value(dice() % (dice() % 50 == 0 ? 300 : 40),
                                static_cast<char>('a' + dice() % 26));
        CHECK(h.put(name, value) == m.insert_or_assign(name, value).second);
      } else {
        CHECK(h.erase(name) == (m.erase(name) != 0));
      }
      if (step % 512 == 0) {
        CHECK(h.size() == m.size());
        CHECK(all_of(h) == m);
        const hash_value copy = h;
        CHECK(all_of(copy) == m);
      }
      const std::string other = field(dice() % names);
      const auto found = h.find(other);
      const auto known = m.find(other);
      REQUIRE(found.has_value() == (known != m.end()));
      if (found) CHECK(*found == known->second);
    }
  }
}

TEST_CASE(
    "a hash with a heap does what a map does, also while its fields move together [10 seeds]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 dice(seed);
    block_heap heap;
    std::size_t held = 0;
    {
      hash_value h(seed, &heap);
      model m;
      std::size_t place = 0;
      for (int step = 0; step < 10'000; ++step) {
        const std::string name = field(dice() % 1000);
        const bool grows = (step / 2500) % 2 == 0;
        if (dice() % 8 < (grows ? 6U : 1U)) {
          // Includes lengths around the longest block of the heap.
          const std::size_t around =
              dice() % 8 == 0 ? block_heap::longest : block_heap::longest_of_step;
          const std::size_t bytes = dice() % 3 == 0 ? around - 150 + dice() % 200 : dice() % 200;
          const std::string value(bytes, static_cast<char>('a' + dice() % 26));
          CHECK(h.put(name, value) == m.insert_or_assign(name, value).second);
        } else {
          CHECK(h.erase(name) == (m.erase(name) != 0));
        }
        std::size_t budget = dice() % 8;
        static_cast<void>(h.settle(place, budget));
        if (step % 256 == 0) CHECK(all_of(h) == m);
      }
      held = heap.held_bytes();
      CHECK(all_of(h) == m);
      while (!m.empty()) {
        CHECK(h.erase(m.begin()->first));
        m.erase(m.begin());
      }
      CHECK(h.size() == 0);
    }
    CHECK(held > 0);
    CHECK(heap.held_bytes() == 0);
  }
}

TEST_CASE("a small hash keeps its other fields when values shrink [2-5 fields, all orders]") {
  for (std::size_t fields = 2; fields <= 5; ++fields) {
    // Each field's value shrinks to one of four lengths, beginning with each field in turn.
    for (std::size_t shape = 0; shape < std::size_t{1} << 2 * fields; ++shape) {
      for (std::size_t first = 0; first < fields; ++first) {
        CAPTURE(fields);
        CAPTURE(shape);
        CAPTURE(first);
        block_heap heap;
        hash_value h(1, &heap);
        model m;
        for (std::size_t n = 0; n < fields; ++n) {
          const std::string value(64, static_cast<char>('a' + n));
          h.put(field(n), value);
          m[field(n)] = value;
        }
        for (std::size_t n = 0; n < fields; ++n) {
          const std::size_t which = (first + n) % fields;
          constexpr std::array<std::size_t, 4> lengths{0, 1, 20, 63};
          const std::string value(lengths[shape >> 2 * which & 3], 'x');
          h.put(field(which), value);
          m[field(which)] = value;
          REQUIRE(all_of(h) == m);
        }
      }
    }
  }
}

TEST_CASE("a small hash does what a map does when its values grow and shrink [200 seeds]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 dice(seed);
    block_heap heap;
    hash_value h(seed, &heap);
    model m;
    const std::size_t names = 2 + dice() % 6;
    for (int step = 0; step < 300; ++step) {
      const std::string name = field(dice() % names);
      const std::size_t length = dice() % 2 == 0 ? dice() % 65 : dice() % 2 * 64;
      const std::string value(length, static_cast<char>('a' + dice() % 26));
      if (dice() % 8 == 0) {
        h.erase(name);
        m.erase(name);
      } else {
        h.put(name, value);
        m.insert_or_assign(name, value);
      }
      REQUIRE(h.is_small());
      REQUIRE(all_of(h) == m);
    }
  }
}

TEST_CASE("a small hash keeps the order in which its fields came, also over changes of values") {
  hash_value h(1);
  for (const char* name : {"one", "two", "three"}) h.put(name, "1");
  h.put("two", std::string(40, 'x'));
  h.put("one", "");
  std::string order;
  h.for_each([&order](const hash_value::entry& e) { order += std::string(e.field) + ' '; });
  CHECK(order == "one two three ");
  CHECK(h.erase("two"));
  h.put("two", "2");
  order.clear();
  h.for_each([&order](const hash_value::entry& e) { order += std::string(e.field) + ' '; });
  CHECK(order == "one three two ");
}

TEST_CASE("fields and values may be empty, long, and any bytes") {
  hash_value h(1);
  const std::string zeros(3, '\0');
  h.put("", "");
  h.put(zeros, zeros);
  CHECK(h.find("") == "");
  CHECK(h.find(zeros) == zeros);
  const std::string long_one(5'000'000, 'v');
  h.put("long", long_one);
  CHECK(h.find("long") == long_one);
  CHECK(h.find("") == "");
  CHECK(h.find(zeros) == zeros);
  h.put("long", "short");
  CHECK(h.bytes() < 10'000);
}

TEST_CASE("a scan of a million fields looks at no more than twice as many as it was asked for") {
  hash_value h(7);
  constexpr std::size_t n = 1'000'000;
  for (std::size_t i = 0; i < n; ++i) h.put(field(i), "v");
  const scanned s = scan_all(h, 10, [] {});
  CHECK(s.fields.size() == n);
  CHECK(std::set<std::string>(s.fields.begin(), s.fields.end()).size() == n);
  CHECK(s.most <= 20);
}

TEST_CASE(
    "a scan gives all that was there all the time, while the table grows and shrinks [20 seeds]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 dice(seed);
    hash_value h(seed);
    constexpr std::size_t stays = 1000;
    for (std::size_t i = 0; i < stays; ++i) h.put(field(i), "v");
    const bool shrinks = seed % 2 == 0;
    std::size_t more = stays;
    if (shrinks) {
      for (; more < 60'000; ++more) h.put(field(more), "v");
    }
    const scanned s = scan_all(h, 10, [&] {
      for (int i = 0; i < 300; ++i) {
        if (shrinks && more > stays) h.erase(field(--more));
        if (!shrinks && more < 60'000) h.put(field(more++), "v");
      }
    });
    for (std::size_t i = 0; i < stays; ++i) {
      if (s.fields.count(field(i)) == 0) FAIL_CHECK(field(i));
    }
  }
}

TEST_CASE("all fields are as likely to be drawn, in a small hash and in a large one") {
  for (const std::size_t n : {std::size_t{20}, std::size_t{500}}) {
    CAPTURE(n);
    hash_value h(3);
    for (std::size_t i = 0; i < n; ++i) h.put(field(i), "v");
    std::mt19937_64 dice(1);
    std::map<std::string, std::size_t> drawn;
    constexpr std::size_t each = 400;
    std::size_t tries = 0;
    for (std::size_t got = 0; got < n * each; ++tries) {
      const auto e = h.at_random(dice());
      if (!e) continue;
      ++got;
      ++drawn[std::string(e->field)];
    }
    CHECK(drawn.size() == n);
    for (const auto& [name, times] : drawn) {
      if (times < each / 2 || times > each * 2) FAIL_CHECK(name << ": " << times);
    }
    CHECK(tries < n * each * 40);
  }
}

TEST_CASE("what a hash takes is counted as the allocator gives it, and all of it is given back") {
  hash_value h(1);
  const std::size_t empty = h.bytes();
  for (std::size_t i = 0; i < 50'000; ++i) h.put(field(i), std::string(i % 100, 'x'));
  for (std::size_t i = 0; i < 50'000; i += 2) h.put(field(i), "short");
  CHECK(h.bytes() > 50'000 * 30);
  for (std::size_t i = 0; i < 45'000; ++i) h.erase(field(i));
  CHECK(h.bytes() < 5'000 * 250);
  std::size_t left = h.size();
  while (true) {
    std::size_t budget = 100;
    const bool done = h.clear_some(budget);
    if (done) break;
    CHECK(budget == 0);
    CHECK(h.size() == left - 100);
    left = h.size();
  }
  CHECK(h.size() == 0);
  CHECK(h.bytes() == empty);
}

// The checker finds what cannot have been; and what clients see of a server, by reading and by asking, can have been.
#include "linearizable.hpp"
#include "native_ground.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <array>
#include <mutex>

using namespace kv;
using namespace kv::test;
using kv::native::op_head;
using kv::native::status;

namespace {

event set(instant start, instant end, value_id v) {
  return {.what = event::kind::set, .written = v, .start = start, .end = end};
}
event get(instant start, instant end, value_id v) {
  return {.what = event::kind::get, .seen = v, .start = start, .end = end};
}
event erase(instant start, instant end, value_id v) {
  return {.what = event::kind::erase, .seen = v, .start = start, .end = end};
}
event swap(instant start, instant end, value_id expected, value_id v, bool made,
           value_id seen = nothing) {
  return {.what = event::kind::swap,
          .written = v,
          .expected = expected,
          .seen = seen,
          .swapped = made,
          .start = start,
          .end = end};
}
bool possible(std::vector<event> history, may_vanish vanishing = {}) {
  return linearizer(std::move(history), std::move(vanishing)).check().empty();
}

}  // namespace

TEST_CASE("the checker knows what may have happened, and what cannot have") {
  CHECK(possible({}));
  CHECK(possible({set(0, 10, 1), get(20, 30, 1)}));
  CHECK(possible({set(0, 10, 1), get(5, 6, nothing), get(7, 8, 1)}));
  CHECK_FALSE(possible({set(0, 10, 1), get(20, 30, nothing)}));
  CHECK_FALSE(possible({set(0, 10, 1), get(2, 3, 1), get(4, 5, nothing)}));  // back again
  CHECK_FALSE(possible({set(0, 10, 1), set(20, 30, 2), get(40, 50, 1)}));
  CHECK(possible({set(0, 50, 1), set(20, 30, 2), get(60, 70, 1)}));
  CHECK_FALSE(possible({set(0, 50, 1), set(20, 30, 2), get(60, 70, 1), get(80, 90, 2)}));
  CHECK_FALSE(possible({set(0, 1, 1), erase(2, 3, 1), get(4, 5, 1)}));
  CHECK(possible({set(0, 1, 1), swap(2, 3, 1, 2, true), get(4, 5, 2)}));
  CHECK_FALSE(possible({set(0, 1, 1), swap(2, 9, 1, 2, true), swap(2, 9, 1, 3, true)}));
  CHECK(possible({set(0, 1, 1), swap(2, 9, 1, 2, true), swap(2, 9, 1, 3, false, 2)}));
  // Nobody knows of the second whether it was done: then both may be seen, but not in turns.
  CHECK(possible({set(0, 1, 1), set(2, not_yet, 2), get(5, 6, 1), get(7, 8, 2)}));
  CHECK(possible({set(0, 1, 1), set(2, not_yet, 2), get(5, 6, 1), get(7, 8, 1)}));
  CHECK_FALSE(possible({set(0, 1, 1), set(2, not_yet, 2), get(5, 6, 2), get(7, 8, 1)}));
  CHECK_FALSE(possible({set(0, 1, 1), get(5, 6, nothing)}));
  CHECK(possible({set(0, 1, 1), get(5, 6, nothing)}, {.any_time = true, .expiry = {}}));
  CHECK_FALSE(
      possible({set(0, 1, 1), get(5, 6, nothing), get(7, 8, 1)}, {.any_time = true, .expiry = {}}));
  CHECK(possible({set(0, 1, 1), get(5, 6, nothing)}, {.any_time = false, .expiry = {0, 6}}));
  CHECK_FALSE(possible({set(0, 1, 1), get(5, 6, nothing)}, {.any_time = false, .expiry = {0, 7}}));
}

namespace {

constexpr std::size_t keys = 8;
constexpr std::size_t values_apart = 1'000'000;  // numbers of one client's values

constexpr value_id nobodys = UINT64_MAX;  // never written
constexpr value_id untold = UINT64_MAX - 1;

// What is written says which it is, and is of a length of its own, so that torn reads are likely and known.
std::string spell(value_id v) {
  std::string text = std::to_string(v) + ":";
  text.resize(16 + v * 7919 % 3'000, static_cast<char>('a' + v % 26));
  return text;
}
value_id spelled(std::string_view text) {
  const value_id v = std::stoull(std::string(text.substr(0, text.find(':'))));
  return spell(v) == text ? v : nobodys;
}

instant clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One client that does this and that to a few keys, and writes down what it saw.
class storm {
 public:
  storm(const std::string& server, std::size_t number, bool one_sided)
      : client_(server, {.one_sided = one_sided}),
        chance_(number + 1),
        last_(number * values_apart) {}

  void run(std::size_t operations) {
    for (std::size_t i = 0; i < operations; ++i) step();
  }
  [[nodiscard]] const std::array<std::vector<event>, keys>& seen() const noexcept { return seen_; }
  [[nodiscard]] const client_counters& counters() { return client_.inner().counters(); }

 private:
  void step() {
    const std::size_t key = chance_.below(keys);
    const std::string name = "k" + std::to_string(key);
    event e{.start = clock_now()};
    switch (chance_.below(10)) {
      case 0:
      case 1: {
        e.what = event::kind::set;
        e.written = ++last_;
        REQUIRE(client_.set(name, spell(last_)));
        break;
      }
      case 2: {
        e.what = event::kind::erase;
        e.seen = client_.erase(name) ? 1 : nothing;
        break;
      }
      case 3: e = compare_and_set(name, key); break;
      default: e = look(name, key); break;
    }
    e.end = clock_now();
    seen_[key].push_back(e);
  }
  event look(const std::string& name, std::size_t key) {
    event e{.what = event::kind::get, .start = clock_now()};
    const reply r = client_.get(name, text_);
    REQUIRE((r || r.outcome == status::absent));
    if (r) e.seen = spelled(text_);
    known_[key] = {e.seen, r.version};
    return e;
  }
  event compare_and_set(const std::string& name, std::size_t key) {
    event e = look(name, key);
    e.end = clock_now();
    seen_[key].push_back(e);
    const auto [value, version] = known_[key];
    e = {.what = event::kind::swap, .written = ++last_, .expected = value, .start = clock_now()};
    const std::string text = spell(last_);
    const reply r =
        value == nothing
            ? client_.set(name, text, {.flags = op_head::if_absent})
            : client_.set(name, text, {.flags = op_head::if_version, .version = version});
    e.swapped = bool(r);
    // What stood in its way is not told by its value: it is not checked, but that it was not the expected one.
    if (!r) e = {.what = event::kind::get, .seen = untold, .start = e.start};
    if (r.outcome == status::absent) e.seen = nothing;
    return e;
  }

  blocking_client client_;
  cordma::test::dice chance_;
  value_id last_;
  std::string text_;
  std::array<std::vector<event>, keys> seen_;
  std::array<std::pair<value_id, std::uint64_t>, keys> known_;
};

}  // namespace

TEST_CASE(
    "what six clients see of keys that all of them change could have happened one after the "
    "other") {
  native_server server({}, 2, {.hash_seed = 3, .quarantine_ms = 500});
  std::vector<std::unique_ptr<storm>> storms(6);
  std::vector<std::thread> threads;
  const std::size_t operations = cordma::test::rounds_under_test(20'000, 2'000);
  for (std::size_t i = 0; i < storms.size(); ++i) {
    threads.emplace_back([&, i] {
      storms[i] = std::make_unique<storm>(server.address(), i, i % 3 != 0);
      storms[i]->run(operations);
    });
  }
  for (std::thread& t : threads) t.join();
  std::uint64_t one_sided = 0;
  for (const auto& s : storms) one_sided += s->counters().one_sided;
  CHECK(one_sided > operations);
  for (std::size_t key = 0; key < keys; ++key) {
    std::vector<event> all;
    for (const auto& s : storms) {
      for (const event& e : s->seen()[key]) {
        if (e.what != event::kind::get || e.seen != untold) all.push_back(e);
      }
    }
    CAPTURE(key);
    CHECK(linearizer(all).check() == "");
  }
}

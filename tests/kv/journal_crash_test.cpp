// kill -9 at any moment: acknowledged writes are present after a restart.
#include "journal_ground.hpp"

#include <doctest/doctest.h>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <chrono>
#include <deque>

using namespace kv;
using namespace kv::test;
using cordma::test::child_process;
using cordma::test::dice;
using cordma::test::wire_to_peer;
using std::chrono::steady_clock;

namespace {

std::string key_of(std::uint64_t number) { return "key:" + std::to_string(number); }
// Each value has a different size, so that a file may end at any point of one.
std::string value_of(std::uint64_t number) {
  return std::string(number * 7919 % 300, static_cast<char>('a' + number % 26));
}

journal_options with(sync_policy policy) {
  journal_options o;
  o.appendonly = true;
  o.appendfsync = policy;
  return o;
}

// Puts keys from `first` on, three in a group, until the process is killed. Sends each group's last
// number once it may be acknowledged; if that is immediate, it sends only some of them. Begins a
// rewrite at intervals.
int put_for_ever(const temporary_tree& tree, sync_policy policy, std::uint64_t first,
                 wire_to_peer& wire) {
  scene p(tree, 2, with(policy));
  p.begin();
  wire.tell("ready");
  struct waiting {
    std::uint64_t number;
    std::uint64_t appended;
  };
  std::deque<waiting> acknowledged_later;
  std::uint64_t number = first;
  std::uint64_t acknowledged = 0;
  for (;;) {
    {
      const keyspace::hold held(p.keys, p.keys.all());
      for (int i = 0; i < 3; ++i, ++number) p.put(key_of(number), value_of(number));
    }
    acknowledged_later.push_back({number - 1, p.written.appended()});
    if (number / 3 % 200 == 0) (void)p.written.ask_for(background::rewrite);
    do {
      p.loop.turn();
      while (!acknowledged_later.empty() &&
             (!p.written.waits() || p.written.durable() >= acknowledged_later.front().appended)) {
        if (p.written.waits() || acknowledged++ % 16 == 0) {
          wire.tell(std::to_string(acknowledged_later.front().number));
        }
        acknowledged_later.pop_front();
      }
      // Limits the number of records, so that they can be read again quickly.
      if (!p.written.waits() && number % 48 == 0) cordma::run(p.loop, scene::pause());
    } while (acknowledged_later.size() > 5 || p.written.backlogged());
  }
}

// Loads the journal and checks that it contains all keys up to one, in complete groups. Returns the
// first missing number.
std::uint64_t found_after(const temporary_tree& tree, sync_policy policy) {
  scene p(tree, 3, with(policy));
  const cordma::result<load_report> done = p.load();
  REQUIRE_MESSAGE(done.ok(), (done ? "" : done.why().describe()));
  const contents all = contents_of(p.keys);
  std::uint64_t whole = 0;
  for (; whole < all.size(); ++whole) {
    const auto at = all.find(key_of(whole));
    if (at == all.end() || at->second.text != value_of(whole)) break;
  }
  REQUIRE(whole == all.size());
  CHECK(all.size() % 3 == 0);
  return all.size();
}

}  // namespace

TEST_CASE("always: whatever was acknowledged is there after kill -9, life after life [15 kills]") {
  temporary_tree tree;
  dice d(31);
  std::uint64_t next = 0;
  for (int life = 0; life < 15; ++life) {
    child_process child(
        [&](wire_to_peer& wire) { return put_for_ever(tree, sync_policy::always, next, wire); });
    REQUIRE(child.wire().hear() == "ready");
    std::uint64_t acknowledged = next;
    for (std::size_t lines = d.below(400); lines > 0; --lines) {
      acknowledged = std::stoull(child.wire().hear()) + 1;
    }
    child.kill();
    const std::uint64_t found = found_after(tree, sync_policy::always);
    CHECK_MESSAGE(found >= acknowledged, life);
    next = found;
  }
  CHECK(next > 1000);
}

TEST_CASE(
    "everysec: kill -9 takes at most what was acknowledged within the last second [3 kills]") {
  temporary_tree tree;
  dice d(32);
  std::uint64_t next = 0;
  for (int life = 0; life < 3; ++life) {
    child_process child([&](wire_to_peer& wire) {
      return put_for_ever(tree, sync_policy::every_second, next, wire);
    });
    REQUIRE(child.wire().hear() == "ready");
    std::deque<std::pair<std::uint64_t, steady_clock::time_point>> heard;
    const auto end = steady_clock::now() + std::chrono::milliseconds(1100 + d.below(500));
    while (steady_clock::now() < end) {
      heard.emplace_back(std::stoull(child.wire().hear()), steady_clock::now());
    }
    child.kill();
    const steady_clock::time_point killed = steady_clock::now();
    const std::uint64_t found = found_after(tree, sync_policy::every_second);
    for (const auto& [number, when] : heard) {
      if (killed - when > std::chrono::seconds(1)) CHECK_MESSAGE(number < found, life);
    }
    next = found;
  }
}

TEST_CASE("always: a rewrite that is killed anywhere leaves what there was [10 kills]") {
  temporary_tree tree;
  {
    scene p(tree, 2, with(sync_policy::no));
    p.begin();
    for (std::uint64_t i = 0; i < 3000; ++i) p.put(key_of(i), value_of(i));
    p.close();
  }
  dice d(33);
  for (int life = 0; life < 10; ++life) {
    child_process child([&](wire_to_peer& wire) {
      scene p(tree, 1, with(sync_policy::always));
      p.begin();
      for (;;) {
        (void)p.written.ask_for(background::rewrite);
        const std::size_t before = p.ends.size();
        wire.tell("begins");
        p.until([&] {
          wire.tell("turn");
          return p.ends.size() > before;
        });
      }
      return 0;
    });
    for (std::size_t lines = 1 + d.below(300); lines > 0; --lines) (void)child.wire().hear();
    child.kill();
    CHECK(found_after(tree, sync_policy::always) == 3000);
  }
}

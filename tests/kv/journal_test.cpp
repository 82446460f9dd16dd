// The journal with a keyspace: a restart restores the contents, regardless of concurrent work.
#include "journal_ground.hpp"

#include "../../apps/kv/journal/manifest.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

using namespace kv;
using namespace kv::test;
using cordma::test::dice;

namespace {

constexpr unix_ms far_away = 4'000'000'000'000;

journal_options on(sync_policy policy = sync_policy::every_second) {
  journal_options o;
  o.appendonly = true;
  o.appendfsync = policy;
  return o;
}

// Applies one random change to one of `many` keys.
void change_something(keyspace& keys, dice& d, std::size_t many) {
  const std::string key = "key:" + std::to_string(d.below(many));
  const hashed_key k = keys.key(key);
  store& s = keys.of(k);
  const std::string value(d.below(200), static_cast<char>('a' + d.below(26)));
  const std::string field = "f" + std::to_string(d.below(5));
  switch (d.below(8)) {
    case 0: s.erase(k); break;
    case 1:
      (void)s.set_expiry(k, d.below(2) == 0 ? never_expires : far_away + d.below(1000));
      break;
    case 2: s.field_erase(k, field); break;
    case 3:
    case 4: {
      const found f = s.peek(k);
      if (f && f.is_string()) s.erase(k);
      REQUIRE(s.field_put(k, field, value) == put_outcome::done);
      break;
    }
    default:
      REQUIRE(s.put(k, value, d.below(4) == 0 ? far_away : never_expires) == put_outcome::done);
  }
}

contents reloaded(const temporary_tree& tree, std::uint32_t shards, journal_options options) {
  scene p(tree, shards, std::move(options));
  const cordma::result<load_report> done = p.load();
  REQUIRE_MESSAGE(done.ok(), (done ? "" : done.why().describe()));
  return contents_of(p.keys);
}

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t bytes_of(const std::string& path) { return std::filesystem::file_size(path); }

}  // namespace

TEST_CASE(
    "what a server had is there again, in any number of shards [policies, io_uring and threads]") {
  for (const sync_policy policy :
       {sync_policy::no, sync_policy::every_second, sync_policy::always}) {
    for (const bool ring : {true, false}) {
      temporary_tree tree;
      journal_options o = on(policy);
      o.io_uring = ring;
      contents want;
      dice d(5);
      {
        scene p(tree, 3, o);
        p.begin();
        CHECK(p.report.from == load_report::source::nothing);
        for (int i = 0; i < 5000; ++i) {
          change_something(p.keys, d, 300);
          if (i % 100 == 0) p.loop.turn();
        }
        want = contents_of(p.keys);
        p.close();
        CHECK(p.written.durable() == p.written.appended());
      }
      for (const std::uint32_t shards : {1U, 2U, 5U}) CHECK(reloaded(tree, shards, o) == want);
    }
  }
}

TEST_CASE("a server goes on where the last one ended, life after life [5 lives]") {
  temporary_tree tree;
  contents want;
  dice d(6);
  for (int life = 0; life < 5; ++life) {
    scene p(tree, life % 2 == 0 ? 1 : 4, on());
    p.begin();
    CHECK(contents_of(p.keys) == want);
    for (int i = 0; i < 500; ++i) change_something(p.keys, d, 100);
    want = contents_of(p.keys);
    p.close();
  }
}

TEST_CASE("a group is whole or not there, wherever the file is cut") {
  temporary_tree tree;
  {
    scene p(tree, 4, on());
    p.begin();
    for (int i = 0; i < 20; ++i) {
      const keyspace::hold held(p.keys, p.keys.all());
      for (const char* key : {"a", "b", "c", "d", "e"}) p.put(key, std::to_string(i));
    }
    CHECK(p.written.appended() == 20);
    p.close();
  }
  const std::string file = tree.at("appendonlydir/appendonly.aof.1.incr.ckv");
  for (std::uint64_t bytes = bytes_of(file); bytes > 600; bytes -= 7) {
    std::filesystem::resize_file(file, bytes);
    const contents got = reloaded(tree, 2, on());
    REQUIRE(got.size() == 5);
    for (const auto& [key, c] : got) CHECK(c.text == got.at("a").text);
    bytes = bytes_of(file);
  }
}

TEST_CASE("a torn end is cut off and said; what is written afterwards is found behind it") {
  temporary_tree tree;
  {
    scene p(tree, 1, on());
    p.begin();
    p.put("first", "1");
    p.put("second", "2");
    p.close();
  }
  const std::string file = tree.at("appendonlydir/appendonly.aof.1.incr.ckv");
  std::filesystem::resize_file(file, bytes_of(file) - 3);
  {
    scene p(tree, 1, on());
    p.begin();
    CHECK(p.report.cut_bytes > 0);
    REQUIRE(p.lines.size() >= 1);
    CHECK(p.lines[0].find("bytes that are no whole record") != std::string::npos);
    p.put("third", "3");
    p.close();
  }
  const contents got = reloaded(tree, 1, on());
  CHECK(got.size() == 2);
  CHECK(got.contains("first"));
  CHECK(got.contains("third"));
}

TEST_CASE(
    "a damaged record with whole ones behind it keeps the server from starting, until it is "
    "mended") {
  temporary_tree tree;
  {
    scene p(tree, 1, on());
    p.begin();
    for (int i = 0; i < 10; ++i) p.put("key" + std::to_string(i), "value");
    p.close();
  }
  const std::string file = tree.at("appendonlydir/appendonly.aof.1.incr.ckv");
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(150);
    damage.put('\x7e');
  }
  {
    scene p(tree, 1, on());
    const cordma::result<load_report> refused = p.load();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.why().message().find(file + " is damaged at byte ") == 0);
    CHECK(refused.why().message().find("--check-aof " + file + " --fix") != std::string::npos);
  }
  const std::uint64_t before = bytes_of(file);
  const auto looked = check_journal(file, check_mode::look);
  REQUIRE(looked.ok());
  CHECK_FALSE((*looked).whole);
  CHECK((*looked).can_fix);
  CHECK(bytes_of(file) == before);
  const auto mended =
      check_journal(tree.at("appendonlydir/appendonly.aof.manifest"), check_mode::fix);
  REQUIRE(mended.ok());
  CHECK((*mended).fixed);
  CHECK(bytes_of(file) == (*looked).valid_bytes);
  CHECK(reloaded(tree, 1, on()).size() < 10);
  CHECK((*check_journal(file, check_mode::look)).whole);
}

TEST_CASE("a rewrite while everything changes loses nothing, and what it replaced is gone") {
  for (const std::uint32_t shards : {1U, 3U}) {
    temporary_tree tree;
    contents want;
    dice d(7);
    {
      scene p(tree, shards, on());
      p.begin();
      for (int i = 0; i < 20'000; ++i) change_something(p.keys, d, 5000);
      for (int round = 1; round <= 3; ++round) {
        CHECK(p.written.ask_for(background::rewrite) == journal::asked::begun);
        p.until([&] {
          for (int i = 0; i < 50; ++i) change_something(p.keys, d, 5000);
          return p.ends.size() == static_cast<std::size_t>(round);
        });
        CHECK_MESSAGE(!p.ends.back().failed, *p.ends.back().failed);
      }
      for (int i = 0; i < 1000; ++i) change_something(p.keys, d, 5000);
      want = contents_of(p.keys);
      p.close();
    }
    CHECK(files_in(tree.at("appendonlydir")) ==
          std::vector<std::string>{"appendonly.aof.4.base.ckv", "appendonly.aof.4.incr.ckv",
                                   "appendonly.aof.manifest"});
    CHECK(reloaded(tree, 2, on()) == want);
  }
}

TEST_CASE("a snapshot while everything changes is what there was at its end") {
  for (const bool appendonly : {false, true}) {
    temporary_tree tree;
    journal_options o;
    o.appendonly = appendonly;
    std::uint64_t changes = 0;
    {
      scene p(tree, 3, o);
      p.begin();
      dice d(8);
      for (int i = 0; i < 20'000; ++i) change_something(p.keys, d, 5000);
      const std::uint64_t before = p.written.info().changes;
      CHECK(p.written.ask_for(background::snapshot) == journal::asked::begun);
      p.until([&] {
        for (int i = 0; i < 20; ++i) change_something(p.keys, d, 5000);
        return !p.ends.empty();
      });
      CHECK_FALSE(p.ends.back().failed);
      changes = p.written.info().changes - p.written.info().changes_since_snapshot;
      CHECK(changes > before);  // the number depends on the load of the machine
      p.close();
    }
    // Repeats the same changes up to the same number.
    temporary_tree elsewhere;
    scene again(elsewhere, 3);
    again.begin();
    dice d(8);
    while (again.written.info().changes < changes) change_something(again.keys, d, 5000);
    CHECK(reloaded(tree, 5, {}) == contents_of(again.keys));
  }
}

TEST_CASE("what was cleared while a snapshot was under way does not come back [every turn of it]") {
  for (int turns = 0, ended = 0; ended == 0; ++turns) {
    CAPTURE(turns);
    temporary_tree tree;
    journal_options o;
    o.save = {{3600, 1}};
    scene p(tree, 1, o);
    p.begin();
    for (int i = 0; i < 50; ++i) p.put("key:" + std::to_string(i), "value");
    CHECK(p.written.ask_for(background::snapshot) == journal::asked::begun);
    for (int i = 0; i < turns && p.ends.empty(); ++i) {
      if (!p.loop.turn()) cordma::run(p.loop, scene::pause());
    }
    ended = static_cast<int>(p.ends.size());
    {
      const keyspace::hold everything(p.keys, p.keys.all());
      p.keys.at(0).clear();
      REQUIRE(p.written.drop_snapshot().ok());
    }
    p.until([&] { return !p.ends.empty(); });
    CHECK(reloaded(tree, 1, {}).empty());
    CHECK_FALSE(p.written.info().last_snapshot_failed);  // not a failure of the disk
    p.put("later", "value");
    p.background(background::snapshot);
    CHECK(reloaded(tree, 1, {}).size() == 1);
    p.close();
  }
}

TEST_CASE("save() writes what there is, and is refused while a snapshot goes on") {
  temporary_tree tree;
  scene p(tree, 3);
  p.begin();
  dice d(9);
  for (int i = 0; i < 5000; ++i) change_something(p.keys, d, 1000);
  REQUIRE(p.written.save().ok());
  CHECK(p.written.info().changes_since_snapshot == 0);
  CHECK(reloaded(tree, 1, {}) == contents_of(p.keys));
  CHECK(p.written.ask_for(background::snapshot) == journal::asked::begun);
  p.until([&] { return p.written.info().running == background::snapshot; });
  CHECK(p.written.save().code() == cordma::errc::in_progress);
  CHECK(p.written.ask_for(background::snapshot) == journal::asked::goes_on_already);
  CHECK(p.written.ask_for(background::rewrite) == journal::asked::off);
  p.until([&] { return !p.ends.empty(); });
  CHECK(p.written.save().ok());
  p.close();
}

TEST_CASE("who ends right after it was turned on waits until the journal has all, or cannot") {
  temporary_tree tree;
  std::optional<scene> p(std::in_place, tree, 3);
  p->begin();
  dice d(10);
  for (int i = 0; i < 5000; ++i) change_something(p->keys, d, 1000);
  const contents want = contents_of(p->keys);
  cordma::run(p->loop, p->written.until_on());  // nothing is pending
  bool can = true;
  SUBCASE("it has") {}
  SUBCASE("it cannot") {
    can = false;
    std::ofstream(tree.root() + "/appendonlydir") << "no folder";
  }
  p->written.set_appendonly(true);
  cordma::run(p->loop, p->written.until_on());
  CHECK(p->ends.size() == 1);
  CHECK(p->written.info().appendonly == can);
  p->close();
  p.reset();
  if (can) CHECK(reloaded(tree, 2, on()) == want);
}

TEST_CASE("what goes on behind is given up for the last save()") {
  temporary_tree tree;
  scene p(tree, 3);
  p.begin();
  dice d(9);
  for (int i = 0; i < 5000; ++i) change_something(p.keys, d, 1000);
  CHECK(p.written.ask_for(background::snapshot) == journal::asked::begun);
  p.until([&] { return p.written.info().running == background::snapshot; });
  cordma::run(p.loop, p.written.end_background());
  REQUIRE(p.ends.size() == 1);
  CHECK(p.ends.front().failed);
  CHECK(p.written.save().ok());
  CHECK(reloaded(tree, 1, {}) == contents_of(p.keys));
  p.close();
}

TEST_CASE(
    "threads that change several shards while it is rewritten and saved: all is found again") {
  temporary_tree tree;
  contents want;
  {
    scene p(tree, 3, on());
    p.begin();
    std::atomic<bool> go_on{true};
    std::vector<std::thread> writers;
    for (std::uint64_t t = 0; t < 3; ++t) {
      writers.emplace_back([&p, &go_on, t] {
        dice d(t + 20);
        while (go_on.load()) {
          if (p.written.backlogged()) {
            std::this_thread::yield();
            continue;
          }
          const keyspace::hold held(p.keys, p.keys.all());
          for (int i = 0; i < 5; ++i) change_something(p.keys, d, 2000);
        }
      });
    }
    p.background(background::rewrite);
    p.background(background::snapshot);
    p.background(background::rewrite);
    go_on = false;
    for (std::thread& t : writers) t.join();
    for (const background_report& r : p.ends) CHECK_FALSE(r.failed);
    want = contents_of(p.keys);
    p.close();
  }
  CHECK(reloaded(tree, 2, on()) == want);
  CHECK_FALSE(reloaded(tree, 2, {}).empty());
}

TEST_CASE("an object with another name is found by it [journal, snapshot under way]") {
  for (const bool appendonly : {true, false}) {
    CAPTURE(appendonly);
    temporary_tree tree;
    journal_options o;
    o.appendonly = appendonly;
    contents want;
    {
      scene p(tree, 1, o);
      p.begin();
      for (int i = 0; i < 200; ++i) {
        const std::string key = "h" + std::to_string(i);
        for (int f = 0; f < 20; ++f) p.field(key, "f" + std::to_string(f), key);
      }
      for (int i = 0; i < 20; ++i) p.put("long" + std::to_string(i), std::string(100'000, 'x'));
      if (!appendonly) CHECK(p.written.ask_for(background::snapshot) == journal::asked::begun);
      int next = 0;
      const auto rename = [&](const std::string& from, const std::string& to) {
        CHECK(p.of(from).rename(p.keys.key(from), p.keys.key(to)) == put_outcome::done);
      };
      p.until([&] {
        // Renames keys away, onto another, and back, while the walk is in progress.
        if (next < 60) {
          rename("h" + std::to_string(next), "g" + std::to_string(next));
          rename("h" + std::to_string(199 - next), "g" + std::to_string(next));
          if (next % 2 == 0) rename("g" + std::to_string(next), "h" + std::to_string(next));
          if (next < 20) rename("long" + std::to_string(next), "g" + std::to_string(next));
          want = contents_of(p.keys);
        }
        ++next;
        return next >= 60 && (appendonly || !p.ends.empty());
      });
      p.close();
    }
    if (appendonly) CHECK(reloaded(tree, 3, o) == want);
    // A snapshot may have ended before the last changes, but each of its values is complete.
    for (const auto& [key, value] : reloaded(tree, 3, o)) {
      CAPTURE(key);
      CHECK((value.fields.size() == 20 || value.text.size() == 100'000));
    }
  }
}

TEST_CASE("what was cleared stays so, all of it or one shard, with other shards than before") {
  temporary_tree tree;
  contents want;
  {
    scene p(tree, 3, on());
    p.begin();
    for (int i = 0; i < 100; ++i) p.put("old" + std::to_string(i), "1");
    {
      const keyspace::hold held(p.keys, p.keys.all());
      for (std::uint32_t i = 0; i < 3; ++i) p.keys.at(i).clear();
    }
    for (int i = 0; i < 100; ++i) p.put("new" + std::to_string(i), "2");
    p.keys.at(1).clear();
    want = contents_of(p.keys);
    CHECK(want.size() > 20);
    CHECK(want.size() < 90);
    p.close();
  }
  CHECK(reloaded(tree, 5, on()) == want);
}

TEST_CASE("what has expired since is dropped; what lost its expiry before that is there") {
  temporary_tree tree;
  {
    scene p(tree, 2, on());
    p.begin();
    for (std::uint32_t i = 0; i < 2; ++i) p.keys.at(i).tick(500);  // 1970
    p.put("short", "1", 1000);
    p.put("kept", "2", 1000);
    REQUIRE(p.of("kept").set_expiry(p.keys.key("kept"), never_expires));
    p.put("long", "3", far_away);
    p.close();
  }
  scene p(tree, 1, on());
  p.begin();
  CHECK(p.report.expired == 1);
  const contents got = contents_of(p.keys);
  CHECK(got.size() == 2);
  CHECK(got.at("kept").text == "2");
  CHECK(got.at("long").expiry == far_away);
}

TEST_CASE("appendonly that is turned on begins with what a snapshot had, and with what is there") {
  temporary_tree tree;
  {
    scene p(tree, 1);
    p.begin();
    p.put("a", "1");
    p.background(background::snapshot);
    p.put("lost", "1");
    p.close();
  }
  {
    scene p(tree, 2, on());
    p.begin();
    CHECK(p.report.from == load_report::source::snapshot);
    p.put("b", "2");
    p.close();
  }
  {
    scene p(tree, 1, on());
    p.begin();
    CHECK(p.report.from == load_report::source::journal);
    CHECK(contents_of(p.keys).size() == 2);
    p.written.set_appendonly(false);
    p.until([&] { return !p.written.info().current_bytes; });
    p.put("unnoted", "1");
    p.written.set_appendonly(true);
    p.until([&] { return !p.ends.empty(); });
    CHECK_FALSE(p.ends.back().failed);
    p.put("c", "3");
    p.close();
  }
  CHECK(reloaded(tree, 1, on()).size() == 4);
}

TEST_CASE("a stray file with a number that no journal comes to changes nothing") {
  CHECK(*next_number(3, 7) == 8);
  CHECK(*next_number(manifest::most_number - 1, 0) == manifest::most_number);
  CHECK(next_number(manifest::most_number, 0).code() == cordma::errc::full);
  temporary_tree tree;
  std::filesystem::create_directory(tree.at("appendonlydir"));
  for (const char* const number : {"18446744073709551615", "4611686018427387904"}) {
    for (const char* const kind : {".base.ckv", ".incr.ckv"}) {
      tree.file("appendonlydir/appendonly.aof." + std::string(number) + kind, "stray");
    }
  }
  for (int life = 0; life < 3; ++life) {
    scene p(tree, 1, on());
    p.begin();
    CHECK(contents_of(p.keys).size() == static_cast<std::size_t>(life));
    p.put("key" + std::to_string(life), "1");
    p.background(background::rewrite);
    CHECK_FALSE(p.ends.back().failed);
    p.close();
  }
  CHECK(std::filesystem::exists(tree.at("appendonlydir/appendonly.aof.4.base.ckv")));
  CHECK(bytes_of(tree.at("appendonlydir/appendonly.aof.18446744073709551615.base.ckv")) == 5);
}

TEST_CASE("a folder's journal is found whatever its name, and no manifest that is half written") {
  temporary_tree tree;
  journal_options o = on();
  o.appendfilename = "temp-x";
  {
    scene p(tree, 1, o);
    p.begin();
    p.put("a", "1");
    p.close();
  }
  const auto whole = [&] {
    const cordma::result<check_report> found = check_journal(tree.root(), check_mode::look);
    return found.ok() && (*found).whole;
  };
  CHECK(whole());
  tree.file("appendonlydir/temp-temp-x.manifest", "file temp-x.1.base");
  CHECK(whole());
}

TEST_CASE("save points and the growth of the journal begin what they should") {
  temporary_tree tree;
  journal_options o = on(sync_policy::no);
  o.save = {{0, 1000}};
  o.auto_aof_rewrite_min_size = 100'000;
  scene p(tree, 1, o);
  p.begin();
  for (int i = 0; i < 3000; ++i) p.put("key" + std::to_string(i % 10), std::string(100, 'v'));
  p.until([&] { return p.written.info().snapshots == 1 && p.written.info().rewrites == 1; });
  const journal_info now = p.written.info();
  CHECK(now.changes_since_snapshot == 0);
  CHECK(now.current_bytes < 10'000);
  CHECK(now.base_bytes > 0);
  CHECK_FALSE(now.last_snapshot_failed);
}

TEST_CASE(
    "files of others, of a later version, or of which one is missing are refused with their name") {
  temporary_tree tree;
  {
    scene p(tree, 1, on());
    p.begin();
    p.put("a", "1");
    p.background(background::rewrite);
    p.put("b", "1");
    p.close();
  }
  const std::string base = tree.at("appendonlydir/appendonly.aof.2.base.ckv");
  const std::string increment = tree.at("appendonlydir/appendonly.aof.2.incr.ckv");
  const auto refusal = [&] {
    scene p(tree, 1, on());
    const cordma::result<load_report> done = p.load();
    REQUIRE_FALSE(done.ok());
    return done.why().message();
  };
  std::filesystem::copy(base, tree.at("copy"));
  std::filesystem::resize_file(base, bytes_of(base) - 1);
  CHECK(refusal().find(base + " is damaged at byte ") == 0);
  std::filesystem::resize_file(base, log_header_bytes);
  CHECK(refusal().find(base + " lacks its end") == 0);
  tree.file("appendonlydir/appendonly.aof.2.base.ckv",
            "REDIS0009xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
  CHECK(refusal().find(base + " is no file of cordma-kv") == 0);
  std::filesystem::remove(base);
  CHECK(refusal().find(base) != std::string::npos);
  std::filesystem::copy(tree.at("copy"), base);
  std::filesystem::copy(base, increment, std::filesystem::copy_options::overwrite_existing);
  CHECK(refusal().find(increment + " is no increment") == 0);
  tree.file("appendonlydir/appendonly.aof.manifest", "file /etc/passwd seq 1 type b\n");
  CHECK(refusal().find("appendonly.aof.manifest: line 1 ") != std::string::npos);
}

namespace {

// Written by cordma-kv of 2026-11-27 (0ad8581), before it had numbered databases: SET name value,
// SET "long lived" x PXAT 4102444800000, HSET h f1 v1 f2 v2, PEXPIREAT h 4102444800001; the journal
// also contains SET and DEL of `gone`, HDEL h f2.
constexpr std::string_view old_snapshot =
    "636f72646d616b7601000300ab368ecb01000000000000000000000000000000000000003929861c220000000cb8a8"
    "2f"
    "0100000000000000610a006c6f6e67206c697665640100000000d8c32cbb0300000100d0b1257f221a783e0000005e"
    "4d"
    "307b02000000000000004104006e616d65050000000100d0b1257f221a76616c756504010068020000000200000066"
    "32"
    "7632140200000002000000663176313301d8c32cbb03000009000000719a33e1030000000000000007020000000000"
    "00"
    "00";
constexpr std::string_view old_base =
    "636f72646d616b76010001006746e0e40100000000000000d95ef227a201000000000000777516ed09000000039b10"
    "31"
    "0100000000000000070000000000000000";
constexpr std::string_view old_changes =
    "636f72646d616b76010002001d979f0c0100000000000000d95ef227a201000000000000fe5798e5180000000bd9dd"
    "48"
    "01000000000000004104006e616d6505000000010080ed257f221a76616c7565220000003f1391d002000000000000"
    "00"
    "610a006c6f6e67206c697665640100000000d8c32cbb030000010080ed257f221a781d0000007e45bcac0300000000"
    "00"
    "000004010068020000000200000066317631140200000002000000663276320c000000656b0e790400000000000000"
    "23"
    "01006801d8c32cbb03000014000000934840f00500000000000000410400676f6e6501000000040080ed257f221a31"
    "07"
    "000000454fb4c50600000000000000020400676f6e650a0000001827327f0700000000000000050100680200000066"
    "32";

void write_hex(const std::string& path, std::string_view hex) {
  std::ofstream file(path, std::ios::binary);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    file.put(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  REQUIRE(file.flush());
}

}  // namespace

TEST_CASE("files of the version before numbered databases load [snapshot, journal]") {
  for (const bool journal : {false, true}) {
    CAPTURE(journal);
    temporary_tree tree;
    if (journal) {
      std::filesystem::create_directory(tree.at("appendonlydir"));
      std::ofstream(tree.at("appendonlydir/appendonly.aof.manifest"))
          << "file appendonly.aof.1.base.ckv seq 1 type b\nfile appendonly.aof.1.incr.ckv seq 1 "
             "type i\n"
          << std::flush;
      write_hex(tree.at("appendonlydir/appendonly.aof.1.base.ckv"), old_base);
      write_hex(tree.at("appendonlydir/appendonly.aof.1.incr.ckv"), old_changes);
    } else {
      write_hex(tree.at("dump.ckv"), old_snapshot);
    }
    journal_options o;
    o.appendonly = journal;
    scene p(tree, 1, o);
    p.begin();
    const contents found = contents_of(p.keys);
    REQUIRE(found.size() == 3);
    CHECK(found.at("name").text == "value");
    CHECK(found.at("name").expiry == never_expires);
    CHECK(found.at("long lived").text == "x");
    CHECK(found.at("long lived").expiry == 4'102'444'800'000);
    CHECK(found.at("h").fields.size() == (journal ? 1 : 2));
    CHECK(found.at("h").fields.at("f1") == "v1");
    CHECK(found.at("h").expiry == 4'102'444'800'001);
    CHECK(p.of("name").size_of(0) == 3);
    p.close();
  }
}

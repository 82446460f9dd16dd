// A disk that takes nothing more: it is said, nothing is lost, and it goes on when it can.
#include "journal_ground.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include <sys/resource.h>

using namespace kv;
using namespace kv::test;

namespace {

// As if the disk were full: files end there.
class file_limit {
 public:
  explicit file_limit(std::uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit now = before_;
    now.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~file_limit() { lift(); }
  void lift() const { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

contents reloaded(const temporary_tree& tree, journal_options options) {
  scene p(tree, 1, std::move(options));
  const cordma::result<load_report> done = p.load();
  REQUIRE_MESSAGE(done.ok(), (done ? "" : done.why().describe()));
  return contents_of(p.keys);
}

}  // namespace

TEST_CASE(
    "a full disk is trouble until there is room; what was appended is kept, and written then") {
  for (const sync_policy policy : {sync_policy::every_second, sync_policy::always}) {
    for (const bool ring : {true, false}) {
      temporary_tree tree;
      journal_options o;
      o.appendonly = true;
      o.appendfsync = policy;
      o.io_uring = ring;
      o.most_pending = 50'000;
      contents want;
      {
        scene p(tree, 1, o);
        p.begin();
        const file_limit limit(10'000);
        for (int i = 0; i < 30; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
        p.until([&] { return p.written.trouble().has_value(); });
        CHECK(*p.written.trouble() == "File too large");
        CHECK(p.written.durable() < p.written.appended());
        CHECK_FALSE(p.written.backlogged());
        for (int i = 0; i < 30; ++i) p.put("more" + std::to_string(i), std::string(1000, 'v'));
        CHECK(p.written.backlogged());
        p.until([&] {
          return !p.lines.empty() && p.lines.back().find("File too large") != std::string::npos;
        });
        want = contents_of(p.keys);
        // Killed here, what was whole before is there.
        const contents cut = [&] {
          temporary_tree copy;
          std::filesystem::copy(tree.at("appendonlydir"), copy.at("appendonlydir"));
          return reloaded(copy, o);
        }();
        CHECK(cut.size() >= 8);
        CHECK(cut.size() < want.size());
        limit.lift();
        p.until([&] { return !p.written.trouble(); });
        CHECK_FALSE(p.written.backlogged());
        p.until([&] { return p.written.durable() == p.written.appended(); });
        p.close();
        CHECK(p.lines.back() == "the journal can be written again");
      }
      CHECK(reloaded(tree, o) == want);
    }
  }
}

TEST_CASE(
    "a snapshot that does not fit fails with its reason, leaves nothing, and the next one works") {
  temporary_tree tree;
  scene p(tree, 1);
  p.begin();
  for (int i = 0; i < 1000; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
  {
    const file_limit limit(100'000);
    p.background(background::snapshot);
  }
  REQUIRE(p.ends.back().failed);
  CHECK(p.ends.back().failed->find("temp-dump.ckv") != std::string::npos);
  CHECK(p.ends.back().failed->find("File too large") != std::string::npos);
  CHECK(p.written.info().last_snapshot_failed);
  CHECK(std::filesystem::is_empty(tree.root()));
  p.background(background::snapshot);
  CHECK_FALSE(p.ends.back().failed);
  CHECK_FALSE(p.written.info().last_snapshot_failed);
  CHECK(reloaded(tree, {}) == contents_of(p.keys));
}

TEST_CASE("a rewrite that does not fit fails, and the journal is as whole as before") {
  temporary_tree tree;
  journal_options o;
  o.appendonly = true;
  contents want;
  {
    scene p(tree, 1, o);
    p.begin();
    for (int i = 0; i < 1000; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
    p.until([&] { return p.written.info().pending_bytes == 0; });
    {
      const file_limit limit(100'000);
      p.background(background::rewrite);
    }
    CHECK(p.ends.back().failed);
    p.put("after", "1");
    want = contents_of(p.keys);
    CHECK(reloaded(tree, o).size() >= 1000);
    p.background(background::rewrite);
    CHECK_FALSE(p.ends.back().failed);
    p.close();
  }
  CHECK(reloaded(tree, o) == want);
}

TEST_CASE("appendonly that is turned on and gets no base is off again, and its increment is gone") {
  temporary_tree tree;
  journal_options o;
  o.appendfsync = sync_policy::always;
  scene p(tree, 1, o);
  p.begin();
  for (int i = 0; i < 1000; ++i) p.put("key" + std::to_string(i), std::string(1000, 'v'));
  p.written.set_appendonly(true);
  {
    const file_limit limit(100'000);
    p.until([&] { return !p.ends.empty(); });
  }
  CHECK(p.ends.back().failed);
  CHECK_FALSE(p.written.waits());
  CHECK(std::filesystem::is_empty(tree.at("appendonlydir")));
  // Asked for, it is tried at once.
  p.background(background::rewrite);
  CHECK_FALSE(p.ends.back().failed);
  CHECK(p.written.waits());
  p.put("after", "1");
  p.close();
  o.appendonly = true;
  CHECK(reloaded(tree, o).size() == 1001);
}

TEST_CASE("a directory that cannot be written to is said with its name when the journal opens") {
  temporary_tree tree;
  tree.file("appendonlydir", "a file where the directory should be");
  journal_options o;
  o.appendonly = true;
  scene p(tree, 1, o);
  const cordma::result<load_report> loaded = p.load();
  if (loaded) {
    CHECK_THROWS_WITH_AS(p.open(), doctest::Contains("appendonlydir"), cordma::error);
  } else {
    CHECK(loaded.why().message().find("appendonlydir") != std::string::npos);
  }
}

// A folder belongs to one server until that server has exited in any way.
#include "../../apps/kv/journal/folder_lock.hpp"
#include "journal_ground.hpp"

#include <doctest/doctest.h>
#include <support/process.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <thread>

#include <unistd.h>

using namespace kv;
using namespace kv::test;
using cordma::test::child_process;
using cordma::test::wire_to_peer;

namespace {

journal_options on() {
  journal_options o;
  o.appendonly = true;
  o.appendfsync = sync_policy::always;
  return o;
}

std::string user_of(const std::string& folder) {
  return "another cordma-kv (process " + std::to_string(::getpid()) + ") uses " +
         std::filesystem::canonical(folder).string();
}

// Returns the contents of all files below the root.
std::map<std::string, std::string> files_of(const temporary_tree& tree) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tree.root())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    all[entry.path().string()] = std::string(std::istreambuf_iterator<char>(in), {});
  }
  return all;
}

// Writes a key to a journal that ends with an incomplete record, as that of a live server briefly
// may.
void leave_torn_journal(const temporary_tree& tree) {
  {
    scene p(tree, 1, on());
    p.begin();
    p.put("key", "value");
    p.close();
  }
  std::ofstream(tree.at("appendonlydir/appendonly.aof.1.incr.ckv"), std::ios::app) << "torn";
}

void check_is_used(const cordma::result<load_report>& got, const std::string& folder) {
  REQUIRE(got.code() == cordma::errc::in_use);
  CHECK(got.why().message() ==
        user_of(folder) + ": end that one first, or give this one a folder of its own (dir)");
}

}  // namespace

TEST_CASE("where another server is nothing is loaded, cut off or written [same folder, symlink]") {
  const temporary_tree tree;
  const temporary_tree beside;
  leave_torn_journal(tree);
  std::filesystem::create_directory_symlink(tree.at("appendonlydir"), beside.at("appendonlydir"));
  const cordma::result<cordma::unique_fd> dir = lock_folder(tree.root());
  const cordma::result<cordma::unique_fd> journals = lock_folder(tree.at("appendonlydir"));
  REQUIRE(dir.ok());
  REQUIRE(journals.ok());
  const auto before = files_of(tree);
  {
    scene second(tree, 1, on());
    check_is_used(second.load(), tree.root());
    scene third(beside, 1, on());
    check_is_used(third.load(), tree.at("appendonlydir"));
  }
  CHECK(files_of(tree) == before);
}

TEST_CASE("a server has its folder from load() on, and one that makes snapshots has it too") {
  const temporary_tree tree;
  {
    scene first(tree, 1, on());
    first.begin();
    CHECK(lock_folder(tree.root()).why().message() == user_of(tree.root()));
    CHECK(lock_folder(tree.at("appendonlydir")).code() == cordma::errc::in_use);
    first.close();
  }
  journal_options o;
  o.save = {{3600, 1}};
  scene next(tree, 1, o);
  next.begin();
  CHECK(lock_folder(tree.root()).code() == cordma::errc::in_use);
  next.close();
}

TEST_CASE("servers that keep nothing share a folder, until one of them is to keep something") {
  const temporary_tree tree;
  scene cache(tree, 1);
  cache.begin();
  {
    scene keeper(tree, 1, on());
    keeper.begin();
    CHECK(cache.written.claim().code() == cordma::errc::in_use);
    CHECK(cache.written.save().code() == cordma::errc::in_use);
    keeper.close();
  }
  CHECK_FALSE(std::filesystem::exists(tree.at("dump.ckv")));
  CHECK(cache.written.save().ok());
  CHECK(std::filesystem::exists(tree.at("dump.ckv")));
  scene other(tree, 1);
  other.begin();
  CHECK(other.written.claim().code() == cordma::errc::in_use);
  CHECK(cache.written.claim().ok());
  other.close();
  cache.close();
}

TEST_CASE("a journal of a server that lives is looked at, and not cut") {
  const temporary_tree tree;
  leave_torn_journal(tree);
  const auto before = files_of(tree);
  const std::string folder = tree.at("appendonlydir");
  const std::vector<std::string> paths{tree.root(), folder, folder + "/appendonly.aof.manifest",
                                       folder + "/appendonly.aof.1.incr.ckv"};
  {
    const cordma::result<cordma::unique_fd> live = lock_folder(folder);
    REQUIRE(live.ok());
    for (const std::string& path : paths) {
      CAPTURE(path);
      const cordma::result<check_report> fixed = check_journal(path, check_mode::fix);
      REQUIRE(fixed.code() == cordma::errc::in_use);
      CHECK(fixed.why().message() == user_of(folder) + ": end that one first");
      CHECK(check_journal(path, check_mode::look).ok());
    }
  }
  CHECK(files_of(tree) == before);
  CHECK((*check_journal(tree.root(), check_mode::fix)).fixed);
}

TEST_CASE("what kill -9 ends has nothing any more, and leaves nothing behind") {
  const temporary_tree tree;
  child_process child([&](wire_to_peer& wire) {
    scene p(tree, 1, on());
    p.begin();
    p.put("key", "value");
    p.close();
    wire.tell("ready");
    static_cast<void>(wire.hear());
    return 0;
  });
  REQUIRE(child.wire().hear() == "ready");
  CHECK(lock_folder(tree.root()).code() == cordma::errc::in_use);
  child.kill();
  for (const auto& [path, text] : files_of(tree)) {
    CHECK_MESSAGE(path.starts_with(tree.at("appendonlydir/appendonly.aof.")), path);
  }
  scene next(tree, 1, on());
  next.begin();
  CHECK(contents_of(next.keys).size() == 1);
  next.close();
}

TEST_CASE("who has a folder is waited for where there is patience") {
  const temporary_tree tree;
  cordma::result<cordma::unique_fd> first = lock_folder(tree.root());
  REQUIRE(first.ok());
  bool got = false;
  std::thread second([&] { got = lock_folder(tree.root(), std::chrono::minutes(1)).ok(); });
  (*first).reset();
  second.join();
  CHECK(got);
}

TEST_CASE("where a folder cannot be locked the log says once what that means, and it goes on") {
  const temporary_tree tree;
  CHECK(lock_folder(tree.at("nowhere")).why().os_errno() == ENOENT);
  scene p(tree, 1);
  std::filesystem::remove(tree.root());
  CHECK(p.written.claim().ok());
  CHECK(p.written.claim().ok());
  REQUIRE(p.lines.size() == 1);
  CHECK(p.lines[0].starts_with("nothing keeps another cordma-kv from writing to " + tree.root()));
}

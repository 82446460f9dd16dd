// Trees that change during the walk, and before the found entries are opened.
#include "scanned.hpp"
#include "temporary_tree.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace copy;
using namespace copy::test;

namespace {

void move(const temporary_tree& in, const char* from, const char* to) {
  std::filesystem::rename(in.at(from), in.at(to));
}

// `count` directories of one letter inside each other: "s/m/m/m".
std::string deep(std::size_t count) {
  std::string path = "s";
  for (std::size_t i = 0; i < count; ++i) path += "/m";
  return path;
}

}  // namespace

TEST_CASE("what goes between being listed and being looked at has vanished") {
  const temporary_tree tree;
  for (const char* path : {"s/a", "s/b", "s/c/x", "s/d"}) tree.file(path);
  scanned s({{tree.at("s")}});
  REQUIRE(s.until(2));
  std::filesystem::remove(tree.at("s/b"));
  std::filesystem::remove_all(tree.at("s/c"));
  CHECK(s.all().paths() == "s/\ns/a\ns/d\n");
  CHECK(s.said() ==
        "vanished s/b: No such file or directory\nvanished s/c: No such file or directory\n");
}

TEST_CASE("problems are told once, since the last call") {
  const temporary_tree tree;
  tree.directory("s");
  REQUIRE(::mkfifo(tree.at("s/a").c_str(), 0600) == 0);
  scanned s({{tree.at("s")}});
  s.all();
  CHECK(s.problems.size() == 1);
  CHECK(s.walk().take_problems().empty());
}

TEST_CASE("a directory that became a symlink before it is come to is one") {
  const temporary_tree tree;
  tree.file("outside/x");
  tree.file("s/a");
  tree.file("s/d/x");
  scanned s({{tree.at("s")}});
  REQUIRE(s.until(2));
  move(tree, "s/d", "d");
  tree.symlink("s/d", "../outside");
  CHECK(s.all().paths() == "s/\ns/a\ns/d\n");
  CHECK(s.found.back().kind == entry_kind::symlink);
}

TEST_CASE("a file that became a directory is filtered as one") {
  const temporary_tree tree;
  for (const char* path : {"s/a", "s/b", "s/c"}) tree.file(path);
  scanned s({{tree.at("s")}}, recursive, without({"b/"}));
  REQUIRE(s.until(2));
  std::filesystem::remove(tree.at("s/b"));
  tree.file("s/b/x");
  CHECK(s.all().paths() == "s/\ns/a\ns/c\n");
}

TEST_CASE(
    "nothing is read through a symlink that took the place of a directory on the way [open]") {
  const temporary_tree tree;
  tree.file("outside/e/x", "secret");
  tree.file("s/d/e/x", "x");
  for (const char* exchanged : {"s", "s/d", "s/d/e"}) {
    CAPTURE(std::string(exchanged));
    scanned s({{tree.at("s")}});
    s.all();
    move(tree, exchanged, "away");
    std::string outside = "outside";
    if (std::string(exchanged) == "s/d/e") outside += "/e";
    tree.symlink(exchanged, tree.at(outside));
    const int opened = s.walk().open(*s.at("s/d/e/x"), 0);
    CHECK(opened == -ELOOP);
    CHECK(s.walk().find(*s.at("s/d/e/x")).directory == -ELOOP);
    std::filesystem::remove(tree.at(exchanged));
    move(tree, "away", exchanged);
    const cordma::unique_fd again(s.walk().open(*s.at("s/d/e/x"), 0));
    CHECK(again);
  }
}

TEST_CASE("a directory that was in use stays the one that was found, whatever takes its place") {
  const temporary_tree tree;
  tree.file("outside/y", "secret");
  tree.file("s/d/x", "x");
  tree.file("s/d/y", "y");
  scanned s({{tree.at("s")}});
  s.all();
  const cordma::unique_fd x(s.walk().open(*s.at("s/d/x"), 0));
  REQUIRE(x);
  move(tree, "s/d", "away");
  tree.symlink("s/d", tree.at("outside"));
  const cordma::unique_fd y(s.walk().open(*s.at("s/d/y"), 0));
  REQUIRE(y);
  char byte = 0;
  CHECK(::read(y.get(), &byte, 1) == 1);
  CHECK(byte == 'y');
}

TEST_CASE("the walk does not go through a symlink that took the place of a directory it is in") {
  constexpr std::size_t depth = 40;  // more than stay open
  const temporary_tree tree;
  for (std::size_t i = 0; i <= depth; ++i) tree.file(deep(i) + "/z");
  for (std::size_t i = 0; i <= depth; ++i) tree.file("outside/" + deep(i) + "/z");
  scanned s({{tree.at("s")}});
  REQUIRE(s.until(depth + 1));  // all directories; files come on the way back
  CHECK(s.found.back().path == deep(depth));
  move(tree, "s/m", "away");
  tree.symlink("s/m", tree.at("outside/s/m"));
  s.all();
  // Open directories are read to their end, and the others are no longer found; "s" itself is.
  CHECK(s.found.back().path == "s/z");
  CHECK(s.found.size() < 2 * depth + 2);
  for (const problem& p : s.problems) {
    CHECK(p.what == problem::kind::vanished);
    CHECK(p.why == "was moved while it was read");
  }
  CHECK(s.found.size() + s.problems.size() == 2 * (depth + 1));
}

TEST_CASE("the walk does not go on in another directory that took the place of the one it is in") {
  constexpr std::size_t depth = 40;
  const temporary_tree tree;
  for (std::size_t i = 0; i <= depth; ++i) tree.file(deep(i) + "/z");
  for (std::size_t i = 1; i <= depth; ++i) tree.file("another" + deep(i).substr(3) + "/z");
  scanned s({{tree.at("s")}});
  REQUIRE(s.until(depth + 1));
  move(tree, "s/m", "away");
  move(tree, "another", "s/m");
  s.all();
  CHECK(s.found.back().path == "s/z");
  CHECK_FALSE(s.problems.empty());
  CHECK(s.found.size() + s.problems.size() == 2 * (depth + 1));
}

TEST_CASE("what is no file any more is not opened [a symlink, a FIFO, a directory, nothing]") {
  const temporary_tree tree;
  tree.file("secret");
  for (const char* path : {"s/directory/x", "s/fifo", "s/nothing", "s/symlink"}) tree.file(path);
  scanned s({{tree.at("s")}});
  s.all();
  for (const char* name : {"s/fifo", "s/nothing", "s/symlink"})
    std::filesystem::remove(tree.at(name));
  std::filesystem::remove(tree.at("s/directory/x"));
  tree.directory("s/directory/x");
  REQUIRE(::mkfifo(tree.at("s/fifo").c_str(), 0600) == 0);
  tree.symlink("s/symlink", tree.at("secret"));
  CHECK(s.walk().open(*s.at("s/directory/x"), 0) == -ENOENT);
  CHECK(s.walk().open(*s.at("s/fifo"), 0) == -ENOENT);
  CHECK(s.walk().open(*s.at("s/nothing"), 0) == -ENOENT);
  CHECK(s.walk().open(*s.at("s/symlink"), 0) == -ELOOP);
}

TEST_CASE("files of a directory are found by the same descriptor, which stays open for a while") {
  constexpr std::size_t others = scanner::directories_kept - 1;
  const temporary_tree tree;
  tree.file("s/0/a");
  tree.file("s/0/b");
  for (std::size_t i = 1; i <= 2 * others; ++i) tree.file("s/" + std::to_string(i) + "/f");
  scanned s({{tree.at("s")}});
  s.all();
  const scanner::position a = s.walk().find(*s.at("s/0/a"));
  REQUIRE(a.directory >= 0);
  CHECK(std::string(a.name) == "a");
  for (std::size_t i = 1; i <= 2 * others; ++i) {
    CHECK(s.walk().find(*s.at("s/" + std::to_string(i) + "/f")).directory >= 0);
    CHECK(::faccessat(a.directory, "a", F_OK, 0) == 0);
    if (i == others) CHECK(s.walk().find(*s.at("s/0/b")).directory == a.directory);
  }
  CHECK(s.walk().find(*s.at("s")).directory >= 0);
  CHECK(std::string(s.walk().find(*s.at("s")).name) == "s");
}

TEST_CASE(
    "while a directory and a symlink change places all the time, nothing is read through it") {
  const temporary_tree tree;
  tree.file("outside/secret", "secret");
  tree.file("outside/x", "secret");
  tree.file("s/d/x", "x");
  tree.symlink("s/l", tree.at("outside"));
  const std::string d = tree.at("s/d");
  const std::string l = tree.at("s/l");
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> exchanges{0};
  REQUIRE(::renameat2(AT_FDCWD, d.c_str(), AT_FDCWD, l.c_str(), RENAME_EXCHANGE) == 0);
  std::thread other([&] {
    while (!done.load()) {
      if (::renameat2(AT_FDCWD, d.c_str(), AT_FDCWD, l.c_str(), RENAME_EXCHANGE) == 0) ++exchanges;
    }
  });
  while (exchanges.load() == 0) std::this_thread::yield();
  std::size_t secrets = 0;
  for (int round = 0; round < 1000; ++round) {
    scanned s({{tree.at("s")}});
    for (const entry& e : s.all().found) {
      if (e.path.ends_with("/secret")) ++secrets;
      if (e.kind != entry_kind::file) continue;
      const cordma::unique_fd fd(s.walk().open(e, 0));
      char byte = 0;
      if (fd && ::read(fd.get(), &byte, 1) == 1 && byte == 's') ++secrets;
    }
  }
  done = true;
  other.join();
  CHECK(secrets == 0);
}

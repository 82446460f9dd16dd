// Entries found in a tree, their order, and the problems reported for the rest.
#include "scanned.hpp"
#include "temporary_tree.hpp"

#include <doctest/doctest.h>
#include <support/fd_count.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace copy;
using namespace copy::test;

namespace {

// Root may read everything, so this process runs as another user while the object lives.
class no_root {
 public:
  no_root() : was_root_(::geteuid() == 0) {
    constexpr uid_t nobody = 65534;
    if (was_root_) REQUIRE(::seteuid(nobody) == 0);
  }
  ~no_root() {
    if (was_root_) CHECK(::seteuid(0) == 0);
  }

 private:
  bool was_root_;
};

}  // namespace

TEST_CASE("a directory comes before what is in it, and names in the order of their bytes") {
  const temporary_tree tree;
  for (const char* path : {"s/b/x", "s/b/a/y", "s/b.c", "s/b-", "s/B", "s/\xff", "s/a"})
    tree.file(path);
  scanned s({{tree.at("s")}});
  CHECK(s.all().paths() == "s/\ns/B\ns/a\ns/b/\ns/b/a/\ns/b/a/y\ns/b/x\ns/b-\ns/b.c\ns/\xff\n");
  CHECK(s.said().empty());
}

TEST_CASE("what is found does not depend on how much is asked for at once") {
  const temporary_tree tree;
  for (int i = 0; i < 30; ++i) {
    tree.file("d" + std::to_string(i % 7) + "/e" + std::to_string(i % 3) + "/" + std::to_string(i));
  }
  scanned s({contents(tree.root())});
  const std::string at_once = s.all().paths();
  for (std::size_t most = 1; most <= s.found.size() + 1; ++most) {
    CAPTURE(most);
    scanned again({contents(tree.root())});
    CHECK(again.all(most).paths() == at_once);
  }
}

TEST_CASE("at most as many entries are appended as were asked for, behind what was there") {
  const temporary_tree tree;
  for (const char* path : {"a/b/c", "a/d", "e"}) tree.file(path);
  scanned s({contents(tree.root())});
  std::vector<entry> all(2);
  while (true) {
    const std::size_t before = all.size();
    const bool more = s.walk().next(2, all);
    CHECK(all.size() <= before + 2);
    if (!more) break;
  }
  CHECK(all.size() == 2 + 6);
  CHECK_FALSE(s.walk().next(2, all));
}

TEST_CASE("a file is described as it is") {
  const temporary_tree tree;
  tree.file("f", "12345");
  REQUIRE(::chmod(tree.at("f").c_str(), 04751) == 0);
  const timespec times[] = {{.tv_sec = 5, .tv_nsec = 6}, {.tv_sec = -7, .tv_nsec = 123'456'789}};
  REQUIRE(::utimensat(AT_FDCWD, tree.at("f").c_str(), times, 0) == 0);
  scanned s({{tree.at("f")}});
  REQUIRE(s.all().paths() == "f\n");
  const entry& f = s.found[0];
  CHECK(f.kind == entry_kind::file);
  CHECK(f.mode == 04751);
  CHECK(f.uid == ::geteuid());
  CHECK(f.size == 5);
  CHECK(f.modified == file_time{.s = -7, .ns = 123'456'789});
  CHECK(f.target.empty());
}

TEST_CASE("a file with holes has fewer bytes allocated than its size") {
  const temporary_tree tree;
  tree.file("holes");
  REQUIRE(::truncate(tree.at("holes").c_str(), 1 << 20) == 0);
  scanned s({{tree.at("holes")}});
  REQUIRE(s.all().paths() == "holes\n");
  CHECK(s.found[0].size == 1 << 20);
  CHECK(s.found[0].allocated < s.found[0].size);
}

TEST_CASE("odd names are names") {
  const temporary_tree tree;
  const std::string longest(255, 'x');
  const std::string names[] = {"\n",   " ", "-rf", "\x01", "\xff\xfe",
                               "a\nb", "*", "...", "\\",   longest};
  for (const std::string& name : names) tree.file("s/" + name, name);
  scanned s({contents(tree.at("s"))});
  CHECK(s.all().found.size() == 1 + std::size(names));
  for (const std::string& name : names) {
    CAPTURE(name);
    const entry* const e = s.at(name);
    REQUIRE(e != nullptr);
    CHECK(e->size == name.size());
    const cordma::unique_fd fd(s.walk().open(*e, 0));
    CHECK(fd);
  }
}

TEST_CASE("FIFOs, sockets and devices are left out, and said, unless they are asked for") {
  const temporary_tree tree;
  tree.directory("s");
  REQUIRE(::mkfifo(tree.at("s/fifo").c_str(), 0600) == 0);
  REQUIRE(::mknod(tree.at("s/socket").c_str(), S_IFSOCK | 0600, 0) == 0);
  scanned s({{tree.at("s")}, {"/dev/null"}});
  CHECK(s.all().paths() == "s/\n");
  CHECK(s.said() ==
        "left out s/fifo: is a FIFO; --specials copies it\nleft out s/socket: is a socket; "
        "--specials copies it\nleft out /dev/null: is a device; --devices copies it\n");
  scan_options options = recursive;
  options.specials = options.devices = true;
  scanned asked({{tree.at("s")}, {"/dev/null"}}, options);
  CHECK(asked.all().paths() == "s/\ns/fifo\ns/socket\nnull\n");
  CHECK(asked.said().empty());
  struct stat null{};
  REQUIRE(::stat("/dev/null", &null) == 0);
  const std::pair<std::uint32_t, std::uint64_t> expected[] = {
      {S_IFIFO, 0}, {S_IFSOCK, 0}, {S_IFCHR, null.st_rdev}};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const entry& e = asked.found[i + 1];
    CHECK(e.kind == entry_kind::special);
    CHECK(std::pair(e.type, e.device) == expected[i]);
  }
}

TEST_CASE("what is excluded is not looked at, nor what is below it") {
  const temporary_tree tree;
  for (const char* path : {"s/a.o", "s/a.c", "s/build/x.c", "s/d/a.o", "s/d/b/c.c", "s/e/build"})
    tree.file(path);
  REQUIRE(::mkfifo(tree.at("s/build/fifo").c_str(), 0600) == 0);
  scanned s({{tree.at("s")}}, recursive, without({"*.o", "build/", "/s/d/b"}));
  CHECK(s.all().paths() == "s/\ns/a.c\ns/d/\ns/e/\ns/e/build\n");
  CHECK(s.said().empty());

  filter only_c;
  only_c.add(filter::decision::include, "*/");
  only_c.add(filter::decision::include, "*.c");
  only_c.add(filter::decision::exclude, "*");
  scanned c({contents(tree.at("s"))}, recursive, only_c);
  CHECK(c.all().paths() == "./\na.c\nbuild/\nbuild/x.c\nd/\nd/b/\nd/b/c.c\ne/\n");
  scanned excluded({{tree.at("s")}, {tree.at("s/a.c")}}, recursive, without({"s"}));
  CHECK(excluded.all().paths() == "a.c\n");
}

TEST_CASE("200 directories inside each other take few descriptors, and what is behind them comes") {
  constexpr std::size_t depth = 200;
  const temporary_tree tree;
  std::string path = "s";
  std::string expected;
  std::string behind;
  for (std::size_t i = 0; i < depth; ++i) {
    tree.file(path + "/a");
    tree.file(path + "/z");
    expected += path + "/\n" + path + "/a\n";
    behind.insert(0, path + "/z\n");
    path += "/m";
  }
  tree.directory(path);
  scanned s({{tree.at("s")}});
  std::size_t most = 0;
  for (std::size_t entries = 1; s.until(entries); ++entries) {
    most = std::max(most, cordma::test::open_descriptors());
  }
  CHECK(s.paths() == expected + path + "/\n" + behind);
  CHECK(s.said().empty());
  CHECK(most < 64);
  const cordma::unique_fd deepest(s.walk().open(*s.at(path), 0));
  CHECK(deepest);
}

TEST_CASE("a path that is longer than a path may be is a problem, and what is beside it comes") {
  const temporary_tree tree;
  const std::string name(250, 'n');
  tree.file("s/a");
  tree.file("s/z");
  cordma::unique_fd at(::open(tree.at("s").c_str(), O_RDONLY | O_CLOEXEC));
  for (int i = 0; i < 17; ++i) {
    REQUIRE(::mkdirat(at.get(), name.c_str(), 0700) == 0);
    at.reset(::openat(at.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(at);
  }
  scanned s({{tree.at("s")}});
  s.all();
  CHECK(s.found.size() == 3 + 16);
  CHECK(s.at("s/z") != nullptr);
  REQUIRE(s.problems.size() == 1);
  CHECK(s.problems[0].what == problem::kind::failed);
  CHECK(s.problems[0].why == "File name too long");
}

TEST_CASE("a directory that may not be read comes, with a problem") {
  const temporary_tree tree;
  tree.file("s/a/x");
  tree.file("s/b");
  REQUIRE(::chmod(tree.root().c_str(), 0755) == 0);
  REQUIRE(::chmod(tree.at("s/a").c_str(), 0) == 0);
  scanned s({{tree.at("s")}, {tree.at("s/a/x")}});
  {
    const no_root user;
    s.all();
  }
  REQUIRE(::chmod(tree.at("s/a").c_str(), 0700) == 0);
  CHECK(s.paths() == "s/\ns/a/\ns/b\n");
  CHECK(s.said() ==
        "failed s/a: Permission denied\nfailed " + tree.at("s/a/x") + ": Permission denied\n");
}

TEST_CASE("no descriptor is left behind") {
  const temporary_tree tree;
  for (int i = 0; i < 50; ++i) tree.file("s/" + std::to_string(i) + "/f");
  const std::size_t before = cordma::test::open_descriptors();
  {
    scanned s({{tree.at("s")}, contents(tree.at("s"))});
    s.until(40);
    for (const entry& e : s.found) {
      const cordma::unique_fd fd(s.walk().open(e, 0));
      CHECK(fd);
    }
  }
  CHECK(cordma::test::open_descriptors() == before);
}

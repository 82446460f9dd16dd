// The names of sources, and the combination of several sources.
#include "scanned.hpp"
#include "temporary_tree.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <unistd.h>

using namespace copy;
using namespace copy::test;

namespace {

// Changes the working directory until its destruction.
class working_directory {
 public:
  explicit working_directory(const std::string& path)
      : before_(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    REQUIRE(::chdir(path.c_str()) == 0);
  }
  ~working_directory() { CHECK(::fchdir(before_.get()) == 0); }

 private:
  cordma::unique_fd before_;
};

std::string read(scanner& from, const entry& e) {
  const cordma::unique_fd fd(from.open(e, 0));
  char bytes[64];
  const ssize_t n = fd ? ::read(fd.get(), bytes, sizeof bytes) : -1;
  return n < 0 ? "not to be read" : std::string(bytes, static_cast<std::size_t>(n));
}

}  // namespace

TEST_CASE("a directory prevails over what is none, whichever source has it") {
  const temporary_tree tree;
  tree.file("file/x", "file");
  tree.file("file/d/y");
  tree.file("directory/x/in");
  tree.symlink("directory/d", "nowhere");
  tree.file("more/x/other");
  tree.file("more/d/y/deep");
  const auto sources = [&](std::initializer_list<const char*> names) {
    std::vector<source> all;
    for (const char* const n : names) all.push_back({tree.at(n), true});
    return all;
  };
  const std::string gives_way = ": another source has a directory of this name\n";
  scanned first(sources({"file", "directory", "more"}));
  CHECK(first.all().paths() == "./\nd/\nx/\nx/in\nd/y/\nd/y/deep\nx/other\n");
  CHECK(first.said() ==
        "left out d/y" + gives_way + "left out x" + gives_way + "left out d" + gives_way);
  scanned last(sources({"directory", "file"}));
  CHECK(last.all().paths() == "./\nx/\nx/in\nd/\nd/y\n");
  scanned named({{tree.at("file/x")}, {tree.at("directory/x")}});
  CHECK(named.all().paths() == "x/\nx/in\n");
  // Without -r no directory is sent.
  const scan_options flat;
  CHECK(scanned({{tree.at("file/x")}, {tree.at("directory/x")}}, flat).all().paths() == "x\n");
}

TEST_CASE("a source comes under its last name, or as what is in it") {
  const temporary_tree tree;
  tree.file("some/dir/x");
  const working_directory here(tree.root());
  for (const char* path : {"some/dir", "some//dir", "./some/dir", "some/../some/dir"}) {
    CAPTURE(std::string(path));
    CHECK(scanned({{path}}).all().paths() == "dir/\ndir/x\n");
  }
  for (const char* path : {"some/dir/", "some/dir//", "some/dir/."}) {
    CAPTURE(std::string(path));
    CHECK(scanned({{path}}).all().paths() == "./\nx\n");
  }
  CHECK(scanned({contents("some/dir")}).all().paths() == "./\nx\n");
  CHECK(scanned({{"some"}}).all().paths() == "some/\nsome/dir/\nsome/dir/x\n");
  CHECK(scanned({{"some/dir/x"}}).all().paths() == "x\n");
  const working_directory inside("some/dir");
  CHECK(scanned({{"."}}).all().paths() == "./\nx\n");
  CHECK(scanned({{".."}}).all().paths() == "./\ndir/\ndir/x\n");
  CHECK(scanned({{"../dir"}}).all().paths() == "dir/\ndir/x\n");
  CHECK(scanned({{"x"}}).all().paths() == "x\n");
}

TEST_CASE("'/' is a source like any other") {
  scanned s({{"/"}}, recursive, without({"/*"}));
  CHECK(s.all().paths() == "./\n");
  CHECK(s.said().empty());
}

TEST_CASE("a directory that is empty comes") {
  const temporary_tree tree;
  tree.directory("s/a");
  CHECK(scanned({{tree.at("s")}}).all().paths() == "s/\ns/a/\n");
  CHECK(scanned({{tree.at("s/a")}}).all().paths() == "a/\n");
  CHECK(scanned({contents(tree.at("s/a"))}).all().paths() == "./\n");
  CHECK(scanned({}).all().paths().empty());
}

TEST_CASE("a symlink for a source is followed where it ends with '/', and only then") {
  const temporary_tree tree;
  tree.file("d/x");
  tree.symlink("l", "d");
  CHECK(scanned({{tree.at("l/")}}).all().paths() == "./\nx\n");
  CHECK(scanned({{tree.at("l")}}).all().paths() == "l\n");
  CHECK(scanned({{tree.at("l/x")}}).all().paths() == "x\n");
}

TEST_CASE("without -r a directory is left out, and a file is not") {
  const temporary_tree tree;
  tree.file("d/x");
  const std::string in = tree.at("d/");
  scanned s({{tree.at("d")}, {in}, {in + "x"}}, {});
  CHECK(s.all().paths() == "x\n");
  CHECK(s.said() == "left out " + tree.at("d") + ": is a directory; -r copies it\nleft out " + in +
                        ": is a directory; -r copies it\n");
}

TEST_CASE("a source that is not there is a problem, and the others come") {
  const temporary_tree tree;
  tree.file("x");
  scanned s({{tree.at("no")}, {tree.at("no/x")}, {tree.at("x/")}, {""}, {tree.at("x")}});
  CHECK(s.all().paths() == "x\n");
  CHECK(s.said() == "failed " + tree.at("no") + ": No such file or directory\nfailed " +
                        tree.at("no/x") + ": No such file or directory\nfailed " + tree.at("x/") +
                        ": Not a directory\nfailed : No such file or directory\n");
}

TEST_CASE("sources come in their order, each to be opened where it was found") {
  const temporary_tree tree;
  tree.file("b/x", "b/x");
  tree.file("a/y/z", "a/y/z");
  tree.file("c", "c");
  scanned s({{tree.at("b")}, contents(tree.at("a")), {tree.at("c")}});
  REQUIRE(s.all().paths() == "b/\nb/x\n./\ny/\ny/z\nc\n");
  CHECK(read(s.walk(), *s.at("b/x")) == "b/x");
  CHECK(read(s.walk(), *s.at("y/z")) == "a/y/z");
  CHECK(read(s.walk(), *s.at("c")) == "c");
}

TEST_CASE("directories of the same name are merged, and no path comes twice") {
  const temporary_tree tree;
  for (const char* path : {"1/d/a", "1/d/e/b", "1/f", "2/d/a", "2/d/e/c", "2/d/g", "2/f/x", "2/h"})
    tree.file(path, path);
  scanned s({contents(tree.at("1")), contents(tree.at("2")), {tree.at("2/d/e")}});
  CHECK(s.all().paths() == "./\nd/\nd/a\nd/e/\nd/e/b\nd/e/c\nd/g\nf/\nf/x\nh\ne/\ne/c\n");
  CHECK(s.said() ==
        "left out f: another source has a directory of this name\n"
        "left out d/a: another source has this name already\n");
  CHECK(read(s.walk(), *s.at("d/a")) == "1/d/a");
  CHECK(read(s.walk(), *s.at("d/e/c")) == "2/d/e/c");
  CHECK(read(s.walk(), *s.at("h")) == "2/h");
}

TEST_CASE("what an earlier source has, and did not come, is no reason to leave it out") {
  const temporary_tree tree;
  tree.file("1/d/a.o");
  tree.directory("1/d/x");
  tree.symlink("1/d/l", "x");
  tree.file("2/d/l");
  tree.directory("2/d/x");
  tree.file("3/d/x");
  scanned s(
      {contents(tree.at("1")), contents(tree.at("2")), {tree.at("no")}, contents(tree.at("3"))},
      {.recursive = true}, without({"*.o", "x/"}));
  CHECK(s.all().paths() == "./\nd/\nd/l\nd/x\n");
}

TEST_CASE("the same source twice is once, and nothing is said") {
  const temporary_tree tree;
  tree.file("d/e/x");
  tree.file("y");
  scanned s({{tree.at("d")}, {tree.at("y")}, {tree.at("d")}, {tree.at("y")}});
  CHECK(s.all().paths() == "d/\nd/e/\nd/e/x\ny\n");
  CHECK(s.said().empty());
}

TEST_CASE("of what is listed all that leads to it comes first, once, and nothing beside it") {
  const temporary_tree tree;
  for (const char* path : {"s/a/b/x", "s/a/b/y", "s/a/z", "s/d/e/f", "s/g"}) tree.file(path);
  tree.symlink("s/link", "a");
  const auto listed = [&](std::initializer_list<const char*> names, bool all_in_it) {
    std::vector<source> sources;
    for (const char* name : names) {
      sources.push_back({.path = tree.at("s"), .contents = true, .called = name, .listed = name});
    }
    scan_options options = recursive;
    options.recursive = all_in_it;
    scanned s(sources, options);
    s.all();
    return s.paths() + s.said();
  };
  CHECK(listed({"a/b/x", "a/b/y", "a", "g"}, false) == "a/\na/b/\na/b/x\na/b/y\ng\n");
  // An entry already listed with another one is checked, and not sent again.
  CHECK(listed({"a", "a/b/x"}, false) == "a/\na/b/\na/b/x\n");
  CHECK(listed({"a", "a/b/x", "a/none"}, true) ==
        "a/\na/b/\na/b/x\na/b/y\na/z\nfailed a/none: No such file or directory\n");
  CHECK(listed({"."}, true) == "");
  CHECK(listed({"a/b", "d"}, false) == "a/\na/b/\nd/\n");
  CHECK(listed({"a/b", "d"}, true) == "a/\na/b/\na/b/x\na/b/y\nd/\nd/e/\nd/e/f\n");
  CHECK(listed({"a/none", "none/x", "g"}, true) ==
        "g\nfailed a/none: No such file or directory\nfailed none/x: No such file or "
        "directory\n");
  CHECK(listed({"link/z"}, true) == "failed link/z: Too many levels of symbolic links\n");
}

TEST_CASE("where symlinks are followed they are what they lead to, save what they are in") {
  const temporary_tree tree;
  tree.file("s/a/x", "xx");
  tree.file("outside/y");
  tree.symlink("s/file", "a/x");
  tree.symlink("s/out", "../outside");
  tree.symlink("s/a/up", "..");
  tree.symlink("s/none", "nowhere");
  scan_options options = recursive;
  options.follow = true;
  scanned s({contents(tree.at("s"))}, options);
  CHECK(s.all().paths() == "./\na/\na/x\nfile\nout/\nout/y\n");
  CHECK(s.said() ==
        "failed a/up: leads to a directory that it is in\nfailed none: is a symlink that leads "
        "nowhere\n");
  CHECK(s.at("file")->kind == entry_kind::file);
  CHECK(s.at("file")->size == 2);
  for (const char* path : {"file", "out/y"}) {
    const cordma::unique_fd fd(s.walk().open(*s.at(path), 0));
    CHECK(fd);
  }
}

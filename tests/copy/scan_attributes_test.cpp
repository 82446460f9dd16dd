// Symlinks, additional hard links and extended attributes found by a scan.
#include "../../apps/cp/tree/linked_files.hpp"

#include "scanned.hpp"
#include "temporary_tree.hpp"

#include <doctest/doctest.h>
#include <support/applies.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

using namespace copy;
using namespace copy::test;
using cordma::test::applies;

namespace {

constexpr const char* no_attributes = "the file system of temporary files keeps none";

// Version 2, then tag, permissions and id of owner, user 1, group, mask and others, little-endian.
constexpr unsigned char acl_bytes[] = {2,  0, 0, 0,                      //
                                       1,  0, 6, 0, 255, 255, 255, 255,  //
                                       2,  0, 4, 0, 1,   0,   0,   0,    //
                                       4,  0, 4, 0, 255, 255, 255, 255,  //
                                       16, 0, 4, 0, 255, 255, 255, 255,  //
                                       32, 0, 0, 0, 255, 255, 255, 255};
const std::string acl(std::begin(acl_bytes), std::end(acl_bytes));

// True if a temporary file can have such an attribute.
bool keeps(const char* name, const std::string& value) {
  std::string path = std::filesystem::temp_directory_path() / "cordma-copy-XXXXXX";
  const int fd = ::mkstemp(path.data());
  const bool kept = fd >= 0 && ::fsetxattr(fd, name, value.data(), value.size(), 0) == 0;
  if (fd >= 0) ::close(fd);
  ::unlink(path.c_str());
  return kept;
}

}  // namespace

TEST_CASE("symlinks are sent as such, where they are asked for, and followed nowhere") {
  const temporary_tree tree;
  tree.file("outside/f");
  tree.symlink("s/dangling", "nowhere/\xff");
  tree.symlink("s/directory", "../outside");
  tree.symlink("link", "s");
  scanned s({{tree.at("s")}, {tree.at("link")}});
  CHECK(s.all().paths() == "s/\ns/dangling\ns/directory\nlink\n");
  CHECK(s.at("s/dangling")->kind == entry_kind::symlink);
  CHECK(s.at("s/dangling")->target == "nowhere/\xff");
  CHECK(s.at("s/dangling")->size == 0);
  CHECK(s.at("link")->target == "s");
  CHECK(s.walk().open(*s.at("link"), 0) == -ELOOP);
  scanned plain({{tree.at("s")}}, {.recursive = true});
  CHECK(plain.all().paths() == "s/\n");
  CHECK(plain.said() ==
        "left out s/dangling: is a symlink; -l copies it\nleft out s/directory: is a symlink; -l "
        "copies it\n");
}

TEST_CASE("further names of a file are hard links to the first, where they are asked for") {
  const temporary_tree tree;
  tree.file("s/b/first", "x");
  tree.hard_link("s/c", "s/b/first");
  tree.hard_link("s/d/e", "s/c");
  tree.hard_link("s/a", "s/c");
  scanned plain({contents(tree.at("s"))});
  for (const entry& e : plain.all().found) CHECK(e.kind != entry_kind::hard_link);
  scan_options options = recursive;
  options.hard_links = true;
  scanned s({contents(tree.at("s"))}, options, without({"/a"}));
  s.all();
  CHECK(s.at("b/first")->kind == entry_kind::file);
  CHECK(s.at("b/first")->size == 1);
  for (const char* further : {"c", "d/e"}) {
    CHECK(s.at(further)->kind == entry_kind::hard_link);
    CHECK(s.at(further)->target == "b/first");
    CHECK(s.at(further)->size == 0);
  }
  scanned apart({{tree.at("s/c")}, {tree.at("s/a")}}, options);
  CHECK(apart.all().at("a")->target == "c");
}

TEST_CASE("a file whose number is used again, or that has changed, is another file") {
  struct stat one{};
  one.st_ino = 7;
  one.st_nlink = 3;
  one.st_size = 1;
  linked_files files;
  CHECK(files.first_name(one, "a") == nullptr);
  struct stat again = one;
  again.st_size = 2;
  CHECK(files.first_name(again, "b") == nullptr);
  again.st_mtim.tv_nsec = 1;
  CHECK(files.first_name(again, "c") == nullptr);
  struct stat elsewhere = again;
  elsewhere.st_dev = 1;
  CHECK(files.first_name(elsewhere, "d") == nullptr);
  for (const char* further : {"e", "f"}) {
    const std::string* const first = files.first_name(again, further);
    REQUIRE(first != nullptr);
    CHECK(*first == "c");
  }
  // All its names have been found, so it is forgotten.
  CHECK(files.first_name(again, "g") == nullptr);
}

TEST_CASE("extended attributes come where they are asked for" *
          applies(keeps("user.a", "b"), no_attributes)) {
  const temporary_tree tree;
  tree.file("s/f");
  tree.symlink("s/l", "f");
  const std::string value("a\0b", 3);
  for (const char* path : {"s", "s/f"}) {
    REQUIRE(::setxattr(tree.at(path).c_str(), "user.one", value.data(), value.size(), 0) == 0);
    REQUIRE(::setxattr(tree.at(path).c_str(), "user.two", "", 0, 0) == 0);
  }
  scan_options options = recursive;
  options.attributes = true;
  scanned s({{tree.at("s")}, contents(tree.at("s"))}, options);
  s.all();
  for (const char* path : {"s", "s/f", ".", "f"}) {
    CAPTURE(std::string(path));
    std::vector<attribute> all = s.at(path)->attributes;
    std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.name < b.name; });
    CHECK(all == std::vector<attribute>{{"user.one", value}, {"user.two", ""}});
  }
  CHECK(s.at("s/l")->attributes.empty());
  CHECK(s.said().empty());
  scanned plain({{tree.at("s")}});
  CHECK(plain.all().at("s/f")->attributes.empty());
}

TEST_CASE("an ACL is an extended attribute" *
          applies(keeps("system.posix_acl_access", acl), no_attributes)) {
  const temporary_tree tree;
  tree.file("f");
  REQUIRE(::setxattr(tree.at("f").c_str(), "system.posix_acl_access", acl.data(), acl.size(), 0) ==
          0);
  scan_options options = recursive;
  options.attributes = true;
  scanned s({{tree.at("f")}}, options);
  s.all();
  REQUIRE(s.found.size() == 1);
  REQUIRE(s.found[0].attributes.size() == 1);
  CHECK(s.found[0].attributes[0].name == "system.posix_acl_access");
  CHECK(s.found[0].attributes[0].value == acl);
}

// Directories, symlinks and hard links replace existing entries.
#include "target_tree.hpp"

using namespace copy;
using namespace copy::test;

TEST_CASE("a directory takes the place of anything that is none; one that exists is fine") {
  const place_to_write here;
  target to = here.open();
  write(here.root / "file", "");
  REQUIRE(::mkfifo((here.root / "fifo").c_str(), 0600) == 0);
  fs::create_directories(here.root / "full/of/things");
  for (const char* name : {"file", "fifo", "full", "new", "."}) {
    CAPTURE(name);
    CHECK(to.make_directory(name).ok());
    CHECK(S_ISDIR(look(here.root / name).st_mode));
  }
  CHECK(is_there(here.root / "full/of/things"));
  CHECK(errno_of(to.make_directory("no/more")) == ENOENT);
  CHECK(to.make_directory("mine", 0500).ok());
  CHECK((look(here.root / "mine").st_mode & 07777) == 0700);
}

TEST_CASE(
    "a symlink and a hard link replace what is there, save a directory with something in it") {
  const place_to_write here;
  target to = here.open();
  write(here.root / "first", "one");
  for (const bool symlink : {true, false}) {
    CAPTURE(symlink);
    const auto make = [&](const std::string& path) {
      return symlink ? to.make_symlink(path, "any\ntext \xff") : to.make_hard_link(path, "first");
    };
    write(here.root / "file", "two");
    fs::create_directories(here.root / "empty");
    fs::create_directories(here.root / "full/of");
    // Left parts of any kind.
    write(here.root / target::part_name("file"), "stale");
    fs::create_symlink("planted", here.root / target::part_name("empty"));
    for (const char* path : {"new", "file", "empty"}) {
      CAPTURE(path);
      CHECK(make(path).ok());
      CHECK(make(path).ok());
      if (symlink) CHECK(fs::read_symlink(here.root / path) == "any\ntext \xff");
      if (!symlink) CHECK(look(here.root / path).st_ino == look(here.root / "first").st_ino);
    }
    CHECK(errno_of(make("full")) == EISDIR);
    CHECK(errno_of(make(".")) == EISDIR);
    CHECK(names(here.root) == std::vector<std::string>{"empty", "file", "first", "full", "new"});
    for (const char* path : {"new", "file", "empty"}) fs::remove(here.root / path);
  }
  CHECK(to.make_hard_link("first", "first").ok());
  CHECK(errno_of(to.make_hard_link("x", "no")) == ENOENT);
  CHECK(errno_of(to.make_symlink("x", "")) == EINVAL);
  CHECK(errno_of(to.make_symlink("x", std::string("a\0b", 3))) == EINVAL);
  CHECK(errno_of(to.make_symlink("x", std::string(5000, 'x'))) == ENAMETOOLONG);
}

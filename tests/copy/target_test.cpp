// No path leads out of the target, with any entries planted in it.
#include "target_tree.hpp"

#include "../../apps/cp/files/beneath.hpp"

#include <support/applies.hpp>
#include <support/fd_count.hpp>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

using namespace copy;
using namespace copy::test;
using cordma::test::applies;

namespace {

entry directory_entry(const std::string& path) {
  entry e;
  e.kind = entry_kind::directory;
  e.mode = 0700;
  e.path = path;
  return e;
}

constexpr keep_options all_kept{
    .mode = true, .times = true, .owner = true, .group = true, .attributes = true};

// Checks every operation on a name below `parent`, which is a symlink.
void check_that_all_stops_at(target& to, const std::string& parent) {
  const std::string below = parent + "/x";
  CHECK(errno_of(to.find(below)) == ELOOP);
  CHECK(errno_of(to.look(below)) == ELOOP);
  CHECK(errno_of(to.make_directory(below)) == ELOOP);
  CHECK(errno_of(to.make_symlink(below, "text")) == ELOOP);
  CHECK(errno_of(to.make_hard_link(below, "file")) == ELOOP);
  CHECK(errno_of(to.make_hard_link("linked", below)) == ELOOP);
  CHECK(errno_of(to.open_part(below, O_RDWR)) == ELOOP);
  CHECK(errno_of(to.open_state(below)) == ELOOP);
  CHECK(errno_of(to.publish(-1, below)) == ELOOP);
  CHECK(errno_of(to.drop_part(below)) == ELOOP);
  CHECK(to.keep(below, directory_entry(below), all_kept).size() == 1);
  std::vector<problem> problems;
  CHECK(to.remove_others(parent, {}, target::removal::real, problems).empty());
  CHECK(problems.size() == 1);
}

void check_planted_parents(const place_to_write& here) {
  write(here.outside / "x", "kept");
  fs::create_directories(here.root / "real");
  write(here.root / "file", "");
  target to = here.open();
  for (const std::string& text :
       {here.outside.string(), std::string("../outside"), std::string("real"), std::string("."),
        std::string("/"), std::string("nowhere"), std::string("/proc/self/cwd")}) {
    CAPTURE(text);
    REQUIRE(to.make_directory("d").ok());
    REQUIRE(to.make_symlink("link", text).ok());
    REQUIRE(to.make_symlink("d/link", text).ok());
    check_that_all_stops_at(to, "link");
    check_that_all_stops_at(to, "d/link");
    check_that_all_stops_at(to, "link/below");
  }
  CHECK(read(here.outside / "x") == "kept");
  CHECK(names(here.outside) == std::vector<std::string>{"x"});
  CHECK(names(here.root / "real").empty());
  CHECK_FALSE(is_there(here.root / "linked"));
}

// Acts like a container's seccomp rules on a system call that they do not list.
void forbid_openat2() {
  std::array<sock_filter, 4> rules{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                    {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat2},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

std::string deep_path(std::size_t bytes) {
  std::string path;
  while (path.size() + 21 < bytes) path += std::string(19, 'd') + '/';
  return path + std::string(bytes - path.size(), 'e');
}

void make_with_parents(target& to, const std::string& path) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    REQUIRE(to.make_directory(path.substr(0, at)).ok());
  }
}

}  // namespace

TEST_CASE("a symlink in the place of a directory of the path stops everything") {
  const place_to_write here;
  check_planted_parents(here);
}

TEST_CASE("where the rules have no openat2, it stops everything, too") {
  const place_to_write here;
  in_thread([&] {
    forbid_openat2();
    CHECK(resolution_here(AT_FDCWD) == resolution::by_parts);
    check_planted_parents(here);
    target to = here.open();
    const std::string deepest = deep_path(4095);
    make_with_parents(to, deepest);
    CHECK(publish_part(to, deepest).ok());
  });
}

TEST_CASE("a path leads to the same directory at once and by its parts") {
  const place_to_write here;
  fs::create_directories(here.root / "a/b/c");
  write(here.root / "a/file", "");
  fs::create_directory_symlink("b", here.root / "a/link");
  fs::create_directory_symlink("gone", here.root / "a/dangling");
  const cordma::unique_fd root(::open(here.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(resolution_here(root.get()) == resolution::at_once);
  for (const std::string path : {"a", "a/b", "a/b/c", "a/file", "a/file/x", "a/link", "a/link/c",
                                 "a/dangling", "no", "no/b", "a/no"}) {
    CAPTURE(path);
    const cordma::unique_fd one(open_beneath(root.get(), path, resolution::at_once));
    const cordma::unique_fd other(open_beneath(root.get(), path, resolution::by_parts));
    if (!one || !other) {
      CHECK(one.get() == other.get());
      continue;
    }
    struct stat a{};
    struct stat b{};
    REQUIRE(::fstat(one.get(), &a) == 0);
    REQUIRE(::fstat(other.get(), &b) == 0);
    CHECK(a.st_ino == b.st_ino);
    CHECK(a.st_ino == look(here.root / path).st_ino);
  }
}

TEST_CASE("a symlink in the last place is itself what is looked at, kept and replaced") {
  const place_to_write here;
  write(here.outside / "victim", "kept");
  const struct stat before = look(here.outside / "victim");
  target to = here.open();
  const auto plant = [&](const char* name) {
    REQUIRE(to.make_symlink(name, (here.outside / "victim").string()).ok());
  };
  plant("a");
  CHECK(S_ISLNK((*to.look("a"))->st_mode));
  CHECK(to.keep("a", directory_entry("a"), all_kept).size() == 1);
  entry file = directory_entry("a");
  file.kind = entry_kind::file;
  CHECK(to.keep("a", file, all_kept).size() == 1);
  CHECK(to.make_directory("a").ok());
  CHECK(S_ISDIR(look(here.root / "a").st_mode));
  plant("b");
  CHECK(publish_part(to, "b").ok());
  CHECK(S_ISREG(look(here.root / "b").st_mode));
  plant("c");
  CHECK(to.make_hard_link("c", "b").ok());
  CHECK(S_ISREG(look(here.root / "c").st_mode));
  const struct stat after = look(here.outside / "victim");
  CHECK(after.st_mode == before.st_mode);
  CHECK(after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
  CHECK(read(here.outside / "victim") == "kept");
}

TEST_CASE("any byte may be in a name, and a path may have 4095 of them, 200 directories deep") {
  const place_to_write here;
  target to = here.open();
  for (const std::string& name :
       {std::string(255, 'n'), std::string("new\nline"), std::string("\xff\xfe\x80"),
        std::string("-rf"), std::string(" "), std::string("...")}) {
    CAPTURE(name);
    CHECK(to.make_directory(name).ok());
    CHECK(publish_part(to, name + "/" + name).ok());
    CHECK(names(here.root / name) == std::vector<std::string>{name});
  }
  const std::string deepest = deep_path(4095);
  make_with_parents(to, deepest);
  CHECK(publish_part(to, deepest).ok());
  CHECK((*to.look(deepest)).has_value());
}

TEST_CASE("what is not there is nothing, also where its directory is not there, or is none") {
  const place_to_write here;
  target to = here.open();
  write(here.root / "file", "four");
  CHECK_FALSE(to.look("no").value().has_value());
  CHECK_FALSE(to.look("no/more").value().has_value());
  CHECK_FALSE(to.look("file/more").value().has_value());
  CHECK(to.look("file").value()->st_size == 4);
  CHECK(S_ISDIR(to.look(".").value()->st_mode));
}

TEST_CASE("the target is made with its parents where that is asked for, and may be a symlink") {
  const place_to_write here;
  const std::string deep = (here.root / "a//b/c/").string();
  CHECK(errno_of(target::open(deep, target::missing::is_error)) == ENOENT);
  CHECK(target::open(deep, target::missing::is_made).ok());
  CHECK(target::open(deep, target::missing::is_error).ok());
  fs::create_directory_symlink(here.outside, here.root / "link");
  auto linked = target::open((here.root / "link").string(), target::missing::is_made);
  REQUIRE(linked.ok());
  CHECK(linked->make_directory("x").ok());
  CHECK(is_there(here.outside / "x"));
  write(here.root / "file", "");
  CHECK(errno_of(target::open((here.root / "file").string(), target::missing::is_made)) == ENOTDIR);
  CHECK(errno_of(target::open((here.root / "file/x").string(), target::missing::is_made)) ==
        ENOTDIR);
  CHECK(errno_of(target::open("", target::missing::is_made)) == ENOENT);
}

TEST_CASE("a directory that went and was made again is the new one; few are held open") {
  const place_to_write here;
  const std::size_t before = cordma::test::open_descriptors();
  {
    target to = here.open();
    for (int i = 0; i < 100; ++i) {
      const std::string d = "d" + std::to_string(i);
      REQUIRE(to.make_directory(d).ok());
      REQUIRE(to.make_directory(d + "/e").ok());
      REQUIRE(to.make_directory(d + "/e/f").ok());
    }
    CHECK(cordma::test::open_descriptors() <= before + 1 + directory_cache::most);
    std::vector<problem> problems;
    CHECK(to.remove_others(".", {}, target::removal::real, problems).size() == 300);
    CHECK(problems.empty());
    REQUIRE(to.make_directory("d99").ok());
    CHECK(errno_of(to.make_directory("d99/e/f")) == ENOENT);
    CHECK(to.make_directory("d99/e").ok());
    CHECK(to.make_directory("d99/e/f").ok());
    fs::remove(here.root / "d99/e/f");
    CHECK(to.make_symlink("d99/e", "text").ok());
    CHECK(errno_of(to.make_directory("d99/e/f")) == ELOOP);
  }
  CHECK(cordma::test::open_descriptors() == before);
}

TEST_CASE("in a directory that may not be written nothing is made, and why is said" *
          applies(is_root(), not_root)) {
  const place_to_write here;
  fs::create_directory(here.root / "theirs");
  as_other_user([&] {
    target to = here.open();
    CHECK(errno_of(to.make_directory("theirs/x")) == EACCES);
    CHECK(errno_of(to.make_symlink("theirs/x", "text")) == EACCES);
    CHECK(errno_of(to.open_part("theirs/x", O_WRONLY)) == EACCES);
    CHECK(to.make_directory("theirs/x").why().describe().find("theirs/x: Permission denied") !=
          std::string::npos);
  });
}

// --delete removes entries that are not among the names, and nothing else.
#include "target_tree.hpp"

#include "../../apps/cp/target/removal.hpp"

#include <support/applies.hpp>
#include <support/fd_count.hpp>

#include <sys/file.h>

using namespace copy;
using namespace copy::test;
using cordma::test::applies;

namespace {

constexpr auto dry = target::removal::dry;
constexpr auto real = target::removal::real;
using paths = std::vector<std::string>;

// Calls remove_others() and expects no problem.
paths remove(target& to, const std::string& in, const std::vector<std::string_view>& names,
             target::removal how) {
  std::vector<problem> problems;
  paths gone = to.remove_others(in, names, how, problems);
  for (const problem& p : problems) FAIL_CHECK(p.path << ": " << p.why);
  return gone;
}

// Creates directories so deep that no path reaches the lowest.
void make_chain(const fs::path& at, int depth) {
  cordma::unique_fd here(::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < depth; ++i) {
    REQUIRE(::mkdirat(here.get(), "dddddddddd", 0700) == 0);
    here.reset(::openat(here.get(), "dddddddddd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(here);
    REQUIRE(::symlinkat("/", here.get(), "link") == 0);
  }
}

}  // namespace

TEST_CASE(
    "what is not among the names goes, what is in a directory before it; dry, it is only told") {
  const place_to_write here;
  write(here.outside / "kept", "");
  fs::create_directories(here.root / "a/b/c");
  fs::create_directories(here.root / "keep/inner");
  write(here.root / "a/b/file", "");
  write(here.root / "new\nline", "");
  fs::create_directory_symlink(here.outside, here.root / "a/link");
  fs::create_directory_symlink(here.outside, here.root / "link");
  REQUIRE(::mkfifo((here.root / "fifo").c_str(), 0600) == 0);
  target to = here.open();
  const paths expected{"a/b/c", "a/b/file", "a/b", "a/link", "a", "fifo", "link", "new\nline"};
  CHECK(remove(to, ".", {"keep", "not there"}, dry) == expected);
  CHECK(is_there(here.root / "a/b/file"));
  CHECK(remove(to, ".", {"keep", "not there"}, real) == expected);
  CHECK(names(here.root) == paths{"keep"});
  CHECK(remove(to, "keep", {}, real) == paths{"keep/inner"});
  CHECK(remove(to, "not there", {}, dry).empty());
  // A real transfer would first replace them by directories.
  write(here.root / "keep/file", "");
  fs::create_directory_symlink(here.outside, here.root / "keep/link");
  CHECK(remove(to, "keep/file", {}, dry).empty());
  CHECK(remove(to, "keep/link", {}, dry).empty());
  CHECK(names(here.outside) == paths{"kept"});
}

TEST_CASE("parts and sidecars stay where what they belong to stays") {
  const place_to_write here;
  const std::string longest(255, 'n');
  for (const std::string& name : {std::string("mine"), std::string("other"), longest}) {
    write(here.root / target::part_name(name), "");
    write(here.root / target::state_name(name), "");
  }
  target to = here.open();
  CHECK(remove(to, ".", {"mine", longest}, real) ==
        paths{".other.cordma-part", ".other.cordma-state"});
  CHECK(names(here.root).size() == 4);
}

TEST_CASE("a tree deeper than any path goes with few descriptors") {
  const place_to_write here;
  constexpr int depth = 500;
  make_chain(here.root, depth);
  target to = here.open();
  const std::size_t before = cordma::test::open_descriptors();
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit few{before + 50, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const paths would = remove(to, ".", {}, dry);
  const paths went = remove(to, ".", {}, real);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(went.size() == 2 * depth);
  CHECK(went == would);
  CHECK(names(here.root).empty());
  CHECK(cordma::test::open_descriptors() == before);
}

TEST_CASE("what cannot be removed stays, with what it is in; the rest goes" *
          applies(is_root(), not_root)) {
  const place_to_write here;
  give_to_other_user(here.root);
  as_other_user([&] {
    fs::create_directories(here.root / "a/closed/x");
    fs::create_directories(here.root / "a/open");
    fs::create_directories(here.root / "closed/x");
    fs::create_directories(here.root / "unreadable/x");
    fs::create_directories(here.root / "unreadable and empty");
    write(here.root / "file", "");
  });
  REQUIRE(::chown((here.root / "a/closed").c_str(), 0, 0) == 0);
  REQUIRE(::chmod((here.root / "a/closed").c_str(), 0555) == 0);
  REQUIRE(::chmod((here.root / "closed").c_str(), 0555) == 0);  // its owner can change that
  REQUIRE(::chmod((here.root / "unreadable").c_str(), 0300) == 0);
  REQUIRE(::chmod((here.root / "unreadable and empty").c_str(), 0) == 0);
  as_other_user([&] {
    target to = here.open();
    std::vector<problem> problems;
    CHECK(to.remove_others(".", {}, real, problems) ==
          paths{"a/open", "closed/x", "closed", "file", "unreadable and empty"});
    REQUIRE(problems.size() == 2);
    CHECK(problems[0].path == "a/closed/x");
    CHECK(problems[0].why == "Permission denied");
    CHECK(problems[1].path == "unreadable");
    CHECK(problems[1].why == "Permission denied");
    problems.clear();
    CHECK(to.remove_others("unreadable", {}, dry, problems).empty());
    CHECK(problems.size() == 1);
  });
  CHECK(names(here.root) == paths{"a", "unreadable"});
}

TEST_CASE("what is mounted in it stays as it is" * applies(can_mount(), no_mounts)) {
  const place_to_write here;
  fs::create_directories(here.root / "d/mounted");
  fs::create_directories(here.root / "d/other");
  in_thread([&] {
    REQUIRE(mount_small(here.root / "d/mounted", "size=64k"));
    write(here.root / "d/mounted/file", "kept");
    target to = here.open();
    std::vector<problem> problems;
    CHECK(to.remove_others(".", {}, real, problems) == paths{"d/other"});
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].path == "d/mounted");
    CHECK(problems[0].why == "another file system is mounted there");
    CHECK(read(here.root / "d/mounted/file") == "kept");
    // A transfer may still write into it.
    CHECK(to.make_directory("d/mounted/d").ok());
    CHECK(remove(to, "d/mounted", {}, real) == paths{"d/mounted/d", "d/mounted/file"});
  });
}

TEST_CASE("what is left of transfers goes beside what is whole, and stays beside what is not") {
  const place_to_write here;
  for (const char* const name : {"whole", "failed", "short"}) {
    write(here.root / target::part_name(name), "");
    write(here.root / target::state_name(name), "");
  }
  write(here.root / "whole", "");
  target to = here.open();
  std::vector<problem> problems;
  const auto is_whole = [](const std::string& path) { return path != "failed"; };
  const std::vector<std::string_view> all{"whole", "failed", "short"};
  CHECK(to.remove_others(".", all, dry, problems, nullptr, nullptr, is_whole).empty());
  CHECK(names(here.root).size() == 7);
  {
    // Another transfer is continuing this part.
    const cordma::unique_fd other(
        ::open((here.root / target::part_name("short")).c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);
    CHECK(to.remove_others(".", all, real, problems, nullptr, nullptr, is_whole).empty());
    CHECK(names(here.root) == paths{".failed.cordma-part", ".failed.cordma-state",
                                    ".short.cordma-part", ".short.cordma-state", "whole"});
  }
  CHECK(to.remove_others(".", all, real, problems, nullptr, nullptr, is_whole).empty());
  CHECK(names(here.root) == paths{".failed.cordma-part", ".failed.cordma-state", "whole"});
  CHECK(problems.empty());

  // An entry that is not a file is removed like any other, and entries excluded by the filter stay.
  fs::create_directories(here.root / ".whole.cordma-state/theirs");
  write(here.root / "theirs", "");
  fs::create_hard_link(here.root / "theirs", here.root / ".short.cordma-part");
  const std::vector<std::string_view> more{"whole", "failed", "short", "theirs", "spared"};
  write(here.root / ".spared.cordma-part", "");
  filter spared;
  spared.add(filter::decision::exclude, "*.cordma-part");
  CHECK(to.remove_others(".", more, real, problems, &spared, nullptr, is_whole) ==
        paths{".whole.cordma-state/theirs", ".whole.cordma-state"});
  CHECK(is_there(here.root / ".spared.cordma-part"));
  CHECK(to.remove_others(".", more, real, problems, nullptr, nullptr, is_whole).empty());
  CHECK(names(here.root) ==
        paths{".failed.cordma-part", ".failed.cordma-state", "theirs", "whole"});
  CHECK(problems.empty());
}

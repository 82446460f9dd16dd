// A file is written under a work name by one transfer at a time, and is renamed atomically.
#include "target_tree.hpp"

#include <support/applies.hpp>
#include <support/fd_count.hpp>

#include <atomic>
#include <set>
#include <thread>

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

using namespace copy;
using namespace copy::test;
using cordma::test::applies;

namespace {

void put(const cordma::unique_fd& fd, const std::string& text) {
  REQUIRE(::pwrite(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
}

fs::path part_of(const place_to_write& here, const std::string& path) {
  return (here.root / path).parent_path() / target::part_name(path);
}
fs::path state_of(const place_to_write& here, const std::string& path) {
  return (here.root / path).parent_path() / target::state_name(path);
}

// Every kind of entry that another user can have put at a name that a transfer is to write.
// `victim` is a file of that user.
std::vector<std::pair<const char*, std::function<void(const fs::path&)>>> plants(
    const fs::path& victim) {
  return {
      {"a symlink to a file", [=](const fs::path& at) { fs::create_symlink(victim, at); }},
      {"a symlink to a directory",
       [=](const fs::path& at) { fs::create_symlink(victim.parent_path(), at); }},
      {"a symlink to nothing",
       [=](const fs::path& at) { fs::create_symlink(victim.string() + "-made", at); }},
      {"another name of a file", [=](const fs::path& at) { fs::create_hard_link(victim, at); }},
      {"a FIFO", [](const fs::path& at) { REQUIRE(::mkfifo(at.c_str(), 0600) == 0); }},
      {"an empty directory", [](const fs::path& at) { fs::create_directory(at); }},
      {"a directory with a symlink in it",
       [=](const fs::path& at) {
         fs::create_directories(at / "a/b");
         fs::create_symlink(victim.parent_path(), at / "a/link");
       }},
  };
}

void check_new(const cordma::result<cordma::unique_fd>& opened, const fs::path& at) {
  REQUIRE(opened.ok());
  const struct stat s = look(at);
  CHECK(S_ISREG(s.st_mode));
  CHECK((s.st_mode & 07777) == 0600);
  CHECK(s.st_size == 0);
  CHECK(s.st_nlink == 1);
  struct stat opened_one{};
  REQUIRE(::fstat(opened->get(), &opened_one) == 0);
  CHECK(opened_one.st_ino == s.st_ino);
}

}  // namespace

TEST_CASE("work names are as long as names may be, and no two files share one") {
  CHECK(target::part_name("a/b.txt") == ".b.txt.cordma-part");
  CHECK(target::state_name("b.txt") == ".b.txt.cordma-state");
  std::set<std::string> all;
  std::size_t made = 0;
  for (std::size_t length = 1; length <= 255; ++length) {
    for (const std::string& name : {std::string(length, 'n'), std::string(length - 1, 'n') + 'm',
                                    'm' + std::string(length - 1, 'n')}) {
      for (const std::string& work : {target::part_name(name), target::state_name(name)}) {
        CHECK(work.size() <= 255);
        CHECK(stays_inside(work));
        CHECK(target::is_work_name(work));
        if (name.size() > 1 && all.insert(work).second) ++made;
      }
    }
  }
  CHECK(made == std::size_t{254 * 3 * 2});
  // The work name of a name that looks like a shortened one.
  const std::string shortened = target::part_name(std::string(250, 'n'));
  const std::string looks_so = shortened.substr(1, shortened.rfind('.') - 1);
  CHECK(target::part_name(looks_so) != shortened);
  CHECK_FALSE(target::is_work_name("a.cordma-part"));
  CHECK_FALSE(target::is_work_name(".a"));
}

TEST_CASE("a long name is not cut inside of a character") {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string name(before, 'a');
    while (name.size() + 3 <= 255) name += "\xe2\x82\xac";  // the sign of the Euro
    const std::string work = target::part_name(name);
    CHECK(work.size() == 255);
    const std::size_t cut = work.find('-');
    CAPTURE(before);
    CHECK((cut - 1 - before) % 3 == 0);
  }
}

TEST_CASE("a part takes the place of an empty directory, and of no other") {
  const place_to_write here;
  target to = here.open();
  fs::create_directories(here.root / "d/empty");
  fs::create_directories(here.root / "full/of");
  REQUIRE(to.open_part("d/empty", O_WRONLY).ok());
  REQUIRE((*to.find("d/empty/x")).directory >= 0);
  CHECK(publish_part(to, "d/empty").ok());
  CHECK(errno_of(to.find("d/empty/x")) == ENOTDIR);
  CHECK(errno_of(publish_part(to, "full")) == EISDIR);
  CHECK(is_there(part_of(here, "full")));
  CHECK(errno_of(to.open_part(".", O_WRONLY)) == EISDIR);
  CHECK(errno_of(to.open_state(".")) == EISDIR);
  CHECK(errno_of(to.publish(-1, ".")) == EISDIR);
  CHECK(to.drop_part(".").ok());
}

TEST_CASE("a part that was left is taken over with its sidecar; without its part a sidecar goes") {
  const place_to_write here;
  target to = here.open();
  put(*to.open_part("file", O_RDWR), "half");
  put(*to.open_state("file"), "state");
  {
    const auto part = to.open_part("file", O_RDWR);
    REQUIRE(part.ok());
    CHECK((::fcntl(part->get(), F_GETFL) & O_NONBLOCK) == 0);
    CHECK((::fcntl(part->get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(read(part_of(here, "file")) == "half");
    CHECK(read(state_of(here, "file")) == "state");
    // Another transfer has locked the part.
    CHECK(errno_of(to.open_part("file", O_RDWR)) == EBUSY);
    CHECK(errno_of(here.open().open_part("file", O_RDWR | O_TRUNC)) == EBUSY);
    CHECK(read(part_of(here, "file")) == "half");
  }
  CHECK(to.open_part("file", O_RDWR | O_TRUNC).ok());
  CHECK(read(part_of(here, "file")).empty());
  CHECK_FALSE(is_there(state_of(here, "file")));

  put(*to.open_state("file"), "state");
  fs::remove(part_of(here, "file"));
  check_new(to.open_part("file", O_RDWR), part_of(here, "file"));
  CHECK_FALSE(is_there(state_of(here, "file")));

  put(*to.open_state("file"), "state");
  CHECK(publish_part(to, "file").ok());
  CHECK(names(here.root) == std::vector<std::string>{"file"});
  for (const bool with_state : {true, false}) {
    CHECK(to.open_part("file", O_RDWR).ok());
    if (with_state) CHECK(to.open_state("file").ok());
    CHECK(to.drop_part("file").ok());
    CHECK(to.drop_part("file").ok());
    CHECK(names(here.root) == std::vector<std::string>{"file"});
  }
}

TEST_CASE(
    "what was planted at the name of a part or a sidecar goes, save directories, and nothing is "
    "followed") {
  const place_to_write here;
  const fs::path victim = here.outside / "victim";
  write(victim, "kept");
  target to = here.open();
  const std::size_t open = cordma::test::open_descriptors();
  for (const auto& [what, plant] : plants(victim)) {
    CAPTURE(what);
    for (const std::string& path : {std::string("file"), std::string(255, 'n')}) {
      plant(part_of(here, path));
      plant(state_of(here, path));
      if (S_ISDIR(look(part_of(here, path)).st_mode)) {
        CHECK(errno_of(to.open_part(path, O_WRONLY)) == EISDIR);
        CHECK(errno_of(to.open_state(path)) == EISDIR);
        CHECK(errno_of(to.drop_part(path)) == EISDIR);
        to.drop_left(path, target::whose::anyones);
        CHECK(fs::remove_all(part_of(here, path)) != 0);
        CHECK(fs::remove_all(state_of(here, path)) != 0);
        continue;
      }
      check_new(to.open_part(path, O_RDWR), part_of(here, path));
      CHECK_FALSE(is_there(state_of(here, path)));
      plant(state_of(here, path));
      check_new(to.open_state(path), state_of(here, path));
      fs::remove(state_of(here, path));
      fs::remove(part_of(here, path));

      plant(part_of(here, path));
      plant(state_of(here, path));
      CHECK(to.drop_part(path).ok());
      CHECK(names(here.root).empty());
      plant(part_of(here, path));
      check_new(to.open_part(path, O_WRONLY | O_TRUNC), part_of(here, path));
      CHECK(to.drop_part(path).ok());
    }
    CHECK(read(victim) == "kept");
    CHECK(names(here.outside) == std::vector<std::string>{"victim"});
  }
  CHECK(cordma::test::open_descriptors() == open);
}

TEST_CASE("a part that was removed as it was written does not give its name to another's") {
  const place_to_write here;
  target to = here.open();
  write(here.root / "file", "old");
  const auto part = to.open_part("file", O_RDWR);
  put(*part, "whole");
  fs::remove(part_of(here, "file"));
  CHECK(errno_of(to.publish(part->get(), "file")) == ENOENT);
  target other = here.open();
  const auto theirs = other.open_part("file", O_RDWR);
  put(*theirs, "half");
  put(*other.open_state("file"), "state");
  CHECK(errno_of(to.publish(part->get(), "file")) == EBUSY);
  CHECK(read(here.root / "file") == "old");
  CHECK(read(part_of(here, "file")) == "half");
  CHECK(read(state_of(here, "file")) == "state");
  CHECK(other.publish(theirs->get(), "file").ok());
  CHECK(read(here.root / "file") == "half");
}

TEST_CASE("what another transfer is writing stays, whatever is to take its name meanwhile") {
  const place_to_write here;
  target to = here.open();
  target other = here.open();
  write(here.root / "file", "old");
  write(here.root / "first", "first");
  {
    const auto part = other.open_part("file", O_RDWR);
    put(*part, "half");
    put(*other.open_state("file"), "state");
    const auto unnamed = to.open_unnamed("file", 0600);
    REQUIRE(unnamed.ok());
    entry fifo;
    fifo.kind = entry_kind::special;
    fifo.type = S_IFIFO;
    CHECK(errno_of(to.drop_part("file")) == EBUSY);
    CHECK(errno_of(to.publish_unnamed(unnamed->get(), "file")) == EBUSY);
    CHECK(errno_of(to.make_symlink("file", "text")) == EBUSY);
    CHECK(errno_of(to.make_hard_link("file", "first")) == EBUSY);
    CHECK(errno_of(to.make_special("file", fifo)) == EBUSY);
    const auto again = to.open_part("file", O_RDWR);
    CHECK(errno_of(again) == EBUSY);
    CHECK(again.why().message() == "it is being written: by another transfer of this process (" +
                                       std::to_string(::getpid()) +
                                       "), or under another name (a hard link)");
    CHECK(read(part_of(here, "file")) == "half");
    CHECK(read(state_of(here, "file")) == "state");
    CHECK(read(here.root / "file") == "old");
    CHECK(other.publish(part->get(), "file").ok());
    CHECK(read(here.root / "file") == "half");
    CHECK(to.publish_unnamed(unnamed->get(), "file").ok());
  }
  CHECK(read(here.root / "file").empty());
  CHECK(names(here.root) == std::vector<std::string>{"file", "first"});
}

TEST_CASE("many that replace one name at once all do, and it is whole all the while") {
  const place_to_write here;
  write(here.root / "file", std::string(1000, 'z'));
  write(here.root / "first", std::string(1000, 'y'));
  constexpr int rounds = 100;
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (const char letter : {'a', 'b', 'c'}) {
    all.emplace_back([&failed, letter, to = here.open()]() mutable {
      for (int i = 0; i < rounds; ++i) {
        const auto fd = to.open_unnamed("file", 0600);
        const std::string text(1000, letter);
        const bool put_all = fd.ok() && ::pwrite(fd->get(), text.data(), text.size(), 0) == 1000;
        if (!put_all || !to.publish_unnamed(fd->get(), "file").ok()) ++failed;
        if (!to.make_hard_link("link", "first").ok()) ++failed;
        if (!to.make_symlink("link", "text").ok()) ++failed;
      }
    });
  }
  std::size_t wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string now = read(here.root / "file");
    wrong += now.size() != 1000 || now.find_first_not_of(now[0]) != std::string::npos;
  }
  for (std::thread& t : all) t.join();
  CHECK(failed == 0);
  CHECK(wrong == 0);
  CHECK(names(here.root) == std::vector<std::string>{"file", "first", "link"});
}

TEST_CASE(
    "in place, only a file is written to: what else is there stays, and nothing is followed") {
  const place_to_write here;
  const fs::path victim = here.outside / "victim";
  write(victim, "kept");
  target to = here.open();
  for (const auto& [what, plant] : plants(victim)) {
    CAPTURE(what);
    plant(here.root / "file");
    const auto kind = fs::symlink_status(here.root / "file");
    const bool is_file = fs::is_regular_file(kind);
    if (!is_file) {
      CHECK(errno_of(to.open_inplace("file")) == EEXIST);
      CHECK(fs::symlink_status(here.root / "file").type() == kind.type());
    } else {
      const auto fd = to.open_inplace("file");
      REQUIRE(fd.ok());
      CHECK(fd->before.has_value());
      CHECK(errno_of(to.open_inplace("file")) == EBUSY);
    }
    CHECK(read(victim) == "kept");
    CHECK(names(here.outside) == std::vector<std::string>{"victim"});
    fs::remove_all(here.root / "file");
  }
}

TEST_CASE(
    "in place, a new file has its name once it has begun, and is not there where it cannot begin") {
  const place_to_write here;
  target to = here.open();
  const auto failing = [&](int) -> cordma::result<void> {
    CHECK(names(here.root).empty());
    return cordma::failure::from_os(ENOSPC, "there is no room");
  };
  CHECK(errno_of(to.open_inplace("file", 0666, failing)) == ENOSPC);
  CHECK(names(here.root).empty());
  const auto fd = to.open_inplace("file");
  REQUIRE(fd.ok());
  CHECK_FALSE(fd->before);
  CHECK(names(here.root) == std::vector<std::string>{"file"});
}

TEST_CASE("a part that belongs to another user is not taken over" * applies(is_root(), not_root)) {
  const place_to_write here;
  target to = here.open();
  write(part_of(here, "file"), "theirs");
  give_to_other_user(part_of(here, "file"));
  {
    // The part stays while the other user writes it.
    const cordma::unique_fd held(::open(part_of(here, "file").c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(::flock(held.get(), LOCK_EX) == 0);
    CHECK(errno_of(to.open_part("file", O_RDWR)) == EBUSY);
    CHECK(read(part_of(here, "file")) == "theirs");
  }
  check_new(to.open_part("file", O_RDWR), part_of(here, "file"));
  // If it cannot be removed, nothing is written.
  fs::create_directory(here.root / "sticky");
  REQUIRE(::chmod((here.root / "sticky").c_str(), 01777) == 0);
  write(part_of(here, "sticky/file"), "theirs");
  as_other_user([&] {
    target theirs = here.open();
    CHECK(errno_of(theirs.open_part("sticky/file", O_RDWR)) == EPERM);
  });
  CHECK(read(part_of(here, "sticky/file")) == "theirs");
}

TEST_CASE("a part that was left read-only is begun anew" * applies(is_root(), not_root)) {
  const place_to_write here;
  give_to_other_user(here.root);
  as_other_user([&] {
    target to = here.open();
    put(*to.open_part("file", O_RDWR), "half");
    REQUIRE(::chmod(part_of(here, "file").c_str(), 0444) == 0);
    check_new(to.open_part("file", O_RDWR), part_of(here, "file"));
  });
}

TEST_CASE("where there is no descriptor left, what was left stays") {
  const place_to_write here;
  target to = here.open();
  put(*to.open_part("file", O_RDWR), "half");
  put(*to.open_state("file"), "state");
  {
    const cordma::test::no_descriptors none;
    CHECK(errno_of(to.open_part("file", O_RDWR)) == EMFILE);
    CHECK(errno_of(to.open_part("new", O_RDWR)) == EMFILE);
    CHECK(errno_of(to.open_state("file")) == EMFILE);
  }
  CHECK(read(part_of(here, "file")) == "half");
  CHECK(read(state_of(here, "file")) == "state");
}

TEST_CASE("on a full file system it is said so, and what is there stays" *
          applies(can_mount(), no_mounts)) {
  const place_to_write here;
  in_thread([&] {
    REQUIRE(mount_small(here.root, "size=64k,nr_inodes=8"));
    target to = here.open();
    write(here.root / "file", "old");
    {
      const auto part = to.open_part("file", O_WRONLY);
      REQUIRE(part.ok());
      const std::string block(4096, 'b');
      off_t at = 0;
      while (::pwrite(part->get(), block.data(), block.size(), at) == 4096) at += 4096;
      CHECK(errno == ENOSPC);
    }
    CHECK(read(here.root / "file") == "old");
    CHECK(to.drop_part("file").ok());
    int made = 0;
    while (to.make_directory("d" + std::to_string(made)).ok()) ++made;
    CHECK(made < 8);
    CHECK(errno_of(to.make_directory("more")) == ENOSPC);
    CHECK(errno_of(to.make_symlink("more", "text")) == ENOSPC);
    CHECK(errno_of(to.open_part("more", O_WRONLY)) == ENOSPC);
    CHECK(to.open_part("more", O_WRONLY).why().message().find("more: No space left") !=
          std::string::npos);
  });
}

TEST_CASE("a file of one's own that one may not write in can be written into, and stays closed" *
          applies(is_root(), not_root)) {
  const place_to_write here;
  write(here.root / "mine", "old");
  write(here.root / "theirs", "old");
  for (const char* name : {"mine", "theirs"}) {
    REQUIRE(::chmod((here.root / name).c_str(), 0444) == 0);
  }
  give_to_other_user(here.root);
  give_to_other_user(here.root / "mine");
  as_other_user([&] {
    target to = here.open();
    const auto fd = to.open_inplace("mine");
    REQUIRE(fd.ok());
    CHECK(::pwrite(fd->fd.get(), "new", 3, 0) == 3);
    CHECK(errno_of(to.open_inplace("theirs")) == EACCES);
  });
  CHECK(read(here.root / "mine") == "new");
  CHECK((look(here.root / "mine").st_mode & 07777) == 0444);
}

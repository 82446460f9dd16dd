// A reader sees the old or the new file, complete, with any number of concurrent writers. A process
// that exchanges entries of the target during a transfer cannot redirect it outside.
#include "target_tree.hpp"

#include <atomic>

using namespace copy;
using namespace copy::test;

namespace {

// Writes the file `times` times, in two steps. Returns 0, or the errno of any failure except EBUSY
// from another writer.
int write_again_and_again(const place_to_write& here, char letter, int times) {
  auto to = target::open(here.root.string(), target::missing::is_error);
  if (!to.ok()) return errno_of(to);
  const std::string half(1000, letter);
  const auto size = static_cast<ssize_t>(half.size());
  for (int i = 0; i < times; ++i) {
    const auto part = to->open_part("file", O_WRONLY | O_TRUNC);
    if (errno_of(part) == EBUSY) continue;
    if (!part.ok()) return errno_of(part);
    if (::pwrite(part->get(), half.data(), half.size(), 0) != size ||
        ::pwrite(part->get(), half.data(), half.size(), size) != size) {
      return errno;
    }
    if (const auto done = to->publish(part->get(), "file"); !done) return errno_of(done);
  }
  return 0;
}

}  // namespace

TEST_CASE("a part takes the place of what is there at once, for whoever looks") {
  const place_to_write here;
  target to = here.open();
  write(here.root / "file", "0");
  std::atomic<bool> done = false;
  int missing = 0;
  std::thread reader([&] {
    while (!done) {
      const cordma::unique_fd fd(::open((here.root / "file").c_str(), O_RDONLY | O_CLOEXEC));
      char text = 0;
      if (!fd || ::read(fd.get(), &text, 1) != 1) ++missing;
    }
  });
  bool all = true;
  for (int i = 0; i < 300; ++i) {
    auto part = to.open_part("file", O_WRONLY);
    all = all && part.ok() && ::pwrite(part->get(), "1", 1, 0) == 1 &&
          to.publish(part->get(), "file").ok();
  }
  done = true;
  reader.join();
  CHECK(all);
  CHECK(missing == 0);
  CHECK(names(here.root) == std::vector<std::string>{"file"});
  CHECK(errno_of(to.publish(-1, "file")) == ENOENT);
}

TEST_CASE(
    "of two transfers of one file each writes its own part, or is told that another is at it") {
  const place_to_write here;
  write(here.root / "file", std::string(2000, '0'));
  constexpr int times = 1000;
  std::atomic<int> running = 3;
  std::array<int, 3> failed{};
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < failed.size(); ++i) {
    writers.emplace_back([&, i] {
      failed[i] = write_again_and_again(here, static_cast<char>('a' + i), times);
      --running;
    });
  }
  int mixed = 0;
  while (running != 0) {
    const std::string text = read(here.root / "file");
    mixed += text != std::string(2000, text.empty() ? 'x' : text[0]);
  }
  for (std::thread& w : writers) w.join();
  CHECK(mixed == 0);
  for (const int why : failed) CHECK(why == 0);
  CHECK(names(here.root) == std::vector<std::string>{"file"});
}

namespace {

// While `what` runs, root/d alternates between a directory with a file in it and a symlink to the
// outside.
void while_exchanged(const place_to_write& here, const std::function<void()>& what) {
  fs::create_directory(here.root / "d");
  const std::string d = (here.root / "d").string();
  const std::string away = (here.all.path() / "away").string();
  std::atomic<bool> done = false;
  std::thread exchanging([&] {
    while (!done) {
      if (::rename(d.c_str(), away.c_str()) != 0) ::mkdir(away.c_str(), 0700);
      (void)!::symlink(here.outside.c_str(), d.c_str());
      ::unlink(d.c_str());
      ::rename(away.c_str(), d.c_str());
    }
  });
  what();
  done = true;
  exchanging.join();
}

}  // namespace

TEST_CASE("a directory that is exchanged for a symlink all the time leads nowhere else") {
  const place_to_write here;
  write(here.outside / "kept", "");
  constexpr int times = 2000;
  int made = 0;
  while_exchanged(here, [&] {
    for (int i = 0; i < times; ++i) {
      target to = here.open();
      if (publish_part(to, "d/part").ok()) ++made;
      (void)to.make_directory("d/directory");
      (void)to.make_symlink("d/symlink", "text");
    }
  });
  CHECK(names(here.outside) == std::vector<std::string>{"kept"});
  MESSAGE("of ", times, " files ", made, " were made");
}

TEST_CASE("what is removed is not what a symlink leads to that takes its place meanwhile") {
  const place_to_write here;
  fs::create_directories(here.outside / "kept/too");
  constexpr int times = 1000;
  constexpr int looks = 20;
  int led_out = 0;
  std::size_t gone = 0;
  while_exchanged(here, [&] {
    target to = here.open();
    std::vector<problem> problems;
    for (int i = 0; i < times; ++i) {
      for (int j = 0; j < looks; ++j) {
        for (const std::string& path : to.remove_others(".", {}, target::removal::dry, problems)) {
          led_out += path.find("kept") != std::string::npos;
        }
      }
      gone += to.remove_others(".", {}, target::removal::real, problems).size();
      ::mkdir((here.root / "d").c_str(), 0700);
    }
  });
  CHECK(led_out == 0);
  CHECK(is_there(here.outside / "kept/too"));
  MESSAGE(gone, " things went");
}

TEST_CASE("a directory that is moved away while it is removed does not lead to where it went") {
  const place_to_write here;
  write(here.outside / "z", "kept");
  fs::path above = here.root;  // so far up that it is not kept open while the lowest is removed
  for (int i = 0; i < 4; ++i) above /= "c";
  fs::path lowest = above;
  for (int i = 0; i < 60; ++i) lowest /= "c";
  const std::string in = (above / "c").string();
  const std::string out = (here.outside / "c").string();
  target to = here.open();
  std::vector<problem> problems;
  for (int i = 0; i < 100; ++i) {
    fs::create_directories(lowest);
    write(above / "z", "goes");  // sorted after "c"
    std::atomic<bool> done = false;
    std::thread moving([&] {
      while (!done) {
        ::rename(in.c_str(), out.c_str());
        ::rename(out.c_str(), in.c_str());
      }
    });
    (void)to.remove_others(".", {}, target::removal::real, problems);
    done = true;
    moving.join();
    fs::remove_all(out);
  }
  CHECK(is_there(here.outside / "z"));
  MESSAGE(problems.size(), " things stayed for a while");
}

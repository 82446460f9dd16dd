// Carrying descriptors by files and sockets: completely or not at all, and never more than the
// limit.
#include <cordma/net/exchange.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

using namespace cordma;

namespace {

using bytes_of = std::vector<std::byte>;

struct folder {
  folder() {
    std::string name = "/tmp/cordma-exchange-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file() const { return path + "/descriptor"; }
  [[nodiscard]] std::size_t files() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(path)) ++n;
    return n;
  }
  std::string path;
};

struct sockets {
  sockets() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0); }
  sockets(const sockets&) = delete;
  sockets& operator=(const sockets&) = delete;
  ~sockets() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
  void say(std::size_t from, const bytes_of& text) const {
    REQUIRE(::send(ends[from], text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  std::array<int, 2> ends{-1, -1};
};

}  // namespace

TEST_CASE("I3: what is written to a file is read back, by its owner only [0, 200, 4096 bytes]") {
  const folder in;
  CHECK(read_exchanged(in.file()).code() == errc::not_found);
  for (const std::size_t size : {std::size_t{200}, std::size_t{0}, max_exchanged}) {
    CAPTURE(size);
    const bytes_of text(size, std::byte{7});
    REQUIRE(write_exchanged(in.file(), text).ok());
    CHECK(read_exchanged(in.file()).value() == text);
    struct stat about{};
    REQUIRE(::stat(in.file().c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
    CHECK(in.files() == 1);
  }
}

TEST_CASE("I3: what is too long, or cannot be written, leaves the file as it was") {
  const folder in;
  const bytes_of before(10, std::byte{1});
  REQUIRE(write_exchanged(in.file(), before).ok());
  const bytes_of longer(max_exchanged + 1, std::byte{2});
  CHECK(write_exchanged(in.file(), longer).code() == errc::invalid_value);
  CHECK(read_exchanged(in.file()).value() == before);
  CHECK(write_exchanged(in.path + "/none/descriptor", before).code() == errc::not_found);
  CHECK_FALSE(write_exchanged(in.path, before).ok());  // a folder is not replaced
  CHECK(in.files() == 1);
  std::ofstream(in.file()) << std::string(max_exchanged + 1, 'x');
  CHECK(read_exchanged(in.file()).code() == errc::invalid_value);
}

TEST_CASE("I3: what is no regular file is not replaced, nor read [folder, fifo, link, device]") {
  const folder in;
  const bytes_of text(10, std::byte{1});
  const std::string fifo = in.path + "/fifo";
  const std::string link = in.path + "/link";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(::symlink("/dev/null", link.c_str()) == 0);
  for (const std::string& path : {in.path, fifo, link, std::string("/dev/full")}) {
    CAPTURE(path);
    struct stat before{};
    struct stat after{};
    REQUIRE(::lstat(path.c_str(), &before) == 0);
    const result<void> written = write_exchanged(path, text);
    REQUIRE(written.code() == errc::invalid_value);
    CHECK(written.why().message().find("no regular file") != std::string::npos);
    REQUIRE(::lstat(path.c_str(), &after) == 0);
    CHECK(after.st_ino == before.st_ino);
    CHECK(read_exchanged(path).code() == errc::invalid_value);
  }
  CHECK(in.files() == 2);
}

TEST_CASE("I3: who reads while it is replaced gets one or the other, whole") {
  const folder in;
  const std::array<bytes_of, 2> texts{bytes_of(100, std::byte{1}), bytes_of(3000, std::byte{2})};
  REQUIRE(write_exchanged(in.file(), texts[0]).ok());
  std::atomic<bool> enough{false};
  std::atomic<int> failed{0};
  std::thread writer([&] {
    for (std::size_t i = 0; !enough.load(); ++i) {
      if (!write_exchanged(in.file(), texts[i % 2]).ok()) ++failed;
    }
  });
  int torn = 0;
  for (int i = 0; i < 2000; ++i) {
    const result<bytes_of> got = read_exchanged(in.file());
    if (!got.ok() || (*got != texts[0] && *got != texts[1])) ++torn;
  }
  enough.store(true);
  writer.join();
  CHECK(torn == 0);
  CHECK(failed.load() == 0);
}

TEST_CASE("I3: both ends of a socket get what the other has, and the socket stays usable") {
  const sockets s;
  for (const std::size_t size : {std::size_t{200}, std::size_t{0}, max_exchanged}) {
    CAPTURE(size);
    const bytes_of mine(size, std::byte{3});
    const bytes_of theirs(size / 2, std::byte{4});
    result<bytes_of> there = errc::unknown;
    std::thread peer([&] { there = exchange_over(s.ends[1], theirs); });
    const result<bytes_of> here = exchange_over(s.ends[0], mine);
    peer.join();
    CHECK(here.value() == theirs);
    CHECK(there.value() == mine);
  }
}

TEST_CASE("I3: a peer that goes away, says too much or nothing is a typed error") {
  const bytes_of mine(64, std::byte{5});
  {
    sockets s;
    s.say(1, {std::byte{10}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{1}});
    s.close_end(1);
    const errc code = exchange_over(s.ends[0], mine).code();
    CHECK(code == errc::connection_reset);
  }
  {
    const sockets s;
    s.say(1, bytes_of(4, std::byte{0xFF}));
    CHECK(exchange_over(s.ends[0], mine).code() == errc::invalid_value);
  }
  {
    const sockets s;
    const timeval soon{.tv_sec = 0, .tv_usec = 1000};
    REQUIRE(::setsockopt(s.ends[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
    CHECK(exchange_over(s.ends[0], mine).code() == errc::timed_out);
  }
  const sockets s;
  CHECK(exchange_over(s.ends[0], bytes_of(max_exchanged + 1)).code() == errc::invalid_value);
}

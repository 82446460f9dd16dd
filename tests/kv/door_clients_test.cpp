// Clients of a front door: accepted connections, their limit, and the idle timeout.
#include "door_stage.hpp"

#include <support/alloc_count.hpp>

#include <cerrno>
#include <fstream>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kv;
using namespace kv::test;

namespace {

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  in >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct open_file_limit {
  open_file_limit() { ::getrlimit(RLIMIT_NOFILE, &before); }
  ~open_file_limit() { ::setrlimit(RLIMIT_NOFILE, &before); }
  bool set(rlim_t n) const {
    rlimit l = before;
    l.rlim_cur = std::min(n, before.rlim_max);
    return ::setrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur == n;
  }
  rlimit before{};
};

std::string temporary_path() {
  return "/tmp/cordma-kv-test." + std::to_string(::getpid()) + ".sock";
}

}  // namespace

TEST_CASE("thousands of clients may be silent, at less than a kilobyte each") {
  constexpr std::size_t many = 4000;
  const open_file_limit limit;
  if (!limit.set(2 * many + 200)) return;
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen();
    std::vector<visitor> all;
    all.reserve(many);
    for (std::size_t i = 0; i < 100; ++i) all.emplace_back(port);
    REQUIRE(house.soon([&] { return house.clients() == 100; }));
    const std::size_t before = resident_bytes();
    while (all.size() < many) all.emplace_back(port);
    REQUIRE(house.soon([&] { return house.clients() == many; }));
    const std::size_t after = resident_bytes();
    const std::size_t each = after > before ? (after - before) / (many - 100) : 0;
    MESSAGE("bytes each: ", each);
    // ASan's heap adds more to each block than the block contains.
    if (!cordma::test::sanitized) CHECK(each < 1024);
    for (const visitor& c : all) REQUIRE(c.say("hello"));
    for (const visitor& c : all) REQUIRE(c.hear(5) == "hello");
  }
}

TEST_CASE("one too many is told so, and there is room again when one leaves") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io, 2);
    const std::uint16_t port = house.listen();
    visitor first(port);
    const visitor second(port);
    REQUIRE(house.soon([&] { return house.clients() == 2; }));
    const visitor third(port);
    const std::string refusal = "-ERR max number of clients reached\r\n";
    CHECK(third.hear(refusal.size()) == refusal);
    CHECK(third.hears_the_end());
    CHECK(house.counters().refused == 1);
    first.die();
    REQUIRE(house.soon([&] { return house.clients() == 1; }));
    const visitor fourth(port);
    REQUIRE(fourth.say("hello"));
    CHECK(fourth.hear(5) == "hello");
  }
}

namespace {

// Sends 10 MB without a request, and nothing after that.
class lecturer final : public conversation {
 public:
  static constexpr std::size_t bytes = 10 << 20;
  explicit lecturer(std::unique_ptr<conversation> counted) : counted_(std::move(counted)) {}
  void received(std::span<const char>) override {}
  void no_more_input() override {}
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return std::span<const char>(text_).subspan(sent_);
  }
  void sent(std::size_t n) noexcept override { sent_ += n; }
  [[nodiscard]] bool wants_input() const noexcept override { return true; }
  [[nodiscard]] session::ending ended() const noexcept override { return session::ending::no; }

 private:
  std::unique_ptr<conversation> counted_;
  std::string text_ = long_text(bytes);
  std::size_t sent_ = 0;
};

conversation_maker lecturing(conversation_maker plain) {
  return [plain = std::move(plain)](session_origin o, session::wake_function wake, void* context) {
    return std::make_unique<lecturer>(plain(std::move(o), wake, context));
  };
}

void pass_seconds(open_house& house, int n) {
  house.front().call([&] {
    for (int i = 0; i < n; ++i) house.front().door().pass_second();
  });
}

}  // namespace

TEST_CASE("who neither says nor takes anything for too long is sent away, and nobody else") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    house.settings.idle_seconds = 1000;  // advanced by hand; real seconds do not matter
    house.open(listen_unix(temporary_path(), 0600, {}), &lecturing);
    const std::uint16_t port = house.listen();
    const visitor silent(port);
    const visitor talks(port);
    const visitor reads(temporary_path());
    REQUIRE(house.soon([&] { return house.clients() == 3; }));
    const auto sent = [&] {
      std::uint64_t n = 0;
      house.front().call([&] { n = house.front().door().counters().sent_bytes.get(); });
      return n;
    };
    std::string heard;
    for (int i = 0; i < 4; ++i) {
      pass_seconds(house, 600);
      const std::uint64_t before = sent();
      heard += reads.hear(1 << 20);
      REQUIRE(house.soon([&] { return sent() != before; }));
      REQUIRE(talks.say("hello"));
      REQUIRE(talks.hear(5) == "hello");
    }
    CHECK(silent.hears_the_end());
    CHECK(house.clients() == 2);
    CHECK((heard == long_text(4 << 20)));
    // A client that stops reading is disconnected as well.
    pass_seconds(house, 1100);
    CHECK(house.soon([&] { return house.clients() == 0; }));
  }
}

namespace {

// Accepts no more input once it has received something.
class holder final : public conversation {
 public:
  inline static std::atomic<int> holding = 0;
  explicit holder(std::unique_ptr<conversation> counted) : counted_(std::move(counted)) {}
  ~holder() override { holding -= heard_ ? 1 : 0; }
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;
  void received(std::span<const char>) override {
    heard_ = true;
    ++holding;
  }
  void no_more_input() override {}
  [[nodiscard]] std::span<const char> pending() const noexcept override { return {}; }
  void sent(std::size_t) noexcept override {}
  [[nodiscard]] bool wants_input() const noexcept override { return !heard_; }
  [[nodiscard]] session::ending ended() const noexcept override { return session::ending::no; }

 private:
  std::unique_ptr<conversation> counted_;
  bool heard_ = false;
};

conversation_maker holding(conversation_maker plain) {
  return [plain = std::move(plain)](session_origin o, session::wake_function wake, void* context) {
    return std::make_unique<holder>(plain(std::move(o), wake, context));
  };
}

}  // namespace

TEST_CASE("one that dies while it is not read is gone, one that only says no more is not") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    house.open(listen_unix(temporary_path(), 0600, {}), &holding);
    const std::uint16_t port = house.listen(&holding);
    visitor silent(port);
    visitor reset(port);
    visitor near(temporary_path());
    for (const visitor* v : {&silent, &reset, &near}) REQUIRE(v->say("hold this"));
    REQUIRE(house.soon([] { return holder::holding == 3; }));
    silent.say_no_more();
    reset.die();
    CHECK(house.soon([&] { return house.clients() == 2; }));
    near.die();
    CHECK(house.soon([&] { return house.clients() == 1; }));
    CHECK(holder::holding == 1);
  }
}

TEST_CASE("who is kept waiting is not sent away for that, and may be silent as long again then") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    house.settings.idle_seconds = 1000;
    const visitor waits(house.listen(&late));
    REQUIRE(house.soon([&] { return house.clients() == 1; }));
    REQUIRE(waits.say(long_text(parrot::most)));
    const auto is_held = [&] {
      bool held = false;
      house.front().call([&] { held = !late_parrot::last->wants_input(); });
      return held;
    };
    REQUIRE(house.soon(is_held));
    pass_seconds(house, 1100);
    CHECK(house.clients() == 1);
    house.front().call([] { late_parrot::release(); });
    CHECK((waits.hear(parrot::most) == long_text(parrot::most)));
    pass_seconds(house, 900);
    REQUIRE(waits.say("more"));
    CHECK(waits.hear(4) == "more");
    pass_seconds(house, 1100);
    CHECK(waits.hears_the_end());
  }
}

TEST_CASE("clients are spread over the workers") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io, 10'000, 3);
    const std::uint16_t port = house.listen();
    std::vector<visitor> all;
    for (int i = 0; i < 30; ++i) {
      all.emplace_back(port);
      REQUIRE(all.back().say("hello"));
      REQUIRE(all.back().hear(5) == "hello");
    }
    for (unsigned i = 0; i < 3; ++i) CHECK(house.at(i).clients() == 10);
  }
}

TEST_CASE(
    "where no more files can be opened that is said once a second, and gets better by itself") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const open_file_limit limit;
    // UBSan checks the type of an error category with a pipe when it meets the first one, so this
    // must happen now.
    static_cast<void>(cordma::failure::from_os(EMFILE, "accept").message());
    // A limit applies to descriptors opened after it was set; all below it are used, except one.
    const cordma::unique_fd lowest(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(limit.set(static_cast<rlim_t>(lowest.get()) + 20));
    const std::uint16_t port = house.listen();
    const visitor first(port);
    REQUIRE(house.soon([&] { return house.clients() == 1; }));
    std::vector<cordma::unique_fd> fill;
    for (;;) {
      cordma::unique_fd one(::dup(lowest.get()));
      if (!one) break;
      fill.push_back(std::move(one));
    }
    fill.pop_back();
    const visitor late(port);
    REQUIRE(late.connected());
    REQUIRE(house.soon([&] { return house.counters().failures != 0; }));
    fill.clear();
    ::setrlimit(RLIMIT_NOFILE, &limit.before);
    CHECK(house.soon([&] { return house.clients() == 2; }));
    CHECK(house.counters().failures <= 3);
  }
}

TEST_CASE("a unix socket has its permission, and a path that is left over is taken over") {
  const std::string path = temporary_path();
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    { const listening left = listen_unix(path, 0, {}); }
    open_house house(io);
    house.open(listen_unix(path, 0600, {}));
    struct stat s{};
    REQUIRE(::stat(path.c_str(), &s) == 0);
    CHECK((s.st_mode & 0777) == 0600);
    const visitor c(path);
    REQUIRE(c.say("hello"));
    CHECK(c.hear(5) == "hello");
    CHECK_THROWS_WITH_AS(static_cast<void>(listen_unix(path, 0, {})),
                         doctest::Contains("is served already"), cordma::error);
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
  std::ofstream(path) << "no socket";
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_unix(path, 0, {})),
                       doctest::Contains("is there, and no socket"), cordma::error);
  ::unlink(path.c_str());
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_unix("/tmp/" + std::string(200, 'x'), 0, {})),
                       doctest::Contains("is longer than 107 bytes"), cordma::error);
}

TEST_CASE("where to listen is said as Redis has it, and what cannot be is named") {
  const std::vector<listening> both = listen_tcp({"127.0.0.1", "-192.0.2.1"}, 0, door::tcp, {});
  CHECK(both.size() == 1);
  CHECK(both.front().address.starts_with("127.0.0.1:"));
  CHECK_FALSE(is_reached_from_afar(both.front()));
  CHECK(is_reached_from_afar(listen_tcp({"*"}, 0, door::tcp, {}).front()));
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_tcp({"192.0.2.1"}, 0, door::tcp, {})),
                       doctest::Contains("192.0.2.1"), cordma::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_tcp({"-192.0.2.1"}, 0, door::tcp, {})),
                       doctest::Contains("none of the addresses"), cordma::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_tcp({"no such host"}, 0, door::tcp, {})),
                       doctest::Contains("\"no such host\""), cordma::error);
  const std::string& address = both.front().address;
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_tcp({"127.0.0.1"}, port, door::tcp, {})),
                       doctest::Contains("another program has it"), cordma::error);
}

TEST_CASE("a port that another program has is tried again, while there is patience") {
  std::vector<listening> held = listen_tcp({"127.0.0.1"}, 0, door::tcp, {});
  const std::string address = held.front().address;
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const auto now = std::chrono::steady_clock::now();
  int tries = 0;
  const auto take = [&] {
    if (++tries == 3) held.clear();
    return listen_tcp({"127.0.0.1"}, port, door::tcp, {});
  };
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_patiently(now, take)),
                       doctest::Contains("another program has it"), cordma::error);
  CHECK(tries == 1);
  CHECK(listen_patiently(now + std::chrono::minutes(1), take).front().address == address);
  CHECK(tries == 3);
  const auto wrong = [&] { return listen_tcp({"192.0.2.1"}, port, door::tcp, {}); };
  CHECK_THROWS_WITH_AS(static_cast<void>(listen_patiently(now + std::chrono::minutes(1), wrong)),
                       doctest::Contains("192.0.2.1"), cordma::error);
}

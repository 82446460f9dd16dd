// Bytes at a front door, and clients that do not read theirs.
#include "door_stage.hpp"

#include <thread>

using namespace kv;
using namespace kv::test;

TEST_CASE("what is said is answered, wherever it is cut") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const visitor c(house.listen());
    const std::string text = long_text(100);
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      CAPTURE(cut);
      REQUIRE(c.say(text.substr(0, cut)));
      if (cut != 0) REQUIRE(c.hear(cut) == text.substr(0, cut));
      REQUIRE(c.say(text.substr(cut)));
      if (cut != text.size()) REQUIRE(c.hear(text.size() - cut) == text.substr(cut));
    }
  }
}

TEST_CASE("long messages come back whole while both sides talk") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const visitor c(house.listen());
    const std::string text = long_text(20 << 20);
    std::string heard;
    std::thread listens([&] { heard = c.hear(text.size()); });
    CHECK(c.say(text));
    listens.join();
    CHECK((heard == text));
  }
}

namespace {

// Sends `text` repeatedly without reading, until the socket accepts no more; returns the number of
// bytes sent.
std::size_t say_until_blocked(const visitor& c, std::string_view text) {
  std::size_t said = 0;
  for (;;) {
    const std::string_view rest = text.substr(said % text.size());
    const ssize_t n = ::send(c.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      said += static_cast<std::size_t>(n);
      continue;
    }
    if (n == 0 || errno != EAGAIN) return said;
    pollfd p{.fd = c.fd(), .events = POLLOUT, .revents = 0};
    if (::poll(&p, 1, 500) == 0) return said;
  }
}

}  // namespace

TEST_CASE("who does not read is not read either, and gets all of it when he does") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen();
    const visitor slow(port);
    const visitor other(port);
    const std::string text = long_text(1 << 20);
    const std::size_t said = say_until_blocked(slow, text);
    // Mostly the sockets' own buffers, and the data that the server keeps.
    CHECK(said < std::size_t{64} << 20);
    std::uint64_t received = 0;
    std::uint64_t sent = 0;
    house.front().call([&] {
      const door_counters& n = house.front().door().counters();
      received = n.received_bytes.get();
      sent = n.sent_bytes.get();
      CHECK(n.pauses.get() >= 1);
    });
    CHECK(received - sent <= parrot::most + most_kept_bytes);
    REQUIRE(other.say("still there?"));
    CHECK(other.hear(12) == "still there?");
    std::string heard;
    for (std::size_t at = 0; at < said; at += text.size()) {
      const std::size_t part = std::min(text.size(), said - at);
      heard = slow.hear(part);
      REQUIRE((heard == text.substr(0, part)));
    }
    REQUIRE(slow.say("more"));
    CHECK(slow.hear(4) == "more");
  }
}

TEST_CASE("a client that dies in the middle harms nobody") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen();
    const visitor other(port);
    const std::string text = long_text(1 << 20);
    for (int i = 0; i < 20; ++i) {
      visitor c(port);
      REQUIRE(c.say(text.substr(0, 100'000U * unsigned(i % 3) + 1)));
      c.die();
    }
    CHECK(house.soon([&] { return house.clients() == 1; }));
    REQUIRE(other.say("still there?"));
    CHECK(other.hear(12) == "still there?");
  }
}

TEST_CASE("who says no more still hears all that he is owed") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const visitor c(house.listen());
    const std::string text = long_text(200'000);
    REQUIRE(c.say(text));
    c.say_no_more();
    CHECK((c.hear(text.size()) == text));
    CHECK(c.hears_the_end());
    CHECK(house.soon([&] { return house.clients() == 0; }));
  }
}

TEST_CASE("who says no more hears what is answered later, too") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const visitor c(house.listen(&late));
    const std::string text = long_text(50'000);
    REQUIRE(c.say(text));
    c.say_no_more();
    const auto on_its_thread = [&](bool (*asked)()) {
      bool said = false;
      house.front().call([&] { said = asked(); });
      return said;
    };
    REQUIRE(house.soon([&] {
      return on_its_thread([] { return late_parrot::last && late_parrot::last->heard_all(); });
    }));
    CHECK(house.clients() == 1);
    house.front().call([] { late_parrot::release(); });
    CHECK((c.hear(text.size()) == text));
    CHECK(c.hears_the_end());
    CHECK(house.soon([&] { return house.clients() == 0; }));
    late_parrot::last = nullptr;
  }
}

TEST_CASE("a conversation ends when all is said, at once, or by what it throws") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen();
    const visitor polite(port);
    REQUIRE(polite.say("farewell!"));
    CHECK(polite.hear(9) == "farewell!");
    CHECK(polite.hears_the_end());
    for (const char* rude : {"~", "^"}) {
      const visitor c(port);
      REQUIRE(c.say(rude));
      CHECK(c.hears_the_end());
    }
    CHECK(house.soon([&] { return house.clients() == 0; }));
  }
}

TEST_CASE("when the server goes everybody gets what is pending, and nothing is read any more") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const visitor c(house.listen());
    const std::string text = long_text(8 << 20);
    const std::size_t said = say_until_blocked(c, text);
    house.front().call([&] {
      house.front().door().stop_reading();
      house.front().door().dismiss();
    });
    const std::string heard = c.hear(said);
    CHECK(heard.size() >= parrot::most);
    const std::string twice = text + text + text + text + text + text + text + text;
    CHECK((heard == twice.substr(0, heard.size())));
    CHECK(house.soon([&] { return house.clients() == 0; }));
  }
}

namespace {

// Receives a value of 10 MB directly into its destination, and sends it back.
class hoarder final : public conversation {
 public:
  static constexpr std::size_t bytes = 10 << 20;
  explicit hoarder(std::unique_ptr<conversation> counted) : counted_(std::move(counted)) {}
  void received(std::span<const char> part) override {
    std::copy(part.begin(), part.end(), value_.begin() + static_cast<std::ptrdiff_t>(got_));
    got_ += part.size();
  }
  [[nodiscard]] std::span<char> room() noexcept override {
    return got_ == 0
               ? std::span<char>()
               : std::span(value_).subspan(got_, std::min(bytes - got_, std::size_t{300'000}));
  }
  void arrived(std::size_t n) override { got_ += n; }
  void no_more_input() override { incomplete_ = got_ < bytes; }
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return got_ == bytes ? std::span<const char>(value_).subspan(sent_) : std::span<const char>();
  }
  void sent(std::size_t n) noexcept override { sent_ += n; }
  [[nodiscard]] bool wants_input() const noexcept override { return got_ < bytes; }
  [[nodiscard]] session::ending ended() const noexcept override {
    if (incomplete_) return session::ending::now;
    return got_ == bytes ? session::ending::when_sent : session::ending::no;
  }

 private:
  std::unique_ptr<conversation> counted_;
  std::string value_ = std::string(bytes, '\0');
  std::size_t got_ = 0;
  std::size_t sent_ = 0;
  bool incomplete_ = false;
};

conversation_maker hoarding(conversation_maker plain) {
  return [plain = std::move(plain)](session_origin o, session::wake_function wake, void* context) {
    return std::make_unique<hoarder>(plain(std::move(o), wake, context));
  };
}

}  // namespace

TEST_CASE("a long value comes whole to where it belongs, and its sender may die on the way") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    open_house house(io);
    const std::uint16_t port = house.listen(&hoarding);
    const std::string text = long_text(hoarder::bytes);
    visitor dies(port);
    REQUIRE(dies.say(text.substr(0, text.size() / 2)));
    const visitor c(port);
    REQUIRE(c.say(text));
    CHECK((c.hear(text.size()) == text));
    CHECK(c.hears_the_end());
    dies.die();
    CHECK(house.soon([&] { return house.clients() == 0; }));
  }
}

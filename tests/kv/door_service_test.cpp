// Redis clients at a front door that send requests and never read.
#include "../../apps/kv/server/resp_conversation.hpp"
#include "door_stage.hpp"
#include "resp_ground.hpp"

using namespace kv;
using namespace kv::test;
using kv_test::bulk;

namespace {

service* served = nullptr;  // set by the running case: the maker is a plain function

// Counts its clients as open_house does.
class guest final : public conversation {
 public:
  guest(std::unique_ptr<conversation> counted, session_origin o, session::wake_function wake,
        void* context)
      : counted_(std::move(counted)), session_(*served, std::move(o), wake, context) {}
  void received(std::span<const char> bytes) override { session_.received(bytes); }
  [[nodiscard]] std::span<char> room() noexcept override { return session_.room(); }
  void arrived(std::size_t n) override { session_.arrived(n); }
  void no_more_input() override { session_.no_more_input(); }
  void resume() override { session_.resume(); }
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return session_.pending();
  }
  void sent(std::size_t n) noexcept override { session_.sent(n); }
  [[nodiscard]] bool wants_input() const noexcept override { return session_.wants_input(); }
  [[nodiscard]] session::ending ended() const noexcept override { return session_.ended(); }

 private:
  std::unique_ptr<conversation> counted_;
  session session_;
};

conversation_maker served_clients(conversation_maker plain) {
  return [plain = std::move(plain)](const session_origin& o, session::wake_function wake,
                                    void* context) {
    return std::make_unique<guest>(plain(o, wake, context), o, wake, context);
  };
}

std::string asking(std::initializer_list<std::string_view> words) {
  return kv_test::client::packed(std::vector<std::string_view>(words));
}

constexpr std::size_t value_bytes = 300'000;

struct stage {
  stage(io_choice io, const settings& values) : server(values), house(io) {
    served = &server.of;
    server.of.hooks.warn = [this](std::string_view line) { logged.emplace_back(line); };
    port = house.listen(&served_clients);
  }
  // Returns the most memory, in bytes, that the server keeps for one client.
  std::size_t most_kept() {
    std::size_t most = 0;
    house.front().call([&] {
      server.of.for_each_client([&](const caller& c) {
        most = std::max<std::size_t>(most, c.output_room + c.input_room + c.input_bytes);
      });
    });
    return most;
  }
  std::uint64_t sent() {
    std::uint64_t n = 0;
    house.front().call([&] { n = house.front().door().counters().sent_bytes.get(); });
    return n;
  }
  void pass(unix_ms milliseconds) {
    house.front().call([&] {
      server.pass(milliseconds);
      server.of.read_time(0);
      house.front().door().pass_second();
    });
  }
  kv_test::server server;
  open_house house;
  std::uint16_t port = 0;
  std::vector<std::string> logged;  // written by the worker; read by calls on it
};

// Sends a pipeline of requests without reading responses, until no more of it is accepted.
void ask_until_blocked(const visitor& c, stage& s) {
  std::string requests;
  for (int i = 0; i < 1000; ++i) requests += asking({"GET", "k"});
  std::size_t at = 0;
  const auto ask = [&] {
    const ssize_t n =
        ::send(c.fd(), requests.data() + at, requests.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) at = (at + static_cast<std::size_t>(n)) % requests.size();
    return n;
  };
  std::uint64_t before = s.sent();
  for (int quiet = 0; quiet < 50;) {
    const bool said = ask() > 0;
    const std::uint64_t now = s.sent();
    quiet = said || now != before ? 0 : quiet + 1;
    before = now;
  }
}

}  // namespace

TEST_CASE("who asks for much and never reads costs the server little, and nobody else anything") {
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    stage s(io, {});
    const visitor other(s.port);
    REQUIRE(other.say(asking({"SET", "k", std::string(value_bytes, 'v')})));
    REQUIRE(other.hear(5) == "+OK\r\n");
    const visitor greedy(s.port);
    ask_until_blocked(greedy, s);
    const std::size_t kept = s.most_kept();
    CHECK(kept > value_bytes);
    CHECK(kept < 4'000'000);
    REQUIRE(other.say(asking({"GET", "k"})));
    CHECK((other.hear(bulk(std::string(value_bytes, 'v')).size()) ==
           bulk(std::string(value_bytes, 'v'))));
    CHECK(s.house.clients() == 2);
  }
}

TEST_CASE("who does not read for too long, and says no more, is disconnected, which is said") {
  settings limited;
  limited.client_output_buffer_limit.soft_bytes = 100'000;
  limited.client_output_buffer_limit.soft_seconds = 60;
  for (const io_choice io : engines()) {
    CAPTURE(int(io));
    stage s(io, limited);
    const visitor other(s.port);
    REQUIRE(other.say(asking({"SET", "k", std::string(value_bytes, 'v')})));
    REQUIRE(other.hear(5) == "+OK\r\n");
    const visitor greedy(s.port);
    ask_until_blocked(greedy, s);
    s.pass(59'000);
    CHECK(s.house.clients() == 2);
    s.pass(2'000);
    CHECK(s.house.soon([&] { return s.house.clients() == 1; }));
    CHECK(s.server.of.counters(0).killed_for_output.get() == 1);
    std::vector<std::string> logged;
    s.house.front().call([&] { logged = s.logged; });
    REQUIRE(logged.size() == 1);
    CHECK(logged[0].find("client-output-buffer-limit: id=2 ") != std::string::npos);
    CHECK(logged[0].find("cmd=get") != std::string::npos);
    REQUIRE(other.say(asking({"PING"})));
    CHECK(other.hear(7) == "+PONG\r\n");
  }
}

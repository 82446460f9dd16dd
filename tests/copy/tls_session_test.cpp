// The handshake over TLS, and attackers between client and server.
#include "lane_pair.hpp"

#include "../../apps/cp/protocol/auth.hpp"
#include "../../apps/cp/transfer/session.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

using namespace copy;
using namespace copy::test;
using cordma::task;
using cordma::test::stage;

namespace {

constexpr auto tcp = cordma::transport::kind::tcp;

tls_context showing(const std::string& name) {
  return tls_context::server(certificates::shared().of(name), certificates::shared().key_of(name));
}
tls_context trusting(const std::string& name) {
  return tls_context::client(certificates::shared().of(name));
}

void append(lane& l, std::uint32_t number) {
  frame_writer(l.out(), frame_kind::credit).u32(number);
  l.kick();
}

// Sends the number of each lane on it.
task<> say_numbers(client_request, lanes& ways) {
  for (std::uint32_t i = 0; i < ways.size(); ++i) {
    append(*ways[i], i);
    co_await ways[i]->say();
  }
  // Waits until the client closes, so that data in flight is read.
  try {
    [[maybe_unused]] const bool more = co_await ways.front()->next();
  } catch (const cordma::error&) {}
}

// A server, an optional attacker in front of it, and a client, in one reactor.
struct scene {
  explicit scene(const std::string& token, server_tls tls = {})
      : on({}, tcp),
        box{.name = "box", .path = "", .token = token},
        at(on.server().listen("127.0.0.1:0").value()),
        serving(on.server_context(), handlers_for(), tls) {}
  server::handlers handlers_for() {
    server::handlers h;
    h.find = [this](const std::string&, const std::string&) { return &box; };
    h.look = [](const client_request&) { return false; };
    h.carry = say_numbers;
    h.log = [this](const std::string&, const std::string& what) { logged += what + '\n'; };
    return h;
  }
  [[nodiscard]] bool has_logged(std::string_view what) const {
    return logged.find(what) != std::string::npos;
  }
  stage on;
  module box;
  cordma::Listener at;
  std::string logged;
  server serving;
};

struct attempt {
  const char* token = "";
  const tls_context* trust = nullptr;
  std::uint32_t lanes = 1;
};
static_assert(std::is_trivially_destructible_v<attempt>);

// Returns the client's error, or an empty string if each lane is the right one.
task<std::string> connect_to(scene& s, std::string address, attempt a) {
  hello asked;
  asked.module = "box";
  asked.paths = {"x"};
  asked.options.chunk_bytes = smallest_chunk;
  asked.lanes = a.lanes;
  std::string token = a.token;
  std::string why;
  try {
    connection c = co_await copy::connect(s.on.client_context(), s.on.client(), std::move(address),
                                          std::move(asked), std::move(token), tcp, a.trust);
    REQUIRE(c.ways.size() == a.lanes);
    CHECK(c.cipher.empty() == (a.trust == nullptr));
    for (std::uint32_t i = 0; i < c.ways.size(); ++i) {
      co_await hear_in_time(*c.ways[i]);
      frame_reader in = expect(*c.ways[i], frame_kind::credit);
      CHECK(in.u32() == i);
    }
  } catch (const cordma::error& e) {
    why = e.what();
  }
  co_return why;
}

task<> serve(scene* s) { co_await s->serving.serve(s->at, 0); }

// Connects to the server, or through `between` if it is set: a coroutine that receives the scene
// and its Listener.
using middle = task<> (*)(scene*, cordma::Listener*, cordma::scope*);
std::string said_to(scene& s, attempt a, middle between = nullptr) {
  return s.on.play(
      [](stage&, scene* all, attempt tried, middle in_between) -> task<std::string> {
        cordma::task_context& me = co_await cordma::this_task();
        cordma::scope others(me);
        others.spawn(serve(all));
        cordma::Listener front = all->on.server().listen("127.0.0.1:0").value();
        if (in_between != nullptr) others.spawn(in_between(all, &front, &others));
        std::string address = in_between != nullptr ? front.bound().text() : all->at.bound().text();
        std::string why = co_await connect_to(*all, std::move(address), tried);
        others.cancel();
        co_await others.join();
        co_return why;
      },
      &s, a, between);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// ---- attackers between client and server ----

using private_data = std::vector<std::byte>;

task<> hand_on_bytes(cordma::Stream* from, cordma::Stream* to) {
  std::vector<std::byte> room(64U << 10);
  try {
    for (;;) {
      const std::size_t n = co_await from->read_some(room);
      if (n == 0) break;
      const std::span<const std::byte> some = std::span(room).first(n);
      co_await to->write(some);
    }
    to->shutdown_send().value();
  } catch (const cordma::error&) {}
}

task<> hand_on_frames(lane* from, lane* to) {
  try {
    for (;;) {
      const bool more = co_await from->next();
      if (!more) break;
      frame_reader in = from->frame();
      {
        frame_writer out(to->out(), in.kind());
        while (!in.empty()) out.u8(in.u8());
      }
      co_await to->say();
    }
  } catch (const cordma::error&) {}
}

task<std::unique_ptr<lane>> lane_to_server(scene* s, private_data said, const tls_context* trust) {
  cordma::connect_options how;
  how.private_data = said;
  how.transport = tcp;
  std::string address = s->at.bound().text();
  cordma::Endpoint e = co_await s->on.client().connect(std::move(address), how);
  std::unique_ptr<lane> way = co_await open_lane(s->on.client_context(), std::move(e));
  co_await secure_client(way.get(), trust, "127.0.0.1");
  co_return way;
}

task<std::unique_ptr<lane>> lane_to_client(scene* s, cordma::ConnectionRequest request,
                                           const tls_context* shows) {
  cordma::Endpoint e = co_await request.accept();
  std::unique_ptr<lane> way = co_await open_lane(s->on.server_context(), std::move(e));
  co_await secure_server(way.get(), shows);
  co_return way;
}

// Forwards all bytes unchanged.
task<> pass_through(scene* s, cordma::ConnectionRequest request) {
  const private_data said(request.private_data().begin(), request.private_data().end());
  cordma::connect_options how;
  how.private_data = said;
  how.transport = tcp;
  std::string address = s->at.bound().text();
  cordma::Endpoint there = co_await s->on.client().connect(std::move(address), how);
  cordma::Endpoint here = co_await request.accept();
  cordma::task_context& me = co_await cordma::this_task();
  cordma::Stream a;
  cordma::Stream b;
  cordma::scope both(me);
  const auto open = [](cordma::Context c, cordma::Endpoint e, cordma::Stream* place) -> task<> {
    *place = co_await cordma::Stream::open(c, std::move(e));
  };
  both.spawn(open(s->on.server_context(), std::move(here), &a));
  both.spawn(open(s->on.client_context(), std::move(there), &b));
  co_await both.join();
  both.spawn(hand_on_bytes(&a, &b));
  both.spawn(hand_on_bytes(&b, &a));
  co_await both.join();
}

// Uses a separate certificate, which is as valid as the server's.
task<> terminate(scene* s, cordma::ConnectionRequest request) {
  const tls_context shows = showing("also");
  const tls_context trust = trusting("ca");
  private_data said(request.private_data().begin(), request.private_data().end());
  std::unique_ptr<lane> there = co_await lane_to_server(s, std::move(said), &trust);
  std::unique_ptr<lane> here = co_await lane_to_client(s, std::move(request), &shows);
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope both(me);
  both.spawn(hand_on_frames(here.get(), there.get()));
  both.spawn(hand_on_frames(there.get(), here.get()));
  co_await both.join();
}

task<> terminate_all(scene* s, cordma::Listener* front, cordma::scope* all) {
  for (;;) {
    cordma::ConnectionRequest request = co_await front->next();
    all->spawn(terminate(s, std::move(request)));
  }
}

// Forwards the first lane unchanged. Terminates the others, and answers the client's proof by a
// guess.
task<> answer_lane(scene* s, cordma::ConnectionRequest request) {
  const tls_context shows = showing("also");
  std::unique_ptr<lane> here = co_await lane_to_client(s, std::move(request), &shows);
  co_await hear_in_time(*here);
  const nonce guess = random_nonce();
  frame_writer(here->out(), frame_kind::joined).bytes(guess);
  co_await here->say();
  try {
    [[maybe_unused]] const bool more = co_await here->next();
  } catch (const cordma::error&) {}
}
task<> answer_further_lanes(scene* s, cordma::Listener* front, cordma::scope* all) {
  for (;;) {
    cordma::ConnectionRequest request = co_await front->next();
    const greeting g = decode_greeting(request.private_data());
    all->spawn(g.number == 0 ? pass_through(s, std::move(request))
                             : answer_lane(s, std::move(request)));
  }
}

// Has seen the session's id, and tries to take the lane itself: without TLS, and with it.
task<> grab_lane(scene* s, private_data said) {
  private_data plain = said;
  plain[4] = std::byte{0};
  cordma::connect_options how;
  how.private_data = plain;
  how.transport = tcp;
  std::string address = s->at.bound().text();
  cordma::connect_operation connecting = s->on.client().connect(std::move(address), how);
  const cordma::result<cordma::Endpoint> made = co_await connecting.result();
  CHECK(made.code() == cordma::errc::rejected);
  const tls_context trust = trusting("ca");
  std::unique_ptr<lane> way = co_await lane_to_server(s, std::move(said), &trust);
  const nonce guess = random_nonce();
  frame_writer(way->out(), frame_kind::join).bytes(guess);
  co_await way->say();
  bool joined = false;
  try {
    joined = co_await way->next();
  } catch (const cordma::error&) {}
  CHECK_FALSE(joined);
}
task<> grab_and_pass(scene* s, cordma::ConnectionRequest request) {
  private_data said(request.private_data().begin(), request.private_data().end());
  const greeting g = decode_greeting(said);
  if (g.number != 0) co_await grab_lane(s, std::move(said));
  co_await pass_through(s, std::move(request));
}
task<> grab_lanes_first(scene* s, cordma::Listener* front, cordma::scope* all) {
  for (;;) {
    cordma::ConnectionRequest request = co_await front->next();
    all->spawn(grab_and_pass(s, std::move(request)));
  }
}

// Forwards every lane unchanged.
task<> pass_all(scene* s, cordma::Listener* front, cordma::scope* all) {
  for (;;) {
    cordma::ConnectionRequest request = co_await front->next();
    all->spawn(pass_through(s, std::move(request)));
  }
}

}  // namespace

TEST_CASE("a session has all its lanes, each in its place [TLS, lanes]") {
  const tls_context shows = showing("server");
  const tls_context trust = trusting("ca");
  for (const bool secured : {false, true}) {
    for (const std::uint32_t lanes : {1U, 2U, most_lanes}) {
      CAPTURE(secured);
      CAPTURE(lanes);
      scene s("a token", {.with = &shows});
      CHECK(said_to(s, {"a token", secured ? &trust : nullptr, lanes}) == "");
      CHECK(said_to(s, {"a token", secured ? &trust : nullptr, lanes}, pass_all) == "");
    }
  }
}

TEST_CASE("who has another token is told nothing, over TLS either") {
  const tls_context shows = showing("server");
  const tls_context trust = trusting("ca");
  scene s("a token", {.with = &shows});
  const std::string said = said_to(s, {"another", &trust, 2});
  CHECK_MESSAGE(has(said, "no module \"box\" for this token"), said);
}

TEST_CASE("TLS that one side demands and the other has not is refused with the remedy") {
  const tls_context shows = showing("server");
  const tls_context trust = trusting("ca");
  scene demanding("a token", {.with = &shows, .required = true});
  const std::string plain = said_to(demanding, {"a token", nullptr, 2});
  CHECK_MESSAGE(has(plain, "demands TLS: --tls"), plain);
  CHECK(demanding.has_logged("without TLS"));
  CHECK(said_to(demanding, {"a token", &trust, 2}) == "");
  scene without("a token");
  const std::string secured = said_to(without, {"a token", &trust, 2});
  CHECK_MESSAGE(has(secured, "has no TLS: its cordma-cpd needs \"tls\""), secured);
}

TEST_CASE(
    "who stands between with a certificate that is as good gets nowhere where there is a token") {
  const tls_context shows = showing("server");
  const tls_context trust = trusting("ca");
  scene s("a token", {.with = &shows});
  const std::string said = said_to(s, {"a token", &trust, 1}, terminate_all);
  CHECK_MESSAGE(has(said, "no module \"box\" for this token"), said);
  CHECK(s.has_logged("no module"));  // all data has reached the server
  CHECK(said_to(s, {"a token", &trust, 1}, pass_all) == "");
}

TEST_CASE("a further lane that ends elsewhere than the first is refused by the client") {
  const tls_context shows = showing("server");
  const tls_context trust = trusting("ca");
  scene s("a token", {.with = &shows});
  const std::string said = said_to(s, {"a token", &trust, 2}, answer_further_lanes);
  CHECK_MESSAGE(has(said, "ends at another server"), said);
}

TEST_CASE("who has seen a session's id cannot have one of its lanes") {
  const tls_context shows = showing("server");
  const tls_context trust = trusting("ca");
  scene s("a token", {.with = &shows});
  CHECK(said_to(s, {"a token", &trust, 3}, grab_lanes_first) == "");
  CHECK(s.has_logged("somebody else's session"));
  CHECK(s.has_logged("no session waits for"));
}

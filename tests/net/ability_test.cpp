// The abilities of a transport decide on the operations over it, not its kind: tested with a toy
// transport that claims one ability less.
#include <doctest/doctest.h>
#include <support/stage.hpp>
#include <support/toy_transport.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/remote_sync_event.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/net/sync_event.hpp>

using namespace cordma;
using namespace cordma::test;

namespace {

using ability = bool transport::capabilities::*;

// Two hosts of the toy transport, without the ability `lacking` if that is not null.
struct toys {
  explicit toys(ability lacking) {
    transport::capabilities can = toy_abilities();
    if (lacking != nullptr) can.*lacking = false;
    const std::shared_ptr<toy_network> net = make_toy_network();
    const auto host_on = [&net, &can] {
      context_options o;
      o.domains.push_back(make_toy_domain(net, can));
      return o;
    };
    client_context.emplace(host_on());
    server_context.emplace(host_on());
    client = std::make_unique<Worker>(*client_context, loop);
    server = std::make_unique<Worker>(*server_context, loop);
  }
  [[nodiscard]] task<wire> connected(connect_options to = {}) {
    Listener listener = server->listen("toy:0").value();
    const std::string at = listener.bound().text();
    wire made = co_await connect(*client, listener, at, to);
    co_return made;
  }

  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::optional<Context> client_context;
  std::optional<Context> server_context;
  std::unique_ptr<Worker> client;
  std::unique_ptr<Worker> server;
};

template <class Story>
void play(ability lacking, Story story) {
  toys t(lacking);
  run(t.loop, story(&t));
}

// Number of requests for a peer's set() of a SyncEvent with a counter that differs from the peer's
// expectation.
task<std::uint64_t> requests_of_a_set(toys* t) {
  SyncEvent event(*t->server_context, {.publisher = sync_location::remote,
                                       .subscriber = sync_location::cpu,
                                       .notices = sync_notices::none});
  event.start(*t->server).value();
  co_await event.set(7);
  const std::vector<std::byte> blob = event.export_remote().value();
  RemoteSyncEvent remote = RemoteSyncEvent::import(*t->client_context, blob).value();
  wire w = co_await t->connected();
  remote.start(w.client).value();
  co_await remote.set(9);
  const std::uint64_t now = co_await event.get();
  CHECK(now == 9);
  co_return w.client.counters().sends;
}

}  // namespace

TEST_CASE("an Endpoint's abilities are those of its transport, by whatever name") {
  play(nullptr, [](toys* t) -> task<> {
    wire w = co_await t->connected();
    CHECK(w.client.transport() == transport::kind::test);
    CHECK(&w.client.abilities() == t->client_context->find(transport::kind::test));
    CHECK(w.client.abilities().target_idle());
    CHECK_FALSE(w.client.abilities().remote_access_is_copy);
  });
}

TEST_CASE("one-sided access costs the target nothing where it is a copy, or needs no progress") {
  transport::capabilities c;
  for (const bool copies : {false, true}) {
    for (const bool needs_target : {false, true}) {
      c.remote_access_is_copy = copies;
      c.needs_target_progress = needs_target;
      CHECK(c.target_idle() == (copies || !needs_target));
    }
  }
}

TEST_CASE("a word that may be observed half is set by compare and swap, another one by a write") {
  for (const bool whole : {true, false}) {
    toys t(whole ? nullptr : &transport::capabilities::whole_words);
    // The swap finds another value than expected, and tries again.
    CHECK(run(t.loop, requests_of_a_set(&t)) == (whole ? 1 : 2));
  }
}

TEST_CASE("Messages and Streams are refused where a path does not keep its order") {
  play(&transport::capabilities::ordered_path, [](toys* t) -> task<> {
    Listener listener = t->server->listen("toy:0").value();
    Messages messages(*t->client);
    connect_options to;
    to.messages = &messages;
    const std::string at = listener.bound().text();
    connect_operation connecting = t->client->connect(at, to);
    const result<Endpoint> refused = co_await connecting.result();
    CHECK(refused.code() == errc::not_supported);
    CHECK(refused.why().message().find("test: test does not keep the order") != std::string::npos);

    wire w = co_await t->connected();
    task<Stream> opening = Stream::open(*t->client_context, std::move(w.client));
    errc code = errc::ok;
    try {
      co_await std::move(opening);
    } catch (const error& e) {
      code = e.condition();
      CHECK(std::string_view(e.what()).find("does not keep the order") != std::string_view::npos);
    }
    CHECK(code == errc::not_supported);
  });
}

// Clients that violate the handshake: each affects only itself, and the next client is served.
#include "hostile.hpp"

#include "../../apps/cp/protocol/greeting.hpp"
#include "../../apps/cp/transfer/work.hpp"

#include <array>
#include <optional>

using namespace copy;
using namespace copy::test;

namespace {

using tag = std::array<std::byte, greeting_bytes>;
tag tag_of(const nonce& session, std::uint8_t number) {
  return encode(greeting{.session = session, .number = number});
}

tag first_tag() { return tag_of({}, 0); }

const std::string token = "a good token";

// A server with one module, and its clients, on one reactor.
struct ground {
  explicit ground(cordma::transport::kind over) : s({}, over) {
    here.file("box/file", "1234");
    box.name = "box";
    box.path = here.at("box");
    box.token = token;
    box.read_only = true;
    listener = s.server().listen(s.server_address()).value();
    address = s.reach(listener);
  }
  cordma::test::stage s;
  temporary_tree here;
  module box;
  cordma::Listener listener;
  std::string address;
  std::vector<std::string> log;
  [[nodiscard]] bool logged(std::string_view what) const {
    return std::ranges::any_of(
        log, [what](const std::string& l) { return l.find(what) != std::string::npos; });
  }
};

hello pull(std::uint32_t lanes) {
  hello h;
  h.way = direction::pull;
  h.module = "box";
  h.paths = {"file"};
  h.options = usual_options();
  h.lanes = lanes;
  return h;
}

task<cordma::Endpoint> knock(ground* g, tag t) {
  cordma::connect_options how;
  how.private_data = t;
  cordma::Endpoint e = co_await g->s.client().connect(g->address, how);
  co_return e;
}

task<std::unique_ptr<lane>> enter(ground* g, tag t) {
  cordma::Endpoint e = co_await knock(g, t);
  cordma::stream_options how;
  how.notices = std::min(how.notices, e.actual().recv_depth);
  cordma::Stream stream = co_await cordma::Stream::open(g->s.client_context(), std::move(e), how);
  co_return std::make_unique<lane>(std::move(stream));
}

task<void> say(lane* l, frames f) { co_await l->stream().write(f); }

// Returns the reason of the server's refusal, or an empty string if it does not refuse.
task<std::string> answer(lane* l) {
  const bool more = co_await l->next();
  if (!more) co_return std::string();
  frame_reader in = l->frame();
  if (in.kind() != frame_kind::refusal) co_return std::string();
  co_return in.text();
}

// Runs the handshake up to the welcome; returns the session's id.
task<nonce> shake(lane* l, hello h) {
  const frames asked = encoded(h);
  co_await say(l, asked);
  co_await l->next();
  frame_reader challenge = l->frame();
  nonce theirs{};
  std::ranges::copy(challenge.bytes(nonce_bytes), theirs.begin());
  const nonce mine = proof_of(token, prover::client, h.random, theirs, asked, std::nullopt);
  const frames proof = frame_of(frame_kind::proof, [&mine](frame_writer& w) { w.bytes(mine); });
  co_await say(l, proof);
  co_await l->next();
  frame_reader welcome = l->frame();
  REQUIRE(welcome.kind() == frame_kind::welcome);
  nonce id{};
  std::ranges::copy(welcome.bytes(nonce_bytes), id.begin());
  co_return id;
}

task<void> bring(ground* g, tag t, lanes* brought, int* refused) {
  try {
    std::unique_ptr<lane> l = co_await enter(g, t);
    brought->push_back(std::move(l));
  } catch (const cordma::error&) {
    ++*refused;
  }
}

task<void> serve(ground* g) {
  server::handlers h;
  h.find = [g](const std::string& name, const std::string&) {
    return name == "box" ? &g->box : nullptr;
  };
  h.look = examine_request;
  h.carry = [g](client_request r, lanes& ways) {
    return carry_out_request(g->s.server_context(), g->s.server(), std::move(r), ways);
  };
  h.log = [g](const std::string&, const std::string& what) { g->log.push_back(what); };
  server s(g->s.server_context(), std::move(h));
  co_await s.serve(g->listener, 0);
}

using story = task<void> (*)(ground*);

task<void> play(ground* g, story told) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  all.spawn(serve(g));
  task<void> t = told(g);
  co_await cordma::with_timeout(for_ever, std::move(t));
  // The next client is served.
  std::unique_ptr<lane> next = co_await enter(g, first_tag());
  hello h = pull(1);
  co_await shake(next.get(), std::move(h));
  next.reset();
  all.cancel();
  co_await all.join();
}

// Plays the client over each transport; the server's log contains `what` at the end.
void tell(story told, std::string_view what) {
  for (const cordma::transport::kind over : transports) {
    ground g(over);
    cordma::run(g.s.loop(), play(&g, told));
    std::string all;
    for (const std::string& l : g.log) all += l + '\n';
    INFO(all);
    CHECK_MESSAGE((what.empty() || g.logged(what)), std::string(what));
  }
}

}  // namespace

TEST_CASE("a client that is no cordma-cp") {
  tell(
      [](ground* g) -> task<void> {
        tag t = tag_of({}, 0);
        t[0] = std::byte{'x'};
        bool in = true;
        try {
          cordma::Endpoint e = co_await knock(g, t);
        } catch (const cordma::error&) {
          in = false;
        }
        CHECK_FALSE(in);
      },
      "a peer that is no cordma-cp");
}

TEST_CASE("a client that says something else than hello") {
  tell(
      [](ground* g) -> task<void> {
        std::unique_ptr<lane> l = co_await enter(g, first_tag());
        const frames odd = number_frame(frame_kind::all_sent, 0);
        co_await say(l.get(), odd);
        const std::string why = co_await answer(l.get());
        CHECK(why.find("no place in this conversation") != std::string::npos);
      },
      "no place in this conversation");
}

TEST_CASE("a client that does not know the token") {
  tell(
      [](ground* g) -> task<void> {
        std::unique_ptr<lane> l = co_await enter(g, first_tag());
        const frames none = frame_of(frame_kind::proof, [](frame_writer& w) { w.bytes(nonce()); });
        const frames asked = encoded(pull(1)) + none;
        co_await say(l.get(), asked);
        co_await l->next();
        const std::string why = co_await answer(l.get());
        CHECK(why.find("no module") != std::string::npos);
      },
      "no module \"box\"");
}

TEST_CASE("a client that goes before it has said anything, or within its hello") {
  tell(
      [](ground* g) -> task<void> {
        std::unique_ptr<lane> l = co_await enter(g, first_tag());
        l.reset();
        std::unique_ptr<lane> other = co_await enter(g, first_tag());
        frames half = encoded(pull(1));
        half.resize(half.size() / 2);
        co_await say(other.get(), half);
        other->stream().shutdown_send().value();
        const std::string why = co_await answer(other.get());
        CHECK(why.find("ended within a frame") != std::string::npos);
      },
      "ended within a frame");
}

TEST_CASE("a client that brings one lane twice, or lanes that nobody asked for") {
  tell(
      [](ground* g) -> task<void> {
        std::unique_ptr<lane> first = co_await enter(g, first_tag());
        const nonce id = co_await shake(first.get(), pull(3));
        for (const std::uint8_t number : {std::uint8_t{3}, std::uint8_t{200}}) {
          bool in = true;
          try {
            cordma::Endpoint e = co_await knock(g, tag_of(id, number));
          } catch (const cordma::error&) {
            in = false;
          }
          CHECK_FALSE(in);
        }
        cordma::task_context& me = co_await cordma::this_task();
        cordma::scope all(me);
        int refused = 0;
        lanes further;
        for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{1}, std::uint8_t{2}}) {
          all.spawn(bring(g, tag_of(id, number), &further, &refused));
          for (int i = 0; i < 50; ++i) co_await cordma::yield();
        }
        // All requested lanes have joined, so the client is served.
        bool listed = false;
        while (!listed) {
          const bool more = co_await first->next();
          if (!more) break;
          listed = first->frame().kind() == frame_kind::entries_end;
        }
        CHECK(listed);
        co_await all.join();
        CHECK(refused <= 1);  // or it was accepted first, and then closed
      },
      "a further lane that no session waits for");
}

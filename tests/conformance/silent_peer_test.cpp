// Peers with an endpoint that carries no messages, or none yet.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/requests.hpp>

#include <array>
#include <chrono>
#include <span>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr message_options in_a_hurry{.hello_timeout = std::chrono::milliseconds(20)};

struct encounter {
  Messages* messages;
  wire w;  // the client's end is plain, the server's carries messages
  MemoryRegion here;
};

task<> meet(stage& s, Messages* messages, task<> (*act)(stage*, encounter*)) {
  Listener listener = s.server().listen(s.server_address()).value();
  connect_options accept;
  accept.messages = messages;
  wire w = co_await connect(s.client(), listener, s.reach(listener), connect_options(), accept);
  const MemoryRegion room = client_memory(s, 4096);
  // The other end's hello, and one message.
  recv_operation hello = w.client.recv(room.all().first(2048)).start();
  recv_operation message = w.client.recv(room.all().part(2048, 2048)).start();
  encounter e{messages, std::move(w), server_memory(s, 64)};
  co_await act(&s, &e);
}

task<> speak(stage* s, encounter* e) {
  const MemoryRegion out = client_memory(*s, 128);
  const std::span<std::byte> frame =
      out.bytes().first(protocol::head_bytes + protocol::hello_bytes);
  protocol::encode({.kind = protocol::frame_kind::hello,
                    .given = 8,
                    .body = protocol::hello_bytes,
                    .word = protocol::frame_version},
                   frame.first<protocol::head_bytes>());
  protocol::encode(
      protocol::hello{.eager_bytes = 4096, .credits = 8, .offers = 8, .rails = 1, .devices = 1},
      std::span<std::byte, protocol::hello_bytes>(frame.subspan(protocol::head_bytes)));
  co_await e->w.client.send(out.all().first(frame.size()));
}

bool names_what_to_do(const result<void>& end) {
  return end.code() == errc::not_supported &&
         end.why().message().find("connect_options::messages") != std::string::npos;
}

task<> wait_for_hello(stage* s, encounter* e) {
  constexpr std::span<const std::byte> no_header;
  Endpoint& mine = e->w.server;
  message_send_operation tagged = mine.tag_send(7, e->here).start();
  message_send_operation active = mine.am_send(1, no_header, e->here).start();
  const result<void> first = co_await tagged.result();
  CHECK(names_what_to_do(first));
  const result<void> second = co_await active.result();
  CHECK(names_what_to_do(second));
  CHECK(mine.state() == endpoint_state::connected);

  co_await speak(s, e);
  const result<void> third = co_await mine.tag_send(7, e->here).result();
  CHECK(third.ok());
}

task<> close_in_silence(stage*, encounter* e) {
  message_send_operation waits = e->w.server.tag_send(7, e->here).start();
  co_await e->w.server.close();
  const result<void> end = co_await waits.result();
  CHECK(names_what_to_do(end));
}

task<> call_in_silence(stage*, encounter* e) {
  Requests asks(*e->messages, {.hello_timeout = std::chrono::milliseconds(40)});
  const result<Response> end = co_await asks.call(e->w.server, 1, e->here).result();
  CHECK(end.code() == errc::not_supported);
  co_await e->w.server.close();
}

}  // namespace

TEST_CASE("a message to a peer that carries none ends after hello_timeout, and says what to do") {
  for (auto* const act : {wait_for_hello, close_in_silence, call_in_silence}) {
    stage s;
    Messages messages(s.server(), in_a_hurry);
    s.play([](stage& on, Messages* m, auto how) -> task<> { return meet(on, m, how); }, &messages,
           act);
  }
}

TEST_CASE("closing takes no longer than hello_timeout where the peer receives nothing at all") {
  for (const bool sends : {false, true}) {
    CAPTURE(sends);
    stage s;
    Messages messages(s.server(), in_a_hurry);
    s.play(
        [](stage& on, Messages* m, bool with_message) -> task<> {
          Listener listener = on.server().listen(on.server_address()).value();
          connect_options accept;
          accept.messages = m;
          wire w = co_await connect(on.client(), listener, on.reach(listener), connect_options(),
                                    accept);
          const MemoryRegion here = server_memory(on, 8);
          message_send_operation op = w.server.tag_send(7, here);
          if (with_message) op.start();
          co_await w.server.close();
          REQUIRE(w.server.first_cause() != nullptr);
          CHECK(w.server.first_cause()->code() == errc::not_connected);
          if (!with_message) co_return;
          const result<void> end = co_await op.result();
          CHECK(names_what_to_do(end));
        },
        &messages, sends);
  }
}

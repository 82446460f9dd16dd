// Unexpected messages from more peers than segments are posted; other peers still make progress.
#include <doctest/doctest.h>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>

#include <deque>
#include <span>
#include <utility>

using namespace cordma;
using namespace cordma::test;

TEST_CASE("K6: what many peers sent and nobody asks for keeps nobody else's message back") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr std::size_t peers = 20;
    constexpr int each = 31;
    Messages client(on.client());
    Messages server(on.server());
    const MemoryRegion out = client_memory(on, 8);
    const MemoryRegion in = server_memory(on, 8);
    std::deque<wire> wires;
    for (std::size_t i = 0; i < peers; ++i) {
      wire w = co_await connect_messages(on, client, server);
      wires.push_back(std::move(w));
      Endpoint& from = wires.back().client;
      for (int k = 0; k < each; ++k) co_await from.tag_send(1, out);
    }
    wire other = co_await connect_messages(on, client, server);
    tag_recv_operation wanted = server.tag_recv(2, in).start();
    co_await other.client.tag_send(2, out);
    const TagReceived got = co_await wanted;
    CHECK(got.bytes == 8);
    for (std::size_t i = 0; i < peers * each; ++i) co_await server.tag_recv(1, in);
  });
}

namespace {

task<> keep(std::deque<ActiveMessage>* all, ActiveMessage m) {
  all->push_back(std::move(m));
  co_return;
}

}  // namespace

TEST_CASE("K6: messages that are held from peers that are gone keep nobody else's back") {
  std::deque<ActiveMessage> held;
  stage s;
  Messages client(s.client());
  Messages server(s.server());
  server.on(1, [&held](ActiveMessage m) { return keep(&held, std::move(m)); });
  s.play(
      [](stage& on, Messages* from, Messages* to, std::deque<ActiveMessage>* all) -> task<> {
        constexpr std::size_t each = 31;
        const MemoryRegion out = client_memory(on, 8);
        const MemoryRegion in = server_memory(on, 8);
        constexpr std::span<const std::byte> no_header;
        for (std::size_t gone = 0; gone < 10 * each; gone += each) {
          wire w = co_await connect_messages(on, *from, *to);
          for (std::size_t k = 0; k < each; ++k) co_await w.client.am_send(1, no_header, out);
          while (all->size() < gone + each) co_await moment(on);
        }
        CHECK(all->front().from() == nullptr);
        wire other = co_await connect_messages(on, *from, *to);
        tag_recv_operation wanted = to->tag_recv(2, in).start();
        co_await other.client.tag_send(2, out);
        const TagReceived got = co_await wanted;
        CHECK(got.bytes == 8);
        all->clear();
      },
      &client, &server, &held);
}

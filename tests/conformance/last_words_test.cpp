// Messages that were sent before a graceful close are received, even if the receiver polls only
// afterwards.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/runtime/scope.hpp>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint64_t word = 5;

task<> close_it(Endpoint* e) { co_await e->close(); }

// Sends all at once, fewer than there are credits, so that nothing is received before the close.
task<> say_and_close(stage& on, wire* w, std::size_t count, MemoryRegion out) {
  std::vector<message_send_operation> sends;
  sends.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Slice at = out.slice(i * 8, 8).value();
    std::memcpy(at.data(), &i, sizeof i);
    sends.push_back(w->client.tag_send(word, at));
    sends.back().start();
  }
  scope closing(on.loop());
  closing.spawn(close_it(&w->client));
  for (message_send_operation& s : sends) co_await s;
  co_await closing.join();
}

}  // namespace

TEST_CASE("K10: tagged messages sent before a graceful close are all received, in order [count]") {
  for (const std::size_t count : {1U, 3U, 10U, 30U}) {
    CAPTURE(count);
    stage s;
    s.play(
        [](stage& on, std::size_t n) -> task<> {
          Messages client(on.client());
          Messages server(on.server());
          wire w = co_await connect_messages(on, client, server);
          const MemoryRegion out = client_memory(on, n * 8);
          const MemoryRegion in = server_memory(on, n * 8);
          // the first half before the close, the others after it
          std::vector<tag_recv_operation> posted;
          posted.reserve(n);
          const auto receive = [&](std::size_t i) {
            const Slice at = in.slice(i * 8, 8).value();
            const bool of_one = i < n / 2 && i % 2 != 0;
            posted.push_back(of_one ? w.server.tag_recv(word, at) : server.tag_recv(word, at));
            posted.back().start();
          };
          for (std::size_t i = 0; i < n / 2; ++i) receive(i);
          co_await say_and_close(on, &w, n, out);
          while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
          for (std::size_t i = n / 2; i < n; ++i) receive(i);
          for (std::size_t i = 0; i < n; ++i) {
            const result<TagReceived> got = co_await posted[i].result();
            REQUIRE(got.code() == errc::ok);
            std::size_t said = n;
            std::memcpy(&said, in.bytes().data() + i * 8, sizeof said);
            CHECK(said == i);
          }
        },
        count);
  }
}

namespace {

task<> count_one(int* counted, ActiveMessage) {
  ++*counted;
  co_return;
}
task<> count_call(int* counted, Request) {
  ++*counted;
  co_return;
}

}  // namespace

TEST_CASE("K10: active messages and notices sent before a graceful close are all handled") {
  stage s;
  s.play([](stage& on) -> task<> {
    constexpr int each = 8;
    Messages client(on.client());
    Messages server(on.server());
    Requests asks(client);
    Requests answers(server);
    int heard = 0;
    int noticed = 0;
    server.on(1, [at = &heard](ActiveMessage m) { return count_one(at, std::move(m)); });
    answers.serve(1, [at = &noticed](Request r) { return count_call(at, std::move(r)); });
    wire w = co_await connect_messages(on, client, server);
    const MemoryRegion out = client_memory(on, 8);
    constexpr std::span<const std::byte> no_header;
    for (int i = 0; i < each; ++i) {
      co_await w.client.am_send(1, no_header, out);
      co_await asks.notify(w.client, 1, out);
    }
    co_await w.client.close();
    while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
    for (int i = 0; i < 20; ++i) co_await moment(on);
    CHECK(heard == each);
    CHECK(noticed == each);
  });
}

namespace {

struct two_threads {
  std::atomic<int> port{0};
  std::atomic<bool> said{false};
};

task<> say_all(two_threads* t, Worker* worker, Messages* messages, MemoryRegion out, int count) {
  t->port.wait(0);
  const std::string to = own_host() + ":" + std::to_string(t->port.load());
  Endpoint e = co_await worker->connect(to, with(*messages));
  co_await e.tag_send(word, out);
  std::vector<message_send_operation> sends;
  sends.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    sends.push_back(e.tag_send(word, out));
    sends.back().start();
  }
  state_operation closing = e.close().start();
  for (int i = 0; i < 1000; ++i) co_await yield();
  t->said.store(true);
  t->said.notify_all();
  for (message_send_operation& one : sends) co_await one;
  co_await closing;
}

// Its thread blocks until all messages were sent, like a thread that computes.
task<> look_late(two_threads* t, Worker* worker, Messages* messages, MemoryRegion in, int count) {
  Listener listener = worker->listen(own_host() + ":0").value();
  t->port.store(listener.bound().port);
  t->port.notify_all();
  ConnectionRequest request = co_await listener.next();
  Endpoint e = co_await request.accept(with(*messages));
  co_await messages->tag_recv(word, in);  // so the connection's setup is complete
  t->said.wait(false);
  for (int i = 0; i < count; ++i) co_await messages->tag_recv(word, in);
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
}

}  // namespace

TEST_CASE("K10: who does not look while messages come and the connection is closed has them all" *
          not_on({transport::kind::sim, transport::kind::tcp}, "a send takes the peer's loop")) {
  for (const int count : {1, 10, 30}) {
    CAPTURE(count);
    two_threads t;
    std::jthread server([&t, count] {
      host h;
      Messages messages(h.worker);
      h.worker.run(look_late(&t, &h.worker, &messages, h.context.allocate(8).value(), count));
    });
    host h;
    Messages messages(h.worker);
    try {
      h.worker.run(say_all(&t, &h.worker, &messages, h.context.allocate(8).value(), count));
    } catch (const error& e) {
      FAIL_CHECK(std::string(e.what()));
    }
    t.said.store(true);
    t.said.notify_all();
  }
}

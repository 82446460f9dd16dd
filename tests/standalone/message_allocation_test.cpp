// Once warm, messages, requests and streams take nothing from the heap.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/frame_pool.hpp>

#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr int warm_up = 300;
constexpr int counted = 300;

std::vector<transport::kind> transports() {
  if (transport_under_test() == transport::kind::verbs) return {transport::kind::verbs};
  return {transport::kind::shm, transport::kind::tcp, transport::kind::sim};
}

struct party {
  stage* on;
  Messages* server;
  wire* between;
  auto_event* handled;
};

task<> note(auto_event* done, ActiveMessage) {
  done->set();
  co_return;
}

// Matched before and after it arrives, eager and rendezvous; then as an active message.
task<> exchange(party* p, Slice from, Slice into, int times) {
  constexpr std::span<const std::byte> no_header;
  for (int i = 0; i < times; ++i) {
    tag_recv_operation early = p->server->tag_recv(1, into).start();
    co_await p->between->client.tag_send(1, from);
    const TagReceived got = co_await early;
    CHECK(got.bytes == from.size());
    message_send_operation late = p->between->client.tag_send(2, from.first(8)).start();
    while (!p->server->tag_probe(2)) co_await moment(*p->on);
    co_await p->between->server.tag_recv(2, into);
    co_await late;
    co_await p->between->client.am_send(1, no_header, from.first(8));
    co_await p->handled->wait();
  }
}

task<> echo(Slice room, Request r) {
  if (r.data().size() != r.size()) co_await r.read(room);
  if (r.wants_response()) co_await r.respond(room.first(r.size()));
}

// Calls with eager and written responses, notifications, and acknowledged notifications; none is
// withdrawn.
task<> ask(Requests* by, Endpoint* to, Slice from, Slice into, int times) {
  const call_options late{.timeout = std::chrono::hours(1)};
  for (int i = 0; i < times; ++i) {
    co_await by->call(*to, 1, from, into, late);
    co_await by->notify(*to, 1, from.first(8));
    co_await by->notify_acked(*to, 1, from.first(8));
  }
}

task<> pour(Stream* from, Stream* to, std::span<std::byte> bytes, int times) {
  for (int i = 0; i < times; ++i) {
    std::size_t written = 0;
    std::size_t read = 0;
    while (read < bytes.size()) {
      if (written < bytes.size()) {
        const std::size_t n = co_await from->write_some(bytes.subspan(written));
        written += n;
      }
      const std::size_t got = co_await to->read_some(bytes.subspan(read, written - read));
      read += got;
    }
  }
}

// No allocation, unless the frames of coroutines are not kept: their number depends on the
// transport.
void check_taken(std::uint64_t taken) {
  if (frame_pool::keeps_frames()) CHECK(taken == 0);
}

}  // namespace

TEST_CASE("a warm message, tagged or active, short or long, takes nothing from the heap") {
  for (const transport::kind over : transports()) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4000}, std::size_t{50'000}}) {
      CAPTURE(transport::name(over));
      CAPTURE(bytes);
      stage on({}, over);
      on.play(
          [](stage& s, std::size_t size) -> task<> {
            const message_options at_once{.eager_bytes = 8192};
            Messages client(s.client(), at_once);
            Messages server(s.server(), at_once);
            wire w = co_await connect_messages(s, client, server);
            auto_event handled;
            server.on(1, [&handled](ActiveMessage m) { return note(&handled, std::move(m)); });
            const MemoryRegion from = client_memory(s, size);
            const MemoryRegion into = server_memory(s, size);
            party p{&s, &server, &w, &handled};
            co_await exchange(&p, from.all(), into.all(), warm_up);
            const std::uint64_t before = allocations();
            co_await exchange(&p, from.all(), into.all(), counted);
            check_taken(allocations() - before);
          },
          bytes);
    }
  }
}

TEST_CASE("a warm stream takes nothing from the heap") {
  for (const transport::kind over : transports()) {
    CAPTURE(transport::name(over));
    stage on({}, over);
    on.play([](stage& s) -> task<> {
      stream_pair opened = co_await open_streams(s);
      std::vector<std::byte> bytes(20'000);
      co_await pour(&opened.client, &opened.server, bytes, warm_up);
      const std::uint64_t before = allocations();
      co_await pour(&opened.client, &opened.server, bytes, counted);
      check_taken(allocations() - before);
    });
  }
}

TEST_CASE("a warm call, short or long, takes nothing from the heap, and a word neither") {
  for (const transport::kind over : transports()) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4000}, std::size_t{50'000}}) {
      CAPTURE(transport::name(over));
      CAPTURE(bytes);
      stage on({}, over);
      on.play(
          [](stage& s, std::size_t size) -> task<> {
            Messages client(s.client());
            Messages server(s.server());
            Requests asks(client);
            Requests answers(server);
            wire w = co_await connect_messages(s, client, server);
            const MemoryRegion from = client_memory(s, size);
            const MemoryRegion into = client_memory(s, size);
            const MemoryRegion room = server_memory(s, size);
            answers.serve(1, [at = room.all()](Request r) { return echo(at, std::move(r)); });
            co_await ask(&asks, &w.client, from.all(), into.all(), warm_up);
            const std::uint64_t before = allocations();
            co_await ask(&asks, &w.client, from.all(), into.all(), counted);
            check_taken(allocations() - before);
          },
          bytes);
    }
  }
}

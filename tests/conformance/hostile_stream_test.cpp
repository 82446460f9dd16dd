// Peers that obey the transport's rules and violate the stream's. The stream ends with the
// violation as its cause, and so do all operations that wait for it.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/stream.hpp>
#include <cordma/net/streams/stream_core.hpp>
#include <cordma/net/transport/little_endian.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

using core = detail::stream_core;
using transport::load;
using transport::store;

constexpr std::uint32_t window = 64;  // bytes, of both sides
constexpr std::uint32_t notices = 16;

// The peer: a plain Endpoint that has the key of the victim's ring.
struct rogue {
  rogue(stage& s, Endpoint& e) : on(&s), endpoint(&e), memory(client_memory(s, 512)) {}
  stage* on;
  Endpoint* endpoint;
  MemoryRegion memory;
  RemoteMemory ring;
};

task<> say(rogue* r, core::word what, std::uint64_t consumed, std::uint64_t given,
           std::size_t bytes = core::word_bytes) {
  const std::span<std::byte> text = r->memory.bytes().first(core::word_bytes);
  std::ranges::fill(text, std::byte{0});
  store(&text[0], static_cast<std::uint32_t>(what));
  store(&text[4], what == core::word::hello ? core::version : 0);
  store(&text[8], consumed);
  store(&text[16], given);
  if (what == core::word::hello) {
    const std::vector<std::byte> blob = r->memory.export_blob().value();
    std::ranges::copy(blob, text.begin() + 24);
  }
  const result<void> sent = co_await r->endpoint->send(r->memory.all().first(bytes)).result();
  static_cast<void>(sent.ok());
}

task<> greet(rogue* r) { co_await say(r, core::word::hello, window, notices); }

task<> write_bytes(rogue* r, std::size_t bytes) {
  const RemoteSlice to = r->ring.slice(0, bytes).value();
  const Slice from = r->memory.all().part(256, bytes);
  const result<void> sent = co_await r->endpoint->write_imm(to, from, 0).result();
  static_cast<void>(sent.ok());
}

task<> hear_all(rogue* r, MemoryRegion room) {
  for (;;) {
    const result<Received> got = co_await r->endpoint->recv(room).result();
    if (!got) co_return;
    if (r->ring.size() != 0) continue;
    r->ring = RemoteMemory::import(room.bytes().subspan(24, RemoteMemory::blob_bytes)).value();
  }
}

struct attack {
  const char* name;
  const char* says;
  task<> (*act)(rogue*);
  bool greets = true;
};

const std::vector<attack>& attacks() {
  static const std::vector<attack> all{
      {"greets twice", "a second greeting", [](rogue* r) -> task<> { co_await greet(r); }},
      {"does not greet", "no greeting",
       [](rogue* r) -> task<> { co_await say(r, core::word::window, 0, notices); }, false},
      {"greets with nothing", "a greeting that makes no sense",
       [](rogue* r) -> task<> { co_await say(r, core::word::hello, 0, 0); }, false},
      {"greets with more than it has", "a greeting that makes no sense",
       [](rogue* r) -> task<> { co_await say(r, core::word::hello, 4096, notices); }, false},
      {"writes before it greets", "more bytes than",
       [](rogue* r) -> task<> { co_await write_bytes(r, 1); }, false},
      {"writes beyond the window", "more bytes than",
       [](rogue* r) -> task<> {
         co_await write_bytes(r, window);
         co_await write_bytes(r, 1);
       }},
      {"writes after its end", "more bytes than",
       [](rogue* r) -> task<> {
         co_await say(r, core::word::end, 0, notices);
         co_await write_bytes(r, 1);
       }},
      {"has read what was not written", "it has read what was not written",
       [](rogue* r) -> task<> { co_await say(r, core::word::window, window + 1, notices); }},
      {"gives more notices than there can be", "it has read what was not written",
       [](rogue* r) -> task<> { co_await say(r, core::word::window, 0, 1U << 20); }},
      {"maps what is no memory", "what it mapped is no memory",
       [](rogue* r) -> task<> { co_await say(r, core::word::mapped, 0, notices); }},
      {"says an unknown word", "an unknown word",
       [](rogue* r) -> task<> { co_await say(r, static_cast<core::word>(77), 0, notices); }},
      {"says half a word", "a word of another length",
       [](rogue* r) -> task<> { co_await say(r, core::word::window, 0, notices, 40); }},
  };
  return all;
}

struct told {
  int resumed = 0;
  std::string why;
  errc code = errc::ok;
};

void note(told* t, const error& e) {
  ++t->resumed;
  t->code = e.condition();
  t->why = e.what();
}

// The victim's peer reads nothing meanwhile.
task<> write_too_much(Stream* s, told* t) {
  const std::vector<std::byte> bytes(10 * window);
  try {
    co_await s->write(bytes);
  } catch (const error& e) {
    note(t, e);
  }
}

task<> open_and_write(stage* on, Endpoint e, told* opened, told* written) {
  try {
    Stream s = co_await Stream::open(on->server_context(), std::move(e),
                                     {.window_bytes = window, .notices = notices});
    co_await write_too_much(&s, written);
    ++opened->resumed;
  } catch (const error& e2) {
    note(opened, e2);
  }
}

task<> suffer(stage* on, const attack* a) {
  told opened;
  told written;
  {
    wire w = co_await connect(*on);
    rogue r(*on, w.client);
    task_context& me = co_await this_task();
    scope all(me);
    all.spawn(hear_all(&r, client_memory(*on, 512)));
    all.spawn(open_and_write(on, std::move(w.server), &opened, &written));
    while (r.ring.size() == 0) co_await moment(*on);
    if (a->greets) co_await greet(&r);
    co_await a->act(&r);
    while (opened.resumed == 0) co_await moment(*on);
    w.client.abort();
    co_await all.join();
  }
  const told& end = a->greets ? written : opened;
  CHECK(opened.resumed == 1);
  CHECK(written.resumed == (a->greets ? 1 : 0));
  CHECK(end.code == errc::connection_aborted);
  CAPTURE(end.why);
  CHECK(end.why.find(a->says) != std::string::npos);
}

}  // namespace

TEST_CASE(
    "a peer that breaks the protocol of streams ends its stream, with what it did as the cause") {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const attack& a : attacks()) {
      CAPTURE(std::string(a.name));
      co_await suffer(&on, &a);
    }
  });
}

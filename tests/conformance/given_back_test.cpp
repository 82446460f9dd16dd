// When a connection ends, its buffers are returned to the program. A peer that has not noticed the
// end neither reads their new contents nor writes to them. An operation that reaches its deadline
// returns its buffers in time. The processes are threads, and the peer's thread does not poll
// meanwhile.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/message_wire.hpp>
#include <support/stage.hpp>

#include <cordma/net/requests.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t size = std::size_t{1} << 20;
constexpr std::byte before{1};
constexpr std::byte after{2};

// The steps of the two threads, which take turns.
struct affair {
  enum class step : int { listening = 1, connected, known, ended, tried };
  std::atomic<int> at{0};
  std::string where;
  std::vector<std::byte> blob;

  void reach(step s) {
    at.store(static_cast<int>(s));
    at.notify_all();
  }
  // Blocks the thread, without polling.
  void wait_for(step s) const {
    for (int now = at.load(); now < static_cast<int>(s); now = at.load()) at.wait(now);
  }
};
using step = affair::step;

struct member {
  host h;
  Messages messages{h.worker};
  Endpoint e;
  MemoryRegion memory =
      h.context.allocate(size, access::local_write | transport::all_remote).value();
};

task<> accept(affair* a, member* m) {
  Listener listener = m->h.worker.listen(own_host() + ":0").value();
  a->where = own_host() + ":" + std::to_string(listener.bound().port);
  a->reach(step::listening);
  ConnectionRequest request = co_await listener.next();
  m->e = co_await request.accept(with(m->messages));
}

task<> join(affair* a, member* m) {
  a->wait_for(step::listening);
  m->e = co_await m->h.worker.connect(a->where, with(m->messages));
}

bool all(const MemoryRegion& memory, std::byte value) {
  return std::ranges::all_of(memory.bytes(), [value](std::byte b) { return b == value; });
}

// ---- a rendezvous message after its offer was sent ----

task<> announce_and_end(affair* a, member* m) {
  co_await join(a, m);
  std::ranges::fill(m->memory.bytes(), before);
  co_await m->e.tag_send(1, m->memory.all());  // the peer has the memory's key
  message_send_operation announced = m->e.tag_send(2, m->memory.all()).start();
  while (a->at.load() < static_cast<int>(step::known)) co_await yield();
  m->e.abort();
  const result<void> sent = co_await announced.result();
  CHECK(sent.code() == errc::flushed);
  std::ranges::fill(m->memory.bytes(), after);
  a->reach(step::ended);
  a->wait_for(step::tried);
}

task<> ask_too_late(affair* a, member* m) {
  co_await accept(a, m);
  co_await m->messages.tag_recv(1, m->memory.all());
  while (!m->messages.tag_probe(2)) co_await yield();
  a->reach(step::known);
  a->wait_for(step::ended);
  const result<TagReceived> got = co_await m->messages.tag_recv(2, m->memory.all()).result();
  CHECK_FALSE(got.ok());
  a->reach(step::tried);
}

// ---- memory that the peer may write to ----

task<> lend_and_end(affair* a, member* m) {
  co_await join(a, m);
  a->blob = m->memory.export_blob().value();
  a->reach(step::connected);
  while (a->at.load() < static_cast<int>(step::known)) co_await yield();
  m->e.abort();
  while (m->e.state() != endpoint_state::closed) co_await m->e.state_changed();
  std::ranges::fill(m->memory.bytes(), after);
  a->reach(step::ended);
  a->wait_for(step::tried);
  CHECK(all(m->memory, after));
}

task<> write_too_late(affair* a, member* m) {
  co_await accept(a, m);
  a->wait_for(step::connected);
  const RemoteMemory lent = RemoteMemory::import(a->blob).value();
  std::ranges::fill(m->memory.bytes(), before);
  co_await m->e.write(lent.all(), m->memory.all());
  a->reach(step::known);
  a->wait_for(step::ended);
  const result<void> written = co_await m->e.write(lent.all(), m->memory.all()).result();
  CHECK_FALSE(written.ok());
  a->reach(step::tried);
}

// ---- calls to a peer that does not run ----

task<> hold(affair* a, Request r) {
  if (a->at.load() < static_cast<int>(step::known)) a->reach(step::known);
  a->wait_for(step::ended);
  co_await r.respond();
}

task<> stand_still(affair* a, member* m) {
  Requests answers(m->messages);
  answers.serve(1, [a](Request r) { return hold(a, std::move(r)); });
  co_await accept(a, m);
  while (a->at.load() < static_cast<int>(step::tried)) co_await yield();
}

task<> ask_in_vain(affair* a, member* m) {
  Requests asks(m->messages);
  co_await join(a, m);
  const MemoryRegion own = m->h.context.allocate(8, access::local_write).value();
  call_operation holds = asks.call(m->e, 1, Slice()).start();
  while (a->at.load() < static_cast<int>(step::known)) co_await yield();
  const call_options soon{.timeout = std::chrono::milliseconds(50)};
  for (const Slice& request : {Slice(), own.all()}) {
    for (const Slice& room : {Slice(), own.all()}) {
      const result<Response> late = co_await asks.call(m->e, 1, request, room, soon).result();
      CHECK(late.code() == errc::timed_out);
    }
  }
  CHECK(m->e.state() == endpoint_state::connected);
  a->reach(step::ended);
  co_await holds;
  co_await asks.call(m->e, 1, own, own);
  a->reach(step::tried);
}

using part = task<> (*)(affair*, member*);

void on_two_threads(part peer, part owner) {
  affair a;
  std::thread other([&a, peer] {
    member m;
    m.h.worker.run(peer(&a, &m));
  });
  member m;
  m.h.worker.run(owner(&a, &m));
  other.join();
}

}  // namespace

TEST_CASE("O4: a deadline ends a call of which nothing is touched, though its peer stands still" *
          not_on(transport::kind::sim,
                 "a simulated network lives on one reactor, and so in one thread")) {
  on_two_threads(stand_still, ask_in_vain);
}

TEST_CASE("K10: what was announced by who has ended meanwhile is not read any more" *
          not_on(transport::kind::sim,
                 "a simulated network lives on one reactor, and so in one thread")) {
  on_two_threads(ask_too_late, announce_and_end);
}

TEST_CASE(
    "K10: who has ended a connection is not written to any more by a peer that does not know" *
    not_on(transport::kind::sim,
           "a simulated network lives on one reactor, and so in one thread")) {
  on_two_threads(write_too_late, lend_and_end);
}

// Two hosts: the wire between them fails, or the process at the other end is killed. Waiting
// operations end with an error, on an idle and on a busy connection.
#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <cordma/runtime/when_all.hpp>

#include <csignal>
#include <optional>

#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::uint16_t port = 18715;
constexpr duration patience = std::chrono::seconds(2);
// The time that the device may take to flush, 500 ms, and a second for an emulated machine.
constexpr duration leeway = std::chrono::milliseconds(1500);

// Long compared with the leeway: both together are within 1.2 times this duration.
constexpr duration long_patience = std::chrono::seconds(8);

endpoint_options impatient(duration peer_timeout = patience) {
  endpoint_options o;
  o.peer_timeout = peer_timeout;
  return o;
}

long long milliseconds(duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

// Connects and exchanges a message in each direction, then sends nothing more.
task<> fall_silent(side* here) {
  Endpoint e = co_await meet(here, port, impatient(long_patience));
  MemoryRegion memory = here->memory(64);
  co_await swap(&e, memory.all().part(8, 8), memory.all().first(8));
  recv_operation waiting = e.recv(memory.all().first(8)).start();
  std::optional<netem> cut;
  if (!on_server()) cut.emplace("loss 100%");
  const time_point cut_at = here->worker.loop().now();
  const result<Received> r = co_await waiting.result();
  CHECK(r.code() == errc::flushed);
  REQUIRE(e.first_cause() != nullptr);
  CHECK(e.first_cause()->code() == errc::connection_reset);
  const duration waited = here->worker.loop().now() - cut_at;
  MESSAGE("learnt it after ", milliseconds(waited), " ms");
  CHECK(waited <= long_patience + leeway);
  meet_at("silent");
  cut.reset();
}

// Two connections over the wire, with a message on each, and no reply to either.
struct two_patiences {
  endpoint_options soon;
  endpoint_options late;
};

task<> fail_in_turn(side* here, const two_patiences* patience_of, Endpoint* first,
                    Endpoint* second) {
  const netem cut("loss 100%");
  meet_at("cut");
  if (on_server()) {
    co_await await_end(first);
    co_await await_end(second);
    meet_at("both-over");
    co_return;
  }
  MemoryRegion memory = here->memory(64);
  send_operation patient = second->send(memory.all().first(8)).start();
  send_operation hasty = first->send(memory.all().part(8, 8)).start();
  send_operation behind = first->send(memory.all().part(16, 8)).start();
  const time_point start = here->worker.loop().now();
  const result<void> failed = co_await hasty.result();
  CHECK(here->worker.loop().now() - start <= patience_of->soon.peer_timeout + leeway);
  CHECK(failed.code() == errc::connection_reset);
  CHECK(failed.why().wc_status() == static_cast<int>(transport::wc_status::retry_exc_err));
  const result<void> never_begun = co_await behind.result();
  CHECK(never_begun.code() == errc::flushed);
  CHECK_FALSE(patient.done());
  const result<void> failed_too = co_await patient.result();
  CHECK(failed_too.code() == errc::connection_reset);
  CHECK(here->worker.loop().now() - start <= patience_of->late.peer_timeout + leeway);
  meet_at("both-over");
}

task<> wait_with_two_patiences(side* here) {
  two_patiences of;
  of.soon.peer_timeout = std::chrono::seconds(1);
  of.late.peer_timeout = long_patience;
  Endpoint first = co_await meet(here, port, of.soon);
  Endpoint second = co_await meet(here, port + 10, of.late);
  co_await fail_in_turn(here, &of, &first, &second);
  meet_at("mended");
  Endpoint again = co_await meet(here, port + 20, of.late);
  MemoryRegion memory = here->memory(64);
  co_await swap(&again, memory.all().part(8, 8), memory.all().first(8));
}

task<> close_over_nothing(side* here) {
  Endpoint e = co_await meet(here, port, impatient());
  MemoryRegion memory = here->memory(64);
  co_await swap(&e, memory.all().part(8, 8), memory.all().first(8));
  const netem cut("loss 100%");
  meet_at("cut-before-closing");
  const time_point start = here->worker.loop().now();
  co_await e.close();
  CHECK(here->worker.loop().now() - start <= patience + leeway);
  meet_at("closed-both");
}

enum class fate : std::uint8_t { killed, unplugged };  // of the server

struct workshop {
  explicit workshop(side* on) : here(on), memory(on->memory(7 * piece_bytes)) {}
  static constexpr std::size_t piece_bytes = 32768;
  [[nodiscard]] Slice piece(std::size_t i) const {
    return memory.all().part(i * piece_bytes, piece_bytes);
  }
  [[nodiscard]] RemoteSlice their_piece(std::size_t i, std::size_t bytes = piece_bytes) const {
    return theirs.slice(i * piece_bytes, bytes).value();
  }
  side* here;
  MemoryRegion memory;
  RemoteMemory theirs;
  time_point last_sign{};  // of the peer, on any request
};

// Posts requests of one kind until the first that fails: its awaiter receives the error in time.
template <class Next>
task<> until_refused(workshop* w, Next next) {
  for (;;) {
    auto op = next();
    const auto r = co_await op.result();
    const time_point now = w->here->worker.loop().now();
    if (!r.ok()) {
      CHECK(now - w->last_sign <= patience + leeway);
      co_return;
    }
    w->last_sign = now;
  }
}

task<> receive_until_end(workshop* w, Endpoint* e, int at_most) {
  for (int i = 0; i < at_most; ++i) {
    recv_operation op = e->recv(w->piece(3)).start();
    const result<Received> r = co_await op.result();
    const time_point now = w->here->worker.loop().now();
    if (!r.ok()) {
      CHECK(r.code() == errc::flushed);
      CHECK(now - w->last_sign <= patience + leeway);
      co_return;
    }
    w->last_sign = now;
  }
}

task<> strike(fate what) {
  if (what == fate::killed) co_return;  // the server kills itself
  co_await sleep_for(std::chrono::milliseconds(300));
  shell("on b ip link set wire0 down");
}

constexpr int all_messages = 1 << 30;

// Requests of every kind are in flight when the peer is lost.
task<> be_bereft(workshop* w, Endpoint* e, fate what) {
  w->last_sign = w->here->worker.loop().now();
  const auto send = [w, e] { return e->send(w->piece(0)); };
  const auto write = [w, e] { return e->write(w->their_piece(4), w->piece(1)); };
  const auto read = [w, e] { return e->read(w->their_piece(5), w->piece(2)); };
  const auto add = [w, e] { return e->fetch_add(w->their_piece(6, 8), 1); };
  const auto flush = [e] { return e->flush(); };
  co_await when_all(until_refused(w, send), until_refused(w, write), until_refused(w, read),
                    until_refused(w, add), until_refused(w, flush),
                    receive_until_end(w, e, all_messages), strike(what));
  co_await await_end(e);
  const duration late = w->here->worker.loop().now() - w->last_sign;
  MESSAGE("all had ended ", milliseconds(late),
          " ms after the last sign of life: ", e->first_cause()->describe());
  while (e->inflight() != 0) co_await yield();  // the device has returned all requests
}

task<> lose_the_peer(side* here, fate what) {
  Endpoint e = co_await meet(here, port, impatient());
  workshop w(here);
  w.theirs = co_await swap_blobs(here, &e, w.memory);
  if (!on_server()) {
    co_await be_bereft(&w, &e, what);
    co_return;
  }
  constexpr int enough = 30;
  const int at_most = what == fate::killed ? enough : all_messages;
  w.last_sign = here->worker.loop().now();
  co_await receive_until_end(&w, &e, at_most);
  if (what == fate::killed) ::kill(::getpid(), SIGKILL);
  co_await await_end(&e);
  MESSAGE("the side without a link: ", e.first_cause()->describe());
}

}  // namespace

TEST_CASE(
    "K10: an idle connection notices that the wire is cut, on both sides, without a request") {
  side here;
  here.worker.run(fall_silent(&here));
}

TEST_CASE(
    "M7, D11: of two messages into a cut wire the one with the shorter peer_timeout fails first, "
    "what stands behind it is flushed, and a new connection works") {
  side here;
  here.worker.run(wait_with_two_patiences(&here));
}

TEST_CASE("K10: closing over a cut wire ends in time, on both sides") {
  side here;
  here.worker.run(close_over_nothing(&here));
}

TEST_CASE("K10: the peer is killed in the middle of everything: every waiter learns it in time") {
  side here;
  here.worker.run(lose_the_peer(&here, fate::killed));
}

TEST_CASE(
    "K10: the peer's link goes down for good: every waiter learns it in time, on both sides") {
  side here;
  here.worker.run(lose_the_peer(&here, fate::unplugged));
}

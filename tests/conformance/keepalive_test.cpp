// peer_timeout distinguishes a dead peer from one that lives and does nothing.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/scope.hpp>

#include <optional>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr duration patience = std::chrono::milliseconds(400);

endpoint_options impatient() {
  endpoint_options o;
  o.peer_timeout = patience;
  return o;
}

constexpr const char* one_process =
    "the simulator is one process by nature, and an RDMA device answers for a process that is "
    "stopped";
constexpr const char* injected = "only the simulator loses every packet of a link";

}  // namespace

TEST_CASE(
    "K10: every packet is lost: both sides end between one and two peer_timeouts, busy or idle" *
    only_on(transport::kind::sim, injected)) {
  stage s;
  s.play([](stage& on) -> task<> {
    for (const bool busy : {false, true}) {
      CAPTURE(busy);
      wire w = co_await connect(on, impatient(), impatient());
      MemoryRegion mine = client_memory(on, 5000);
      MemoryRegion theirs = server_memory(on, 5000);
      const RemoteMemory remote = exported(theirs);
      recv_operation waiting = w.server.recv(theirs).start();
      const time_point start = on.loop().now();
      on.net().set_links({.loss = 1.0});
      std::vector<send_operation> doing;
      if (busy) {
        doing.push_back(w.client.read(remote, mine).start());
        doing.push_back(w.client.send(mine).start());
        doing.push_back(w.client.flush().start());
      }
      for (send_operation& op : doing) {
        const result<void> r = co_await op.result();
        CHECK_FALSE(r.ok());
      }
      const result<Received> none = co_await waiting.result();
      CHECK(none.code() == errc::flushed);
      while (w.client.state() != endpoint_state::closed) co_await w.client.state_changed();
      while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
      CHECK(on.loop().now() - start >= patience);
      CHECK(on.loop().now() - start <= 2 * patience);
      CHECK(w.server.first_cause()->code() == errc::connection_reset);
      CHECK(w.client.first_cause() != nullptr);
      CHECK(on.net().faults().lost > 0);
      on.net().set_links({});
    }
  });
}

namespace {

constexpr std::size_t big = std::size_t{1} << 20;

// Waits on a separate connection for the order to receive on the other one. While it waits it has
// nothing to do: in event mode it sleeps.
task<int> peer_story(host& h, wire_to_peer& parent) {
  const std::string server = parent.hear();
  connect_options to;
  to.endpoint = impatient();
  Endpoint e = co_await h.worker.connect(server, to);
  Endpoint orders = co_await h.worker.connect(server, to);
  MemoryRegion word = h.context.allocate(8).value();
  recv_operation ordered = orders.recv(word).start();
  parent.tell("connected");
  co_await ordered;
  MemoryRegion memory = h.context.allocate(big).value();
  co_await e.recv(memory);
  if (!filled(memory.bytes(), 9)) co_return 2;
  co_await e.close();
  co_return 0;
}

int peer_life(wire_to_peer& parent, wait_mode mode) {
  host h(mode);
  return h.worker.run(peer_story(h, parent));
}

task<> hear(child_process& from) {
  std::optional<std::string> word;
  while (!word) {
    co_await yield();
    word = from.wire().hear_now();
  }
}

struct peer_ends {
  Endpoint data;
  Endpoint orders;
};

task<> meet(Listener& listener, child_process& child, peer_ends& ends) {
  child.wire().tell(own_host() + ":" + std::to_string(listener.bound().port));
  connect_options with;
  with.endpoint = impatient();
  for (Endpoint* e : {&ends.data, &ends.orders}) {
    ConnectionRequest request = co_await listener.next();
    Endpoint accepted = co_await request.accept(with);
    *e = std::move(accepted);
  }
  co_await hear(child);
}

// The patient peer posts no receive all this time, and is not considered dead.
task<> tell_apart(host& h, Listener& listener, child_process& stopped, child_process& patient) {
  peer_ends with_patient;
  peer_ends with_stopped;
  co_await meet(listener, patient, with_patient);
  co_await meet(listener, stopped, with_stopped);
  Endpoint& to_patient = with_patient.data;
  Endpoint& to_stopped = with_stopped.data;
  MemoryRegion memory = h.context.allocate(big).value();
  fill(memory.bytes(), 9);
  send_operation held_up = to_patient.send(memory).start();
  stopped.stop_it();
  send_operation unanswered = to_stopped.send(memory).start();
  send_operation flushing = to_stopped.flush().start();
  const result<void> sent = co_await unanswered.result();
  const result<void> flushed = co_await flushing.result();
  CHECK(sent.code() == errc::flushed);
  CHECK(flushed.code() == errc::flushed);
  REQUIRE(to_stopped.first_cause() != nullptr);
  CHECK(to_stopped.first_cause()->code() == errc::connection_reset);
  CHECK(to_stopped.first_cause()->message().find("peer_timeout") != std::string::npos);
  // This operation was posted to the patient peer before.
  CHECK_FALSE(held_up.done());
  CHECK(to_patient.state() == endpoint_state::connected);
  co_await with_patient.orders.send(memory.all().first(8));
  co_await held_up;
  while (to_patient.state() != endpoint_state::closed) co_await to_patient.state_changed();
  CHECK(to_patient.first_cause()->code() == errc::not_connected);
}

task<> close_to(Listener& listener, child_process& stopped) {
  peer_ends with_stopped;
  co_await meet(listener, stopped, with_stopped);
  Endpoint& e = with_stopped.data;
  stopped.stop_it();
  co_await e.close();
  CHECK(e.state() == endpoint_state::closed);
}

}  // namespace

TEST_CASE(
    "K10: a stopped process is taken for dead after peer_timeout; one that only has no receive "
    "posted is not, polling or asleep" *
    not_on({transport::kind::sim, transport::kind::verbs}, one_process)) {
  for (const wait_mode mode : waits_under_test({wait_mode::polling, wait_mode::event})) {
    CAPTURE(name(mode));
    child_process stopped([mode](wire_to_peer& w) { return peer_life(w, mode); });
    child_process patient([mode](wire_to_peer& w) { return peer_life(w, mode); });
    host h(mode);
    Listener listener = h.worker.listen(own_host() + ":0").value();
    h.worker.run(tell_apart(h, listener, stopped, patient));
    CHECK(patient.join() == 0);
  }
}

TEST_CASE("K10: closing a connection to a stopped process ends after peer_timeout" *
          not_on({transport::kind::sim, transport::kind::verbs}, one_process)) {
  child_process stopped([](wire_to_peer& w) { return peer_life(w, wait_mode::polling); });
  host h;
  Listener listener = h.worker.listen(own_host() + ":0").value();
  h.worker.run(close_to(listener, stopped));
}

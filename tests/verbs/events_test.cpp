// Every event is acknowledged. rdma_cm's events occur once of each kind, or have a reason for not
// occurring.
#include "event_counts.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/runtime/sleep.hpp>

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include <dlfcn.h>

using namespace cordma;
using namespace cordma::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kinds = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1;

std::array<std::atomic<int>, kinds> cm_got{};
std::atomic<int> cm_given_back{0};
std::atomic<int> queue_got{0};
std::atomic<int> queue_given_back{0};
std::atomic<int> queue_calls{0};

// The library's own function of this name.
template <class Function>
Function* behind(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

extern "C" int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  static auto* const real = behind<decltype(rdma_get_cm_event)>("rdma_get_cm_event");
  const int code = real(channel, event);
  if (code == 0) ++cm_got.at((*event)->event);
  return code;
}

extern "C" int rdma_ack_cm_event(rdma_cm_event* event) {
  static auto* const real = behind<decltype(rdma_ack_cm_event)>("rdma_ack_cm_event");
  ++cm_given_back;
  return real(event);
}

extern "C" int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  static auto* const real = behind<decltype(ibv_get_cq_event)>("ibv_get_cq_event");
  const int code = real(channel, queue, context);
  if (code == 0) ++queue_got;
  return code;
}

extern "C" void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  static auto* const real = behind<decltype(ibv_ack_cq_events)>("ibv_ack_cq_events");
  queue_given_back += static_cast<int>(count);
  ++queue_calls;
  real(queue, count);
}

namespace cordma::test {

int cm_events(rdma_cm_event_type what) noexcept { return cm_got.at(what); }
int cm_events() noexcept { return std::accumulate(cm_got.begin(), cm_got.end(), 0); }
int cm_acknowledged() noexcept { return cm_given_back; }
int queue_events() noexcept { return queue_got; }
int queue_acknowledged() noexcept { return queue_given_back; }
int queue_acknowledgements() noexcept { return queue_calls; }

}  // namespace cordma::test

namespace {

// Why an event does not occur in the scenario below; nullptr if it does.
const char* absent(std::size_t event) {
  switch (event) {
    case RDMA_CM_EVENT_ROUTE_ERROR: return "there is no subnet manager to ask";
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "of iWARP, and of queue pairs that rdma_cm brings up itself: cordma brings up its own";
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return "removal_test.cpp has a machine for it";
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR: return "groups are joined by verbs, not by rdma_cm";
    case RDMA_CM_EVENT_ADDR_CHANGE: return "of bonded interfaces";
    default: return nullptr;
  }
}

void neighbour(const char* address, const char* mac) {
  const std::string command =
      std::string("ip neigh replace ") + address + " dev wire0 lladdr " + mac;
  REQUIRE(std::system(command.c_str()) == 0);
}

// `looking` resolves an address without a neighbour. After two timeouts the neighbour appears, and
// the route resolves.
template <class Operation>
task<> asked_again(stage* on, Operation looking, const char* address) {
  const int unheard = cm_events(RDMA_CM_EVENT_ADDR_ERROR);
  while (cm_events(RDMA_CM_EVENT_ADDR_ERROR) < unheard + 2 && !looking.done()) co_await moment(*on);
  REQUIRE_FALSE(looking.done());
  const int resolved = cm_events(RDMA_CM_EVENT_ROUTE_RESOLVED);
  neighbour(address, "02:00:00:00:00:96");
  while (cm_events(RDMA_CM_EVENT_ROUTE_RESOLVED) == resolved && !looking.done()) {
    co_await moment(*on);
  }
  CHECK_FALSE(looking.done());
}

task<> neighbour_comes_late(stage& on) {
  connect_options patient;
  patient.endpoint.connect_timeout = 100s;
  co_await asked_again(&on, on.client().connect("10.77.0.96:7", patient).start(), "10.77.0.96");
  DatagramEndpoint port = on.client().datagram().value();
  co_await asked_again(&on, port.resolve("10.77.0.95:7").start(), "10.77.0.95");
}

task<> nobody_answers(stage& on) {
  neighbour("10.77.0.98", "02:00:00:00:00:97");
  const int resolved = cm_events(RDMA_CM_EVENT_ROUTE_RESOLVED);
  connect_options patient;
  patient.endpoint.connect_timeout = 100s;
  connect_operation connecting = on.client().connect("10.77.0.98:7", patient).start();
  while (cm_events(RDMA_CM_EVENT_ROUTE_RESOLVED) == resolved) co_await moment(on);
  // The request is lost; it would be repeated for a minute if its neighbour had not changed.
  neighbour("10.77.0.98", "02:00:00:00:00:98");
  const result<Endpoint> unreachable = co_await connecting.result();
  CHECK(unreachable.code() == errc::timed_out);  // UNREACHABLE
}

task<> no_device_leads_there(stage& on) {
  REQUIRE(std::system("ip addr add 10.78.0.1/24 dev wire1 && "
                      "ip neigh replace 10.78.0.9 dev wire1 lladdr 02:00:00:00:00:99") == 0);
  const result<Endpoint> elsewhere = co_await on.client().connect("10.78.0.9:7").result();
  CHECK(elsewhere.code() == errc::unreachable);  // ADDR_ERROR: wire1 has no RDMA device
  REQUIRE(std::system("ip addr del 10.78.0.1/24 dev wire1") == 0);
}

}  // namespace

TEST_CASE("M4: each event of rdma_cm comes, or is known not to, and is given back") {
  stage s;
  s.play([](stage& on) -> task<> {
    const result<Endpoint> nobody = co_await on.client().connect(own_host() + ":9").result();
    CHECK(nobody.code() == errc::unreachable);  // REJECTED
    co_await neighbour_comes_late(on);
    co_await nobody_answers(on);
    co_await no_device_leads_there(on);
    wire w = co_await connect(on);
    w.server.abort();
    while (w.client.state() != endpoint_state::closed) co_await w.client.state_changed();
    // Occurs two seconds after DISCONNECTED, if the connection still exists.
    while (cm_events(RDMA_CM_EVENT_TIMEWAIT_EXIT) == 0) co_await moment(on);
    CHECK(w.client.first_cause()->code() == errc::connection_reset);
  });
  for (std::size_t event = 0; event < kinds; ++event) {
    const auto what = static_cast<rdma_cm_event_type>(event);
    CAPTURE(rdma_event_str(what));
    CHECK((cm_events(what) > 0) == (absent(event) == nullptr));
  }
  CHECK(cm_acknowledged() == cm_events());
}

TEST_CASE("L4: as many events of completion queues are given back as were got, many at once") {
  const int got = queue_events();
  const int given_back = queue_acknowledged();
  const int calls = queue_acknowledgements();
  {
    stage s({.mode = wait_mode::event});
    s.play(
        [](stage& on, int before) -> task<> {
          wire w = co_await connect(on);
          MemoryRegion out = client_memory(on, 8);
          MemoryRegion in = server_memory(on, 8);
          while (queue_events() - before < 300) {
            recv_operation receiving = w.server.recv(in).start();
            co_await sleep_for(1ms);  // lets the Workers sleep, so that the message wakes them
            co_await w.client.send(out);
            co_await receiving;
          }
        },
        got);
  }
  CHECK(queue_acknowledged() - given_back == queue_events() - got);
  CHECK(queue_acknowledgements() - calls < 20);
}

// Device events about cordma's queue pairs and completion queues end the connections concerned, and
// no others. Soft-RoCE reports none for queue pairs: the test injects those.
#include "property.hpp"
#include "raw_loop.hpp"

#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <array>
#include <vector>

#include <poll.h>

using namespace cordma;
using namespace cordma::transport;
using verbs::async_event;
using subject = verbs::async_event::subject;

namespace {

// Two connections, by descriptors, within one adapter.
struct two_connections {
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> device = make_verbs({}).value();
  std::unique_ptr<adapter> at = device->open(loop).value();
  std::array<std::unique_ptr<queue_pair>, 4> ends;  // 0 with 1, 2 with 3
  std::vector<completion> completions;

  two_connections() {
    for (auto& e : ends) e = at->create({}).value();
    std::array<std::vector<std::byte>, 4> descriptors;
    for (std::size_t i = 0; i < ends.size(); ++i) descriptors[i] = ends[i]->descriptor().value();
    for (std::size_t i = 0; i < ends.size(); ++i) {
      ends[i]->connect(descriptors[i ^ 1U]).value();
    }
    std::size_t up = 0;
    while (up < ends.size()) {
      const cm_event e = next();
      REQUIRE(e.what == cm_event::type::established);
      ++up;
    }
  }
  void turn() {
    std::array<completion, 32> taken;
    bool progressed = false;
    const std::size_t n = at->poll(taken, progressed);
    completions.insert(completions.end(), taken.begin(),
                       taken.begin() + static_cast<std::ptrdiff_t>(n));
    static_cast<void>(loop.turn());
  }
  cm_event next() {
    while (!at->has_events()) turn();
    return at->next_event();
  }
  [[nodiscard]] verbs::verbs_adapter& inside() noexcept {
    return static_cast<verbs::verbs_adapter&>(*at);
  }
  [[nodiscard]] std::uint32_t number(std::size_t end) const {
    return static_cast<std::uint32_t>(std::stoul(test::property_of(*ends[end], "pair")));
  }
};

}  // namespace

TEST_CASE("Q9: an event about a queue pair ends its connection, saying which, and no other") {
  for (const ibv_event_type what :
       {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    CAPTURE(ibv_event_type_str(what));
    two_connections c;
    c.inside().tell({.what = what, .about = subject::own, .pair = c.number(0)});
    const cm_event first = c.next();
    CHECK(first.what == cm_event::type::disconnected);
    CHECK(first.pair == c.ends[0].get());
    CHECK(first.why.code() == errc::connection_reset);
    CAPTURE(first.why.message());
    CHECK(first.why.message().find(ibv_event_type_str(what)) != std::string::npos);
    const cm_event second = c.next();
    CHECK(second.what == cm_event::type::disconnected);
    CHECK(second.pair == c.ends[1].get());
    c.ends[2]->disconnect();
    for (int i = 0; i < 2; ++i) {
      const cm_event closed = c.next();
      CHECK((closed.pair == c.ends[2].get() || closed.pair == c.ends[3].get()));
      CHECK(closed.why.code() == errc::not_connected);
    }
  }
}

TEST_CASE("Q9: a completion queue or a device that fails ends every connection") {
  for (const bool queue : {true, false}) {
    CAPTURE(queue);
    two_connections c;
    c.inside().tell({.what = queue ? IBV_EVENT_CQ_ERR : IBV_EVENT_DEVICE_FATAL,
                     .about = queue ? subject::own : subject::device});
    if (!queue) {
      const cm_event told = c.next();
      CHECK(told.what == cm_event::type::device);
      CHECK(name(told.about.what) == "device failed");
    }
    for (std::size_t i = 0; i < c.ends.size(); ++i) {
      const cm_event e = c.next();
      CHECK(e.what == cm_event::type::disconnected);
      CHECK(e.why.code() == errc::driver);
    }
  }
}

namespace {

bool has_event(const ibv_context* device) {
  pollfd p{.fd = device->async_fd, .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, 0) == 1;
}

}  // namespace

TEST_CASE(
    "L4: a completion queue that is made to overflow ends every connection, and its requests") {
  two_connections c;
  completion now;
  static_cast<void>(c.ends[0]->post_recv({.id = 7}, now));
  ibv_pd* const pd = c.device->native_pd();
  // A queue pair unknown to the library: its completions use entries that were promised to others.
  ibv_cq* const overflown = c.inside().promise(0).value();
  test::raw_loop stranger(pd, nullptr, overflown);
  while (!has_event(pd->context)) static_cast<void>(stranger.post_nothing());
  for (std::size_t i = 0; i < c.ends.size(); ++i) {
    const cm_event e = c.next();
    CHECK(e.what == cm_event::type::disconnected);
    CHECK(e.why.code() == errc::driver);
    CHECK(e.why.message().find(ibv_event_type_str(IBV_EVENT_CQ_ERR)) != std::string::npos);
  }
  while (c.completions.empty()) c.turn();
  CHECK(c.completions.size() == 1);
  CHECK(c.completions[0].id == 7);
  CHECK(c.completions[0].status == wc_status::wr_flush_err);
  CHECK(c.inside().promise(0).value() != overflown);  // the next connection gets another queue
}

TEST_CASE(
    "Q9: a queue pair that goes with its event told and not looked at is no other's concern") {
  two_connections c;
  c.inside().tell({.what = IBV_EVENT_QP_FATAL, .about = subject::own, .pair = c.number(0)});
  c.ends[0].reset();
  const cm_event e = c.next();
  CHECK(e.what == cm_event::type::disconnected);
  CHECK(e.pair == c.ends[1].get());
}

// Otherwise a reactor that polls just before it sleeps would sleep with no notification armed.
TEST_CASE(
    "D7: a poll that reads a notification says so, also where its completion was taken before") {
  two_connections c;
  pollfd there{.fd = c.at->wait_fd(), .events = POLLIN, .revents = 0};
  completion now;
  std::array<completion, 32> taken;
  for (int round = 0; round < 70; ++round) {  // one poll in 64 checks anyway
    while (c.at->arm() != arm_state::armed) c.turn();
    REQUIRE(c.ends[0]->post_send({.op = opcode::write}, now) == posted::pending);
    REQUIRE(::poll(&there, 1, -1) == 1);
    bool said = false;
    for (int polls = 0; polls < 200 && ::poll(&there, 1, 0) == 1; ++polls) {
      said = false;
      static_cast<void>(c.at->poll(taken, said));
    }
    CHECK(::poll(&there, 1, 0) == 0);
    CHECK(said);
  }
}

TEST_CASE("Q9: what changes at a port is told with the port, and ends no connection") {
  two_connections c;
  for (const ibv_event_type what : {IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
                                    IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER}) {
    CAPTURE(ibv_event_type_str(what));
    c.inside().tell({.what = what, .about = subject::device, .port = 1});
    const cm_event told = c.next();
    CHECK(told.what == cm_event::type::device);
    CHECK(told.about.native == what);
    CHECK(told.about.port == 1);
  }
  for (const auto& end : c.ends) CHECK(end->device_state().value() == queue_pair_state::rts);
}

TEST_CASE("Q9: every event has a name of its own, and one without is told by its number") {
  const auto told = [](ibv_event_type what) {
    return to_device_event(async_event{.what = what, .port = 1});
  };
  CHECK(name(told(IBV_EVENT_PORT_ACTIVE).what) == "port up");
  CHECK(name(told(IBV_EVENT_PORT_ERR).what) == "port down");
  CHECK(name(told(IBV_EVENT_GID_CHANGE).what) == "gid change");
  CHECK(name(told(IBV_EVENT_PKEY_CHANGE).what) == "pkey change");
  CHECK(name(told(IBV_EVENT_LID_CHANGE).what) == "lid change");
  CHECK(name(told(IBV_EVENT_SM_CHANGE).what) == "manager change");
  CHECK(name(told(IBV_EVENT_CLIENT_REREGISTER).what) == "manager change");
  CHECK(name(told(IBV_EVENT_DEVICE_FATAL).what) == "device failed");
  const device_event newer = told(static_cast<ibv_event_type>(31));
  CHECK(name(newer.what) == "other");
  CHECK(newer.native == 31);
  CHECK(newer.port == 1);
}

// The end of a queue pair with a shared receive queue. Soft-RoCE does not report that the queue
// pair consumed its last receive: the test injects the event as other devices send it, or waits for
// the timeout.
#include "property.hpp"

#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <poll.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::transport;
using subject = verbs::async_event::subject;

namespace {

constexpr std::uint32_t size = 32768;  // bytes of a message: several packets
constexpr std::uint32_t depth = 8;

// Number of queue pairs that the kernel holds.
int pairs_on_device() {
  FILE* const told = ::popen("rdma resource show", "r");
  REQUIRE(told != nullptr);
  std::array<char, 256> line{};
  std::string all;
  while (std::fgets(line.data(), line.size(), told) != nullptr) all += line.data();
  REQUIRE(::pclose(told) == 0);
  const std::size_t at = all.find(" qp ");
  REQUIRE(at != std::string::npos);
  return std::stoi(all.substr(at + 4));
}

// Two connections, by descriptors, within one adapter: 0 and 2 receive messages of 1 and 3 from one
// queue.
struct two_receivers {
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> device = make_verbs({}).value();
  std::vector<std::byte> memory = std::vector<std::byte>(2 * size);
  memory_keys keys =
      device
          ->register_memory(
              {.addr = memory.data(), .length = memory.size(), .rights = access::local_write})
          .value();
  std::unique_ptr<adapter> at = device->open(loop).value();
  std::unique_ptr<receive_queue> queue = at->make_receive_queue(depth, 1).value();
  std::array<std::unique_ptr<queue_pair>, 4> ends;
  std::vector<completion> completed;  // completed receives, in order

  two_receivers() {
    queue_pair_options receiving;
    receiving.shared = queue.get();
    for (std::size_t i = 0; i < ends.size(); ++i) {
      ends[i] = at->create(i % 2 == 0 ? receiving : queue_pair_options()).value();
    }
    std::array<std::vector<std::byte>, 4> descriptors;
    for (std::size_t i = 0; i < ends.size(); ++i) descriptors[i] = ends[i]->descriptor().value();
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i]->connect(descriptors[i ^ 1U]).value();
    for (std::size_t up = 0; up < ends.size(); ++up) {
      const cm_event e = next();
      REQUIRE(e.what == cm_event::type::established);
    }
    const segment into{memory.data(), size, keys.lkey};
    for (std::uint32_t i = 0; i < depth; ++i) {
      queue->post_recv({.id = i, .segment_count = 1, .segments = &into});
    }
  }
  two_receivers(const two_receivers&) = delete;
  two_receivers& operator=(const two_receivers&) = delete;
  ~two_receivers() {
    for (auto& e : ends) e.reset();
    queue.reset();
    at.reset();
    device->deregister_memory(keys.lkey);
  }
  void poll() {
    // few, so that flushed receives are polled after completed ones
    std::array<completion, 2> taken;
    bool progressed = false;
    const std::size_t n = at->poll(taken, progressed);
    for (std::size_t i = 0; i < n; ++i) {
      if (taken[i].op == opcode::recv || taken[i].from != nullptr) completed.push_back(taken[i]);
    }
    static_cast<void>(loop.turn());
  }
  cm_event next() {
    while (!at->has_events()) poll();
    return at->next_event();
  }
  void send(std::size_t from) {
    const segment out{memory.data() + size, size, keys.lkey};
    completion now;
    static_cast<void>(ends[from]->post_send({.segment_count = 1, .segments = &out}, now));
  }
  // Reports an event as the device would.
  void tell(ibv_event_type what, std::uint32_t pair) {
    static_cast<verbs::verbs_adapter&>(*at).tell(
        {.what = what, .about = subject::own, .pair = pair});
  }
  [[nodiscard]] std::uint32_t number(std::size_t end) const {
    return static_cast<std::uint32_t>(std::stoul(test::property_of(*ends[end], "pair")));
  }
};

}  // namespace

TEST_CASE("Q3: that a queue pair took its last receive is told once, behind what it completed") {
  for (const bool by_device : {true, false}) {
    CAPTURE(by_device);
    two_receivers t;
    for (int i = 0; i < 5; ++i) t.send(1);
    while (t.completed.empty()) t.poll();
    t.tell(IBV_EVENT_QP_FATAL, t.number(0));
    if (by_device) t.tell(IBV_EVENT_QP_LAST_WQE_REACHED, t.number(0));
    const cm_event first = t.next();
    CHECK(first.what == cm_event::type::disconnected);
    CHECK(first.pair == t.ends[0].get());
    cm_event last = t.next();
    if (last.what == cm_event::type::disconnected) {
      CHECK(last.pair == t.ends[1].get());
      last = t.next();
    }
    CHECK(last.what == cm_event::type::last_receive);
    CHECK(last.pair == t.ends[0].get());
    const std::size_t before = t.completed.size();
    for (const completion& c : t.completed) CHECK(c.from == t.ends[0].get());
    // The other one continues, with the remaining receives.
    t.send(3);
    while (t.completed.size() == before) t.poll();
    CHECK(t.completed.size() == before + 1);
    CHECK(t.completed.back().from == t.ends[2].get());
    CHECK(t.completed.back().status == wc_status::success);
    if (by_device) t.tell(IBV_EVENT_QP_LAST_WQE_REACHED, t.number(0));
    for (int i = 0; i < 200; ++i) t.poll();
    while (t.at->has_events()) {
      const cm_event more = t.at->next_event();
      CHECK(more.what == cm_event::type::disconnected);
    }
  }
}

TEST_CASE(
    "Q3: a message that breaks off has taken a receive: the device tells, and it comes back") {
  two_receivers t;
  CHECK(t.queue->arm_limit(depth).ok());
  // The second half has the wrong key.
  const std::array<segment, 2> halves{
      segment{t.memory.data() + size, size / 2, t.keys.lkey},
      segment{t.memory.data() + size, size / 2, t.keys.lkey ^ 0xFFU}};
  completion now;
  static_cast<void>(t.ends[1]->post_send({.segment_count = 2, .segments = halves.data()}, now));
  // No receive of its queue has completed, so the device reports the limit.
  auto& inside = static_cast<verbs::verbs_domain&>(*t.device);
  pollfd limit{.fd = inside.context()->async_fd, .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&limit, 1, -1) == 1);
  inside.read_async_events();
  t.at->disarm();  // so that it checks as soon as a poll finds nothing
  bool low = false;
  for (cm_event e = t.next(); e.what != cm_event::type::last_receive; e = t.next()) {
    if (e.what == cm_event::type::receives_low) {
      low = true;
    } else {
      CHECK(e.what == cm_event::type::disconnected);
    }
  }
  CHECK(low);
  REQUIRE(t.completed.size() == 1);
  CHECK(t.completed[0].status == wc_status::wr_flush_err);
  CHECK(t.completed[0].from == t.ends[0].get());
  // All other receives are left.
  for (std::uint32_t i = 1; i < depth; ++i) t.send(3);
  while (t.completed.size() < depth) t.poll();
  for (std::uint32_t i = 1; i < depth; ++i) {
    CHECK(t.completed[i].status == wc_status::success);
    CHECK(t.completed[i].from == t.ends[2].get());
  }
}

TEST_CASE("Q3: a queue pair that is destroyed early stays on the device until its last receive") {
  for (const bool by_device : {true, false}) {
    CAPTURE(by_device);
    two_receivers t;
    const std::uint32_t number = t.number(0);
    const int before = pairs_on_device();
    t.ends[0].reset();
    CHECK(pairs_on_device() == before);
    if (by_device) {
      t.tell(IBV_EVENT_QP_LAST_WQE_REACHED, number);
      for (int i = 0; i < 200; ++i) t.poll();
    } else {
      while (pairs_on_device() == before) t.poll();
    }
    CHECK(pairs_on_device() == before - 1);
    t.send(3);
    while (t.completed.empty()) t.poll();
    CHECK(t.completed.back().from == t.ends[2].get());
  }
}

TEST_CASE("Q3: a receive queue takes what it still keeps with it") {
  const int before = pairs_on_device();
  {
    two_receivers t;
    for (int i = 0; i < 3; ++i) t.send(1);
    t.ends[0].reset();
    t.ends[2].reset();
  }
  CHECK(pairs_on_device() == before);
}

TEST_CASE("Q3: the limit is told once each time it is asked for, and at once where it is passed") {
  two_receivers t;
  CHECK(t.queue->arm_limit(depth - 1).ok());
  t.send(1);
  while (t.completed.empty()) t.poll();
  for (int i = 0; i < 200; ++i) t.poll();
  CHECK_FALSE(t.at->has_events());  // not below the limit
  t.send(3);
  const cm_event low = t.next();
  CHECK(low.what == cm_event::type::receives_low);
  CHECK(low.queue == t.queue.get());
  t.send(1);
  while (t.completed.size() < 3) t.poll();
  for (int i = 0; i < 200; ++i) t.poll();
  CHECK_FALSE(t.at->has_events());
  CHECK(t.queue->arm_limit(2).ok());
  CHECK_FALSE(t.at->has_events());
  CHECK(t.queue->arm_limit(depth).ok());
  const cm_event at_once = t.next();
  CHECK(at_once.what == cm_event::type::receives_low);
}

#include <atomic>
#include <thread>

#include "shm_harness.hpp"

namespace cordma::transport::shm_test {
namespace {

// The layer above, reduced to the parts that sleeping needs.
struct feeder final : poller {
  host& h;
  std::uint64_t got = 0;
  explicit feeder(host& of) : h(of) {}
  std::size_t poll() noexcept override {
    completion out[16];
    bool progressed = false;
    const std::size_t n = h.a->poll(out, progressed);
    for (std::size_t i = 0; i < n; ++i) got += out[i].op == opcode::recv ? 1U : 0U;
    std::size_t events = 0;
    for (; h.a->has_events(); ++events) h.events.push_back(h.a->next_event());
    return n + events + (progressed ? 1 : 0);
  }
  arm_state arm() noexcept override { return h.a->arm(); }
  void disarm() noexcept override { h.a->disarm(); }
  [[nodiscard]] int wait_fd() const noexcept override { return h.a->wait_fd(); }
  [[nodiscard]] bool edge_triggered() const noexcept override { return h.a->edge_triggered(); }
  [[nodiscard]] const char* name() const noexcept override { return "shm"; }
};

struct goal {
  feeder* f;
  std::uint64_t at_least;
  static bool reached(void* g) noexcept {
    return static_cast<goal*>(g)->f->got >= static_cast<goal*>(g)->at_least;
  }
};

void bounce(couple& c, std::uint64_t rounds, std::size_t bytes) {
  const auto side = [&](host& h, bool begins) {
    h.home.bind();
    memory m(*h.d, 2 * bytes, everything, true);
    feeder f(h);
    REQUIRE(h.home.add(f).ok());
    completion now;
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      const auto send = [&] {
        const segment s = m.at(0, bytes);
        send_request r;
        r.id = i;
        r.segments = &s;
        r.segment_count = 1;
        static_cast<void>(h.q->post_send(r, now));
      };
      const segment to = m.at(bytes, bytes);
      if (begins) send();
      if (h.q->post_recv({i, 1, &to, nullptr}, now) == posted::done) ++f.got;
      goal g{&f, i};
      static_cast<void>(h.home.run_until(&goal::reached, &g));
      if (!begins) send();
    }
    // Fetches from here must be complete before the memory is released.
    const segment none = m.at(0, 0);
    send_request flush;
    flush.id = rounds + 1;
    flush.op = opcode::flush;
    flush.segments = &none;
    if (h.q->post_send(flush, now) == posted::pending) {
      for (bool done = false; !done;) {
        completion out[16];
        bool progressed = false;
        const std::size_t n = h.a->poll(out, progressed);
        for (std::size_t i = 0; i < n; ++i) done = done || out[i].op == opcode::flush;
      }
    }
    h.home.remove(f);
  };
  std::thread other([&] { side(c.server, false); });
  side(c.client, true);
  other.join();
  c.client.home.bind();
  c.server.home.bind();
}

}  // namespace

TEST_CASE("shm: 100,000 round trips between two threads that sleep whenever they can") {
  couple c({}, {}, {}, wait_mode::event);
  bounce(c, 100'000, 8);
}

TEST_CASE("shm: long messages between two threads [event and adaptive]") {
  for (const wait_mode mode : {wait_mode::event, wait_mode::adaptive, wait_mode::polling}) {
    couple c({}, {}, {}, mode);
    bounce(c, 2'000, 20'000);
  }
}

TEST_CASE("shm: a message in the window between last poll and arm is never lost [100,000 times]") {
  couple c({}, {}, {}, wait_mode::event);
  memory from(*c.client.d, 64, everything, true);
  memory to(*c.server.d, 64, everything, true);
  std::uint64_t lost = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    c.server.done.clear();
    c.client.done.clear();
    if (c.server.recv(1, to.at(0, 8)) == posted::done) continue;
    completion out[4];
    bool progressed = false;
    REQUIRE(c.server.a->poll(out, progressed) == 0);
    const bool before = i % 2 == 0;
    if (before) c.client.send(2, from.at(0, 8));
    const arm_state armed = c.server.a->arm();
    if (before && armed != arm_state::busy) ++lost;
    if (!before) c.client.send(2, from.at(0, 8));
    std::size_t got = 0;
    c.server.a->disarm();
    got = c.server.a->poll(out, progressed);
    if (got != 1) ++lost;
  }
  CHECK(lost == 0);
}

TEST_CASE("shm: deregistering while another thread writes: nothing lands after its return") {
  for (int round = 0; round < 50; ++round) {
    couple inner;
    auto target = std::make_unique<memory>(*inner.server.d, 1 << 16, everything, true);
    memory source(*inner.client.d, 1 << 16, everything, true);
    std::memset(source.data, 0xee, 1 << 16);
    inner.client.rma(1, opcode::write, source.at(0, 64), target->address(), target->keys.rkey);
    REQUIRE(pump(inner.server, inner.client, [&] { return inner.client.find(1) != nullptr; }));
    std::atomic<bool> started{false};
    std::thread writer([&] {
      const segment s = source.at(0, 1 << 16);
      send_request r;
      r.id = 2;
      r.op = opcode::write;
      r.segments = &s;
      r.segment_count = 1;
      r.remote_addr = target->address();
      r.rkey = target->keys.rkey;
      completion now;
      while (inner.client.q->post_send(r, now) == posted::done &&
             now.status == wc_status::success) {
        started.store(true);
      }
    });
    while (!started.load()) std::this_thread::yield();
    target->deregister();
    std::memset(target->data, 0x11, 1 << 16);
    writer.join();
    bool clean = true;
    for (std::size_t i = 0; i < (1 << 16); ++i) clean = clean && target->data[i] == std::byte{0x11};
    CHECK(clean);
  }
}

}  // namespace cordma::transport::shm_test

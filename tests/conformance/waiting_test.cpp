// Waiting without losing a wake-up. The simulator runs in real time here; otherwise it would not
// sleep.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr const char* one_loop = "a simulated network lives on one reactor, and so in one thread";
constexpr const char* simulated_below =
    "both hosts share one reactor there: the case about a packet that leaves is its form of this";
constexpr const char* real_below = "two reactors hunt each other there, in the case before";

// Fewer rounds under a sanitizer, which is slow.
std::uint64_t rounds_per_window() { return rounds_under_test(100'000, 2'000); }

// Catches the moment in which a reactor is about to sleep: alternately before it arms, and between
// arming and its last poll.
struct ambush {
  std::uint64_t round = 0;
  int window = 0;  // 1: before arming; 2: between arming and the last poll
  int seen = 0;
  bool due = false;

  void lay(std::uint64_t number) noexcept {
    round = number;
    window = 1 + static_cast<int>(number % 2);
    seen = 0;
    due = true;
  }
  // True if this is the moment.
  [[nodiscard]] bool sprung() noexcept {
    if (!due || ++seen < window) return false;
    due = false;
    return true;
  }
};

send_operation send_word(Endpoint& from, const std::uint64_t& word) {
  return from.send_inline(std::as_bytes(std::span<const std::uint64_t>(&word, 1))).start();
}

task<> hunted(host& p, Endpoint& e, ambush& a, std::uint64_t rounds) {
  MemoryRegion room = p.context.allocate(8).value();
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    recv_operation receiving = e.recv(room).start();
    a.lay(i);
    const Received got = co_await receiving;
    if (got.bytes != 8 || room.as<std::uint64_t>()[0] != i) {
      FAIL_CHECK("message ", i, " is another");
      co_return;
    }
  }
}

// Sends one message at the moment the other side is about to sleep, from its hook.
struct hunter {
  host* peer = nullptr;
  Endpoint* endpoint = nullptr;
  ambush moment;
  std::uint64_t sent = 0;
  std::optional<send_operation> sending;

  static void before_sleep(void* context) noexcept {
    auto& self = *static_cast<hunter*>(context);
    if (self.moment.sprung()) {
      ++self.sent;
      self.sending.emplace(send_word(*self.endpoint, self.sent));
      self.peer->worker.loop().turn();
    }
    // The transport may hold a message back until this side reports free space. It reports that
    // when it arms, and the next call sends the message.
    for (int i = 0; i < 8 && self.sending && !self.sending->done(); ++i) {
      self.peer->worker.loop().turn();
    }
  }
};

// Both ends on this thread, each with its own loop.
std::pair<Endpoint, Endpoint> join(host& a, host& b) {
  Listener listener = b.worker.listen(own_host() + ":0").value();
  const std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  connect_operation connecting = a.worker.connect(address).start();
  next_operation coming = listener.next().start();
  const auto until = [&](const auto& op) {
    while (!op.done()) {
      a.worker.loop().turn();
      b.worker.loop().turn();
    }
  };
  until(coming);
  ConnectionRequest request = coming.take_result().value();
  connect_operation accepting = request.accept().start();
  until(accepting);
  until(connecting);
  return {connecting.take_result().value(), accepting.take_result().value()};
}

void hunt(wait_mode mode) {
  const std::uint64_t rounds = 2 * rounds_per_window();
  hunter h;
  reactor_options sleepy;
  sleepy.mode = mode;
  sleepy.before_sleep = &hunter::before_sleep;
  sleepy.before_sleep_context = &h;
  host peer;
  host sleeper(sleepy);
  auto ends = join(peer, sleeper);
  h.peer = &peer;
  h.endpoint = &ends.first;
  sleeper.worker.run(hunted(sleeper, ends.second, h.moment, rounds));
  CHECK(h.sent == rounds);
  // Found by the last poll, or by a descriptor that was already readable when the sleep began.
  const reactor_counters& c = sleeper.worker.loop().counters();
  CHECK(c.late_work + c.wakeups >= rounds / 2 - 1);
}

}  // namespace

TEST_CASE(
    "D7: one message in each window between the last drain and the sleep: none is missed "
    "[event; 1e5 times; 1e4 under a sanitizer, 2e3 on verbs]" *
    not_on(transport::kind::sim, simulated_below)) {
  hunt(wait_mode::event);
}

TEST_CASE(
    "D7: one message in each window between the last drain and the sleep: none is missed "
    "[adaptive; 1e5 times; 1e4 under a sanitizer, 2e3 on verbs]" *
    not_on(transport::kind::sim, simulated_below)) {
  hunt(wait_mode::adaptive);
}

namespace {

// The sender has a separate thread. The sleeper's hook releases the sender in the window and holds
// the sleeper there for a while: until the message was posted, or for some steps. The message
// therefore arrives anywhere from the window to the depth of the sleep.
struct release {
  static constexpr std::uint64_t over = UINT64_MAX;
  ambush moment;
  dice chance{7};
  std::atomic<std::uint64_t> released{0};  // number of messages that may be sent
  std::atomic<std::uint64_t> posted{0};

  void let_go(std::uint64_t upto) noexcept {
    released.store(upto);
    released.notify_one();
  }
  static void before_sleep(void* context) noexcept {
    auto& self = *static_cast<release*>(context);
    if (!self.moment.sprung()) return;
    const std::uint64_t round = self.moment.round;
    self.let_go(round);
    if (self.chance.below(4) == 0) {
      self.posted.wait(round - 1);
      return;
    }
    for (std::size_t i = self.chance.below(1000); i > 0 && self.posted.load() != round; --i) {}
  }
  // On the sender's thread: returns the number of messages that may be sent. It spins first to be
  // fast.
  std::uint64_t wait_for(std::uint64_t round) const noexcept {
    std::uint64_t now = released.load();
    for (int i = 0; i < 10'000 && now < round; ++i) now = released.load();
    for (; now < round; now = released.load()) released.wait(now);
    return now;
  }
};

task<Endpoint> connect_to(host& p, std::string address) {
  co_return co_await p.worker.connect(address);
}

task<Endpoint> accept_one(Listener& listener) {
  ConnectionRequest request = co_await listener.next();
  co_return co_await request.accept();
}

task<> finish(send_operation& sending) { static_cast<void>(co_await sending.result()); }

// Sends the messages one by one, each when it is released.
void send_when_released(const std::string& address, release& by) {
  host p(wait_mode::event);
  Endpoint e = p.worker.run(connect_to(p, address));
  for (std::uint64_t i = 1; by.wait_for(i) != release::over; ++i) {
    send_operation sending = send_word(e, i);
    p.worker.loop().turn();
    by.posted.store(i);
    by.posted.notify_one();
    p.worker.run(finish(sending));
  }
}

// Aborts the connection if a message takes longer than the slowest machine needs.
struct watchdog final : timer {
  explicit watchdog(reactor& loop, Endpoint& watched) noexcept
      : timer([](timer& t) noexcept { static_cast<watchdog&>(t).bitten.abort(); }),
        bitten(watched) {
    loop.add(*this, loop.now() + std::chrono::minutes(4));
  }
  Endpoint& bitten;
};

void hunt_across_threads() {
  const std::uint64_t rounds = 2 * rounds_per_window();
  release r;
  reactor_options sleepy;
  sleepy.mode = wait_mode::event;
  sleepy.before_sleep = &release::before_sleep;
  sleepy.before_sleep_context = &r;
  host sleeper(sleepy);
  Listener listener = sleeper.worker.listen(own_host() + ":0").value();
  const std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  std::thread sender([&] { send_when_released(address, r); });
  Endpoint e = sleeper.worker.run(accept_one(listener));
  const watchdog limit(sleeper.worker.loop(), e);
  bool all_came = true;
  try {
    sleeper.worker.run(hunted(sleeper, e, r.moment, rounds));
  } catch (const error& why) {
    all_came = false;
    MESSAGE(why.what());
  }
  r.let_go(release::over);
  sender.join();
  CAPTURE(r.moment.round);
  CAPTURE(r.posted.load());
  CHECK(all_came);
  const reactor_counters& c = sleeper.worker.loop().counters();
  CHECK(c.late_work + c.wakeups >= rounds / 2 - 1);
}

}  // namespace

TEST_CASE(
    "D7: a thread that is let loose in each window between the last drain and the sleep is heard "
    "[1e5 times; 1e4 under a sanitizer, 2e3 on verbs]" *
    not_on(transport::kind::sim, one_loop)) {
  hunt_across_threads();
}

namespace {

// A simulated network in real time, so that its reactor does sleep; both hosts are on it.
struct real_time_network {
  explicit real_time_network(const reactor_options& r)
      : loop(r),
        net({.link = {.delay = std::chrono::microseconds(1)}}, loop),
        asking(of("asking")),
        answering(of("answering")),
        client(asking, loop),
        server(answering, loop) {}
  context_options of(const char* name) {
    context_options c;
    c.domains.push_back(net.make_domain(name));
    return c;
  }
  reactor loop;
  transport::sim::network net;
  Context asking;
  Context answering;
  Worker client;
  Worker server;
};

// The message is in flight from the moment of the window on. The alarm of its arrival must not be
// lost, and only the sleeper can see it.
struct sim_hunter {
  Endpoint* endpoint = nullptr;
  ambush moment;
  std::uint64_t sent = 0;
  std::optional<send_operation> sending;

  static void before_sleep(void* context) noexcept {
    auto& self = *static_cast<sim_hunter*>(context);
    if (!self.moment.sprung()) return;
    ++self.sent;
    self.sending.emplace(send_word(*self.endpoint, self.sent));
  }
};

task<> hunted_on_sim(real_time_network& on, sim_hunter& h, std::uint64_t rounds) {
  Listener listener = on.server.listen("answering:0").value();
  connect_operation connecting = on.client.connect(listener.bound().text()).start();
  ConnectionRequest request = co_await listener.next();
  Endpoint to = co_await request.accept();
  Endpoint from = co_await connecting;
  h.endpoint = &from;
  MemoryRegion room = on.answering.allocate(8).value();
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    recv_operation receiving = to.recv(room).start();
    h.moment.lay(i);
    const Received got = co_await receiving;
    if (got.bytes != 8 || room.as<std::uint64_t>()[0] != i) FAIL("message ", i, " is another");
    send_operation& sent = *h.sending;
    co_await sent;
  }
}

void hunt_on_sim(wait_mode mode) {
  const std::uint64_t rounds = 2 * rounds_per_window();
  sim_hunter h;
  reactor_options sleepy;
  sleepy.mode = mode;
  sleepy.before_sleep = &sim_hunter::before_sleep;
  sleepy.before_sleep_context = &h;
  real_time_network on(sleepy);
  cordma::run(on.loop, hunted_on_sim(on, h, rounds));
  CHECK(h.sent == rounds);
  CHECK(on.loop.counters().sleeps > 0);
}

}  // namespace

TEST_CASE(
    "D7: a packet that leaves in each window between the last drain and the sleep wakes the "
    "sleeper, 1e5 times (1e4 under a sanitizer) [event]" *
    only_on(transport::kind::sim, real_below)) {
  hunt_on_sim(wait_mode::event);
}

TEST_CASE(
    "D7: a packet that leaves in each window between the last drain and the sleep wakes the "
    "sleeper, 1e5 times (1e4 under a sanitizer) [adaptive]" *
    only_on(transport::kind::sim, real_below)) {
  hunt_on_sim(wait_mode::adaptive);
}

namespace {

// True if the answering side has been about to sleep since its last receive.
struct drowsy {
  std::atomic<bool> is{false};
  static void before_sleep(void* context) noexcept {
    static_cast<drowsy*>(context)->is.store(true);
  }
};

task<> echo_all(host& p, Endpoint& e, std::uint64_t rounds, drowsy& state) {
  MemoryRegion room = p.context.allocate(8).value();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    co_await e.recv(room);
    state.is.store(false);
    co_await e.send(room);
  }
  co_await e.recv(room);  // the peer closes
}

task<> serve(host* p, Listener* l, std::uint64_t rounds, drowsy* state) {
  ConnectionRequest request = co_await l->next();
  Endpoint e = co_await request.accept();
  const errc end = co_await [](host* at, Endpoint* on, std::uint64_t n, drowsy* d) -> task<errc> {
    try {
      co_await echo_all(*at, *on, n, *d);
    } catch (const error& why) {
      co_return why.condition();
    }
    co_return errc::ok;
  }(p, &e, rounds, state);
  CHECK(end == errc::flushed);
}

constexpr std::uint64_t pauses_per_sleep = 10;

// After every `burst` rounds this side pauses. The pause differs by some nanoseconds each time, up
// to two wake-ups, so the other side has decided to sleep or is about to. How often it sleeps in
// that time depends on the machine, so one pause in ten lasts until it does.
void stand_still(host& p, std::uint64_t number, const drowsy& peer) {
  while (number % pauses_per_sleep == 1 && !peer.is.load()) {}
  const duration longest = 2 * p.worker.loop().wake_cost();
  const duration pause(static_cast<std::int64_t>(number * 7919) % (longest.count() + 1));
  const time_point end = p.worker.loop().now() + pause;
  while (p.worker.loop().now() < end) {}
}

task<> ask(host& p, std::string address, std::uint64_t rounds, std::uint64_t burst,
           const drowsy& peer) {
  Endpoint e = co_await p.worker.connect(address);
  MemoryRegion out = p.context.allocate(8).value();
  MemoryRegion in = p.context.allocate(8).value();
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    out.as<std::uint64_t>()[0] = i;
    if (burst != 0 && i % burst == 0) stand_still(p, i / burst, peer);
    recv_operation answer = e.recv(in).start();
    co_await e.send(out);
    co_await answer;
    if (in.as<std::uint64_t>()[0] != i) ++wrong;
  }
  CHECK(wrong == 0);
  co_await e.close();
}

}  // namespace

namespace {

// Counters of both reactors.
struct both_counters {
  reactor_counters asking;
  reactor_counters answering;
};
both_counters between_threads(wait_mode mode, std::uint64_t rounds, std::uint64_t burst) {
  std::atomic<int> port{0};
  both_counters counted;
  drowsy state;
  std::thread server([&port, &counted, &state, mode, rounds] {
    reactor_options watched;
    watched.mode = mode;
    watched.before_sleep = &drowsy::before_sleep;
    watched.before_sleep_context = &state;
    host p(watched);
    Listener listener = p.worker.listen(own_host() + ":0").value();
    port.store(listener.bound().port);
    port.notify_one();
    p.worker.run(serve(&p, &listener, rounds, &state));
    counted.answering = p.worker.loop().counters();
  });
  port.wait(0);
  {
    host p(mode);
    p.worker.run(ask(p, own_host() + ":" + std::to_string(port.load()), rounds, burst, state));
    counted.asking = p.worker.loop().counters();
  }
  server.join();
  return counted;
}

}  // namespace

TEST_CASE(
    "D7: two threads that sleep after every message always wake each other [20,000 times; 2000 on "
    "verbs]" *
    not_on(transport::kind::sim, one_loop)) {
  for (const wait_mode mode :
       waits_under_test({wait_mode::event, wait_mode::adaptive, wait_mode::polling})) {
    CAPTURE(name(mode));
    const std::uint64_t rounds =
        mode == wait_mode::polling ? rounds_under_test(200) : rounds_under_test(20'000, 2'000);
    const both_counters counted = between_threads(mode, rounds, 0);
    if (mode == wait_mode::event) CHECK(counted.asking.sleeps > 0);
  }
}

TEST_CASE(
    "D7: who was kept awake by hundreds of messages falls asleep, and is woken by the next "
    "[adaptive; 2000 times; 20 on verbs]" *
    not_on(transport::kind::sim, one_loop)) {
  constexpr std::uint64_t burst = 150;
  const std::uint64_t times = rounds_under_test(2'000, 20);
  const both_counters counted = between_threads(wait_mode::adaptive, times * burst, burst);
  // Messages found by the last poll before a sleep count as late work.
  const reactor_counters& c = counted.answering;
  CHECK(c.sleeps + c.late_work >= times / pauses_per_sleep);
}

TEST_CASE("D6: the three modes of waiting carry the same traffic") {
  for (const wait_mode mode :
       waits_under_test({wait_mode::polling, wait_mode::event, wait_mode::adaptive})) {
    CAPTURE(name(mode));
    stage s(stage_options{.mode = mode});
    s.play([](stage& on) -> task<> {
      CHECK(on.caps().event_driven);
      wire w = co_await connect(on);
      MemoryRegion out = client_memory(on, 300'000);
      MemoryRegion in = server_memory(on, 300'000);
      const RemoteMemory remote = exported(in);
      for (std::size_t size : {std::size_t{8}, std::size_t{300'000}}) {
        for (std::uint64_t i = 0; i < 50; ++i) {
          fill(out.bytes().first(size), i);
          recv_operation receiving = w.server.recv(in.all().first(size)).start();
          co_await w.client.send(out.all().first(size));
          co_await receiving;
          CHECK(filled(in.bytes().first(size), i));
          fill(out.bytes().first(size), i + 100);
          co_await w.client.write(remote.slice(0, size).value(), out.all().first(size));
          co_await w.client.flush();
          CHECK(filled(in.bytes().first(size), i + 100));
          co_await w.client.read(remote.slice(0, size).value(), out.all().first(size));
          co_await w.client.fetch_add(remote.slice(0, 8).value(), 1);
        }
      }
      co_await w.server.close();
      while (w.client.state() != endpoint_state::closed) co_await w.client.state_changed();
    });
  }
}

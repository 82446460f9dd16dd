// Waiting without losing a wake-up. sim sleeps on no descriptor, its time is virtual: left out there.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <atomic>
#include <optional>
#include <thread>

using namespace cordma;
using namespace cordma::test;

namespace {

bool virtual_by_nature() {
  if (transport_under_test() != transport::kind::sim) return false;
  MESSAGE("left out: the simulator never sleeps, its time is virtual");
  return true;
}

struct party {
  explicit party(const reactor_options& r) : context(only()), worker(context, r) {}
  static context_options only() {
    context_options o;
    o.transports = {transport_under_test()};
    return o;
  }
  Context context;
  Worker worker;
};

// Sends one message at the moment the other side is about to sleep, from its hook.
struct hunter {
  party* peer = nullptr;
  Endpoint* endpoint = nullptr;
  std::uint64_t word = 0;
  int window = 0;  // 1: before arming; 2: between arming and the last look
  int seen = 0;
  bool due = false;
  std::optional<send_operation> sending;

  static void before_sleep(void* context) noexcept {
    auto& self = *static_cast<hunter*>(context);
    if (self.due && ++self.seen >= self.window) {
      self.due = false;
      ++self.word;
      self.sending.emplace(
          self.endpoint->send_inline(std::as_bytes(std::span<const std::uint64_t>(&self.word, 1)))
              .start());
      self.peer->worker.loop().turn();
    }
    // The transport may hold a message back until this side has said that there is room: it says so
    // when it arms, and the next call brings it on its way.
    for (int i = 0; i < 8 && self.sending && !self.sending->done(); ++i) {
      self.peer->worker.loop().turn();
    }
  }
};

task<> hunted(party& p, Endpoint& e, hunter& h, std::uint64_t rounds) {
  MemoryRegion room = p.context.allocate(8).value();
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    recv_operation receiving = e.recv(room).start();
    h.window = 1 + static_cast<int>(i % 2);
    h.seen = 0;
    h.due = true;
    const Received got = co_await receiving;
    if (got.bytes != 8 || room.as<std::uint64_t>()[0] != i) {
      FAIL("message ", i, " is another");
    }
  }
}

// Both ends on this thread, each turning its own loop.
std::pair<Endpoint, Endpoint> join(party& a, party& b) {
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

void hunt(wait_mode mode, std::uint64_t rounds) {
  hunter h;
  reactor_options sleepy;
  sleepy.mode = mode;
  sleepy.before_sleep = &hunter::before_sleep;
  sleepy.before_sleep_context = &h;
  party peer(reactor_options{.mode = wait_mode::polling});
  party sleeper(sleepy);
  auto ends = join(peer, sleeper);
  h.peer = &peer;
  h.endpoint = &ends.first;
  sleeper.worker.run(hunted(sleeper, ends.second, h, rounds));
  CHECK(h.word == rounds);
  // Seen by the last look, or by a descriptor that was readable already when the sleep began.
  const reactor_counters& c = sleeper.worker.loop().counters();
  CHECK(c.late_work + c.wakeups >= rounds / 2 - 1);
}

}  // namespace

TEST_CASE(
    "D7: one message between the last look and the sleep, 1e5 times: none is missed [event]") {
  if (virtual_by_nature()) return;
  hunt(wait_mode::event, 100'000);
}

TEST_CASE(
    "D7: one message between the last look and the sleep, 2e4 times: none is missed [adaptive]") {
  if (virtual_by_nature()) return;
  hunt(wait_mode::adaptive, 20'000);
}

namespace {

task<> echo_all(party& p, Endpoint& e, std::uint64_t rounds) {
  MemoryRegion room = p.context.allocate(8).value();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    co_await e.recv(room);
    co_await e.send(room);
  }
  co_await e.recv(room);  // the peer closes
}

task<> serve(party* p, Listener* l, std::uint64_t rounds) {
  ConnectionRequest request = co_await l->next();
  Endpoint e = co_await request.accept();
  const errc end = co_await [](party* at, Endpoint* on, std::uint64_t n) -> task<errc> {
    try {
      co_await echo_all(*at, *on, n);
    } catch (const error& why) {
      co_return why.condition();
    }
    co_return errc::ok;
  }(p, &e, rounds);
  CHECK(end == errc::flushed);
}

task<> ask(party& p, std::string address, std::uint64_t rounds) {
  Endpoint e = co_await p.worker.connect(address);
  MemoryRegion out = p.context.allocate(8).value();
  MemoryRegion in = p.context.allocate(8).value();
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    out.as<std::uint64_t>()[0] = i;
    recv_operation answer = e.recv(in).start();
    co_await e.send(out);
    co_await answer;
    if (in.as<std::uint64_t>()[0] != i) ++wrong;
  }
  CHECK(wrong == 0);
  co_await e.close();
}

}  // namespace

TEST_CASE("D7: two threads that sleep after every message always wake each other") {
  if (virtual_by_nature()) return;
  for (wait_mode mode : {wait_mode::event, wait_mode::adaptive, wait_mode::polling}) {
    CAPTURE(name(mode));
    // Devices are tested in an emulated machine.
    const std::uint64_t many = transport_under_test() == transport::kind::verbs ? 2'000 : 20'000;
    const std::uint64_t rounds = mode == wait_mode::polling ? 200 : many;
    std::atomic<int> port{0};
    std::thread server([&port, mode, rounds] {
      party p(reactor_options{.mode = mode});
      Listener listener = p.worker.listen(own_host() + ":0").value();
      port.store(listener.bound().port);
      port.notify_one();
      p.worker.run(serve(&p, &listener, rounds));
    });
    port.wait(0);
    {
      party p(reactor_options{.mode = mode});
      p.worker.run(ask(p, own_host() + ":" + std::to_string(port.load()), rounds));
      if (mode == wait_mode::event) CHECK(p.worker.loop().counters().sleeps > 0);
    }
    server.join();
  }
}

TEST_CASE("D6: the three modes of waiting carry the same traffic") {
  if (virtual_by_nature()) return;
  for (wait_mode mode : {wait_mode::polling, wait_mode::event, wait_mode::adaptive}) {
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

TEST_CASE("K3: a request is handed to the Worker of another thread, which accepts it") {
  if (virtual_by_nature()) return;
  Context context(party::only());
  Worker front(context);
  std::atomic<bool> echoed{false};
  std::atomic<Worker*> back{nullptr};
  std::thread other([&] {
    Worker mine(context);
    back.store(&mine);
    back.notify_one();
    while (!echoed.load()) {
      mine.loop().turn();
      std::this_thread::yield();
    }
  });
  back.wait(nullptr);
  Listener listener = front.listen(own_host() + ":0").value();
  connect_operation connecting =
      front.connect(own_host() + ":" + std::to_string(listener.bound().port)).start();
  next_operation coming = listener.next().start();
  while (!coming.done()) front.loop().turn();
  ConnectionRequest request = coming.take_result().value();
  result<ConnectionRequest> moved = request.hand_over(*back.load());
  if (moved.ok()) {
    CHECK(request.reject().code() == errc::bad_state);
    struct accepted_there {
      ConnectionRequest request;
      std::optional<connect_operation> accepting;
      std::optional<Endpoint> endpoint;
    };
    auto* const there = new accepted_there;
    there->request = std::move(*moved);
    back.load()->post([there] { there->accepting.emplace(there->request.accept().start()); });
    while (!connecting.done()) front.loop().turn();
    const result<Endpoint> connected = connecting.take_result();
    CHECK(connected.ok());
    // The client's last word may still be on its way.
    for (bool accepted = false; !accepted;) {
      std::atomic<int> answer{-1};
      back.load()->post([there, &answer] { answer.store(there->accepting->done() ? 1 : 0); });
      while (answer.load() < 0) front.loop().turn();
      accepted = answer.load() == 1;
    }
    std::atomic<bool> gone{false};
    back.load()->post([there, &gone] {
      const result<Endpoint> accepted = there->accepting->take_result();
      CHECK(accepted.ok());
      delete there;
      gone.store(true);
    });
    while (!gone.load()) front.loop().turn();
  } else {
    CHECK(moved.code() == errc::not_supported);
    MESSAGE("left out: this transport does not hand requests over");
  }
  echoed.store(true);
  other.join();
}

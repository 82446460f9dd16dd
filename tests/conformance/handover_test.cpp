// Requests that are handed over to the Worker of another thread and accepted there.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr const char* one_loop = "a simulated network lives on one reactor, and so in one thread";

}  // namespace

TEST_CASE("K3: a request is handed to the Worker of another thread, which accepts it" *
          not_on(transport::kind::sim, one_loop)) {
  Context context(host::only());
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
  REQUIRE(moved.ok());
  {
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
    // The client's last message may still be in flight.
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
  }
  echoed.store(true);
  other.join();
}

namespace {

// Every second connection is handed over. All of them send until the last one has finished, so both
// threads have traffic throughout.
std::size_t connections() {
  return sanitized ? 16 : std::max<std::uint64_t>(rounds_under_test(100), 16);
}
constexpr std::uint64_t least_rounds = 50;

// Requests that were passed to the other thread; used only on that thread.
struct handed_over {
  std::deque<ConnectionRequest> requests;
  auto_event came;
};

task<> echo(Endpoint e, Context* context, std::uint64_t* echoed) {
  MemoryRegion room = context->allocate(8).value();
  for (;;) {
    const result<Received> came = co_await e.recv(room).result();
    if (!came.ok()) break;
    ++*echoed;
    const result<void> sent = co_await e.send(room).result();
    if (!sent.ok()) break;
  }
}

task<> serve_here(Context* context, Listener* listener, Worker* back, handed_over* there,
                  std::uint64_t* echoed) {
  task_context& me = co_await this_task();
  scope talk(me);
  for (std::size_t i = 0; i < connections(); ++i) {
    ConnectionRequest request = co_await listener->next();
    if (i % 2 == 0) {
      Endpoint e = co_await request.accept();
      talk.spawn(echo(std::move(e), context, echoed));
      continue;
    }
    auto moved = std::make_shared<ConnectionRequest>(request.hand_over(*back).value());
    back->post([moved, there] {
      there->requests.push_back(std::move(*moved));
      there->came.set();
    });
  }
  co_await talk.join();
}

task<> serve_there(Context* context, handed_over* given, std::uint64_t* echoed) {
  task_context& me = co_await this_task();
  scope talk(me);
  for (std::size_t i = 1; i < connections(); i += 2) {
    while (given->requests.empty()) co_await given->came.wait();
    ConnectionRequest request = std::move(given->requests.front());
    given->requests.pop_front();
    Endpoint e = co_await request.accept();
    talk.spawn(echo(std::move(e), context, echoed));
  }
  co_await talk.join();
}

struct conversation {
  std::size_t satisfied = 0;  // connections that exchanged least_rounds messages in each direction
  std::uint64_t wrong = 0;
};

task<> ask_on(Endpoint e, Context* context, std::uint64_t who, conversation* all) {
  MemoryRegion words = context->allocate(16).value();
  for (std::uint64_t i = 1; all->satisfied < connections(); ++i) {
    words.as<std::uint64_t>()[0] = who << 32 | i;
    recv_operation answer = e.recv(words.all().part(8, 8)).start();
    co_await e.send(words.all().first(8));
    co_await answer;
    if (words.as<std::uint64_t>()[1] != (who << 32 | i)) ++all->wrong;
    if (i == least_rounds) ++all->satisfied;
  }
  co_await e.close();
}

task<> ask_all(host* h, std::string address, conversation* all) {
  task_context& me = co_await this_task();
  scope talk(me);
  for (std::size_t i = 0; i < connections(); ++i) {
    Endpoint e = co_await h->worker.connect(address);
    talk.spawn(ask_on(std::move(e), &h->context, i, all));
  }
  co_await talk.join();
}

}  // namespace

TEST_CASE("K3: requests are handed over while both threads have traffic on their connections" *
          not_on(transport::kind::sim, one_loop)) {
  for (const wait_mode mode : waits_under_test({wait_mode::event, wait_mode::adaptive})) {
    CAPTURE(name(mode));
    Context context(host::only());
    Worker front(context, reactor_options{.mode = mode});
    Listener listener = front.listen(own_host() + ":0").value();
    const std::string address = own_host() + ":" + std::to_string(listener.bound().port);
    std::atomic<Worker*> back{nullptr};
    handed_over given;
    std::uint64_t echoed_there = 0;
    std::thread other([&] {
      Worker mine(context, reactor_options{.mode = mode});
      back.store(&mine);
      back.notify_one();
      mine.run(serve_there(&context, &given, &echoed_there));
    });
    back.wait(nullptr);
    conversation all;
    std::thread clients([&] {
      host h(mode);
      h.worker.run(ask_all(&h, address, &all));
    });
    std::uint64_t echoed_here = 0;
    front.run(serve_here(&context, &listener, back.load(), &given, &echoed_here));
    clients.join();
    other.join();
    CHECK(all.satisfied == connections());
    CHECK(all.wrong == 0);
    CHECK(echoed_here >= connections() / 2 * least_rounds);
    CHECK(echoed_there >= connections() / 2 * least_rounds);
  }
}

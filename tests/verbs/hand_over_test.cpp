// A request that moves from one adapter to another, and events for it during the move.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/in_transit.hpp>
#include <cordma/net/transport/transport.hpp>

#include <rdma/rdma_cma.h>

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

using namespace cordma;
using namespace cordma::test;

namespace {

// Runs between the move of an identifier and the return of the call that moves it.
std::function<void()> once_moved;

}  // namespace

extern "C" int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  static void* const found = ::dlsym(RTLD_NEXT, "rdma_migrate_id");
  REQUIRE(found != nullptr);
  static auto* const real = reinterpret_cast<decltype(rdma_migrate_id)*>(found);
  const int code = real(id, channel);
  if (code == 0 && once_moved) std::exchange(once_moved, nullptr)();
  return code;
}

namespace {

void turn(transport::adapter& at, reactor& loop) {
  bool progressed = false;
  CHECK(at.poll({}, progressed) == 0);
  static_cast<void>(loop.turn());
}

// A listener's adapter, an adapter that receives the request, and a client.
struct three {
  three()
      : device(transport::make_verbs({}).value()),
        first(device->open(loop).value()),
        second(device->open(loop).value()),
        client(device->open(loop).value()),
        listener(first->listen({.host = own_host()}).value()),
        asking(client->connect(listener->bound(), {}, {}).value()) {
    while (!first->has_events()) {
      turn(*first, loop);
      turn(*client, loop);
    }
    request = first->next_event().request;
  }

  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<transport::domain> device;
  std::unique_ptr<transport::adapter> first;
  std::unique_ptr<transport::adapter> second;
  std::unique_ptr<transport::adapter> client;
  std::unique_ptr<transport::listener> listener;
  std::unique_ptr<transport::queue_pair> asking;
  std::uint64_t request = 0;
};

// Ends before the end of the timeout, which is ten seconds.
void ends_soon(three& here, std::uint64_t request) {
  const auto started = std::chrono::steady_clock::now();
  const auto accepted = here.second->accept(request, {}, {});
  if (!accepted) {
    CHECK(accepted.code() == errc::bad_state);
  } else {
    while (!here.second->has_events()) turn(*here.second, here.loop);
    CHECK(here.second->next_event().why.code() == errc::connection_aborted);
  }
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(5));
}

}  // namespace

// The kernel reports nothing for a request before it is answered: the accept fails.
TEST_CASE("K3: a client that hangs up before, while or after its request moves is known there") {
  for (const char* when : {"before", "while", "after"}) {
    CAPTURE(std::string(when));
    three here;
    if (when == std::string("before")) here.asking.reset();
    if (when == std::string("while")) once_moved = [&here] { here.asking.reset(); };
    const std::uint64_t moved = here.first->hand_over(here.request, *here.second).value();
    here.asking.reset();
    ends_soon(here, moved);
  }
}

// A kernel might report an event at once.
TEST_CASE("K3: what is told of a request while it moves waits until it has arrived") {
  transport::in_transit<int> requests;
  std::unique_ptr<int> found;
  std::atomic<bool> asks = false;
  std::thread owner;
  const bool left = requests.leave(7, std::make_unique<int>(42), [&] {
    owner = std::thread([&] {
      asks = true;
      found = requests.collect(7);
    });
    while (!asks) {}
    return true;
  });
  CHECK(left);
  owner.join();
  REQUIRE(found != nullptr);
  CHECK(*found == 42);
  CHECK_FALSE(requests.leave(8, std::make_unique<int>(43), [] { return false; }));
  CHECK(requests.collect(8) == nullptr);
}

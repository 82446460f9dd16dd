// Kernel resources of connections are released with them, while the process lives on.
#include "told.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <unistd.h>

#include <array>
#include <optional>
#include <string>

using namespace cordma;
using namespace cordma::test;

namespace {

enum class way : std::uint8_t { closed, closed_by_server, aborted, dropped, withdrawn, rejected };
constexpr std::array<way, 6> all_ways{way::closed,  way::closed_by_server, way::aborted,
                                      way::dropped, way::withdrawn,        way::rejected};

// Pinned memory of this process, in KiB.
long pinned() {
  return std::stol(
      told("sed -n 's/^VmPin:[[:blank:]]*//p' /proc/" + std::to_string(::getpid()) + "/status"));
}

task<> never_come_up(stage& on, way how) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener)).start();
  ConnectionRequest request = co_await listener.next();
  if (how == way::withdrawn) {
    connecting.cancel();
  } else {
    CHECK(request.reject({}).ok());
  }
  static_cast<void>(co_await connecting.result());
}

task<> come_and_go(stage& on, way how) {
  wire w = co_await connect(on);
  MemoryRegion out = client_memory(on, 4096);
  MemoryRegion in = server_memory(on, 4096);
  const RemoteMemory remote = exported(in);
  recv_operation receiving = w.server.recv(in.all().first(8)).start();
  recv_operation waiting = w.client.recv(out.all().part(64, 8)).start();
  co_await w.client.send(out.all().first(8));
  co_await receiving;
  co_await w.client.write(remote.all(), out.all());
  if (how == way::closed) co_await w.client.close();
  if (how == way::closed_by_server) co_await w.server.close();
  if (how == way::aborted) w.client.abort();
  if (how == way::dropped) co_return;  // with a receive on the device
  while (w.client.state() != endpoint_state::closed) co_await w.client.state_changed();
  while (w.server.state() != endpoint_state::closed) co_await w.server.state_changed();
  static_cast<void>(co_await waiting.result());
}

task<> in_every_way(stage& on) {
  for (const way how : all_ways) {
    CAPTURE(static_cast<int>(how));
    if (how == way::withdrawn || how == way::rejected) {
      co_await never_come_up(on, how);
    } else {
      co_await come_and_go(on, how);
    }
  }
  for (int i = 0; i < 1000; ++i) co_await yield();
}

}  // namespace

TEST_CASE(
    "G2: in whatever way connections end, nothing of them stays on the device, nor of the "
    "Context") {
  {
    stage first;
    first.play(in_every_way);  // librdmacm keeps devices that it opened
  }
  const std::string before = on_device();
  {
    stage s;
    s.play(in_every_way);  // after this, the resources that Contexts and Workers keep are allocated
    const std::string with_stage = on_device();
    for (int i = 0; i < 10; ++i) s.play(in_every_way);
    INFO("before: ", with_stage, "after: ", on_device());
    CHECK(is_again(with_stage));
  }
  INFO("before: ", before, "after: ", on_device());
  CHECK(is_again(before));
}

TEST_CASE("C5: memory is pinned as long as it is registered") {
  constexpr std::size_t bytes = 16U << 20U;
  stage s;
  const long before = pinned();
  std::optional<MemoryRegion> region = client_memory(s, bytes);
  CHECK(pinned() - before >= static_cast<long>(bytes / 1024));
  region.reset();
  CHECK(pinned() == before);
}

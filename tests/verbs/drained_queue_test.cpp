// A completion that causes its own queue to be drained: those polled together with it are reported
// first.
#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

using namespace cordma;
using namespace cordma::transport;

namespace {

constexpr std::uint64_t messages = 60;  // two completions each: more than one poll returns

std::unique_ptr<queue_pair> connected(adapter& at, queue_pair& to) {
  std::unique_ptr<queue_pair> made = at.create({}).value();
  const std::vector<std::byte> own = made->descriptor().value();
  made->connect(to.descriptor().value()).value();
  to.connect(own).value();
  for (int up = 0; up < 2;) {
    std::array<completion, 8> none;
    bool progressed = false;
    CHECK(at.poll(none, progressed) == 0);
    while (at.has_events()) {
      REQUIRE(at.next_event().what == cm_event::type::established);
      ++up;
    }
  }
  return made;
}

}  // namespace

TEST_CASE("L4: a queue that is drained in the middle of its completions overtakes none of them") {
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  const std::shared_ptr<domain> device = make_verbs({}).value();
  const std::unique_ptr<adapter> here = device->open(loop).value();
  const std::unique_ptr<adapter> there = device->open(loop).value();
  const std::unique_ptr<queue_pair> receiver = here->create({}).value();
  const std::unique_ptr<queue_pair> sender = connected(*here, *receiver);

  alignas(8) std::array<std::uint64_t, 2 * messages> memory{};
  const memory_keys keys = device
                               ->register_memory({.addr = reinterpret_cast<std::byte*>(&memory),
                                                  .length = sizeof memory,
                                                  .rights = access::local_write})
                               .value();
  completion now;
  const auto word = [&](std::uint64_t i) {
    return segment{reinterpret_cast<std::byte*>(&memory[i]), sizeof memory[i], keys.lkey};
  };
  for (std::uint64_t i = 0; i < messages; ++i) {
    const segment into = word(i);
    static_cast<void>(receiver->post_recv({.id = i, .segment_count = 1, .segments = &into}, now));
  }

  // Sends a query about a destroyed peer; the other side's reply is the first completion.
  std::vector<std::byte> gone = there->create({}).value()->descriptor().value();
  const std::unique_ptr<queue_pair> lost = here->create({}).value();
  static_cast<void>(lost->descriptor().value());
  lost->connect(gone).value();
  for (int answered = 0; answered < 2;) {  // the query, and the reply that was sent
    bool progressed = false;
    CHECK(there->poll({&now, 1}, progressed) == 0);
    if (progressed) ++answered;
  }
  for (std::uint64_t i = 0; i < messages; ++i) {
    memory[messages + i] = i + 1;
    const segment from = word(messages + i);
    static_cast<void>(sender->post_send(
        {.id = messages + i, .op = opcode::send, .segment_count = 1, .segments = &from}, now));
  }
  while (std::atomic_ref(memory[messages - 1]).load() != messages) {}

  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  while (received + sent < 2 * messages) {
    std::array<completion, 32> taken;
    bool progressed = false;
    const std::size_t n = here->poll(taken, progressed);
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(taken[i].status == wc_status::success);
      if (taken[i].id < messages) {
        CHECK(taken[i].id == received++);
      } else {
        CHECK(taken[i].id == messages + sent++);
      }
    }
  }
  REQUIRE(here->has_events());
  const cm_event told = here->next_event();
  CHECK(told.pair == lost.get());
  CHECK(told.what == cm_event::type::failed);
  CHECK(told.why.code() == errc::connection_aborted);
  CHECK_FALSE(here->has_events());
  device->deregister_memory(keys.lkey);
}

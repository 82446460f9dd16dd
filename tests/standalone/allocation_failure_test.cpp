// G3: the n-th allocation fails, for every n: while a Context and its Worker are made, and during a whole
// session. It ends with no_memory on what was hit, never with the end of the program; a connection
// that was up before carries on, the next session goes well, and nothing is left behind.
#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/applies.hpp>
#include <support/fd_count.hpp>
#include <support/stage.hpp>

#include <array>
#include <new>
#include <optional>

#include "session.hpp"

using namespace cordma;
using namespace cordma::test;

namespace {

const applies heap_can_fail{counts_allocations, "TSan's operator new cannot be made to fail"};
const applies on_a_device = only_on(transport::kind::verbs, "it takes a device");
constexpr std::array<failing, 2> manners{failing::once, failing::from_then_on};
constexpr std::uint64_t most = 5000;  // allocations; no session takes as many

template <class Play>
outcome attempt(std::uint64_t n, failing how, Play play) {
  fail_allocation(n, how);
  outcome o;
  try {
    play();
    o.came = allocation_failed();
    fail_allocation(0);
  } catch (const std::bad_alloc&) {
    fail_allocation(0);
    o = {.came = true, .failed = true, .memory = true, .loss = false, .why = "std::bad_alloc"};
  } catch (const error& e) {
    fail_allocation(0);
    const errc code = e.why().first_cause().code();
    o = {.came = true,
         .failed = true,
         .memory = code == errc::no_memory,
         .loss = is_loss(code),
         .why = e.what()};
  }
  return o;
}

void fail_each_of_opening(transport::kind over, failing how) {
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = 1;
  for (; n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [over] { const stage s({}, over); });
    CAPTURE(o.why);
    CHECK((o.memory || o.loss) == o.failed);
    CHECK(open_descriptors() == open_before);
    if (!o.came) break;
  }
  CHECK(n > 1);
  CHECK(n < most);
}

void fail_each_of_session(transport::kind over, failing how) {
  stage s({}, over);
  wire healthy = s.play([](stage& on) -> task<wire> { return connect(on); });
  s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
  s.play(session);
  const std::size_t open_before = open_descriptors();
  std::uint64_t n = 1;
  int failures = 0;
  for (; n < most; ++n) {
    CAPTURE(n);
    const outcome o = attempt(n, how, [&s] { s.play(session); });
    CAPTURE(o.why);
    CHECK((o.memory || o.loss) == o.failed);
    failures += o.failed ? 1 : 0;
    s.play([](stage& on, wire* w) -> task<> { return use(on, w); }, &healthy);
    s.play(session);
    CHECK(open_descriptors() == open_before);
    if (!o.came) break;
  }
  CHECK(n < most);
  CHECK(failures > 0);
}

void each_manner(void (*run)(transport::kind, failing), transport::kind over) {
  for (const failing how : manners) {
    CAPTURE(how == failing::once);
    run(over, how);
  }
}

}  // namespace

TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [shm]" *
          heap_can_fail) {
  each_manner(fail_each_of_opening, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [tcp]" *
          heap_can_fail) {
  each_manner(fail_each_of_opening, transport::kind::tcp);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [shm]" * heap_can_fail) {
  each_manner(fail_each_of_session, transport::kind::shm);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [tcp]" * heap_can_fail) {
  each_manner(fail_each_of_session, transport::kind::tcp);
}

// On a device, in the virtual machine.
TEST_CASE("G3: the n-th allocation of making Contexts and Workers fails, for every n [verbs]" *
          heap_can_fail * on_a_device) {
  each_manner(fail_each_of_opening, transport::kind::verbs);
}
TEST_CASE("G3: the n-th allocation of a session fails, for every n [verbs]" * heap_can_fail *
          on_a_device) {
  each_manner(fail_each_of_session, transport::kind::verbs);
}

TEST_CASE("G3: a connection that ends while there is no memory ends as always [verbs]" *
          heap_can_fail * on_a_device) {
  for (const bool gracefully : {true, false}) {
    CAPTURE(gracefully);
    stage s({}, transport::kind::verbs);
    s.play(
        [](stage& on, bool in_peace) -> task<> {
          wire w = co_await connect(on);
          std::optional<state_operation> closing;
          if (in_peace) closing.emplace(w.server.close().start());
          fail_allocation(1, failing::from_then_on);
          if (!in_peace) w.server.abort();
          while (w.client.state() != endpoint_state::closed) co_await yield();
          while (w.server.state() != endpoint_state::closed) co_await yield();
          fail_allocation(0);
          const errc expected = in_peace ? errc::not_connected : errc::connection_reset;
          CHECK(w.client.first_cause()->code() == expected);
        },
        gracefully);
  }
}

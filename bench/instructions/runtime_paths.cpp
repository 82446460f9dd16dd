#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>

#include "../null_transport.hpp"
#include "path.hpp"

namespace instructions {
namespace {

using namespace cordma;

// Rounds below 0 are not counted. They run the same code, so that no counted round allocates a
// frame from the heap.
constexpr int first_round = -warm_rounds;

void turn(reactor& r, int times) {
  for (int i = 0; i < times; ++i) (void)r.turn();
}

void count_turns(reactor& r, const plan& p) {
  for (int round = first_round; round < p.rounds; ++round) {
    if (round >= 0) stepping::begin();
    turn(r, p.operations);
    if (round >= 0) stepping::end();
  }
}

void count_idle_turns(const plan& p) {
  reactor r({.mode = wait_mode::polling});
  count_turns(r, p);
}

void count_turns_with_poller(const plan& p) {
  reactor r({.mode = wait_mode::polling});
  bench::one_place_transport via;
  r.add(via).value();
  count_turns(r, p);
  r.remove(via);
}

task<> await_each(reactor* r, bench::one_place_transport* via, int operations) {
  for (int i = 0; i < operations; ++i) co_await bench::null_operation(*r, *via);
}

task<> await_in_rounds(reactor* r, bench::one_place_transport* via, plan p) {
  for (int round = first_round; round < p.rounds; ++round) {
    if (round >= 0) stepping::begin();
    co_await await_each(r, via, p.operations);
    if (round >= 0) stepping::end();
  }
}

void count_awaits(const plan& p) {
  reactor r({.mode = wait_mode::polling});
  bench::one_place_transport via;
  r.add(via).value();
  run(r, await_in_rounds(&r, &via, p));
  r.remove(via);
}

path made(const char* name, const char* about, void (*rounds)(const plan&)) {
  return {.name = name, .about = about, .count = [rounds](const plan& p) {
            return per_operation(stepping::count([rounds, &p] { rounds(p); }), p.operations);
          }};
}

}  // namespace

std::vector<path> runtime_paths() {
  return {made("runtime.idle_turn", "a pass of a reactor that has nothing to do", count_idle_turns),
          made("runtime.poller_turn", "the same with a poller that has nothing",
               count_turns_with_poller),
          made("runtime.await", "an operation that suspends, and the pass that resumes it",
               count_awaits)};
}

}  // namespace instructions

// bench-functions: tagged messages of 8 bytes between two Workers of one process, one at a time,
// for the profile of count_functions.py. This program measures nothing.
#include <cordma/runtime/scope.hpp>

#include <array>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "functions/over.hpp"
#include "instructions/pair.hpp"

namespace functions {

using namespace cordma;

// The profile contains the calls of these two functions; count_functions.py uses their names.
[[gnu::noinline]] void counted_turn(reactor& r, int& passes) { passes += r.turn() ? 1 : 0; }
[[gnu::noinline]] void counted_idle_turn(reactor& r, int& passes) { passes += r.turn() ? 1 : 0; }

namespace {

using instructions::pair;
using instructions::side;

constexpr std::uint64_t to_far = 1;
constexpr std::uint64_t to_near = 2;
constexpr int warm = 300;     // round trips, so that no counted code runs for the first time
constexpr int counted = 32;   // round trips of two messages
constexpr int idle = 64;      // passes
constexpr int most = 10'000;  // passes in a row without an answer
constexpr int exit_usage = 2;
constexpr int exit_no_verbs = 77;

// The calls of these two coroutines are the way out; their resumptions end the way back.
task<> ask(side* s, int round_trips, int* answered) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  for (int i = 0; i < round_trips; ++i) {
    co_await s->endpoint.tag_send(to_far, out);
    co_await s->messages->tag_recv(to_near, in);
    ++*answered;
  }
}

task<> answer(side* s, int round_trips) {
  const Slice out = s->out(8);
  const Slice in = s->in(8);
  for (int i = 0; i < round_trips; ++i) {
    co_await s->messages->tag_recv(to_far, in);
    co_await s->endpoint.tag_send(to_near, out);
  }
}

// Runs passes of both sides in turn, by `turn`, until the wanted number of answers has arrived.
void turn_until(pair& p, void (*turn)(reactor&, int&), const int& answered, int wanted) {
  int passes = 0;
  int silent = 0;
  while (answered < wanted) {
    const int before = answered;
    turn(p.far.worker.loop(), passes);
    turn(p.near.worker.loop(), passes);
    silent = answered == before ? silent + 1 : 0;
    if (silent == most) throw std::runtime_error("no answer came within 10,000 passes");
  }
}

void turn_by_itself(reactor& r, int& passes) { passes += r.turn() ? 1 : 0; }

void play(const context_options& of_near, const context_options& of_far) {
  pair two(of_near, of_far, instructions::carries::messages);
  scope near(two.near.worker.loop());
  scope far(two.far.worker.loop());
  int answered = 0;
  far.spawn(answer(&two.far, warm + counted + 1));
  near.spawn(ask(&two.near, warm + counted + 1, &answered));
  turn_until(two, turn_by_itself, answered, warm);
  // The next message is in flight, and its receiver has run no pass: the near side only waits.
  int passes = 0;
  for (int i = 0; i < idle; ++i) counted_idle_turn(two.near.worker.loop(), passes);
  turn_until(two, counted_turn, answered, warm + counted);
  turn_until(two, turn_by_itself, answered, warm + counted + 1);
  two.near.worker.run(near.join());
  two.far.worker.run(far.join());
  std::printf("%d messages\n", 2 * counted);
}

constexpr std::array paths = {transport::kind::shm, transport::kind::tcp, transport::kind::verbs};

std::optional<transport::kind> path_of(std::string_view name) {
  for (const transport::kind k : paths) {
    if (transport::name(k) == name) return k;
  }
  return std::nullopt;
}

int start(int argc, char** argv) {
  const std::optional<transport::kind> over = argc == 2 ? path_of(argv[1]) : std::nullopt;
  if (!over) {
    std::fprintf(stderr,
                 "usage: bench-functions shm|tcp|verbs\n"
                 "Plays the messages that count_functions.py counts the functions of.\n");
    return exit_usage;
  }
  const std::optional<context_options> of_near = only(*over);
  const std::optional<context_options> of_far = only(*over);
  if (!of_near || !of_far) {
    std::fprintf(stderr, "bench-functions: this build has no verbs\n");
    return exit_no_verbs;
  }
  play(*of_near, *of_far);
  return 0;
}

}  // namespace
}  // namespace functions

int main(int argc, char** argv) try {
  return functions::start(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench-functions: %s\n", e.what());
  return 1;
}

// A program with a loop of its own: it starts operations, polls, and looks which are done.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

constexpr std::size_t operations = 16;

void poll(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, operations);

  // An operation is an object. Started, it is on its way, whether or not a coroutine awaits it.
  std::vector<cordma::send_operation> writes;
  for (std::size_t i = 0; i < operations; ++i) {
    writes.push_back(connection.near.write(work.target(i), work.source(i)).start());
  }
  cordma::send_operation visible = connection.near.flush().start();

  // poll() never waits. What else the program has to do would stand in this loop as well.
  std::uint64_t polls = 0;
  while (!visible.done()) {
    s.worker.poll().value();
    ++polls;
  }
  for (cordma::send_operation& write : writes) write.take_result().value();
  visible.take_result().value();
  work.check_first(operations);

  const std::uint64_t sleeps = s.worker.loop().counters().sleeps;
  std::printf("%zu writes are done, after %llu polls and %llu sleeps\n", operations,
              static_cast<unsigned long long>(polls), static_cast<unsigned long long>(sleeps));
  if (sleeps != 0) sample::fail("polling does not sleep");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_polling",
       .says = "Starts 16 writes and polls until they are done: no coroutine, and a\n"
               "loop of the program's own.",
       .drives_its_loop = true},
      argc, argv, poll);
}

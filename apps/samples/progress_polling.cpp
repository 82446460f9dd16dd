// A program with a separate loop: it starts operations, polls, and checks which are done.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

constexpr std::size_t operations = 16;

void poll(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, operations);

  // An operation is an object. Once started it makes progress, whether or not a coroutine awaits
  // it.
  std::vector<cordma::send_operation> writes;
  for (std::size_t i = 0; i < operations; ++i) {
    writes.push_back(connection.near.write(work.target(i), work.source(i)).start());
  }
  cordma::send_operation visible = connection.near.flush().start();

  // poll() never blocks. A real program would do its other work in this loop.
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

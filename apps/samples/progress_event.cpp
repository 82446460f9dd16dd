// A program with a separate loop that sleeps in poll(2), together with its other descriptors.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cstdio>

#include <poll.h>

namespace {

constexpr std::size_t operations = 16;
constexpr int pause_ms = 1;

void sleep_in_poll(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, operations);
  std::vector<cordma::recv_operation> receives;
  std::vector<cordma::send_operation> sends;
  for (std::size_t i = 0; i < operations; ++i) {
    receives.push_back(connection.far.recv(work.room(i)).start());
  }

  cordma::reactor& loop = s.worker.loop();
  std::uint64_t sleeps = 0;
  while (!receives.back().done()) {
    // Runs until nothing is left to do, then prepares to sleep. prepare_wait() checks once more, so
    // that no event between the last check and the sleep is missed.
    if (loop.turn()) continue;
    if (loop.prepare_wait() == cordma::arm_state::busy) continue;
    pollfd wake{.fd = loop.fd(), .events = POLLIN, .revents = 0};
    const bool woken = ::poll(&wake, 1, pause_ms) > 0;
    loop.finish_wait();
    ++sleeps;
    // Other work of this loop: after each sleep without an event it sends one message to itself.
    const std::size_t next = sends.size();
    if (woken || next == operations) continue;
    sends.push_back(connection.near.send(work.source(next)).start());
  }
  for (cordma::recv_operation& receive : receives) receive.take_result().value();
  work.check_first(operations);

  std::printf("%zu messages have arrived, with %llu sleeps between them\n", operations,
              static_cast<unsigned long long>(sleeps));
  if (sleeps < operations) sample::fail("every message was to be sent after a sleep");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_event",
       .says = "Sends 16 messages to itself and sleeps for each in poll(2), on the\n"
               "reactor's descriptor: how cordma joins a loop that is there already.",
       .drives_its_loop = true},
      argc, argv, sleep_in_poll);
}

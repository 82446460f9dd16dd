// Stops while operations are in flight: each of them completes, and reports its result.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>

#include <cstdio>

namespace {

constexpr std::size_t operations = 16;
constexpr std::size_t stop_after = 8;

struct tally {
  std::size_t done = 0;
  std::size_t flushed = 0;
  cordma::event time_to_stop;
};

cordma::task<void> receive(cordma::Endpoint* from, cordma::Slice room, tally* t) {
  const cordma::result<cordma::Received> got = co_await from->recv(room).result();
  if (got.ok()) {
    if (++t->done == stop_after) t->time_to_stop.set();
  } else if (got.code() == cordma::errc::flushed) {
    ++t->flushed;  // not executed: its buffer is unchanged and belongs to this program again
  } else {
    cordma::throw_error(got.why());
  }
}

cordma::task<void> stop_midway(sample::loopback* connection, const sample::blocks* work) {
  cordma::task_context& me = co_await cordma::this_task();
  tally t;
  cordma::scope receives(me);
  for (std::size_t i = 0; i < operations; ++i) {
    receives.spawn(receive(&connection->far, work->room(i), &t));
  }
  for (std::size_t i = 0; i < stop_after; ++i) co_await connection->near.send(work->source(i));

  // close() can be awaited like any operation; here it is only started, and the receives complete
  // meanwhile.
  co_await t.time_to_stop.wait();
  cordma::state_operation closing = connection->far.close().start();
  co_await receives.join();
  co_await closing;

  work->check_first(stop_after);
  std::printf("%zu operations: %zu done, %zu flushed\n", operations, t.done, t.flushed);
  if (t.done != stop_after || t.flushed != operations - stop_after) {
    sample::fail("expected one half done and one half flushed");
  }
}

void stop(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, operations);
  s.worker.run(stop_midway(&connection, &work));
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_async_stop",
       .says = "Starts 16 receives and closes the connection after the 8th: 8 are done,\n"
               "8 are flushed, and none is left."},
      argc, argv, stop);
}

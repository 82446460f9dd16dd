// start() validates: an invalid operation fails immediately and has no other effect.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

cordma::task<void> try_both(cordma::Endpoint* over, const sample::blocks* work) {
  // The local buffer is one byte shorter than the remote one.
  const cordma::Slice short_one = work->source(0).first(sample::blocks::block_bytes - 1);
  cordma::send_operation wrong = over->write(work->target(0), short_one);
  wrong.start();
  if (!wrong.done()) sample::fail("what is wrong is known at once");
  const cordma::result<void> refused = wrong.take_result();
  if (refused.code() != cordma::errc::invalid_value) sample::fail("it should have been refused");
  std::printf("refused: %s\n", refused.why().describe().c_str());

  // Nothing was sent, and the connection is unchanged.
  std::printf("posted so far: %llu\n", static_cast<unsigned long long>(over->counters().sends));
  if (over->counters().sends != 0) sample::fail("it was posted all the same");
  cordma::send_operation right = over->write(work->target(0), work->source(0));
  right.start();
  co_await right;
  co_await over->flush();
  work->check_first(1);
  std::printf("done: the same write in its right length\n");
}

void try_start(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, 1);
  s.worker.run(try_both(&connection.near, &work));
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_try_start",
       .says = "Starts a write that is not valid, which is refused, and one that is."},
      argc, argv, try_start);
}

// One of many operations fails: the connection is closed, and every waiting coroutine resumes
// exactly once.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cordma/runtime/scope.hpp>

#include <cstdio>

namespace {

constexpr std::size_t operations = 255;  // more than a send queue holds: some are not posted yet
constexpr std::size_t bad = 100;

struct tally {
  std::size_t done = 0;
  std::size_t flushed = 0;
  std::vector<cordma::failure> failed;
  [[nodiscard]] std::size_t resumptions() const { return done + flushed + failed.size(); }
};

cordma::task<void> write(cordma::Endpoint* over, cordma::RemoteSlice to, cordma::Slice from,
                         tally* t) {
  const cordma::result<void> outcome = co_await over->write(to, from).result();
  if (outcome.ok()) {
    ++t->done;
  } else if (outcome.code() == cordma::errc::flushed) {
    // not the cause itself: outcome.why().first_cause() states why the connection was closed
    ++t->flushed;
  } else {
    t->failed.push_back(outcome.why());
  }
}

cordma::task<void> write_all(cordma::Endpoint* over, const sample::blocks* work,
                             cordma::RemoteSlice forbidden, tally* t) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope writes(me);
  for (std::size_t i = 0; i < operations; ++i) {
    const cordma::RemoteSlice to = i == bad ? forbidden : work->target(i);
    writes.spawn(write(over, to, work->source(i), t));
  }
  co_await writes.join();
}

void fail_one(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, operations);
  // Grants remote reads, but no remote writes.
  cordma::MemoryRegion guarded =
      s.context.allocate(sample::blocks::block_bytes, cordma::access::remote_read).value();
  const cordma::RemoteMemory forbidden =
      cordma::RemoteMemory::import(guarded.export_blob().value()).value();

  tally t;
  s.worker.run(write_all(&connection.near, &work, forbidden, &t));
  std::printf("%zu resumptions: %zu done, %zu failed, %zu flushed\n", t.resumptions(), t.done,
              t.failed.size(), t.flushed);
  if (t.resumptions() != operations || t.failed.size() != 1) sample::fail("expected one failure");
  std::printf("the failure: %s\n", t.failed.front().describe().c_str());
  if (t.failed.front().code() != cordma::errc::remote_access) sample::fail("and no such one");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_error",
       .says = "Starts 255 writes, one of them into memory that may not be written to:\n"
               "it fails, and what comes after it is flushed."},
      argc, argv, fail_one);
}

// Reuses a few operations: enough for a loop over any amount of data.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cordma/runtime/when_all.hpp>

#include <cstdio>

namespace {

constexpr std::size_t operations = 4;
constexpr std::size_t buffers = 16;

struct tally {
  std::size_t operations = 0;
  std::size_t buffers = 0;
};

// Reads every fourth buffer. The operation is created once, with its constant parameters: the
// endpoint and the remote memory. again() sets the next buffer and resets the operation.
cordma::task<void> read_some(cordma::Endpoint* over, cordma::RemoteSlice from,
                             const sample::blocks* work, std::size_t first, tally* t) {
  cordma::send_operation read = over->read(from, work->room(first));
  ++t->operations;
  co_await read;
  ++t->buffers;
  for (std::size_t i = first + operations; i < buffers; i += operations) {
    read.again(work->room(i));
    co_await read;
    ++t->buffers;
  }
}

void resubmit(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, buffers);
  cordma::MemoryRegion page =
      s.context.allocate(sample::blocks::block_bytes, cordma::access::remote_read).value();
  sample::put_text(page, "one page, read into every buffer");
  const cordma::RemoteMemory theirs =
      cordma::RemoteMemory::import(page.export_blob().value()).value();

  tally t;
  std::vector<cordma::task<void>> reads;
  for (std::size_t i = 0; i < operations; ++i) {
    reads.push_back(read_some(&connection.near, theirs, &work, i, &t));
  }
  s.worker.run(cordma::when_all(std::move(reads)));
  for (std::size_t i = 0; i < buffers; ++i) {
    if (sample::text_in(work.room(i).bytes()) != sample::text_in(page.bytes())) {
      sample::fail("buffer " + std::to_string(i) + " holds something else");
    }
  }
  std::printf("%zu operations have filled %zu buffers\n", t.operations, t.buffers);
  if (t.operations != operations || t.buffers != buffers) sample::fail("expected 4 and 16");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run({.name = "progress_resubmit",
                      .says = "Reads into 16 buffers with 4 operations, each used four times."},
                     argc, argv, resubmit);
}

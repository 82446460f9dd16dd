// One callback for every operation, after success and failure: for programs without coroutines.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cstdio>

namespace {

constexpr std::size_t operations = 16;
constexpr std::size_t bad = 11;  // the index of a write with a buffer that is one byte short

struct tally {
  std::size_t good = 0;
  std::size_t refused = 0;
};

// Called once per operation, from the loop, never from inside start().
void on_end(cordma::operation_base& ended, void* context) noexcept {
  auto& t = *static_cast<tally*>(context);
  auto& write = static_cast<cordma::send_operation&>(ended);
  const cordma::result<void> outcome = write.take_result();
  if (outcome.ok()) ++t.good;
  if (outcome.code() == cordma::errc::invalid_value) ++t.refused;
}

bool all_ended(void* context) noexcept {
  const auto& t = *static_cast<const tally*>(context);
  return t.good + t.refused == operations;
}

void observe(sample::session& s) {
  sample::loopback connection = sample::connect_to_itself(s.worker);
  const sample::blocks work(s.context, operations);
  std::vector<cordma::send_operation> writes;
  for (std::size_t i = 0; i < operations; ++i) {
    const std::size_t bytes = work.source(i).size() - (i == bad ? 1 : 0);
    writes.push_back(connection.near.write(work.target(i), work.source(i).first(bytes)));
  }

  tally t;
  for (cordma::send_operation& write : writes) {
    write.observe(on_end, &t);
    write.start();
  }
  s.worker.loop().run_until(all_ended, &t).value();
  std::printf("%zu callbacks: %zu good, %zu refused\n", operations, t.good, t.refused);
  if (t.refused != 1) sample::fail("one was to be refused");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_single_callback",
       .says = "Starts 16 writes, one of them wrong, and learns how each ended in one\n"
               "function."},
      argc, argv, observe);
}

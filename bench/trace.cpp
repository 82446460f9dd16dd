// bench-trace: the cost of an entry of the trace, in a ring with all its pages in memory.
#include "common.hpp"

#include <cordma/runtime/trace.hpp>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

namespace {

constexpr std::uint64_t entries = 10'000'000;
constexpr int repetitions = 11;

// CPU time of this thread, so that other programs do not count.
double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double ns_per_entry(cordma::trace_ring& ring) {
  const double began = cpu_ns();
  for (std::uint64_t i = 0; i < entries; ++i) {
    ring.add(cordma::trace_point::post, "send", &ring, i);
  }
  return (cpu_ns() - began) / static_cast<double>(entries);
}

}  // namespace

int main() {
  const auto ring = std::make_unique<cordma::trace_ring>(nullptr);
  ns_per_entry(*ring);
  std::vector<double> all;
  for (int i = 0; i < repetitions; ++i) all.push_back(ns_per_entry(*ring));
  std::printf("entry of the trace  %.1f ns, the median of %d times %llu\n", bench::median(all),
              repetitions, static_cast<unsigned long long>(entries));
}

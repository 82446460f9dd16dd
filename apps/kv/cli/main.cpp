// cordma-kv-cli: commands, a shell, latencies and benchmarks for cordma-kv and other servers with
// Redis's protocol.
#include "../../support/standard_descriptors.hpp"
#include "../../support/standard_output.hpp"
#include "options.hpp"

#include <csignal>
#include <cstdio>
#include <exception>

#include <unistd.h>

namespace kv::cli {
namespace {

constexpr const char* program = "cordma-kv-cli";
constexpr int exit_failed = 1;
constexpr int exit_interrupted = 130;

// A terminal gets the formatted value; a program gets the raw bytes.
style shown_as(style wanted) {
  return wanted == style::pretty && ::isatty(STDOUT_FILENO) == 0 ? style::raw : wanted;
}

int bench(const options& o) {
  const bench_result r = run_bench(o.where, o.bench);
  std::fputs(o.json ? to_json(r).c_str() : to_table(r).c_str(), stdout);
  if (r.found.failures != 0) {
    std::fprintf(stderr, "%s: not valid: %llu operations failed; the first: %s\n", program,
                 static_cast<unsigned long long>(r.found.failures), r.found.first_failure.c_str());
  }
  if (r.found.wrong != 0) {
    std::fprintf(stderr, "%s: not valid: %llu values were another key's\n", program,
                 static_cast<unsigned long long>(r.found.wrong));
  }
  return !r.valid() ? exit_failed : r.interrupted ? exit_interrupted : 0;
}

int run(options& o) {
  const style as = shown_as(o.once.as);
  switch (o.what) {
    case job::bench: return bench(o);
    case job::latency: return run_latency(o.where, o.latency);
    case job::shell: return run_shell(o.where, as);
    case job::once: break;
  }
  o.once.as = as;
  return run_once(o.where, std::move(o.words), o.once);
}

}  // namespace
}  // namespace kv::cli

int main(int argc, char** argv) {
  support::hold_standard_descriptors();
  kv::cli::options o;
  if (const std::optional<int> ended = kv::cli::parse(argc, argv, o)) {
    return support::finish_output(kv::cli::program, *ended);
  }
  int code = kv::cli::exit_failed;
  try {
    code = kv::cli::run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", kv::cli::program, e.what());
  }
  return support::finish_output(kv::cli::program, code);
}

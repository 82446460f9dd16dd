// The command line of cordma-kv-cli.
#pragma once

#include "bench.hpp"
#include "latency.hpp"
#include "service.hpp"
#include "shell.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv::cli {

enum class job : std::uint8_t { shell, once, latency, bench };

struct options {
  job what = job::shell;
  service where;
  bool json = false;
  once_options once;
  std::vector<std::string> words;  // of the command, for job::once
  latency_options latency;
  bench_options bench;
};

// Returns the exit code if there is nothing to do: 0 after --help, 2 after an error was printed.
[[nodiscard]] std::optional<int> parse(int argc, char** argv, options& into);

}  // namespace kv::cli

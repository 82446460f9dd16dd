// The command line of cordma-perf.
#pragma once

#include "plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace perf {

enum class role : std::uint8_t {
  client,
  server,
  both,  // two processes on this machine
};

struct options {
  role what = role::client;
  std::string address;  // to connect to, or to listen on
  // every combination of the given lists; for a server one plan, for `wait`
  std::vector<plan> plans;
  std::optional<int> server_cpu;
  std::optional<int> client_cpu;
  std::string json;   // file, "-" for standard output, empty for none
  bool once = false;  // true: the server ends after one client
  bool verbose = false;
};

// If `exit_code` is set, the program prints the text and ends without a run.
struct parsed {
  options chosen;
  std::optional<int> exit_code;
  std::string text;
};
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_interrupted = 130;
[[nodiscard]] parsed parse_options(int argc, char** argv);

}  // namespace perf

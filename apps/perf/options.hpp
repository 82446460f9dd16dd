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
  both,  // two processes of this machine
};

struct options {
  role what = role::client;
  std::string address;      // to connect to, or to listen on
  std::vector<plan> plans;  // every combination of the lists given; of the server: one, for `wait`
  std::optional<int> server_cpu;
  std::optional<int> client_cpu;
  std::string json;   // file, "-" for standard output, empty for none
  bool once = false;  // the server ends after one client
  bool verbose = false;
};

// Nothing to run where `exit_code` is set: the text is printed, and that is all.
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
